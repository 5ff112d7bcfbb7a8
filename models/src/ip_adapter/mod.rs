//! IP-Adapter (Ye et al. 2023): a picture as a prompt. Each cross-attention layer of a UNet gets a second attention, to
//! tokens of a picture; both have the same queries, and their results add up.
//!
//! The networks are those of the published files: the plain one, the full-face one, and "plus" with its resampler.

mod config;
mod projector;
mod region;

use burn::prelude::*;
use burn::tensor::{DType, TensorData};
use prepose_kernels as kernels;

pub use config::{AdapterKind, AdapterLayer, IpAdapterConfig, ResamplerConfig};
pub use region::RegionMask;

use crate::attention::KeyValue;
use crate::config::ConfigError;
use crate::layers::Linear;
use crate::params::Params;
use projector::Projector;

/// An adapter of one UNet.
#[derive(Module, Debug)]
pub struct IpAdapter {
    projector: Projector,
    layers: Vec<PictureProjection>,
    #[module(skip)]
    config: IpAdapterConfig,
}

/// Keys and values of one cross-attention layer for a picture's tokens.
#[derive(Module, Debug)]
struct PictureProjection {
    to_k: Linear,
    to_v: Linear,
}

/// What one row of a batch is told of one picture, or of several in one softmax.
#[derive(Debug, Clone)]
pub struct PictureRow {
    /// The picture's tokens `[1, T, D]`, f32, from [`IpAdapter::tokens`]; those of several pictures one after the other.
    pub tokens: Tensor<3>,
    /// What its attention is multiplied with in each cross-attention layer, in the order of execution.
    pub scales: Vec<f32>,
    /// Where it acts; everywhere without one.
    pub region: Option<RegionMask>,
}

/// The keys and values of a picture for the rows of a batch, in every cross-attention layer: one softmax each. Made by
/// [`IpAdapter::attention`], used by [`UNet::show`](crate::unet::UNet::show).
#[derive(Debug, Clone)]
pub struct PictureAttention {
    /// In the order of execution; none where no row has a scale but 0.
    layers: Vec<Option<PictureLayer>>,
}

/// One layer's part of a [`PictureAttention`].
#[derive(Debug, Clone)]
pub(crate) struct PictureLayer {
    /// Keys, and values times the scale.
    pub context: KeyValue,
    /// How much of the result counts, `[B, 1, N, 1]`; all of it without one.
    pub mask: Option<Tensor<4>>,
}

impl PictureLayer {
    /// What `queries` `[B, heads, N, D]` find in the picture.
    pub fn attend(&self, queries: Tensor<4>) -> Tensor<4> {
        let KeyValue { key, value } = self.context.clone();
        self.masked(kernels::attention(queries, key, value))
    }

    /// The gradient to the queries from that of [`Self::attend`]'s result.
    pub fn query_grad(&self, grad: Tensor<4>, queries: Tensor<4>) -> Tensor<4> {
        let KeyValue { key, value } = self.context.clone();
        kernels::attention_query_grad(Some(self.masked(grad)), None, queries, key, value)
    }

    fn masked(&self, y: Tensor<4>) -> Tensor<4> {
        match &self.mask {
            Some(mask) => y * mask.clone(),
            None => y,
        }
    }

    /// The same of other tensors.
    pub fn map(&self, change: impl Fn(&Tensor<4>) -> Tensor<4>) -> Self {
        Self {
            context: KeyValue {
                key: change(&self.context.key),
                value: change(&self.context.value),
            },
            mask: self.mask.as_ref().map(change),
        }
    }
}

impl PictureAttention {
    /// The layers, in the order of execution.
    pub(crate) fn layers(&self) -> &[Option<PictureLayer>] {
        &self.layers
    }

    /// The rows `keep` of the batch.
    pub fn select(&self, keep: &Tensor<1, Int>) -> Self {
        let select = |x: &Tensor<4>| x.clone().select(0, keep.clone());
        let layers = self.layers.iter();
        Self {
            layers: layers
                .map(|layer| layer.as_ref().map(|layer| layer.map(select)))
                .collect(),
        }
    }

    /// The rows of several batches as those of one. All are of the same adapter, scales and number of tokens.
    ///
    /// # Panics
    /// If there are none.
    pub fn cat(parts: &[Self]) -> Self {
        let layer = |number: usize| {
            let layers: Option<Vec<_>> = parts
                .iter()
                .map(|part| part.layers[number].as_ref())
                .collect();
            layers.map(|layers| {
                let join = |of: fn(&PictureLayer) -> Option<&Tensor<4>>| {
                    let tensors: Option<Vec<_>> =
                        layers.iter().map(|layer| of(layer).cloned()).collect();
                    tensors.map(|tensors| Tensor::cat(tensors, 0))
                };
                let [key, value] = [
                    join(|layer| Some(&layer.context.key)),
                    join(|layer| Some(&layer.context.value)),
                ];
                PictureLayer {
                    context: KeyValue {
                        key: key.expect("a key in each layer"),
                        value: value.expect("a value in each layer"),
                    },
                    mask: join(|layer| layer.mask.as_ref()),
                }
            })
        };
        Self {
            layers: (0..parts[0].layers.len()).map(layer).collect(),
        }
    }
}

impl IpAdapter {
    /// Builds the adapter. Its keys start with `image_proj.` and `ip_adapter.`.
    ///
    /// # Errors
    /// [`ConfigError`] for sizes that make no sense. Problems with parameters are the source's to report.
    pub fn load(config: &IpAdapterConfig, mut params: Params) -> Result<Self, ConfigError> {
        config.check()?;
        let projector = Projector::load(params.pp("image_proj"), config);
        let mut layers = params.pp("ip_adapter");
        let width = config.context_dim;
        let layers = config.layers.iter().map(|layer| {
            let mut params = layers.pp(layer.number);
            let mut load = |name| Linear::load(params.pp(name), width, layer.channels, false);
            PictureProjection {
                to_k: load("to_k_ip"),
                to_v: load("to_v_ip"),
            }
        });
        Ok(Self {
            projector,
            layers: layers.collect(),
            config: config.clone(),
        })
    }

    /// The configuration that the adapter was built from.
    pub fn config(&self) -> &IpAdapterConfig {
        &self.config
    }

    /// The tokens `[B, T, D]`, f32, of pictures, from what the encoder made of them, `[B, rows, E]`: of a plain adapter
    /// its projected embedding as one row, of the others the hidden states before its last layer. Zeros as the embedding
    /// stand for no picture; for the others, what the encoder makes of zeros.
    ///
    /// # Panics
    /// If `features` has another width than the adapter's encoder.
    pub fn tokens(&self, features: Tensor<3>) -> Tensor<3> {
        let width = features.dims()[2];
        assert_eq!(width, self.config.picture_dim, "features of a picture");
        self.projector.forward(features).cast(DType::F32)
    }

    /// What every cross-attention layer is told of `rows`, one for each row of the batch, whose latents have the size
    /// `latents` (height and width).
    ///
    /// # Panics
    /// If there are no rows, or they differ in the number of tokens, or have another number of scales than there are
    /// layers.
    pub fn attention(&self, rows: &[PictureRow], latents: [usize; 2]) -> PictureAttention {
        let tokens = Tensor::cat(rows.iter().map(|row| row.tokens.clone()).collect(), 0);
        let layers = self.config.layers.iter().enumerate();
        let layers = layers.map(|(number, layer)| {
            let scales: Vec<f32> = rows.iter().map(|row| row.scales[number]).collect();
            if scales.iter().all(|scale| *scale == 0.0) {
                return None;
            }
            let KeyValue { key, mut value } = self.context(number, &tokens);
            if scales.iter().any(|scale| *scale != 1.0) {
                let scales = TensorData::new(scales, [rows.len(), 1, 1, 1]);
                value = value.clone() * like(scales, &value);
            }
            let mask = region::masks(rows, layer.positions(latents));
            let mask = mask.map(|mask| like(mask, &value));
            Some(PictureLayer {
                context: KeyValue { key, value },
                mask,
            })
        });
        PictureAttention {
            layers: layers.collect(),
        }
    }

    /// As [`Self::attention`], of one picture for each row, whose tokens are `[B, T, D]`: in all layers and everywhere, with
    /// the scale 1.
    pub(crate) fn attention_everywhere(&self, tokens: Tensor<3>) -> PictureAttention {
        let tokens = kernels::apart(tokens, self.layers.len());
        let layer = |(number, tokens): (usize, Tensor<3>)| {
            Some(PictureLayer {
                context: self.context(number, &tokens),
                mask: None,
            })
        };
        PictureAttention {
            layers: tokens.into_iter().enumerate().map(layer).collect(),
        }
    }

    /// Keys and values `[B, heads, T, channels]` of `tokens` `[B, T, D]` in one layer.
    fn context(&self, number: usize, tokens: &Tensor<3>) -> KeyValue {
        let (projection, layer) = (&self.layers[number], self.config.layers[number]);
        let tokens = tokens.clone().cast(projection.to_k.dtype());
        let heads = |x: Tensor<3>| {
            let x = kernels::split_heads(x, layer.channels / layer.heads, 0..layer.heads);
            if layer.upcast { x.cast(DType::F32) } else { x }
        };
        KeyValue {
            key: heads(projection.to_k.forward(tokens.clone())),
            value: heads(projection.to_v.forward(tokens)),
        }
    }
}

/// Numbers on the device and in the type of `other`.
fn like(data: TensorData, other: &Tensor<4>) -> Tensor<4> {
    let numbers: Tensor<4> = Tensor::from_data(data, (&other.device(), DType::F32));
    numbers.cast(other.dtype())
}
