//! What a file of tensors is, from the names and shapes in it.

use std::borrow::Cow;

use prepose_formats::TensorFile;
use serde::Serialize;

use crate::eyes::{self, EyeKind};
use crate::ip_adapter;
use crate::keys::is_gligen;
use crate::steer::SteerConfig;

/// An architecture that prepose runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Stable Diffusion 1.x: one text encoder.
    Sd1,
    /// Stable Diffusion 2.0 and 2.1: OpenCLIP's text encoder.
    Sd2,
    /// Stable Diffusion XL, base: two text encoders, size conditioning.
    Sdxl,
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sd1 => "Stable Diffusion 1.x",
            Self::Sd2 => "Stable Diffusion 2.x",
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
    /// A checkpoint that is told depths.
    Depth,
    /// A checkpoint that enlarges pictures.
    Upscaler,
    /// A checkpoint that varies pictures (unCLIP).
    Variations,
    /// GLIGEN's layers by themselves.
    Gligen,
    /// GLIGEN for something else than boxes with phrases.
    OtherGligen,
    /// An IP-Adapter.
    IpAdapter,
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
    /// What looks at pictures.
    Eye(EyeKind),
    /// Grounding DINO, as transformers saves it.
    GroundingDino,
    /// RT-DETRv2, as transformers saves it.
    RtDetr,
    /// OWL-ViT, as transformers saves it.
    OwlVit,
    /// Learned embeddings of words.
    TextualInversion,
    /// A classifier of relations, as `prepose train steer` writes it.
    Steer,
    /// None of these.
    Unknown,
}

impl FileKind {
    /// For messages: "this is {}".
    pub fn name(self) -> &'static str {
        match self {
            Self::Checkpoint(Family::Sd1) => "a Stable Diffusion 1.x checkpoint",
            Self::Checkpoint(Family::Sd2) => "a Stable Diffusion 2.x checkpoint",
            Self::Checkpoint(Family::Sdxl) => "a Stable Diffusion XL checkpoint",
            Self::SdxlRefiner => "a Stable Diffusion XL refiner",
            Self::Sd3 => "a Stable Diffusion 3 checkpoint",
            Self::Flux => "a FLUX checkpoint",
            Self::Inpainting => "an inpainting checkpoint (its UNet takes 9 channels)",
            Self::PictureEditing => "a picture-editing checkpoint (its UNet takes 8 channels)",
            Self::Depth => "a checkpoint that is told depths (its UNet takes 5 channels)",
            Self::Upscaler => "a checkpoint that enlarges pictures (its UNet takes 7 channels)",
            Self::Variations => "a checkpoint that varies pictures (unCLIP)",
            Self::Gligen => "a file of GLIGEN layers",
            Self::OtherGligen => "GLIGEN for something else than boxes with phrases",
            Self::IpAdapter => "an IP-Adapter",
            Self::ControlNet => "a ControlNet or adapter",
            Self::Lora => "a LoRA",
            Self::Vae => "an autoencoder (VAE)",
            Self::TinyVae => "a tiny autoencoder (TAESD)",
            Self::Unet => "a UNet without text encoder and autoencoder",
            Self::TextEncoder => "a text encoder",
            Self::Eye(kind) => kind.name(),
            Self::GroundingDino => "a Grounding DINO",
            Self::RtDetr => "an RT-DETR",
            Self::OwlVit => "an OWL-ViT",
            Self::TextualInversion => "a textual inversion embedding",
            Self::Steer => "a classifier of relations",
            Self::Unknown => "a file of tensors of an unknown kind",
        }
    }

    /// What to do when this was given as the checkpoint.
    pub(crate) fn way_out(self) -> &'static str {
        match self {
            Self::Lora => "give it with --lora, next to the checkpoint that it was made for",
            Self::GroundingDino | Self::RtDetr | Self::OwlVit => {
                "it is a detector: give its folder with --checker or --secondary"
            }
            Self::Vae => "give it with --vae, next to a checkpoint",
            Self::Gligen => {
                "give it with --gligen, next to the checkpoint of SD 1.x that it is for"
            }
            Self::OtherGligen => "use the GLIGEN checkpoint for text boxes",
            Self::Steer => {
                "give it with --guide steer --steer, next to the checkpoint that it was trained for"
            }
            Self::IpAdapter => "give it with --ip-adapter, next to the checkpoint that it is for",
            Self::Inpainting
            | Self::PictureEditing
            | Self::Depth
            | Self::Upscaler
            | Self::Variations => "use the plain text-to-image checkpoint that it was made from",
            Self::Eye(_) => "it looks at pictures; give a checkpoint that makes them",
            Self::SdxlRefiner => "use the SDXL base checkpoint, which makes pictures on its own",
            Self::Unet | Self::TextEncoder => {
                "give the whole checkpoint: a single file, or the diffusers folder that this is a part of"
            }
            _ => "use a checkpoint of SD 1.x, SD 2.x or SDXL",
        }
    }
}

/// What `file` is.
pub(crate) fn kind(file: &TensorFile) -> FileKind {
    let has = |prefix: &str| file.count(prefix) > 0;
    let ends = |suffix: &str| file.names().any(|name| name.ends_with(suffix));
    let contains = |part: &str| file.names().any(|name| name.contains(part));

    // FaceID's have a LoRA in them.
    if ip_adapter::is_adapter(file) {
        return FileKind::IpAdapter;
    }
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
    if other_gligen(file).is_some() {
        return FileKind::OtherGligen;
    }
    if file.names().all(is_gligen) {
        return FileKind::Gligen;
    }
    if let Some(eye) = eyes::kind(file) {
        return FileKind::Eye(eye);
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
    if has("model.encoder.layers.0.fusion_layer.") && has("model.backbone.conv_encoder.") {
        return FileKind::GroundingDino;
    }
    if has("owlvit.vision_model.") && has("class_head.") {
        return FileKind::OwlVit;
    }
    if has("model.encoder_input_proj.") && has("model.encoder.fpn_blocks.") {
        return FileKind::RtDetr;
    }
    if has(UNET) || is_gligens_own(file) {
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
    // diffusers' have the trained words as names.
    let is_word = |name: &str| name.starts_with('<') && name.ends_with('>');
    if has("emb_params")
        || has("string_to_param")
        || has("clip_l")
        || has("clip_g")
        || has("<") && file.names().all(is_word)
    {
        return FileKind::TextualInversion;
    }
    if SteerConfig::of(file).is_some() {
        return FileKind::Steer;
    }
    FileKind::Unknown
}

/// Where a single file keeps the UNet.
pub(crate) const UNET: &str = "model.diffusion_model.";
/// Where a single file keeps the autoencoder.
pub(crate) const VAE: &str = "first_stage_model.";
/// Where a single file of SD 1.x keeps the text encoder.
pub(crate) const SD1_TEXT: &str = "cond_stage_model.transformer.";
/// Where a single file of SD 2.x keeps the text encoder, OpenCLIP's.
pub(crate) const SD2_TEXT: &str = "cond_stage_model.model.";
/// Where generative-models keeps OpenCLIP's as the first text encoder: SD-Turbo's, and that of SDXL's refiner.
pub(crate) const SGM_TEXT: &str = "conditioner.embedders.0.model.";
/// Where a single file of SDXL keeps the text encoders.
pub(crate) const SDXL_TEXT: &str = "conditioner.embedders.0.transformer.";
/// The second one, OpenCLIP's.
pub(crate) const SDXL_TEXT_2: &str = "conditioner.embedders.1.model.";

fn full_checkpoint(file: &TensorFile) -> FileKind {
    let has = |prefix: &str| {
        let mut names = file.names().map(|key| canonical(file, key));
        names.any(|name| name.starts_with(prefix))
    };
    // How many channels the weight of this name takes.
    let inputs = |weight: &str| {
        let key = file.names().find(|key| canonical(file, key) == weight)?;
        file.info(key)?.shape.get(1).copied()
    };
    /// Where SD 2.x attends to its texts, of 1024 channels, and SDXL's refiner does not.
    const TEXTS: &str =
        "model.diffusion_model.input_blocks.2.1.transformer_blocks.0.attn2.to_k.weight";
    let family = if has(SGM_TEXT) {
        match inputs(TEXTS) {
            Some(1024) => Family::Sd2,
            _ => return FileKind::SdxlRefiner,
        }
    } else if has("embedder.") || has("noise_augmentor.") {
        return FileKind::Variations;
    } else if has(SD2_TEXT) {
        Family::Sd2
    } else if has(SDXL_TEXT) || has(SDXL_TEXT_2) {
        Family::Sdxl
    } else if has(SD1_TEXT) {
        Family::Sd1
    } else {
        return FileKind::Unet;
    };
    match inputs("model.diffusion_model.input_blocks.0.0.weight") {
        Some(5) => FileKind::Depth,
        Some(7) => FileKind::Upscaler,
        Some(9) => FileKind::Inpainting,
        Some(8) => FileKind::PictureEditing,
        _ => FileKind::Checkpoint(family),
    }
}

/// Whether the file is laid out as GLIGEN's authors do it: a dictionary for each network.
fn is_gligens_own(file: &TensorFile) -> bool {
    file.count("autoencoder.") > 0
        && ["model.input_blocks.", "model.model.diffusion_model."]
            .iter()
            .any(|prefix| file.count(prefix) > 0)
}

/// The name that latent-diffusion has for the tensor `key` of a single file: GLIGEN's authors have a dictionary for each
/// network in place of its prefix, or around it.
pub(crate) fn canonical<'k>(file: &TensorFile, key: &'k str) -> Cow<'k, str> {
    const NETWORKS: [(&str, &str); 4] = [
        ("model.", UNET),
        ("autoencoder.", VAE),
        ("text_encoder.", "cond_stage_model."),
        ("diffusion.", ""),
    ];
    if !is_gligens_own(file) {
        return Cow::Borrowed(key);
    }
    let renamed = NETWORKS.iter().find_map(|(dictionary, prefix)| {
        let rest = key.strip_prefix(dictionary)?;
        let rest = rest.strip_prefix(prefix).unwrap_or(rest);
        Some(Cow::Owned(format!("{prefix}{rest}")))
    });
    renamed.unwrap_or(Cow::Borrowed(key))
}

/// What GLIGEN is told in this file, if that is something else than boxes with phrases.
pub(crate) fn other_gligen(file: &TensorFile) -> Option<&'static str> {
    const POSITIONS: &str = "position_net.";
    let mut parts = file
        .names()
        .filter_map(|key| Some(key.split_once(POSITIONS)?.1))
        .peekable();
    parts.peek()?;
    let has = |part: &str| {
        let inside = format!("{POSITIONS}{part}");
        file.names().any(|key| key.contains(&inside))
    };
    if has("null_text_feature") || has("linears_text.") {
        return Some("GLIGEN for boxes with pictures");
    }
    if has("person_embeddings") || has("keypoint_embeddings") {
        return Some("GLIGEN for key points of people");
    }
    match has("null_positive_feature") {
        true => None,
        false => Some("GLIGEN for maps (edges, depths, normals or regions)"),
    }
}
