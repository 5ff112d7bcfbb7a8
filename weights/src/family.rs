//! What a file of tensors is, from the names and shapes in it.

use prepose_formats::TensorFile;
use serde::Serialize;

/// An architecture that prepose runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Stable Diffusion 1.x: one text encoder.
    Sd1,
    /// Stable Diffusion XL, base: two text encoders, size conditioning.
    Sdxl,
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sd1 => "Stable Diffusion 1.x",
            Self::Sdxl => "Stable Diffusion XL",
        })
    }
}

/// What a file of tensors holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// A whole checkpoint, runnable.
    Checkpoint(Family),
    /// Stable Diffusion 2.x.
    Sd2,
    /// The refiner of SDXL.
    SdxlRefiner,
    /// Stable Diffusion 3.x.
    Sd3,
    /// FLUX.
    Flux,
    /// A checkpoint for inpainting: its UNet also takes a mask and a masked picture.
    Inpainting,
    /// A checkpoint that edits pictures (InstructPix2Pix): its UNet also takes a picture.
    PictureEditing,
    /// A ControlNet or T2I adapter.
    ControlNet,
    /// A LoRA or one of its relatives.
    Lora,
    /// An autoencoder.
    Vae,
    /// A tiny autoencoder (TAESD).
    TinyVae,
    /// A UNet by itself.
    Unet,
    /// A text encoder by itself.
    TextEncoder,
    /// Learned embeddings of words.
    TextualInversion,
    /// None of these.
    Unknown,
}

impl FileKind {
    /// For messages: "this is {}".
    pub fn name(self) -> &'static str {
        match self {
            Self::Checkpoint(Family::Sd1) => "a Stable Diffusion 1.x checkpoint",
            Self::Checkpoint(Family::Sdxl) => "a Stable Diffusion XL checkpoint",
            Self::Sd2 => "a Stable Diffusion 2.x checkpoint",
            Self::SdxlRefiner => "a Stable Diffusion XL refiner",
            Self::Sd3 => "a Stable Diffusion 3 checkpoint",
            Self::Flux => "a FLUX checkpoint",
            Self::Inpainting => "an inpainting checkpoint (its UNet takes 9 channels)",
            Self::PictureEditing => "a picture-editing checkpoint (its UNet takes 8 channels)",
            Self::ControlNet => "a ControlNet or adapter",
            Self::Lora => "a LoRA",
            Self::Vae => "an autoencoder (VAE)",
            Self::TinyVae => "a tiny autoencoder (TAESD)",
            Self::Unet => "a UNet without text encoder and autoencoder",
            Self::TextEncoder => "a text encoder",
            Self::TextualInversion => "a textual inversion embedding",
            Self::Unknown => "a file of tensors of an unknown kind",
        }
    }

    /// What to do when this was given as the checkpoint.
    pub(crate) fn way_out(self) -> &'static str {
        match self {
            Self::Lora => "give it with --lora, next to the checkpoint that it was made for",
            Self::Vae => "give it with --vae, next to a checkpoint",
            Self::Inpainting | Self::PictureEditing => {
                "use the plain text-to-image checkpoint that it was made from"
            }
            Self::SdxlRefiner => "use the SDXL base checkpoint, which makes pictures on its own",
            Self::Unet | Self::TextEncoder => {
                "give the whole checkpoint: a single file, or the diffusers folder that this is a part of"
            }
            _ => "use a checkpoint of SD 1.x or SDXL",
        }
    }
}

/// What `file` is.
pub(crate) fn kind(file: &TensorFile) -> FileKind {
    let has = |prefix: &str| file.count(prefix) > 0;
    let ends = |suffix: &str| file.names().any(|name| name.ends_with(suffix));
    let contains = |part: &str| file.names().any(|name| name.contains(part));

    // A LoRA repeats the names of the networks that it changes, so it is looked for first.
    const LORA: &[&str] = &[
        ".lora_down.",
        ".lora_A.",
        ".lora.down.",
        "_lora.down.",
        ".lora_linear_layer.",
        ".hada_w1_a",
        ".lokr_w",
        ".oft_blocks",
    ];
    if LORA.iter().any(|part| contains(part)) {
        return FileKind::Lora;
    }
    if has("control_model.")
        || has("controlnet_")
        || contains("input_hint_block.")
        || has("adapter.")
    {
        return FileKind::ControlNet;
    }
    if contains("joint_blocks.") {
        return FileKind::Sd3;
    }
    if contains("double_blocks.") || contains("single_transformer_blocks.") {
        return FileKind::Flux;
    }
    if has(UNET) {
        return full_checkpoint(file);
    }
    if has("input_blocks.") || has("down_blocks.") && ends("conv_in.weight") {
        return FileKind::Unet;
    }
    if has("encoder.layers.") && file.info("encoder.layers.0.weight").is_some()
        || has("decoder.layers.") && file.info("decoder.layers.0.weight").is_some()
        || file.info("decoder.1.weight").is_some()
        || file.info("1.weight").is_some() && file.info("3.conv.0.weight").is_some()
    {
        return FileKind::TinyVae;
    }
    if has(VAE) || has("encoder.down") || has("decoder.up") {
        return FileKind::Vae;
    }
    if contains("encoder.layers.0.self_attn.") || contains("transformer.resblocks.") {
        return FileKind::TextEncoder;
    }
    if has("emb_params") || has("string_to_param") || has("clip_l") || has("clip_g") {
        return FileKind::TextualInversion;
    }
    FileKind::Unknown
}

/// Where a single file keeps the UNet.
pub(crate) const UNET: &str = "model.diffusion_model.";
/// Where a single file keeps the autoencoder.
pub(crate) const VAE: &str = "first_stage_model.";
/// Where a single file of SD 1.x keeps the text encoder.
pub(crate) const SD1_TEXT: &str = "cond_stage_model.transformer.";
/// Where a single file of SDXL keeps the text encoders.
pub(crate) const SDXL_TEXT: &str = "conditioner.embedders.0.transformer.";
/// The second one, OpenCLIP's.
pub(crate) const SDXL_TEXT_2: &str = "conditioner.embedders.1.model.";

fn full_checkpoint(file: &TensorFile) -> FileKind {
    let has = |prefix: &str| file.count(prefix) > 0;
    let family = if has("conditioner.embedders.0.model.") {
        return FileKind::SdxlRefiner;
    } else if has("cond_stage_model.model.") {
        return FileKind::Sd2;
    } else if has(SDXL_TEXT) || has(SDXL_TEXT_2) {
        Family::Sdxl
    } else if has(SD1_TEXT) {
        Family::Sd1
    } else {
        return FileKind::Unet;
    };
    let channels = file
        .info("model.diffusion_model.input_blocks.0.0.weight")
        .and_then(|info| info.shape.get(1).copied());
    match channels {
        Some(9) => FileKind::Inpainting,
        Some(8) => FileKind::PictureEditing,
        _ => FileKind::Checkpoint(family),
    }
}
