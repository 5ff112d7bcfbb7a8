//! The configuration of a published network from the shapes of its tensors.

use std::path::Path;

use serde_json::{Value, json};

use super::EyeKind;
use super::keys::Layout;
use crate::error::WeightsError;
use crate::files::read_json;
use crate::part::Part;

/// OpenCLIP's configuration, next to its weights.
const OPEN_CLIP: &str = "open_clip_config.json";

/// The configuration of the network `part`, of which only the tensors are known. What shapes do not say is as in the
/// published networks of these sizes.
///
/// # Errors
/// A CLIP of a size that was published with different activations, without OpenCLIP's configuration in `folder`.
pub(super) fn config(
    kind: EyeKind,
    layout: Layout,
    part: &Part,
    folder: &Path,
) -> Result<Value, WeightsError> {
    let shapes = Shapes(part);
    Ok(match kind {
        EyeKind::Sam => shapes.sam(layout),
        EyeKind::Dinov2 => shapes.dinov2("", layout),
        EyeKind::DepthAnything => shapes.depth(layout),
        EyeKind::Inception => shapes.inception()?,
        EyeKind::ImageReward => shapes.image_reward(),
        EyeKind::ClipVision => shapes.clip_vision(&shapes.clip_details(layout, folder)?),
        EyeKind::Clip => {
            let details = shapes.clip_details(layout, folder)?;
            json!({
                "projection_dim": shapes.size("visual_projection.weight", 0),
                "vision_config": shapes.clip_vision(&details),
                "text_config": shapes.clip_text(&details),
            })
        }
    })
}

/// What shapes do not say of a CLIP.
struct ClipDetails {
    activation: &'static str,
    /// Channels of a head of the picture encoder.
    head: usize,
    /// Of the text encoder.
    text_heads: usize,
}

/// A network's tensors by its own names.
struct Shapes<'a>(&'a Part);

impl Shapes<'_> {
    /// A side of a tensor; 0, which no configuration may have, if there is none.
    fn size(&self, name: &str, axis: usize) -> usize {
        let entry = self.0.entries.get(name);
        let size = entry.and_then(|entry| entry.shape().get(axis).copied());
        size.unwrap_or(0)
    }

    /// How many blocks there are whose names begin with `prefix` and a number.
    fn blocks(&self, prefix: &str) -> usize {
        let number = |name: &String| {
            let rest = name.strip_prefix(prefix)?;
            rest.split('.').next()?.parse::<usize>().ok()
        };
        let numbers = self.0.entries.keys().filter_map(number);
        numbers.max().map_or(0, |most| most.saturating_add(1))
    }

    fn dinov2(&self, prefix: &str, layout: Layout) -> Value {
        let size = |name: &str, axis| self.size(&format!("{prefix}{name}"), axis);
        let channels = size("embeddings.cls_token", 2);
        let patch = size("embeddings.patch_embeddings.projection.weight", 2);
        let places = size("embeddings.position_embeddings", 1).saturating_sub(1);
        let inner = size("encoder.layer.0.mlp.fc1.weight", 0);
        json!({
            "hidden_size": channels,
            "num_hidden_layers": self.blocks(&format!("{prefix}encoder.layer.")),
            "num_attention_heads": (channels / 64).max(1),
            "mlp_ratio": inner as f64 / channels.max(1) as f64,
            "image_size": places.isqrt().saturating_mul(patch),
            "patch_size": patch,
            "interpolate_offset": if layout == Layout::Original { 0.1 } else { 0.0 },
        })
    }

    fn depth(&self, layout: Layout) -> Value {
        let mut backbone = self.dinov2("backbone.", layout);
        let layers = self.blocks("backbone.encoder.layer.");
        // The second version's; the first read the last four.
        backbone["out_indices"] = match layers {
            24 => json!([5, 12, 18, 24]),
            _ => json!([layers / 4, layers / 2, layers * 3 / 4, layers]),
        };
        let level = |i| {
            self.size(
                &format!("neck.reassemble_stage.layers.{i}.projection.weight"),
                0,
            )
        };
        json!({
            "reassemble_hidden_size": backbone["hidden_size"],
            "patch_size": backbone["patch_size"],
            "backbone_config": backbone,
            "neck_hidden_sizes": [level(0), level(1), level(2), level(3)],
            "fusion_hidden_size": self.size("neck.convs.0.weight", 0),
            "head_hidden_size": self.size("head.conv2.weight", 0),
        })
    }

    fn sam(&self, layout: Layout) -> Value {
        let layer = "vision_encoder.layers.";
        let channels = self.size("vision_encoder.pos_embed", 3);
        let layers = self.blocks(layer);
        let side = self.size("vision_encoder.pos_embed", 1);
        let patch = self.size("vision_encoder.patch_embed.projection.weight", 2);
        let window = |i: usize| {
            self.size(&format!("{layer}{i}.attn.rel_pos_h"), 0)
                .div_ceil(2)
        };
        let global: Vec<usize> = (0..layers).filter(|i| window(*i) == side).collect();
        let windowed = (0..layers).map(window).find(|window| *window != side);
        let decoder = "mask_decoder.";
        let output = self.size("vision_encoder.neck.conv1.weight", 0);
        let masks = self.size(&format!("{decoder}mask_tokens.weight"), 0);
        let mlp = format!("{decoder}transformer.layers.0.mlp.lin1.weight");
        let cross = "transformer.layers.0.cross_attn_token_to_image.q_proj.weight";
        let inner = self.size(&format!("{decoder}{cross}"), 0);
        let head = format!("{decoder}iou_prediction_head.");
        json!({
            "vision_config": {
                "hidden_size": channels,
                "num_hidden_layers": layers,
                "num_attention_heads": if channels == 768 { 12 } else { 16 },
                "image_size": side.saturating_mul(patch),
                "patch_size": patch,
                "mlp_dim": self.size(&format!("{layer}0.mlp.lin1.weight"), 0),
                "window_size": windowed.unwrap_or(side),
                "global_attn_indexes": global,
                "output_channels": output,
                "num_pos_feats": self.size("shared_image_embedding.positional_embedding", 1),
            },
            "prompt_encoder_config": { "hidden_size": output },
            "mask_decoder_config": {
                "hidden_size": output,
                "mlp_dim": self.size(&mlp, 0),
                "num_hidden_layers": self.blocks(&format!("{decoder}transformer.layers.")),
                "attention_downsample_rate": output / inner.max(1),
                "num_multimask_outputs": masks.saturating_sub(1),
                "iou_head_hidden_dim": self.size(&format!("{head}proj_in.weight"), 0),
                "iou_head_depth": self.blocks(&format!("{head}layers.")) + 2,
                "layer_norm_eps": if layout == Layout::Original { 1e-5 } else { 1e-6 },
            },
        })
    }

    /// Heads are 64 channels wide in every BLIP and every BERT that was published.
    fn image_reward(&self) -> Value {
        const HEAD: usize = 64;
        let vision = |name: &str, axis| self.size(&format!("blip.visual_encoder.{name}"), axis);
        let text = |name: &str, axis| self.size(&format!("blip.text_encoder.{name}"), axis);
        let channels = vision("cls_token", 2);
        let patch = vision("patch_embed.proj.weight", 2);
        let places = vision("pos_embed", 1).saturating_sub(1);
        let layer = "encoder.layer.0";
        let words = "embeddings.word_embeddings.weight";
        let head = [0, 2, 4, 6, 7].map(|i| self.size(&format!("mlp.layers.{i}.weight"), 0));
        json!({
            "hidden_size": channels,
            "num_hidden_layers": self.blocks("blip.visual_encoder.blocks."),
            "num_attention_heads": (channels / HEAD).max(1),
            "intermediate_size": vision("blocks.0.mlp.fc1.weight", 0),
            "image_size": places.isqrt().saturating_mul(patch),
            "patch_size": patch,
            "text_config": {
                "vocab_size": text(words, 0),
                "hidden_size": text(words, 1),
                "num_hidden_layers": self.blocks("blip.text_encoder.encoder.layer."),
                "num_attention_heads": (text(words, 1) / HEAD).max(1),
                "intermediate_size": text(&format!("{layer}.intermediate.dense.weight"), 0),
                "max_position_embeddings": text("embeddings.position_embeddings.weight", 0),
                "type_vocab_size": 0,
                "encoder_width": text(&format!("{layer}.crossattention.self.key.weight"), 1),
            },
            "head": head,
        })
    }

    /// torchvision's network for ImageNet has the same names as FID's, and another result.
    fn inception(&self) -> Result<Value, WeightsError> {
        const IMAGENET: usize = 1000;
        let classes = self.size("fc.weight", 0);
        let trained_on = self.0.strays.iter().chain(self.0.entries.keys());
        if classes == IMAGENET
            || trained_on
                .into_iter()
                .any(|name| name.starts_with("AuxLogits."))
        {
            return Err(WeightsError::Unsupported {
                path: self.0.path.clone(),
                what: "torchvision's Inception-v3 for ImageNet".into(),
                hint: "FID is defined by another: give pt_inception-2015-12-05-6726825d.pth of pytorch-fid".into(),
            });
        }
        let stem = self.size("Conv2d_1a_3x3.conv.weight", 0);
        Ok(json!({ "thinner": 32 / stem.max(1), "classes": classes }))
    }

    /// What OpenCLIP's configuration says, or the published networks of this width have in common.
    fn clip_details(&self, layout: Layout, folder: &Path) -> Result<ClipDetails, WeightsError> {
        let width = self.size("vision_model.embeddings.class_embedding", 0);
        let text = self.size("text_model.embeddings.token_embedding.weight", 1);
        let path = folder.join(OPEN_CLIP);
        if layout == Layout::Original && path.symlink_metadata().is_ok() {
            let config = read_json(&path)?;
            let config = config.get("model_cfg").unwrap_or(&config);
            let number = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
            let quick = config["quick_gelu"].as_bool().unwrap_or(false);
            return Ok(ClipDetails {
                activation: if quick { "quick_gelu" } else { "gelu" },
                head: number(&config["vision_cfg"]["head_width"]).unwrap_or(64),
                text_heads: number(&config["text_cfg"]["heads"]).unwrap_or(text / 64),
            });
        }
        // H and bigG; the smaller ones were published by OpenAI with another activation than by LAION.
        let head = match width {
            1280 => 80,
            1664 => 104,
            _ => {
                return Err(WeightsError::Folder {
                    path: self.0.path.clone(),
                    what: "the tensors of a CLIP do not say which activation it was trained with"
                        .into(),
                    hint: format!(
                        "put its config.json, or OpenCLIP's {OPEN_CLIP}, into the same folder"
                    ),
                });
            }
        };
        Ok(ClipDetails {
            activation: "gelu",
            head,
            text_heads: text / 64,
        })
    }

    fn clip_vision(&self, details: &ClipDetails) -> Value {
        let embeddings = "vision_model.embeddings";
        let width = self.size(&format!("{embeddings}.class_embedding"), 0);
        let patch = self.size(&format!("{embeddings}.patch_embedding.weight"), 2);
        let places = self.size(&format!("{embeddings}.position_embedding.weight"), 0);
        let side = places.saturating_sub(1).isqrt();
        json!({
            "hidden_size": width,
            "intermediate_size": self.size("vision_model.encoder.layers.0.mlp.fc1.weight", 0),
            "projection_dim": self.size("visual_projection.weight", 0).max(1),
            "num_hidden_layers": self.blocks("vision_model.encoder.layers."),
            "num_attention_heads": width / details.head.max(1),
            "image_size": side.saturating_mul(patch),
            "patch_size": patch,
            "hidden_act": details.activation,
        })
    }

    fn clip_text(&self, details: &ClipDetails) -> Value {
        let embeddings = "text_model.embeddings";
        json!({
            "vocab_size": self.size(&format!("{embeddings}.token_embedding.weight"), 0),
            "hidden_size": self.size(&format!("{embeddings}.token_embedding.weight"), 1),
            "intermediate_size": self.size("text_model.encoder.layers.0.mlp.fc1.weight", 0),
            "num_hidden_layers": self.blocks("text_model.encoder.layers."),
            "num_attention_heads": details.text_heads,
            "max_position_embeddings":
                self.size(&format!("{embeddings}.position_embedding.weight"), 0),
            "hidden_act": details.activation,
        })
    }
}
