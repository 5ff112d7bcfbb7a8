//! The mask decoder: prompts and picture attend to each other, and each mask is a product of the two.

use burn::module::Param;
use burn::prelude::*;
use burn::tensor::DType;
use burn::tensor::activation::relu;
use prepose_kernels as kernels;

use super::config::SamDecoderConfig;
use super::encoder::EPS;
use crate::layers::{Deconv, LayerNorm, Linear};
use crate::params::Params;
use crate::vit::{Activation, Mlp};

/// The eps of the one norm that has PyTorch's own.
const TORCH_EPS: f64 = 1e-5;

/// Attention between two sequences, narrower than they are.
#[derive(Module, Debug)]
struct Attention {
    q: Linear,
    k: Linear,
    v: Linear,
    output: Linear,
    heads: usize,
}

impl Attention {
    fn load(mut params: Params, config: &SamDecoderConfig, rate: usize) -> Self {
        let channels = config.hidden_size;
        let inner = channels / rate;
        let mut to = |name| Linear::load(params.pp(name), channels, inner, true);
        Self {
            q: to("q_proj"),
            k: to("k_proj"),
            v: to("v_proj"),
            output: Linear::load(params.pp("out_proj"), inner, channels, true),
            heads: config.num_attention_heads,
        }
    }

    /// From `query` `[P, N, C]` to `key` and `value` `[P, M, C]`, giving `[P, N, C / rate]` for [`Self::output`].
    fn attend(&self, query: Tensor<3>, key: Tensor<3>, value: Tensor<3>) -> Tensor<3> {
        let split = |x: Tensor<3>| {
            let width = x.dims()[2] / self.heads;
            kernels::split_heads(x, width, 0..self.heads)
        };
        let y = kernels::attention(
            split(self.q.forward(query)),
            split(self.k.forward(key)),
            split(self.v.forward(value)),
        );
        let [batch, heads, n, width] = y.dims();
        y.swap_dims(1, 2).reshape([batch, n, heads * width])
    }

    /// The same, projected and added `onto` `[P, N, C]`.
    fn forward_onto(
        &self,
        query: Tensor<3>,
        key: Tensor<3>,
        value: Tensor<3>,
        onto: Tensor<3>,
    ) -> Tensor<3> {
        self.output
            .forward_onto(self.attend(query, key, value), onto)
    }
}

/// Prompts attend to themselves and to the picture, and the picture to them.
#[derive(Module, Debug)]
struct TwoWay {
    own: Attention,
    norm1: LayerNorm,
    to_picture: Attention,
    norm2: LayerNorm,
    mlp: Mlp,
    norm3: LayerNorm,
    from_picture: Attention,
    norm4: LayerNorm,
}

impl TwoWay {
    fn load(mut params: Params, config: &SamDecoderConfig) -> Self {
        let (channels, eps) = (config.hidden_size, config.layer_norm_eps);
        let rate = config.attention_downsample_rate;
        let names = ["mlp.lin1", "mlp.lin2"];
        let sizes = [channels, config.mlp_dim];
        let mlp = Mlp::load(&mut params, names, sizes, Activation::Relu, None);
        let own = Attention::load(params.pp("self_attn"), config, 1);
        let mut between = |name| Attention::load(params.pp(name), config, rate);
        let to_picture = between("cross_attn_token_to_image");
        let from_picture = between("cross_attn_image_to_token");
        let mut norm = |name| LayerNorm::load(params.pp(name), channels, eps);
        Self {
            own,
            norm1: norm("layer_norm1"),
            to_picture,
            norm2: norm("layer_norm2"),
            mlp,
            norm3: norm("layer_norm3"),
            from_picture,
            norm4: norm("layer_norm4"),
        }
    }

    /// Tokens `[P, T, C]` with their `places`, and the picture `[P, N, C]` with its `grid`. The `first` layer's tokens have
    /// no places yet, and become what they see in each other.
    fn forward(
        &self,
        [tokens, places]: [Tensor<3>; 2],
        [picture, grid]: [Tensor<3>; 2],
        first: bool,
    ) -> [Tensor<3>; 2] {
        let tokens = if first {
            let seen = self.own.attend(tokens.clone(), tokens.clone(), tokens);
            self.own.output.forward(seen)
        } else {
            let placed = tokens.clone() + places.clone();
            self.own
                .forward_onto(placed.clone(), placed, tokens.clone(), tokens)
        };
        let tokens = self.norm1.forward(tokens);
        let placed = tokens.clone() + places.clone();
        let keys = picture.clone() + grid;
        let tokens = (self.to_picture).forward_onto(placed, keys.clone(), picture.clone(), tokens);
        let tokens = self.norm2.forward(tokens);
        let tokens = self
            .norm3
            .forward(self.mlp.forward_onto(tokens.clone(), tokens));
        let placed = tokens.clone() + places;
        let picture = (self.from_picture).forward_onto(keys, placed, tokens.clone(), picture);
        [tokens, self.norm4.forward(picture)]
    }
}

/// Linear layers with ReLU between them.
#[derive(Module, Debug)]
struct Head {
    layers: Vec<Linear>,
}

impl Head {
    /// `sizes` are the channels of its input, in its middle, and of its output.
    fn load(mut params: Params, sizes: [usize; 3], depth: usize) -> Self {
        let [input, inner, output] = sizes;
        let mut layers = vec![Linear::load(params.pp("proj_in"), input, inner, true)];
        for i in 0..depth - 2 {
            layers.push(Linear::load(
                params.pp(format!("layers.{i}")),
                inner,
                inner,
                true,
            ));
        }
        layers.push(Linear::load(params.pp("proj_out"), inner, output, true));
        Self { layers }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let last = self.layers.len() - 1;
        let through = self.layers[..last].iter();
        let x = through.fold(x, |x, layer| relu(layer.forward(x)));
        self.layers[last].forward(x)
    }
}

/// The decoder.
#[derive(Module, Debug)]
pub(super) struct Decoder {
    /// The token of the masks' quality, and those of the masks, `[1 + M, C]`.
    tokens: Param<Tensor<2>>,
    layers: Vec<TwoWay>,
    last: Attention,
    norm: LayerNorm,
    larger1: Deconv,
    larger_norm: LayerNorm,
    larger2: Deconv,
    /// For each mask.
    masks: Vec<Head>,
    quality: Head,
}

impl Decoder {
    pub fn load(mut params: Params, config: &SamDecoderConfig) -> Self {
        let channels = config.hidden_size;
        let masks = config.num_multimask_outputs + 1;
        let rows = [("iou_token.weight", 1), ("mask_tokens.weight", masks)];
        let rows = rows.map(|(name, rows)| (name.to_string(), rows));
        let tokens = params.stacked(&rows, [1 + masks, channels]);
        let mut transformer = params.pp("transformer");
        let mut layer = |i| TwoWay::load(transformer.pp(format!("layers.{i}")), config);
        let layers = (0..config.num_hidden_layers).map(&mut layer).collect();
        let rate = config.attention_downsample_rate;
        let last = transformer.pp("final_attn_token_to_image");
        let last = Attention::load(last, config, rate);
        let norm = transformer.pp("layer_norm_final_attn");
        let norm = LayerNorm::load(norm, channels, TORCH_EPS);
        let (half, quarter) = (channels / 4, channels / 8);
        let mut head = |i| {
            let params = params.pp(format!("output_hypernetworks_mlps.{i}"));
            Head::load(params, [channels, channels, quarter], 3)
        };
        let heads = (0..masks).map(&mut head).collect();
        let sizes = [channels, config.iou_head_hidden_dim, masks];
        Self {
            tokens,
            layers,
            last,
            norm,
            larger1: Deconv::load(params.pp("upscale_conv1"), [channels, half], 2),
            larger_norm: LayerNorm::load(params.pp("upscale_layer_norm"), half, EPS),
            larger2: Deconv::load(params.pp("upscale_conv2"), [half, quarter], 2),
            masks: heads,
            quality: Head::load(
                params.pp("iou_prediction_head"),
                sizes,
                config.iou_head_depth,
            ),
        }
    }

    /// Masks `[P, M, 4 · side, 4 · side]` and their quality `[P, M]`, f32, of prompts `[P, T, C]` for one picture
    /// `[1, side², C]` with the encoding of its places `[1, side², C]`. The first mask is that for a prompt that is clear.
    pub fn forward(
        &self,
        picture: Tensor<3>,
        grid: Tensor<3>,
        prompts: Tensor<3>,
        side: usize,
    ) -> (Tensor<4>, Tensor<2>) {
        let tokens = self.tokens.val();
        let dtype = tokens.dtype();
        let [count, _, channels] = prompts.dims();
        let all = |x: Tensor<3>| {
            let [_, n, channels] = x.dims();
            x.cast(dtype).expand([count, n, channels])
        };
        let places = Tensor::cat(vec![all(tokens.unsqueeze()), prompts.cast(dtype)], 1);
        let (mut tokens, mut picture, grid) = (places.clone(), all(picture), all(grid));
        for (i, layer) in self.layers.iter().enumerate() {
            let own = [tokens, places.clone()];
            [tokens, picture] = layer.forward(own, [picture, grid.clone()], i == 0);
        }
        let (query, key) = (tokens.clone() + places, picture.clone() + grid);
        let tokens = self.last.forward_onto(query, key, picture.clone(), tokens);
        let tokens = self.norm.forward(tokens);
        let quality = self.quality.forward(tokens.clone().narrow(1, 0, 1));

        let (x, size) = self.larger1.forward(picture, [side; 2]);
        let x = kernels::gelu(self.larger_norm.forward(x));
        let (x, [height, width]) = self.larger2.forward(x, size);
        let x = kernels::gelu(x);
        let masks = self.masks.iter().enumerate();
        let factors = masks.map(|(i, head)| head.forward(tokens.clone().narrow(1, 1 + i, 1)));
        let factors = Tensor::cat(factors.collect(), 1);
        let masks = factors.matmul(x.swap_dims(1, 2));
        debug_assert_eq!(channels, self.tokens.val().dims()[1]);
        let shape = [count, self.masks.len(), height, width];
        let masks = masks.reshape(shape).cast(DType::F32);
        (masks, quality.squeeze_dim::<2>(1).cast(DType::F32))
    }
}
