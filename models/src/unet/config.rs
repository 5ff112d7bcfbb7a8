//! The UNet's configuration.

use serde::Deserialize;
use serde_json::json;

use crate::config::{Check, ConfigError, OneOrMany, Rest, limit};

/// The `config.json` of diffusers' `UNet2DConditionModel`; missing keys have diffusers' defaults.
///
/// Features outside of SD 1.x, SDXL and their relatives are refused by [`UNetConfig::check`] with
/// the key and the value; keys that do not change the network are ignored.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct UNetConfig {
    /// Channels of the latents that go in.
    pub in_channels: usize,
    /// Channels of the prediction that comes out.
    pub out_channels: usize,
    /// Width and height of the latents that the network was trained on, if it says so.
    pub sample_size: Option<OneOrMany>,
    /// Cosines before sines in the time embedding.
    pub flip_sin_to_cos: bool,
    /// Shift in the frequencies of the time embedding.
    pub freq_shift: f64,
    /// `CrossAttnDownBlock2D` or `DownBlock2D`, for each resolution.
    pub down_block_types: Vec<String>,
    /// Only `UNetMidBlock2DCrossAttn` is implemented.
    pub mid_block_type: Option<String>,
    /// `CrossAttnUpBlock2D` or `UpBlock2D`, for each resolution, lowest first.
    pub up_block_types: Vec<String>,
    /// Channels at each resolution.
    pub block_out_channels: Vec<usize>,
    /// Residual blocks at each resolution on the way down; one more on the way up.
    pub layers_per_block: OneOrMany,
    /// Groups of the group norms.
    pub norm_num_groups: Option<usize>,
    /// Added to the variance in the residual blocks' norms.
    pub norm_eps: f64,
    /// Channels of the text embeddings.
    pub cross_attention_dim: OneOrMany,
    /// Transformer blocks in each transformer.
    pub transformer_layers_per_block: OneOrMany,
    /// The *number* of heads, whatever the name says, unless `num_attention_heads` is given: a
    /// historical accident of diffusers that all checkpoints depend on.
    pub attention_head_dim: OneOrMany,
    /// The number of heads.
    pub num_attention_heads: Option<OneOrMany>,
    /// Whether the transformers' projections are stored as linear layers or as 1×1 convolutions.
    pub use_linear_projection: bool,
    /// Whether attention computes in f32 whatever the type of the weights; null (as in SDXL's file)
    /// is no.
    pub upcast_attention: Option<bool>,
    /// `gated` for a network with GLIGEN's layers; `default` for one without.
    pub attention_type: String,
    /// `text_time` for SDXL's added conditioning.
    pub addition_embed_type: Option<String>,
    /// Width of the embedding of each of SDXL's time ids.
    pub addition_time_embed_dim: Option<usize>,
    /// Width of SDXL's pooled text embedding with all embedded time ids.
    pub projection_class_embeddings_input_dim: Option<usize>,
    /// Width of the time embedding, if not four times the first number of channels.
    pub time_embedding_dim: Option<usize>,
    /// Width of the guidance embedding of a guidance-distilled network (LCM).
    pub time_cond_proj_dim: Option<usize>,
    #[serde(flatten)]
    rest: Rest,
}

impl Default for UNetConfig {
    fn default() -> Self {
        let types = |types: [&str; 4]| types.map(str::to_string).to_vec();
        const CROSS_DOWN: &str = "CrossAttnDownBlock2D";
        const CROSS_UP: &str = "CrossAttnUpBlock2D";
        Self {
            in_channels: 4,
            out_channels: 4,
            sample_size: None,
            flip_sin_to_cos: true,
            freq_shift: 0.0,
            down_block_types: types([CROSS_DOWN, CROSS_DOWN, CROSS_DOWN, "DownBlock2D"]),
            mid_block_type: Some("UNetMidBlock2DCrossAttn".to_string()),
            up_block_types: types(["UpBlock2D", CROSS_UP, CROSS_UP, CROSS_UP]),
            block_out_channels: vec![320, 640, 1280, 1280],
            layers_per_block: OneOrMany::One(2),
            norm_num_groups: Some(32),
            norm_eps: 1e-5,
            cross_attention_dim: OneOrMany::One(1280),
            transformer_layers_per_block: OneOrMany::One(1),
            attention_head_dim: OneOrMany::One(8),
            num_attention_heads: None,
            use_linear_projection: false,
            upcast_attention: None,
            attention_type: PLAIN.to_string(),
            addition_embed_type: None,
            addition_time_embed_dim: None,
            projection_class_embeddings_input_dim: None,
            time_embedding_dim: None,
            time_cond_proj_dim: None,
            rest: Rest::new(),
        }
    }
}

/// What is needed to build one resolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LevelPlan {
    pub channels: usize,
    pub layers: usize,
    pub heads: usize,
    pub context_dim: usize,
    pub depth: usize,
    pub cross_attention_down: bool,
    pub cross_attention_up: bool,
}

/// A configuration that passed all checks, in the form that the constructors need.
#[derive(Debug, Clone)]
pub(crate) struct UNetPlan {
    /// From the highest resolution to the lowest.
    pub levels: Vec<LevelPlan>,
    pub groups: usize,
    pub time_dim: usize,
    /// Width of GLIGEN's object tokens.
    pub objects: Option<usize>,
    /// Width of one time id's embedding, and of the whole added conditioning.
    pub added: Option<(usize, usize)>,
}

impl UNetPlan {
    /// Names and channels of the residual blocks, in the order of execution.
    pub fn resnets(&self) -> Vec<(String, usize)> {
        let numbered = |block: String, count, channels| {
            (0..count).map(move |i| (format!("{block}.resnets.{i}"), channels))
        };
        let levels = self.levels.iter().enumerate();
        let down = levels.flat_map(|(i, level)| {
            numbered(format!("down_blocks.{i}"), level.layers, level.channels)
        });
        let lowest = self.levels.last().map_or(0, |level| level.channels);
        let mid = numbered("mid_block".to_string(), 2, lowest);
        let levels = self.levels.iter().rev().enumerate();
        let up = levels.flat_map(|(i, level)| {
            numbered(format!("up_blocks.{i}"), level.layers + 1, level.channels)
        });
        down.chain(mid).chain(up).collect()
    }
}

const CHECK: Check = Check { network: "UNet" };

/// Kinds of blocks; those with cross-attention come first.
const DOWN: [&str; 2] = ["CrossAttnDownBlock2D", "DownBlock2D"];
const UP: [&str; 2] = ["CrossAttnUpBlock2D", "UpBlock2D"];
const MID: &str = "UNetMidBlock2DCrossAttn";
/// Kinds of attention, without and with GLIGEN's layers.
const PLAIN: &str = "default";
const GATED: &str = "gated";

impl UNetConfig {
    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ConfigError`] names the first key that is unsupported or makes no sense, with its value.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.plan().map(|_| ())
    }

    /// Whether the network has GLIGEN's layers.
    pub fn is_grounded(&self) -> bool {
        self.attention_type == GATED
    }

    /// The same network with GLIGEN's layers.
    pub(crate) fn grounded(&self) -> Self {
        Self {
            attention_type: GATED.into(),
            ..self.clone()
        }
    }

    /// The width of phrases and of objects' tokens, whether or not the network has GLIGEN's layers.
    pub fn object_width(&self) -> Option<usize> {
        self.cross_attention_dim.first()
    }

    /// Refuses options and kinds of blocks that are not implemented.
    fn check_kinds(&self) -> Result<(), ConfigError> {
        CHECK.class(&self.rest, &["UNet2DConditionModel"])?;
        CHECK.only(
            &self.rest,
            &[
                ("act_fn", json!("silu")),
                ("center_input_sample", json!(false)),
                ("class_embed_type", json!(null)),
                ("class_embeddings_concat", json!(false)),
                ("conv_in_kernel", json!(3)),
                ("conv_out_kernel", json!(3)),
                ("cross_attention_norm", json!(null)),
                ("downsample_padding", json!(1)),
                ("dual_cross_attention", json!(false)),
                ("encoder_hid_dim", json!(null)),
                ("encoder_hid_dim_type", json!(null)),
                ("mid_block_scale_factor", json!(1)),
                ("num_class_embeds", json!(null)),
                ("only_cross_attention", json!(false)),
                ("resnet_out_scale_factor", json!(1)),
                ("resnet_skip_time_act", json!(false)),
                ("resnet_time_scale_shift", json!("default")),
                ("reverse_transformer_layers_per_block", json!(null)),
                ("time_embedding_act_fn", json!(null)),
                ("time_embedding_type", json!("positional")),
                ("timestep_post_act", json!(null)),
            ],
        )?;
        if ![PLAIN, GATED].contains(&&*self.attention_type) {
            let supported = "\"default\" or \"gated\" (GLIGEN with phrases and boxes)";
            return Err(CHECK.unsupported("attention_type", &*self.attention_type, supported));
        }
        CHECK.block_types("down_block_types", &self.down_block_types, &DOWN)?;
        CHECK.block_types("up_block_types", &self.up_block_types, &UP)?;
        if self.mid_block_type.as_deref() != Some(MID) {
            let value = json!(self.mid_block_type);
            return Err(CHECK.unsupported("mid_block_type", value, MID));
        }
        Ok(())
    }

    pub(crate) fn plan(&self) -> Result<UNetPlan, ConfigError> {
        self.check_kinds()?;
        let n = self.block_out_channels.len();
        self.sizes()?;
        let blocks = format!("`block_out_channels` has {n} blocks");
        for (key, types) in [
            ("down_block_types", &self.down_block_types),
            ("up_block_types", &self.up_block_types),
        ] {
            if types.len() != n {
                return Err(CHECK.invalid(key, types, &blocks));
            }
        }
        let spread = |key, value: &OneOrMany, limit| {
            let values = value
                .spread(n)
                .ok_or(CHECK.invalid(key, value.values(), &blocks))?;
            CHECK.within(key, values.iter().copied(), limit)?;
            Ok(values)
        };
        let layers = spread("layers_per_block", &self.layers_per_block, limit::LAYERS)?;
        let context = &self.cross_attention_dim;
        let context = spread("cross_attention_dim", context, limit::CHANNELS)?;
        let depth = &self.transformer_layers_per_block;
        let depth = spread("transformer_layers_per_block", depth, limit::LAYERS)?;
        let all: usize = layers
            .iter()
            .zip(&depth)
            .map(|(layers, depth)| layers * depth)
            .sum();
        if all > limit::BLOCKS {
            let reason = format!(
                "with `transformer_layers_per_block` that makes {all} blocks; at most {} are possible",
                limit::BLOCKS
            );
            let value = self.layers_per_block.values();
            return Err(CHECK.invalid("layers_per_block", value, reason));
        }
        let (heads_key, heads) = match &self.num_attention_heads {
            Some(heads) => ("num_attention_heads", heads),
            None => ("attention_head_dim", &self.attention_head_dim),
        };
        let heads = spread(heads_key, heads, limit::CHANNELS)?;
        let Some(groups) = self.norm_num_groups else {
            return Err(CHECK.unsupported("norm_num_groups", json!(null), "a number of groups"));
        };
        CHECK.divides("norm_num_groups", &self.block_out_channels, groups)?;
        for (&channels, &heads) in self.block_out_channels.iter().zip(&heads) {
            CHECK.divides(heads_key, &[channels], heads)?;
        }
        let level = |i: usize| LevelPlan {
            channels: self.block_out_channels[i],
            layers: layers[i],
            heads: heads[i],
            context_dim: context[i],
            depth: depth[i],
            cross_attention_down: self.down_block_types[i] == DOWN[0],
            cross_attention_up: self.up_block_types[n - 1 - i] == UP[0],
        };
        Ok(UNetPlan {
            levels: (0..n).map(level).collect(),
            groups,
            objects: self.is_grounded().then_some(context[0]),
            time_dim: (self.time_embedding_dim).unwrap_or(4 * self.block_out_channels[0]),
            added: self.added()?,
        })
    }

    /// Refuses numbers that no network has.
    fn sizes(&self) -> Result<(), ConfigError> {
        CHECK.within("in_channels", [self.in_channels], limit::PLANES)?;
        CHECK.within("out_channels", [self.out_channels], limit::PLANES)?;
        if let Some(size) = &self.sample_size {
            CHECK.sides("sample_size", size)?;
        }
        CHECK.number("norm_eps", [self.norm_eps], limit::EPS)?;
        CHECK.number("freq_shift", [self.freq_shift], 0.0..=1.0)?;
        let channels = &self.block_out_channels;
        CHECK.levels("block_out_channels", channels)?;
        let width = channels.iter().copied();
        CHECK.within("block_out_channels", width, limit::CHANNELS)?;
        for (key, size) in [
            ("time_embedding_dim", self.time_embedding_dim),
            ("time_cond_proj_dim", self.time_cond_proj_dim),
            ("addition_time_embed_dim", self.addition_time_embed_dim),
            (
                "projection_class_embeddings_input_dim",
                self.projection_class_embeddings_input_dim,
            ),
        ] {
            CHECK.within(key, size, limit::CHANNELS)?;
        }
        Ok(())
    }

    fn added(&self) -> Result<Option<(usize, usize)>, ConfigError> {
        match self.addition_embed_type.as_deref() {
            None => Ok(None),
            Some("text_time") => {
                let needed = |key, value: Option<usize>| {
                    let reason = "`addition_embed_type` is \"text_time\", which needs it";
                    value.ok_or(CHECK.invalid(key, value, reason))
                };
                Ok(Some((
                    needed("addition_time_embed_dim", self.addition_time_embed_dim)?,
                    needed(
                        "projection_class_embeddings_input_dim",
                        self.projection_class_embeddings_input_dim,
                    )?,
                )))
            }
            Some(other) => {
                let supported = "null or \"text_time\"";
                Err(CHECK.unsupported("addition_embed_type", other, supported))
            }
        }
    }
}
