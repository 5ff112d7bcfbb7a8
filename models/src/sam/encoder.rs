//! The picture encoder: a vision transformer that attends in windows, and to the whole picture in some layers (Li et al.
//! 2022).

use burn::module::Param;
use burn::prelude::*;
use burn::tensor::DType;
use prepose_kernels as kernels;

use super::config::SamVisionConfig;
use crate::layers::{Conv2d, LayerNorm, Linear};
use crate::params::Params;
use crate::vit::{Activation, Mlp, Patches};

/// What channels are normed with where a configuration does not say.
pub(super) const EPS: f64 = 1e-6;

/// The encoder.
#[derive(Module, Debug)]
pub(super) struct Encoder {
    patches: Patches,
    positions: Param<Tensor<2>>,
    layers: Vec<Layer>,
    neck1: Linear,
    norm1: LayerNorm,
    neck2: Conv2d,
    norm2: LayerNorm,
    side: usize,
}

impl Encoder {
    pub fn load(mut params: Params, config: &SamVisionConfig) -> Self {
        let (channels, side) = (config.hidden_size, config.side());
        let (stored, table) = ([1, side, side, channels], [side * side, channels]);
        let output = config.output_channels;
        let projection = params.pp("patch_embed.projection");
        let patches = Patches::load(projection, channels, config.patch_size, true);
        let positions = params.tensor_stored("pos_embed", &stored, table);
        let mut layer = |i: usize| {
            let window = match config.global_attn_indexes.contains(&i) {
                true => side,
                false => config.window_size,
            };
            Layer::load(params.pp(format!("layers.{i}")), config, window)
        };
        let layers = (0..config.num_hidden_layers).map(&mut layer).collect();
        let mut neck = params.pp("neck");
        Self {
            patches,
            positions,
            layers,
            neck1: Linear::load_pointwise(neck.pp("conv1"), channels, output, false),
            norm1: LayerNorm::load(neck.pp("layer_norm1"), output, EPS),
            neck2: Conv2d::load_with(neck.pp("conv2"), [output, output, 3, 1, 1], false),
            norm2: LayerNorm::load(neck.pp("layer_norm2"), output, EPS),
            side,
        }
    }

    /// Normalised pictures `[B, 3, S, S]` to tokens `[B, N, C]` for its patches; after each layer `seen` gets them as they
    /// are then.
    pub fn forward(&self, pictures: Tensor<4>, mut seen: impl FnMut(&Tensor<3>)) -> Tensor<3> {
        let x = self.patches.forward(pictures);
        let mut x = x.clone() + self.positions.val().cast(x.dtype()).unsqueeze();
        for layer in &self.layers {
            x = layer.forward(x, self.side);
            seen(&x);
        }
        let x = self.norm1.forward(self.neck1.forward(x));
        let x = kernels::tokens_to_picture(x, [self.side; 2]);
        let x = kernels::picture_to_tokens(self.neck2.forward(x));
        self.norm2.forward(x).cast(DType::F32)
    }
}

/// A block that attends in windows.
#[derive(Module, Debug)]
struct Layer {
    norm1: LayerNorm,
    to_qkv: Linear,
    /// Relative positions of rows, and then of columns, `[2 · (2 · window − 1), D]`.
    positions: Param<Tensor<2>>,
    output: Linear,
    norm2: LayerNorm,
    mlp: Mlp,
    heads: usize,
    window: usize,
}

impl Layer {
    fn load(mut params: Params, config: &SamVisionConfig, window: usize) -> Self {
        let (channels, eps) = (config.hidden_size, config.layer_norm_eps);
        let rows = 2 * window - 1;
        let width = channels / config.num_attention_heads;
        let tables = ["rel_pos_h", "rel_pos_w"].map(|name| (name.to_string(), rows));
        let mut attention = params.pp("attn");
        let to_qkv = Linear::load(attention.pp("qkv"), channels, 3 * channels, config.qkv_bias);
        let positions = attention.stacked(&tables, [2 * rows, width]);
        let output = Linear::load(attention.pp("proj"), channels, channels, true);
        let sizes = [channels, config.inner()];
        let names = ["mlp.lin1", "mlp.lin2"];
        Self {
            norm1: LayerNorm::load(params.pp("layer_norm1"), channels, eps),
            to_qkv,
            positions,
            output,
            norm2: LayerNorm::load(params.pp("layer_norm2"), channels, eps),
            mlp: Mlp::load(&mut params, names, sizes, Activation::Gelu, None),
            heads: config.num_attention_heads,
            window,
        }
    }

    /// Tokens `[B, side², C]` to the same.
    fn forward(&self, x: Tensor<3>, side: usize) -> Tensor<3> {
        let normed = self.norm1.forward(x.clone());
        let y = self.join(self.attend(self.split(normed, side)), side);
        let x = self.output.forward_onto(y, x);
        self.mlp.forward_onto(self.norm2.forward(x.clone()), x)
    }

    /// Each window attends to itself, `[W, window², C]` to the same.
    fn attend(&self, x: Tensor<3>) -> Tensor<3> {
        let [windows, tokens, channels] = x.dims();
        let qkv = self.to_qkv.forward(x);
        let (heads, width) = (self.heads, channels / self.heads);
        let [query, key, value] = [0, 1, 2]
            .map(|part| kernels::split_heads(qkv.clone(), width, part * heads..(part + 1) * heads));
        let y = kernels::grid_attention(query, key, value, self.positions.val());
        y.swap_dims(1, 2).reshape([windows, tokens, channels])
    }

    /// Tokens `[B, side², C]` window after window, `[W, window², C]`. Windows beyond the right and lower border are filled
    /// with zeros, which are attended to like all others.
    fn split(&self, x: Tensor<3>, side: usize) -> Tensor<3> {
        let [batch, _, channels] = x.dims();
        let window = self.window;
        if window == side {
            return x;
        }
        let count = side.div_ceil(window);
        let missing = count * window - side;
        let x = x.reshape([batch, side, side, channels]);
        let x = x.pad([(0, 0), (0, missing), (0, missing), (0, 0)], 0.0);
        let x: Tensor<6> = x.reshape([batch, count, window, count, window, channels]);
        let x = x.permute([0, 1, 3, 2, 4, 5]);
        x.reshape([batch * count * count, window * window, channels])
    }

    /// The way back from [`Self::split`].
    fn join(&self, x: Tensor<3>, side: usize) -> Tensor<3> {
        let window = self.window;
        if window == side {
            return x;
        }
        let count = side.div_ceil(window);
        let [windows, _, channels] = x.dims();
        let batch = windows / (count * count);
        let x: Tensor<6> = x.reshape([batch, count, count, window, window, channels]);
        let x = x.permute([0, 1, 3, 2, 4, 5]);
        let x: Tensor<4> = x.reshape([batch, count * window, count * window, channels]);
        let x = x.narrow(1, 0, side).narrow(2, 0, side);
        x.reshape([batch, side * side, channels])
    }
}
