//! A batch through a network under training, and back.

use burn::prelude::*;
use burn::tensor::Gradients;
use prepose_kernels::{self as kernels, Cotangent};

use super::TrainableUNet;
use crate::unet::{AddedConditioning, Known, Memory, Objects, Pieces, PreparedConditioning, UNet};

/// What a network is told of a batch.
#[derive(Debug, Clone)]
pub struct Batch<'a> {
    /// Noisy latents `[B, Cin, H, W]`, f32.
    pub sample: Tensor<4>,
    /// One for all samples, or one for each.
    pub timesteps: &'a [f64],
    /// The encoded captions `[B, N, C]`.
    pub context: Tensor<3>,
    /// Exactly if the configuration has an `addition_embed_type`.
    pub added: Option<&'a AddedConditioning>,
    /// What GLIGEN's layers are told of each sample; without, they do not act.
    pub objects: Option<&'a Objects>,
    /// Exactly if an IP-Adapter is trained: of a picture for each sample what an encoder made of it, `[B, rows, E]`, as
    /// [`IpAdapter::tokens`](crate::ip_adapter::IpAdapter::tokens) takes it. The adapter acts in all layers, with the scale 1.
    pub shown: Option<Tensor<3>>,
}

impl<'a> Batch<'a> {
    /// One of samples and captions alone.
    pub fn new(sample: Tensor<4>, timesteps: &'a [f64], context: Tensor<3>) -> Self {
        Self {
            sample,
            timesteps,
            context,
            added: None,
            objects: None,
            shown: None,
        }
    }
}

/// A batch that went through a network and can be followed back; made by [`TrainableUNet::pass`].
pub struct TrainingPass<'a> {
    network: &'a TrainableUNet,
    batch: Batch<'a>,
    /// What is trained, on a tape of this pass's own, so that others may go on beside it.
    leaves: Vec<Tensor<1>>,
    prediction: Tensor<4>,
    kept: Kept,
}

/// What a pass has for its gradient.
enum Kept {
    /// The prediction on its tape.
    Tape(Box<Tensor<4>>),
    /// What came into each block.
    Pieces(Box<Pieces>),
}

impl TrainableUNet {
    /// Predicts the noise (or velocity) in a batch. `memory` decides what is kept for the gradient, and does not change it.
    ///
    /// # Panics
    /// If shapes do not fit together, or what the network needs to be told is missing.
    pub fn pass<'a>(&'a self, batch: Batch<'a>, memory: Memory) -> TrainingPass<'a> {
        let leaves = self.leaves();
        let (prediction, kept) = match memory {
            Memory::Keep => {
                let unet = self.build(&leaves);
                let prepared = self.prepare(&unet, &leaves, &batch);
                let (sample, timesteps) = (batch.sample.clone(), batch.timesteps);
                let on_tape = unet.forward_prepared(sample, timesteps, &prepared);
                (
                    on_tape.clone().without_autodiff(),
                    Kept::Tape(Box::new(on_tape)),
                )
            }
            Memory::Recompute => {
                // Under autodiff, so that the operations are those of the tape, and not tracked.
                let values: Vec<_> = self.values().into_iter().map(Tensor::autodiff).collect();
                let unet = self.build(&values);
                let known = self.known(&unet, &values, &batch);
                let (prediction, pieces) = unet.forward_in_pieces(batch.sample.clone(), known);
                (prediction, Kept::Pieces(Box::new(pieces)))
            }
        };
        TrainingPass {
            network: self,
            batch,
            leaves,
            prediction,
            kept,
        }
    }

    /// What `unet`, built from `values`, makes of what it is told besides samples and timesteps.
    fn prepare(&self, unet: &UNet, values: &[Tensor<1>], batch: &Batch) -> PreparedConditioning {
        let prepared = unet.prepare(batch.context.clone(), batch.added);
        let prepared = match batch.objects {
            Some(objects) => unet.ground(prepared, objects),
            None => prepared,
        };
        match (self.build_adapter(values), &batch.shown) {
            (Some(adapter), Some(shown)) => {
                let tokens = adapter.tokens(shown.clone());
                unet.show(prepared, &[adapter.attention_everywhere(tokens)])
            }
            (None, None) => prepared,
            _ => panic!("a picture is shown exactly if an adapter is trained"),
        }
    }

    fn known(&self, unet: &UNet, values: &[Tensor<1>], batch: &Batch) -> Known {
        let prepared = self.prepare(unet, values, batch);
        Known::new(unet, prepared, batch.timesteps, &batch.sample)
    }
}

impl TrainingPass<'_> {
    /// The prediction `[B, Cout, H, W]`, f32, without autodiff.
    pub fn prediction(&self) -> &Tensor<4> {
        &self.prediction
    }

    /// The gradients to what is trained, in the order of [`TrainableUNet::parameters`], from that to the prediction
    /// `[B, Cout, H, W]`, f32: all without autodiff. Zeros for what the prediction does not depend on.
    ///
    /// # Panics
    /// If the gradient has another shape than the prediction.
    pub fn gradients(self, cotangent: Tensor<4>) -> Vec<Tensor<1>> {
        let leaves = &self.leaves;
        let mut sums = Sums(vec![None; leaves.len()]);
        match self.kept {
            Kept::Tape(prediction) => {
                let from = Cotangent::new(*prediction, cotangent);
                if let Some(mut tape) = kernels::backward(from.into_iter().collect()) {
                    sums.add(leaves, &mut tape);
                }
            }
            Kept::Pieces(pieces) => {
                let unet = self.network.build(leaves);
                let of_known =
                    unet.backward_in_pieces(*pieces, cotangent, &mut |tape| sums.add(leaves, tape));
                drop(unet);
                // Anew: of the tape of that one, parts are used up.
                let unet = self.network.build(leaves);
                let known = self.network.known(&unet, leaves, &self.batch);
                if let Some(mut tape) = known.backward(of_known) {
                    sums.add(leaves, &mut tape);
                }
            }
        }
        let sums = sums.0.into_iter().zip(leaves);
        let or_zeros = |(sum, leaf): (Option<Tensor<1>>, &Tensor<1>)| {
            sum.unwrap_or_else(|| leaf.clone().without_autodiff().zeros_like())
        };
        sums.map(or_zeros).collect()
    }
}

/// Gradients to leaves from several tapes.
struct Sums(Vec<Option<Tensor<1>>>);

impl Sums {
    fn add(&mut self, leaves: &[Tensor<1>], tape: &mut Gradients) {
        for (sum, leaf) in self.0.iter_mut().zip(leaves) {
            *sum = match (sum.take(), leaf.grad_remove(tape)) {
                (Some(sum), Some(gradient)) => Some(sum + gradient),
                (sum, gradient) => sum.or(gradient),
            };
        }
    }
}
