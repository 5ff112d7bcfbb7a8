//! The configuration of an RT-DETRv2.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::config::{Check, ConfigError, Rest, limit};

/// The configuration of a ResNet-D; missing keys have transformers' defaults, a ResNet-50.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct RtDetrResNetConfig {
    /// The kind of network: `rt_detr_resnet`.
    pub model_type: String,
    /// Channels behind the stem.
    pub embedding_size: usize,
    /// Channels of each stage.
    pub hidden_sizes: Vec<usize>,
    /// Blocks of each stage.
    pub depths: Vec<usize>,
    /// `basic` or `bottleneck`.
    pub layer_type: String,
    /// The stages whose maps are taken, from 1.
    pub out_indices: Vec<usize>,
    #[serde(flatten)]
    rest: Rest,
}

impl Default for RtDetrResNetConfig {
    fn default() -> Self {
        Self {
            model_type: "rt_detr_resnet".to_string(),
            embedding_size: 64,
            hidden_sizes: vec![256, 512, 1024, 2048],
            depths: vec![3, 4, 6, 3],
            layer_type: "bottleneck".to_string(),
            out_indices: vec![2, 3, 4],
            rest: Rest::new(),
        }
    }
}

/// transformers' `config.json` of an RT-DETRv2; missing keys have its defaults.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct RtDetrConfig {
    /// The kind of network: `rt_detr_v2`.
    pub model_type: String,
    /// Of the network that sees.
    pub backbone_config: RtDetrResNetConfig,
    /// Channels of the maps in the encoder.
    pub encoder_hidden_dim: usize,
    /// Channels inside the feed-forward layers of its attention.
    pub encoder_ffn_dim: usize,
    /// Layers of attention in the coarsest map.
    pub encoder_layers: usize,
    /// Heads in them.
    pub encoder_attention_heads: usize,
    /// Maps with attention, from the finest: the coarsest alone.
    pub encode_proj_layers: Vec<usize>,
    /// Of the positions of pixels in it.
    pub positional_encoding_temperature: f64,
    /// Channels inside the blocks that mix maps, for each outside.
    pub hidden_expansion: f64,
    /// Channels between the layers of the decoder.
    pub d_model: usize,
    /// Channels inside its feed-forward layers.
    pub decoder_ffn_dim: usize,
    /// Its layers.
    pub decoder_layers: usize,
    /// Heads in them.
    pub decoder_attention_heads: usize,
    /// Places for each head and map.
    pub decoder_n_points: usize,
    /// How far a place moves for an offset of 1, in shares of the box.
    pub decoder_offset_scale: f64,
    /// Boxes that are looked for.
    pub num_queries: usize,
    /// Added to the variance in layer norms.
    pub layer_norm_eps: f64,
    /// Added to the variance in batch norms.
    pub batch_norm_eps: f64,
    /// The names of the classes by their numbers, `"0"` the first; COCO's 80 if there are none.
    pub id2label: BTreeMap<String, String>,
    #[serde(flatten)]
    rest: Rest,
}

impl Default for RtDetrConfig {
    fn default() -> Self {
        Self {
            model_type: "rt_detr_v2".to_string(),
            backbone_config: RtDetrResNetConfig::default(),
            encoder_hidden_dim: 256,
            encoder_ffn_dim: 1024,
            encoder_layers: 1,
            encoder_attention_heads: 8,
            encode_proj_layers: vec![2],
            positional_encoding_temperature: 10_000.0,
            hidden_expansion: 1.0,
            d_model: 256,
            decoder_ffn_dim: 1024,
            decoder_layers: 6,
            decoder_attention_heads: 8,
            decoder_n_points: 4,
            decoder_offset_scale: 0.5,
            num_queries: 300,
            layer_norm_eps: 1e-5,
            batch_norm_eps: 1e-5,
            id2label: BTreeMap::new(),
            rest: Rest::new(),
        }
    }
}

/// Maps of the backbone that are used.
pub(super) const LEVELS: usize = 3;

impl RtDetrConfig {
    /// The names of the classes, in the order of their numbers.
    pub fn classes(&self) -> Vec<String> {
        let named = (0..self.id2label.len()).map(|i| self.id2label.get(&i.to_string()).cloned());
        match named.collect::<Option<Vec<_>>>() {
            Some(classes) if !classes.is_empty() => classes,
            _ => crate::rcnn::COCO_CLASSES
                .iter()
                .filter(|name| !["__background__", "N/A"].contains(name))
                .map(|name| (*name).to_string())
                .collect(),
        }
    }

    /// Channels inside the blocks that mix maps.
    pub(super) fn hidden(&self) -> usize {
        (self.encoder_hidden_dim as f64 * self.hidden_expansion) as usize
    }

    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ConfigError`] names the first key that is unsupported or makes no sense, with its value.
    pub fn check(&self) -> Result<(), ConfigError> {
        const CHECK: Check = Check {
            network: "detector",
        };
        if self.model_type != "rt_detr_v2" {
            let supported = "\"rt_detr_v2\"";
            return Err(CHECK.unsupported("model_type", self.model_type.as_str(), supported));
        }
        CHECK.only(
            &self.rest,
            &[
                ("activation_function", "silu".into()),
                ("encoder_activation_function", "gelu".into()),
                ("decoder_activation_function", "relu".into()),
                ("decoder_method", "default".into()),
                ("normalize_before", false.into()),
                ("learn_initial_query", false.into()),
                ("with_box_refine", true.into()),
                ("num_feature_levels", LEVELS.into()),
                ("decoder_n_levels", LEVELS.into()),
            ],
        )?;
        self.check_backbone()?;
        if self.encode_proj_layers != [LEVELS - 1] {
            let value = self.encode_proj_layers.clone();
            return Err(CHECK.unsupported("encode_proj_layers", value, "[2]"));
        }
        for (key, size, limit) in [
            (
                "encoder_hidden_dim",
                self.encoder_hidden_dim,
                limit::CHANNELS,
            ),
            ("encoder_ffn_dim", self.encoder_ffn_dim, limit::CHANNELS),
            ("encoder_layers", self.encoder_layers, limit::LAYERS),
            ("d_model", self.d_model, limit::CHANNELS),
            ("decoder_ffn_dim", self.decoder_ffn_dim, limit::CHANNELS),
            ("decoder_layers", self.decoder_layers, limit::LAYERS),
            ("decoder_n_points", self.decoder_n_points, 64),
            ("num_queries", self.num_queries, limit::LENGTH),
            ("id2label", self.classes().len(), limit::CHANNELS),
        ] {
            CHECK.within(key, [size], limit)?;
        }
        let temperature = self.positional_encoding_temperature;
        CHECK.number("positional_encoding_temperature", [temperature], 1.0..=1e6)?;
        CHECK.number("hidden_expansion", [self.hidden_expansion], 0.01..=16.0)?;
        CHECK.number(
            "decoder_offset_scale",
            [self.decoder_offset_scale],
            1e-3..=16.0,
        )?;
        CHECK.number("layer_norm_eps", [self.layer_norm_eps], limit::EPS)?;
        CHECK.number("batch_norm_eps", [self.batch_norm_eps], limit::EPS)?;
        CHECK.within("hidden_expansion", [self.hidden()], limit::CHANNELS)?;
        let channels = ("decoder_in_channels", self.encoder_hidden_dim.into());
        CHECK.only(&self.rest, &[channels])?;
        // A sine and a cosine for each axis.
        CHECK.divides("encoder_hidden_dim", &[self.encoder_hidden_dim], 4)?;
        for (key, channels, heads) in [
            (
                "encoder_attention_heads",
                self.encoder_hidden_dim,
                self.encoder_attention_heads,
            ),
            (
                "decoder_attention_heads",
                self.d_model,
                self.decoder_attention_heads,
            ),
        ] {
            CHECK.divides(key, &[channels], heads)?;
        }
        Ok(())
    }

    fn check_backbone(&self) -> Result<(), ConfigError> {
        const CHECK: Check = Check {
            network: "backbone",
        };
        let backbone = &self.backbone_config;
        if backbone.model_type != "rt_detr_resnet" {
            let supported = "\"rt_detr_resnet\"";
            return Err(CHECK.unsupported("model_type", backbone.model_type.as_str(), supported));
        }
        CHECK.only(
            &backbone.rest,
            &[
                ("hidden_act", "relu".into()),
                ("downsample_in_first_stage", false.into()),
                ("downsample_in_bottleneck", false.into()),
                ("num_channels", 3.into()),
            ],
        )?;
        if !["basic", "bottleneck"].contains(&backbone.layer_type.as_str()) {
            let supported = "\"basic\" or \"bottleneck\"";
            return Err(CHECK.unsupported("layer_type", backbone.layer_type.as_str(), supported));
        }
        let stages = LEVELS + 1;
        for (key, values) in [
            ("hidden_sizes", &backbone.hidden_sizes),
            ("depths", &backbone.depths),
        ] {
            if values.len() != stages {
                let reason = format!("there are {stages} stages");
                return Err(CHECK.invalid(key, values.len(), reason));
            }
        }
        if backbone.out_indices != [2, 3, 4] {
            let value = backbone.out_indices.clone();
            return Err(CHECK.unsupported("out_indices", value, "[2, 3, 4]"));
        }
        CHECK.within("embedding_size", [backbone.embedding_size], limit::CHANNELS)?;
        CHECK.divides("embedding_size", &[backbone.embedding_size], 2)?;
        let sizes = backbone.hidden_sizes.iter().copied();
        CHECK.within("hidden_sizes", sizes, limit::CHANNELS)?;
        CHECK.divides("hidden_sizes", &backbone.hidden_sizes, 4)?;
        CHECK.within("depths", backbone.depths.iter().copied(), limit::LAYERS)
    }
}
