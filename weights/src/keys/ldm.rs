//! The UNet and the autoencoder of latent-diffusion checkpoints.

use serde_json::Value;

use super::Target;
use crate::part::View;

/// Parts of a residual block, in the UNet.
const RESNET: &[(&str, &str)] = &[
    ("in_layers.0", "norm1"),
    ("in_layers.2", "conv1"),
    ("emb_layers.1", "time_emb_proj"),
    ("out_layers.0", "norm2"),
    ("out_layers.3", "conv2"),
    ("skip_connection", "conv_shortcut"),
];

/// What lies around the UNet's blocks.
const AROUND: &[(&str, &str)] = &[
    ("time_embed.0", "time_embedding.linear_1"),
    ("time_embed.2", "time_embedding.linear_2"),
    ("label_emb.0.0", "add_embedding.linear_1"),
    ("label_emb.0.2", "add_embedding.linear_2"),
    ("input_blocks.0.0", "conv_in"),
    ("out.0", "conv_norm_out"),
    ("out.2", "conv_out"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Resnet,
    /// A transformer, whose inner names are the same on both sides.
    Same,
}

/// The UNet's blocks under both names, for one number of levels and layers.
#[derive(Debug)]
pub(crate) struct UnetBlocks(Vec<(String, String, Kind)>);

/// How many resolutions a network of this configuration has; more than any has are not counted.
pub(crate) fn levels(config: &Value) -> usize {
    let levels = config["block_out_channels"].as_array().map_or(0, Vec::len);
    levels.min(MAX_LEVELS)
}

/// More resolutions and more layers at each than the networks' configurations may ask for.
const MAX_LEVELS: usize = 16;
const MAX_LAYERS: u64 = 256;

impl UnetBlocks {
    /// For the UNet of this configuration.
    pub fn of(config: &Value) -> Self {
        // diffusers' default; a list would be one number per level, which latent-diffusion has not.
        let layers = config["layers_per_block"].as_u64().unwrap_or(2);
        Self::new(levels(config), layers.min(MAX_LAYERS) as usize)
    }

    /// For a UNet of `levels` resolutions with `layers` residual blocks each on the way down.
    pub fn new(levels: usize, layers: usize) -> Self {
        let mut blocks = Vec::new();
        let mut add = |ldm: String, diffusers: String, kind| blocks.push((ldm, diffusers, kind));
        for (ldm, diffusers) in AROUND {
            add(ldm.to_string(), diffusers.to_string(), Kind::Same);
        }

        // Going down, every level is its layers and, except the last, a downsampling block.
        for level in 0..levels {
            for layer in 0..layers {
                let block = 1 + level * (layers + 1) + layer;
                add(
                    format!("input_blocks.{block}.0"),
                    format!("down_blocks.{level}.resnets.{layer}"),
                    Kind::Resnet,
                );
                add(
                    format!("input_blocks.{block}.1"),
                    format!("down_blocks.{level}.attentions.{layer}"),
                    Kind::Same,
                );
            }
            let block = (level + 1) * (layers + 1);
            add(
                format!("input_blocks.{block}.0.op"),
                format!("down_blocks.{level}.downsamplers.0.conv"),
                Kind::Same,
            );
        }

        add(
            "middle_block.0".into(),
            "mid_block.resnets.0".into(),
            Kind::Resnet,
        );
        add(
            "middle_block.1".into(),
            "mid_block.attentions.0".into(),
            Kind::Same,
        );
        add(
            "middle_block.2".into(),
            "mid_block.resnets.1".into(),
            Kind::Resnet,
        );

        // Going up there is a layer more, and the upsampling is the last piece of its level's last
        // block: after the transformer where there is one.
        for level in 0..levels {
            for layer in 0..=layers {
                let block = level * (layers + 1) + layer;
                add(
                    format!("output_blocks.{block}.0"),
                    format!("up_blocks.{level}.resnets.{layer}"),
                    Kind::Resnet,
                );
                for piece in 1..=2 {
                    add(
                        format!("output_blocks.{block}.{piece}.conv"),
                        format!("up_blocks.{level}.upsamplers.0.conv"),
                        Kind::Same,
                    );
                }
                add(
                    format!("output_blocks.{block}.1"),
                    format!("up_blocks.{level}.attentions.{layer}"),
                    Kind::Same,
                );
            }
        }
        Self(blocks)
    }

    /// Both names of every module that a LoRA can name: latent-diffusion's and diffusers' prefixes
    /// with the parts of residual blocks spelt out.
    pub fn modules(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.0.iter().flat_map(|(ldm, diffusers, kind)| match kind {
            Kind::Same => vec![(ldm.clone(), diffusers.clone())],
            Kind::Resnet => RESNET
                .iter()
                .map(|(inner, name)| (format!("{ldm}.{inner}"), format!("{diffusers}.{name}")))
                .collect(),
        })
    }

    /// latent-diffusion's name of the layer `name` of diffusers, for writing; none if it is in none of the modules. The name
    /// of an upsampling depends on whether its block (`up_blocks.0`) has transformers, as `attends` says.
    pub fn original(&self, name: &str, attends: impl Fn(&str) -> bool) -> Option<String> {
        let names = self.modules().filter_map(|(ldm, diffusers)| {
            let rest = name.strip_prefix(diffusers.as_str())?;
            let piece = match diffusers.strip_suffix(".upsamplers.0.conv") {
                Some(block) if attends(block) => ".2.conv",
                Some(_) => ".1.conv",
                None => "",
            };
            let whole = rest.is_empty() || rest.starts_with('.');
            (whole && ldm.ends_with(piece)).then(|| format!("{ldm}{rest}"))
        });
        // All blocks of a level are listed with its upsampling, which is in the last.
        names.last()
    }
}

/// `rest` if `key` is `prefix.rest`.
fn below<'a>(key: &'a str, prefix: &str) -> Option<&'a str> {
    key.strip_prefix(prefix)?.strip_prefix('.')
}

/// Whether a UNet parameter, by whichever name, belongs to GLIGEN's layers.
pub(crate) fn is_gligen(key: &str) -> bool {
    key.contains(".fuser.") || key.split('.').any(|word| word == "position_net")
}

/// A UNet parameter; `key` without `model.diffusion_model.`.
pub(crate) fn unet(key: &str, blocks: &UnetBlocks) -> Target {
    if key.starts_with("position_net.") {
        return Target::whole(key);
    }
    blocks
        .0
        .iter()
        .find_map(|(ldm, diffusers, kind)| {
            let rest = below(key, ldm)?;
            match kind {
                Kind::Same => Some(format!("{diffusers}.{rest}")),
                Kind::Resnet => RESNET.iter().find_map(|(inner, name)| {
                    let rest = below(rest, inner)?;
                    Some(format!("{diffusers}.{name}.{rest}"))
                }),
            }
        })
        .map_or(Target::Unknown, Target::whole)
}

/// The autoencoder's middle attention, by its newer and its older names in diffusers and in
/// latent-diffusion, where the matrices are 1×1 convolutions.
const VAE_ATTENTION: &[(&str, &str)] = &[
    ("norm", "group_norm"),
    ("q", "to_q"),
    ("k", "to_k"),
    ("v", "to_v"),
    ("proj_out", "to_out.0"),
    ("query", "to_q"),
    ("key", "to_k"),
    ("value", "to_v"),
    ("proj_attn", "to_out.0"),
];

/// The diffusers name of a parameter of a VAE attention block, below its prefix.
pub(crate) fn vae_attention(rest: &str) -> Option<String> {
    VAE_ATTENTION
        .iter()
        .find_map(|(old, name)| Some(format!("{name}.{}", below(rest, old)?)))
}

/// An autoencoder parameter; `key` without `first_stage_model.`, for `levels` resolutions.
pub(crate) fn vae(key: &str, levels: usize) -> Target {
    if key.starts_with("loss.") || key.starts_with("model_ema.") {
        return Target::Ignored;
    }
    vae_name(key, levels).unwrap_or(Target::Unknown)
}

fn vae_name(key: &str, levels: usize) -> Option<Target> {
    if key.starts_with("quant_conv.") || key.starts_with("post_quant_conv.") {
        return Some(Target::whole(key));
    }
    let (half, rest) = key.split_once('.')?;
    if half != "encoder" && half != "decoder" {
        return None;
    }
    let whole = |name: String| Some(Target::whole(format!("{half}.{name}")));
    let resnet = |rest: &str| rest.replace("nin_shortcut.", "conv_shortcut.");

    if rest.starts_with("conv_in.") || rest.starts_with("conv_out.") {
        return whole(rest.to_string());
    }
    if let Some(rest) = below(rest, "norm_out") {
        return whole(format!("conv_norm_out.{rest}"));
    }
    if let Some(rest) = below(rest, "mid.attn_1") {
        let name = format!("{half}.mid_block.attentions.0.{}", vae_attention(rest)?);
        return Some(Target::Parameters(vec![(name, View::Linear)]));
    }
    for (old, index) in [("mid.block_1", 0), ("mid.block_2", 1)] {
        if let Some(rest) = below(rest, old) {
            return whole(format!("mid_block.resnets.{index}.{}", resnet(rest)));
        }
    }

    // `down.2.block.1.conv1.weight`, `up.2.upsample.conv.weight`; the decoder counts its levels
    // from the picture, diffusers from the latents.
    let mut words = rest.splitn(3, '.');
    let (direction, level, rest) = (
        words.next()?,
        words.next()?.parse::<usize>().ok()?,
        words.next()?,
    );
    let (blocks, sampler, level) = match direction {
        "down" => ("down_blocks", "downsample", level),
        "up" => ("up_blocks", "upsample", levels.checked_sub(level + 1)?),
        _ => return None,
    };
    if let Some(rest) = below(rest, "block") {
        return whole(format!("{blocks}.{level}.resnets.{}", resnet(rest)));
    }
    let rest = below(rest, sampler)?;
    whole(format!("{blocks}.{level}.{sampler}rs.0.{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(target: Target) -> String {
        match target {
            Target::Parameters(names) => names[0].0.clone(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn sd1_unet() {
        let blocks = UnetBlocks::new(4, 2);
        for (ldm, diffusers) in [
            ("input_blocks.0.0.weight", "conv_in.weight"),
            ("time_embed.2.bias", "time_embedding.linear_2.bias"),
            (
                "input_blocks.1.0.in_layers.2.weight",
                "down_blocks.0.resnets.0.conv1.weight",
            ),
            (
                "input_blocks.2.1.proj_in.weight",
                "down_blocks.0.attentions.1.proj_in.weight",
            ),
            (
                "input_blocks.3.0.op.weight",
                "down_blocks.0.downsamplers.0.conv.weight",
            ),
            (
                "input_blocks.4.0.skip_connection.bias",
                "down_blocks.1.resnets.0.conv_shortcut.bias",
            ),
            (
                "input_blocks.11.0.emb_layers.1.weight",
                "down_blocks.3.resnets.1.time_emb_proj.weight",
            ),
            (
                "middle_block.2.out_layers.3.bias",
                "mid_block.resnets.1.conv2.bias",
            ),
            (
                "output_blocks.2.1.conv.weight",
                "up_blocks.0.upsamplers.0.conv.weight",
            ),
            (
                "output_blocks.5.2.conv.weight",
                "up_blocks.1.upsamplers.0.conv.weight",
            ),
            (
                "output_blocks.11.1.transformer_blocks.0.attn2.to_out.0.bias",
                "up_blocks.3.attentions.2.transformer_blocks.0.attn2.to_out.0.bias",
            ),
            ("out.2.weight", "conv_out.weight"),
            ("input_blocks.12.0.in_layers.2.weight", "Unknown"),
        ] {
            assert_eq!(name(unet(ldm, &blocks)), diffusers, "{ldm}");
        }
    }

    #[test]
    fn sdxl_unet() {
        let blocks = UnetBlocks::new(3, 2);
        for (ldm, diffusers) in [
            ("label_emb.0.2.weight", "add_embedding.linear_2.weight"),
            (
                "input_blocks.6.0.op.bias",
                "down_blocks.1.downsamplers.0.conv.bias",
            ),
            (
                "input_blocks.8.1.transformer_blocks.9.norm1.weight",
                "down_blocks.2.attentions.1.transformer_blocks.9.norm1.weight",
            ),
            (
                "output_blocks.2.2.conv.weight",
                "up_blocks.0.upsamplers.0.conv.weight",
            ),
        ] {
            assert_eq!(name(unet(ldm, &blocks)), diffusers, "{ldm}");
        }
    }

    #[test]
    fn an_upsampling_is_written_as_the_last_piece_of_its_level() {
        let blocks = UnetBlocks::new(3, 2);
        // Residual block, transformer, upsampling; or without the transformer.
        let attends = |block: &str| block == "up_blocks.0";
        for (diffusers, ldm) in [
            ("up_blocks.0.upsamplers.0.conv", "output_blocks.2.2.conv"),
            ("up_blocks.1.upsamplers.0.conv", "output_blocks.5.1.conv"),
            (
                "up_blocks.0.attentions.2.proj_in",
                "output_blocks.2.1.proj_in",
            ),
            (
                "up_blocks.2.resnets.1.conv1",
                "output_blocks.7.0.in_layers.2",
            ),
        ] {
            let name = blocks.original(diffusers, attends);
            assert_eq!(name.as_deref(), Some(ldm), "{diffusers}");
        }
        assert_eq!(blocks.original("up_blocks.0", attends), None);
    }

    #[test]
    fn autoencoder() {
        for (ldm, diffusers) in [
            (
                "encoder.down.3.block.1.norm2.weight",
                "encoder.down_blocks.3.resnets.1.norm2.weight",
            ),
            (
                "encoder.down.1.block.0.nin_shortcut.bias",
                "encoder.down_blocks.1.resnets.0.conv_shortcut.bias",
            ),
            (
                "encoder.down.0.downsample.conv.weight",
                "encoder.down_blocks.0.downsamplers.0.conv.weight",
            ),
            (
                "decoder.up.3.upsample.conv.bias",
                "decoder.up_blocks.0.upsamplers.0.conv.bias",
            ),
            (
                "decoder.mid.block_2.conv1.weight",
                "decoder.mid_block.resnets.1.conv1.weight",
            ),
            (
                "decoder.mid.attn_1.proj_out.weight",
                "decoder.mid_block.attentions.0.to_out.0.weight",
            ),
            ("encoder.norm_out.bias", "encoder.conv_norm_out.bias"),
            ("post_quant_conv.weight", "post_quant_conv.weight"),
            ("loss.logvar", "Ignored"),
            ("decoder.up.4.block.0.conv1.weight", "Unknown"),
        ] {
            assert_eq!(name(vae(ldm, 4)), diffusers, "{ldm}");
        }
    }
}
