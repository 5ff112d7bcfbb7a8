//! GLIGEN (Li et al. 2023): phrases with boxes as further tokens, to which gated self-attention in each transformer
//! block listens.
//!
//! The published layers attend over `[picture rows, object rows]` and keep the picture's. Nothing in an object's row
//! depends on the picture, so that its key and value are computed once a prompt; the factors tanh(α) of the gates are
//! merged into the projections that they follow, on the tape where they are trained.

use std::ops::Range;

use burn::module::Param;
use burn::prelude::*;
use burn::tensor::DType;
use prepose_kernels as kernels;

use super::feed_forward::FeedForward;
use super::pass::{Pass, Tape};
use crate::attention::{AttentionShape, KeyValue, SelfAttention};
use crate::layers::{LayerNorm, Linear};
use crate::params::Params;

/// Objects a picture can have: unused places hold a learned token, and all are attended to.
pub const MOST_OBJECTS: usize = 30;

/// Frequencies at which the corners of a box are told.
const FREQUENCIES: usize = 8;

/// A corner's channels: sine and cosine of two corners' coordinates at each frequency.
const BOX_CHANNELS: usize = FREQUENCIES * 2 * 4;

/// Channels between the layers that join phrase and box.
const HIDDEN: usize = 512;

/// What the pictures of a batch should have where. A place without an object has the mask 0, whatever else it has.
#[derive(Debug, Clone)]
pub struct Objects {
    /// The text encoder's pooled phrase, `[B, MOST_OBJECTS, D]`, f32.
    pub phrases: Tensor<3>,
    /// x0, y0, x1, y1 as shares of the picture's width and height, `[B, MOST_OBJECTS, 4]`, f32.
    pub boxes: Tensor<3>,
    /// 1 for an object, 0 for none, `[B, MOST_OBJECTS, 1]`, f32.
    pub mask: Tensor<3>,
}

impl Objects {
    /// Of one picture: phrases `[D]` with their boxes, at most [`MOST_OBJECTS`]; those beyond are left out.
    /// `width` is D.
    pub fn new(objects: &[(Tensor<1>, [f64; 4])], width: usize, device: &Device) -> Self {
        let objects = &objects[..objects.len().min(MOST_OBJECTS)];
        let empty = MOST_OBJECTS - objects.len();
        let mut phrases: Vec<Tensor<2>> = objects
            .iter()
            .map(|(phrase, _)| phrase.clone().unsqueeze())
            .collect();
        if empty > 0 {
            phrases.push(Tensor::zeros([empty, width], (device, DType::F32)));
        }
        let mut boxes = vec![0f32; 4 * MOST_OBJECTS];
        let corners = objects.iter().flat_map(|(_, corners)| corners);
        for (to, from) in boxes.iter_mut().zip(corners) {
            *to = *from as f32;
        }
        let mut mask = vec![0f32; MOST_OBJECTS];
        mask[..objects.len()].fill(1.0);
        let boxes = TensorData::new(boxes, [1, MOST_OBJECTS, 4]);
        let mask = TensorData::new(mask, [1, MOST_OBJECTS, 1]);
        Self {
            phrases: Tensor::cat(phrases, 0).unsqueeze(),
            boxes: Tensor::from_data(boxes, (device, DType::F32)),
            mask: Tensor::from_data(mask, (device, DType::F32)),
        }
    }

    /// Several pictures' as those of one batch.
    ///
    /// # Panics
    /// If there are none.
    pub fn cat(parts: Vec<Self>) -> Self {
        let join = |of: fn(&Self) -> &Tensor<3>| {
            Tensor::cat(parts.iter().map(|part| of(part).clone()).collect(), 0)
        };
        Self {
            phrases: join(|part| &part.phrases),
            boxes: join(|part| &part.boxes),
            mask: join(|part| &part.mask),
        }
    }

    /// Empty places in as large a batch, for pictures without a prompt.
    pub fn none(&self) -> Self {
        Self {
            mask: self.mask.zeros_like(),
            ..self.clone()
        }
    }

    /// These pictures of the batch.
    pub(crate) fn narrow(&self, rows: &Range<usize>) -> Self {
        let narrow = |x: &Tensor<3>| x.clone().narrow(0, rows.start, rows.len());
        Self {
            phrases: narrow(&self.phrases),
            boxes: narrow(&self.boxes),
            mask: narrow(&self.mask),
        }
    }

    /// The rows `keep` of the batch.
    pub fn select(&self, keep: &Tensor<1, Int>) -> Self {
        let select = |x: &Tensor<3>| x.clone().select(0, keep.clone());
        Self {
            phrases: select(&self.phrases),
            boxes: select(&self.boxes),
            mask: select(&self.mask),
        }
    }
}

/// Phrase and box of each object as one token: diffusers' `GLIGENTextBoundingboxProjection`.
#[derive(Module, Debug)]
pub(crate) struct PositionNet {
    linears: Vec<Linear>,
    null_positive_feature: Param<Tensor<1>>,
    null_position_feature: Param<Tensor<1>>,
}

impl PositionNet {
    /// `width` is that of phrases and of tokens. Its numbers stay f32: in f16 the higher frequencies would be noise.
    pub fn load(params: Params, width: usize) -> Self {
        let mut params = params.f32();
        let sizes = [
            (0, width + BOX_CHANNELS, HIDDEN),
            (2, HIDDEN, HIDDEN),
            (4, HIDDEN, width),
        ];
        Self {
            linears: sizes
                .into_iter()
                .map(|(i, input, output)| {
                    Linear::load(params.pp(format!("linears.{i}")), input, output, true)
                })
                .collect(),
            null_positive_feature: params.tensor("null_positive_feature", [width]),
            null_position_feature: params.tensor("null_position_feature", [BOX_CHANNELS]),
        }
    }

    /// Tokens `[B, MOST_OBJECTS, D]`, f32.
    pub fn forward(&self, objects: &Objects) -> Tensor<3> {
        let Objects {
            phrases,
            boxes,
            mask,
        } = objects;
        let null = |feature: &Param<Tensor<1>>| {
            let feature: Tensor<3> = feature.val().unsqueeze();
            feature * (mask.clone() * -1.0 + 1.0)
        };
        let phrases = phrases.clone() * mask.clone() + null(&self.null_positive_feature);
        let boxes = fourier(boxes.clone()) * mask.clone() + null(&self.null_position_feature);
        let mut x = Tensor::cat(vec![phrases, boxes], 2);
        for (i, linear) in self.linears.iter().enumerate() {
            x = linear.forward(if i > 0 { kernels::silu(x) } else { x });
        }
        x
    }
}

/// Coordinates `[B, N, 4]` as `[frequency][sine, cosine][coordinate]`, `[B, N, 64]`. The angle is 100^(k/8) times the
/// coordinate, without π.
fn fourier(boxes: Tensor<3>) -> Tensor<3> {
    let frequencies = (0..FREQUENCIES).map(|k| 100f64.powf(k as f64 / FREQUENCIES as f64));
    let waves = frequencies.flat_map(|frequency| {
        let angle = boxes.clone() * frequency;
        [angle.clone().sin(), angle.cos()]
    });
    Tensor::cat(waves.collect(), 2)
}

/// diffusers' `GatedSelfAttentionDense`, which a checkpoint calls a fuser.
#[derive(Module, Debug)]
pub(crate) struct Fuser {
    linear: Linear,
    norm1: LayerNorm,
    attn: SelfAttention,
    norm2: LayerNorm,
    ff: FeedForward,
}

impl Fuser {
    /// `width` is that of the objects' tokens.
    pub fn load(mut params: Params, shape: &AttentionShape, width: usize) -> Self {
        const EPS: f64 = 1e-5;
        let channels = shape.channels;
        let gates = ["alpha_attn", "alpha_dense"].map(|name| params.gate(name));
        Self {
            linear: Linear::load(params.pp("linear"), width, channels, true),
            norm1: LayerNorm::load(params.pp("norm1"), channels, EPS),
            attn: SelfAttention::load_gated(params.pp("attn"), shape, &gates[0]),
            norm2: LayerNorm::load(params.pp("norm2"), channels, EPS),
            ff: FeedForward::load_gated(params.pp("ff"), channels, &gates[1]),
        }
    }

    /// Keys and values `[B, heads, MOST_OBJECTS, D]` of the objects' tokens `[B, MOST_OBJECTS, width]`.
    pub fn keys_values(&self, tokens: Tensor<3>) -> KeyValue {
        let tokens = tokens.cast(self.linear.dtype());
        let tokens = self.norm1.forward(self.linear.forward(tokens));
        let [_, key, value] = self.attn.project(tokens);
        KeyValue { key, value }
    }

    /// Tokens `[B, N, C]` to the same; they attend to each other and to the objects.
    pub fn forward(&self, x: Tensor<3>, objects: &KeyValue, pass: &mut Pass) -> Tensor<3> {
        pass.keep(&x);
        let [query, key, value] = self.attn.project(self.norm1.forward(x.clone()));
        let key = Tensor::cat(vec![key, objects.key.clone()], 2);
        let value = Tensor::cat(vec![value, objects.value.clone()], 2);
        pass.keep(&query);
        pass.keep(&key);
        pass.keep(&value);
        let y = kernels::attention(query, key, value);
        pass.keep(&y);
        let x = self.attn.finish(y, x);

        pass.keep(&x);
        let gate = self.ff.open(self.norm2.forward(x.clone()));
        pass.keep(&gate);
        self.ff.close(gate, x)
    }

    /// The gradient to the input of [`Self::forward`] from that of its result.
    pub fn input_grad(&self, grad: Tensor<3>, kept: Kept) -> Tensor<3> {
        let inner = self.ff.input_grad(grad.clone(), kept.gate);
        let grad = self.norm2.input_grad(inner, kept.middle) + grad;

        let rows = kept.x.dims()[1];
        let inner = self.attn.finish_input_grad(grad.clone());
        let (query, key, value) =
            kernels::attention_input_grads(inner, kept.query, kept.key, kept.value, kept.y);
        // Nothing goes on into the objects.
        let [key, value] = [key, value].map(|grad| grad.narrow(2, 0, rows));
        let inner = self.attn.project_input_grad([query, key, value]);
        self.norm1.input_grad(inner, kept.x) + grad
    }
}

/// What [`Fuser::forward`] keeps for its gradient.
pub(crate) struct Kept {
    x: Tensor<3>,
    query: Tensor<4>,
    key: Tensor<4>,
    value: Tensor<4>,
    y: Tensor<4>,
    middle: Tensor<3>,
    gate: Tensor<3>,
}

impl Kept {
    /// In the order in which it was kept.
    pub fn read(tape: &mut Tape) -> Self {
        Self {
            x: tape.read(),
            query: tape.read(),
            key: tape.read(),
            value: tape.read(),
            y: tape.read(),
            middle: tape.read(),
            gate: tape.read(),
        }
    }
}
