//! Swin transformer (Liu et al. 2021) as the backbone of detectors: transformers' `SwinBackbone`.

mod windows;

use burn::module::Param;
use burn::prelude::*;
use prepose_kernels as kernels;
use serde::Deserialize;

use crate::config::{Check, ConfigError, Rest, limit};
use crate::detr::masked;
use crate::layers::{Conv2d, LayerNorm, Linear};
use crate::params::Params;

use self::windows::{apart, pad, roll, roll_back};

/// The configuration of a Swin transformer; missing keys have transformers' defaults.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct SwinConfig {
    /// The kind of network: `swin`.
    pub model_type: String,
    /// Pixels along a side of a patch.
    pub patch_size: usize,
    /// Channels of the first stage; each further one has twice as many.
    pub embed_dim: usize,
    /// Blocks of each stage.
    pub depths: Vec<usize>,
    /// Heads of each stage.
    pub num_heads: Vec<usize>,
    /// Tokens along a side of a window.
    pub window_size: usize,
    /// Channels inside the feed-forward layers for each outside.
    pub mlp_ratio: f64,
    /// Added to the variance in layer norms.
    pub layer_norm_eps: f64,
    /// The stages whose maps are taken, from 1.
    pub out_indices: Vec<usize>,
    #[serde(flatten)]
    rest: Rest,
}

impl Default for SwinConfig {
    fn default() -> Self {
        Self {
            model_type: "swin".to_string(),
            patch_size: 4,
            embed_dim: 96,
            depths: vec![2, 2, 6, 2],
            num_heads: vec![3, 6, 12, 24],
            window_size: 7,
            mlp_ratio: 4.0,
            layer_norm_eps: 1e-5,
            out_indices: vec![2, 3, 4],
            rest: Rest::new(),
        }
    }
}

impl SwinConfig {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        const CHECK: Check = Check {
            network: "backbone",
        };
        if self.model_type != "swin" {
            return Err(CHECK.unsupported("model_type", self.model_type.as_str(), "\"swin\""));
        }
        CHECK.only(
            &self.rest,
            &[
                ("hidden_act", "gelu".into()),
                ("qkv_bias", true.into()),
                ("use_absolute_embeddings", false.into()),
                ("num_channels", 3.into()),
            ],
        )?;
        CHECK.levels("depths", &self.depths)?;
        if self.num_heads.len() != self.depths.len() {
            let reason = format!("there are {} stages", self.depths.len());
            return Err(CHECK.invalid("num_heads", self.num_heads.len(), reason));
        }
        CHECK.within("patch_size", [self.patch_size], 64)?;
        CHECK.within("embed_dim", [self.embed_dim], limit::CHANNELS >> 8)?;
        CHECK.within("depths", self.depths.iter().copied(), limit::LAYERS)?;
        CHECK.within("num_heads", self.num_heads.iter().copied(), limit::PLANES)?;
        CHECK.within("window_size", [self.window_size], 64)?;
        CHECK.number("mlp_ratio", [self.mlp_ratio], 0.5..=16.0)?;
        CHECK.number("layer_norm_eps", [self.layer_norm_eps], limit::EPS)?;
        for (stage, heads) in self.num_heads.iter().enumerate() {
            CHECK.divides("num_heads", &[self.channels(stage)], *heads)?;
        }
        let ascending = self.out_indices.is_sorted_by(|a, b| a < b);
        let stages = 1..=self.depths.len();
        if !ascending
            || self.out_indices.is_empty()
            || !self.out_indices.iter().all(|i| stages.contains(i))
        {
            let reason = format!(
                "it must be stages from 1 to {}, in order",
                self.depths.len()
            );
            return Err(CHECK.invalid("out_indices", &self.out_indices, reason));
        }
        Ok(())
    }

    /// Channels of a stage, from 0.
    fn channels(&self, stage: usize) -> usize {
        self.embed_dim << stage
    }

    /// Channels of the maps that are taken.
    pub(crate) fn outputs(&self) -> Vec<usize> {
        self.out_indices
            .iter()
            .map(|i| self.channels(i - 1))
            .collect()
    }
}

/// A block of windows.
#[derive(Module, Debug)]
struct Block {
    norm1: LayerNorm,
    /// Queries, keys and values.
    inputs: Linear,
    output: Linear,
    /// For each of the `(2w − 1)²` distances and each head, `[distances, heads]`.
    bias: Param<Tensor<2>>,
    norm2: LayerNorm,
    inner: Linear,
    outer: Linear,
    heads: usize,
    window: usize,
    /// How far windows are moved.
    shift: usize,
}

impl Block {
    fn load(mut params: Params, config: &SwinConfig, stage: usize, block: usize) -> Self {
        let (channels, heads) = (config.channels(stage), config.num_heads[stage]);
        let window = config.window_size;
        let inner = (channels as f64 * config.mlp_ratio) as usize;
        let norm = |params: Params| LayerNorm::load(params, channels, config.layer_norm_eps);
        let names = ["query", "key", "value"].map(|name| (name, channels));
        Self {
            norm1: norm(params.pp("layernorm_before")),
            inputs: Linear::load_stacked(&mut params.pp("attention.self"), &names, channels, true),
            output: Linear::load(
                params.pp("attention.output.dense"),
                channels,
                channels,
                true,
            ),
            bias: params.pp("attention.self").tensor(
                "relative_position_bias_table",
                [(2 * window - 1) * (2 * window - 1), heads],
            ),
            norm2: norm(params.pp("layernorm_after")),
            inner: Linear::load(params.pp("intermediate.dense"), channels, inner, true),
            outer: Linear::load(params.pp("output.dense"), inner, channels, true),
            heads,
            window,
            shift: if block % 2 == 1 { window / 2 } else { 0 },
        }
    }

    /// `[B, H, W, C]` to the same. `apart` is what [`apart`] gives for the padded map, if windows are moved.
    fn forward(&self, x: Tensor<4>, apart: Option<&Tensor<4>>) -> Tensor<4> {
        let [batch, height, width, channels] = x.dims();
        let rows = [batch, height * width, channels];
        let shape = [batch, height, width, channels];
        let normed = self.norm1.forward(x.clone().reshape(rows)).reshape(shape);
        // Padding is attended to, as what the layers make of zeros.
        let [below, right] = [height, width].map(|side| side.next_multiple_of(self.window) - side);
        let padded = pad(normed, below, right);
        let moved = roll(padded, self.shift);
        let mixed = roll_back(self.attend(moved, apart), self.shift);
        let mixed = mixed.slice([0..batch, 0..height, 0..width, 0..channels]);
        let x = (x + mixed).reshape(rows);
        let inner = kernels::gelu(self.inner.forward(self.norm2.forward(x.clone())));
        self.outer.forward_onto(inner, x).reshape(shape)
    }

    /// Attention within each window of `[B, H, W, C]`.
    fn attend(&self, x: Tensor<4>, apart: Option<&Tensor<4>>) -> Tensor<4> {
        let [batch, height, width, channels] = x.dims();
        let (window, heads) = (self.window, self.heads);
        let (down, across) = (height / window, width / window);
        let tokens = window * window;
        let windows = x
            .reshape([batch, down, window, across, window, channels])
            .permute([0, 1, 3, 2, 4, 5])
            .reshape([batch * down * across, tokens, channels]);
        let count = batch * down * across;
        let inputs = self.inputs.forward(windows);
        let part = |i: usize| {
            let part = inputs.clone().narrow(2, i * channels, channels);
            let part = part.reshape([count, tokens, heads, channels / heads]);
            part.swap_dims(1, 2)
        };
        let mut bias = self.position_bias();
        if let Some(apart) = apart {
            // The windows of one picture after those of the other.
            let apart = apart.clone().repeat_dim(0, batch);
            bias = bias.expand([count, heads, tokens, tokens]) + apart;
        }
        let mixed = masked(part(0), part(1), part(2), &bias);
        let mixed = mixed.swap_dims(1, 2).reshape([count, tokens, channels]);
        self.output
            .forward(mixed)
            .reshape([batch, down, across, window, window, channels])
            .permute([0, 1, 3, 2, 4, 5])
            .reshape([batch, height, width, channels])
    }

    /// What is added to the score of each pair of tokens of a window, `[1, heads, w², w²]`.
    fn position_bias(&self) -> Tensor<4> {
        let (window, tokens) = (self.window, self.window * self.window);
        let mut places = Vec::with_capacity(tokens * tokens);
        for query in 0..tokens {
            for key in 0..tokens {
                let [down, across] = [
                    (query / window, key / window),
                    (query % window, key % window),
                ]
                .map(|(query, key)| query + window - 1 - key);
                places.push((down * (2 * window - 1) + across) as i32);
            }
        }
        let table = self.bias.val();
        let places = Tensor::<1, Int>::from_data(places.as_slice(), &table.device());
        let bias = table.select(0, places).swap_dims(0, 1);
        bias.reshape([1, self.heads, tokens, tokens])
    }
}

/// Four neighbours become one, with twice the channels.
#[derive(Module, Debug)]
struct Merging {
    norm: LayerNorm,
    reduction: Linear,
}

impl Merging {
    fn load(mut params: Params, channels: usize, eps: f64) -> Self {
        Self {
            norm: LayerNorm::load(params.pp("norm"), 4 * channels, eps),
            reduction: Linear::load(params.pp("reduction"), 4 * channels, 2 * channels, false),
        }
    }

    /// `[B, H, W, C]` to `[B, ⌈H/2⌉, ⌈W/2⌉, 2C]`.
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [batch, height, width, channels] = x.dims();
        let x = pad(x, height % 2, width % 2);
        let (height, width) = (height.div_ceil(2), width.div_ceil(2));
        // The neighbour below comes before the one to the right.
        let x = x
            .reshape([batch, height, 2, width, 2, channels])
            .permute([0, 1, 3, 4, 2, 5])
            .reshape([batch, height * width, 4 * channels]);
        let x = self.reduction.forward(self.norm.forward(x));
        x.reshape([batch, height, width, 2 * channels])
    }
}

/// Blocks at one resolution, and the way to the next.
#[derive(Module, Debug)]
struct Stage {
    blocks: Vec<Block>,
    downsample: Option<Merging>,
    /// Of the map that is taken from here.
    norm: Option<LayerNorm>,
}

/// The network.
#[derive(Module, Debug)]
pub(crate) struct Swin {
    patches: Conv2d,
    norm: LayerNorm,
    stages: Vec<Stage>,
    patch: usize,
    window: usize,
}

impl Swin {
    pub fn load(mut params: Params, config: &SwinConfig) -> Self {
        let (patch, eps) = (config.patch_size, config.layer_norm_eps);
        let stages = config.depths.iter().enumerate().map(|(i, depth)| {
            let channels = config.channels(i);
            let norm = config.out_indices.contains(&(i + 1)).then(|| {
                let name = format!("hidden_states_norms.stage{}", i + 1);
                LayerNorm::load(params.pp(name), channels, eps)
            });
            let mut stage = params.pp(format!("encoder.layers.{i}"));
            Stage {
                blocks: (0..*depth)
                    .map(|block| Block::load(stage.pp(format!("blocks.{block}")), config, i, block))
                    .collect(),
                downsample: (i + 1 < config.depths.len())
                    .then(|| Merging::load(stage.pp("downsample"), channels, eps)),
                norm,
            }
        });
        let stages = stages.collect();
        Self {
            patches: Conv2d::load_with(
                params.pp("embeddings.patch_embeddings.projection"),
                [3, config.embed_dim, patch, patch, 0],
                true,
            ),
            norm: LayerNorm::load(params.pp("embeddings.norm"), config.embed_dim, eps),
            stages,
            patch,
            window: config.window_size,
        }
    }

    /// Pictures `[B, 3, H, W]` to the maps that are taken, `[B, C, H', W']`, finest first.
    pub fn forward(&self, pictures: Tensor<4>) -> Vec<Tensor<4>> {
        let device = pictures.device();
        let [_, _, height, width] = pictures.dims();
        let [below, right] = [height, width].map(|side| side.next_multiple_of(self.patch) - side);
        let pictures = match [below, right] {
            [0, 0] => pictures,
            _ => pictures.pad((0, right, 0, below), 0.0),
        };
        let x = self.patches.forward(pictures);
        let [batch, channels, height, width] = x.dims();
        let x = x.reshape([batch, channels, height * width]).swap_dims(1, 2);
        let mut x = self
            .norm
            .forward(x)
            .reshape([batch, height, width, channels]);
        let mut maps = Vec::new();
        for stage in &self.stages {
            let [batch, height, width, channels] = x.dims();
            let padded = [height, width].map(|side| side.next_multiple_of(self.window));
            let moved = stage.blocks.iter().any(|block| block.shift > 0);
            let apart = moved.then(|| apart(padded, self.window, &device));
            for block in &stage.blocks {
                x = block.forward(x, apart.as_ref().filter(|_| block.shift > 0));
            }
            if let Some(norm) = &stage.norm {
                let map = norm.forward(x.clone().reshape([batch, height * width, channels]));
                maps.push(
                    map.swap_dims(1, 2)
                        .reshape([batch, channels, height, width]),
                );
            }
            if let Some(downsample) = &stage.downsample {
                x = downsample.forward(x);
            }
        }
        maps
    }
}
