//! What goes along with a forward pass through the steps.

use std::any::Any;
use std::collections::VecDeque;

use burn::prelude::*;
use prepose_kernels as kernels;

use super::merging::Merging;
use super::reuse::Cross;
use crate::attention::{AttentionProbe, ContextAttention, KeyValue, LayerInfo, Place};
use crate::ip_adapter::PictureLayer;
use crate::resnet::TimeShift;

/// What is known of a cross-attention layer when the network is built.
#[derive(Debug, Clone)]
pub(crate) struct CrossLayer {
    pub name: String,
    pub place: Place,
    /// The resolution, counted from 0 for that of the sample; each halves the one before.
    pub level: usize,
    pub heads: usize,
}

/// The state of one forward pass.
pub(crate) struct Pass<'a> {
    /// For every residual block, in the order of execution.
    pub time: &'a [TimeShift],
    /// The keys and values of every cross-attention layer, in the order of execution.
    pub context: &'a [KeyValue],
    /// Those of the objects that GLIGEN's layers know of, if there are any; as many.
    pub objects: Option<&'a [KeyValue]>,
    /// What the cross-attention layers are told of pictures, if there are any; as many.
    pub pictures: Option<&'a [Vec<PictureLayer>]>,
    pub layers: &'a [LayerInfo<'a>],
    /// Whether the probe wants their probabilities.
    pub wanted: &'a [bool],
    pub probe: &'a mut dyn AttentionProbe,
    /// Feature maps that a later step adds or appends.
    pub branches: Vec<Tensor<4>>,
    /// Where steps keep what their gradient needs, if one is asked for.
    pub tape: Option<Tape>,
    /// The cross-attention layer that the pass ends in, if it shall not run to the output.
    pub end: Option<usize>,
    /// The share of tokens that self-attention merges in the largest feature maps that attend.
    pub merging: Option<f64>,
    /// Whether cross-attention is computed.
    pub cross: Cross<'a>,
}

impl Pass<'_> {
    /// Keeps a tensor or a shape on the tape, if there is one.
    pub fn keep<T: Any + Send + Clone>(&mut self, x: &T) {
        if let Some(tape) = &mut self.tape {
            tape.0.push_back(Box::new(x.clone()));
        }
    }

    /// How the tokens `x` `[B, height · width, C]` are merged for self-attention, if they are.
    pub fn merging(&self, x: &Tensor<3>, size: [usize; 2]) -> Option<Merging> {
        let ratio = self.merging?;
        let largest = self
            .layers
            .iter()
            .map(|layer| layer.height * layer.width)
            .max();
        (largest == Some(size[0] * size[1]))
            .then(|| Merging::of(x, size, ratio))
            .flatten()
    }

    /// What an earlier call has for the cross-attention layer.
    pub fn taken(&self, layer: usize) -> Option<Tensor<3>> {
        match &self.cross {
            Cross::Take(kept) => Some(kept[layer].clone()),
            Cross::Compute | Cross::Keep(_) => None,
        }
    }

    /// Shows the probe where `queries` attend, for a layer whose result is taken from elsewhere.
    pub fn observe(&mut self, layer: usize, queries: Tensor<4>) {
        let KeyValue { key, value } = self.context[layer].clone();
        let (_, probabilities) = kernels::attention_with_probs(queries, key, value);
        self.probe.record(&self.layers[layer], probabilities);
    }

    /// `queries` `[B, heads, height · width, D]` attend to the text and to pictures; the result is added `onto` the residual
    /// `[B, height · width, C]`. `None` if the pass ends here.
    pub fn cross_attention(
        &mut self,
        layer: usize,
        attention: &ContextAttention,
        queries: Tensor<4>,
        onto: Tensor<3>,
    ) -> Option<Tensor<3>> {
        let ends = self.end == Some(layer);
        let KeyValue { key, value } = self.context[layer].clone();
        let pictures = self.pictures.map_or(&[][..], |pictures| &pictures[layer]);
        let seen = (!pictures.is_empty() && !ends).then(|| queries.clone());
        let y = if self.wanted[layer] {
            let (y, probabilities) = kernels::attention_with_probs(queries, key, value);
            self.probe.record(&self.layers[layer], probabilities);
            y
        } else if ends {
            return None;
        } else {
            kernels::attention(queries, key, value)
        };
        if ends {
            return None;
        }
        let y = match seen {
            Some(queries) => {
                (pictures.iter()).fold(y, |y, picture| y + picture.attend(queries.clone()))
            }
            None => y,
        };
        Some(match &mut self.cross {
            Cross::Keep(kept) => {
                let nothing = Tensor::zeros(onto.dims(), (&onto.device(), onto.dtype()));
                let found = attention.finish(y, nothing);
                kept.push(found.clone());
                onto + found
            }
            Cross::Compute | Cross::Take(_) => attention.finish(y, onto),
        })
    }
}

/// Something on a tape.
trait Kept: Any + Send {
    fn copied(&self) -> Box<dyn Kept>;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<T: Any + Send + Clone> Kept for T {
    fn copied(&self) -> Box<dyn Kept> {
        Box::new(self.clone())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// What a step leaves for its gradient, read in the order in which it was kept.
#[derive(Default)]
pub(crate) struct Tape(VecDeque<Box<dyn Kept>>);

impl Clone for Tape {
    fn clone(&self) -> Self {
        Self(self.0.iter().map(|kept| (**kept).copied()).collect())
    }
}

impl Tape {
    /// Drops all but the first, which is a block's input.
    pub fn keep_input_only(&mut self) {
        self.0.truncate(1);
    }

    /// The next of what was kept, which is there and of this type.
    pub fn read<T: Any>(&mut self) -> T {
        let kept = self.0.pop_front();
        let kept = kept.and_then(|kept| kept.into_any().downcast().ok());
        *kept.expect("a gradient reads what its step keeps, in the same order")
    }
}
