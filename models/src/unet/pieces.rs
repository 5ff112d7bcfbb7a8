//! A pass for training that keeps what comes into each block alone, and runs the block a second time, now on a tape, when its
//! gradient is due (Chen et al. 2016).
//!
//! Burn's own strategy cannot do it: it computes elementwise operations of Burn's again where that is cheap, and an operation
//! of our own is one node to it, which keeps its operands.
//!
//! Gradients are those of one tape over the whole network, to the bit. The first run has the operations of the second, on
//! tensors of the same kind that are not tracked. Where three gradients or more come together they are added in the order of
//! the whole tape: those of branches, which join later, before those of the block ([`kernels::backward`]); and what
//! enters a piece lies as far from the leaves as it would, seen from the weights that it meets ([`entered`]).

use std::ops::Range;

use burn::prelude::*;
use burn::tensor::Gradients;
use prepose_kernels as kernels;
use prepose_kernels::Cotangent;

use super::forward::run;
use super::pass::Pass;
use super::reuse::Cross;
use super::steps::Step;
use super::{PreparedConditioning, UNet};
use crate::attention::{KeyValue, LayerInfo, NoProbe};
use crate::resnet::TimeShift;

/// More than the operations between a leaf and the weight that is made of it.
const DEPTH: usize = 16;

/// What blocks are told besides their input.
pub(crate) struct Known {
    conditioning: PreparedConditioning,
    time: Vec<TimeShift>,
}

/// The gradients to a [`Known`], where blocks were told of it.
#[derive(Default)]
pub(crate) struct KnownGradients {
    layers: Vec<[Option<Tensor<4>>; 2]>,
    time: Vec<Option<TimeShift>>,
}

/// What comes into a piece: its input, and the branches that join in it.
struct Border {
    x: Tensor<4>,
    branches: Vec<Tensor<4>>,
}

/// A pass whose gradient is to come.
pub(crate) struct Pieces {
    /// For its size.
    sample: Tensor<4>,
    known: Known,
    borders: Vec<Border>,
}

impl Known {
    pub fn new(
        unet: &UNet,
        conditioning: PreparedConditioning,
        timesteps: &[f64],
        sample: &Tensor<4>,
    ) -> Self {
        let timesteps = unet.embed_timesteps(timesteps, sample);
        Self {
            time: unet.time_shifts(timesteps, &conditioning),
            conditioning,
        }
    }

    fn leaves(&self) -> Self {
        let time = self.time.iter().map(|shift| match shift {
            TimeShift::Same(shift) => TimeShift::Same(leaf(shift)),
            TimeShift::Each(shift) => TimeShift::Each(leaf(shift)),
        });
        Self {
            time: time.collect(),
            conditioning: self.conditioning.map(leaf, Tensor::clone),
        }
    }

    /// Takes the gradients that a piece has left.
    fn take(&self, tape: &mut Gradients, into: &mut KnownGradients) {
        let KnownGradients { layers, time } = into;
        layers.resize_with(self.conditioning.layers().count(), Default::default);
        time.resize_with(self.time.len(), Default::default);
        for (KeyValue { key, value }, into) in self.conditioning.layers().zip(layers) {
            for (tensor, into) in [key, value].into_iter().zip(into) {
                *into = into.take().or_else(|| tensor.grad_remove(tape));
            }
        }
        for (shift, into) in self.time.iter().zip(time) {
            let found = match shift {
                TimeShift::Same(shift) => shift.grad_remove(tape).map(TimeShift::Same),
                TimeShift::Each(shift) => shift.grad_remove(tape).map(TimeShift::Each),
            };
            *into = into.take().or(found);
        }
    }

    /// Goes back to what this was made of; `None` if that is nothing that is trained.
    pub fn backward(&self, gradients: KnownGradients) -> Option<Gradients> {
        let mut from = Vec::new();
        let layers = self.conditioning.layers().zip(gradients.layers);
        for (KeyValue { key, value }, [of_key, of_value]) in layers {
            for (tensor, gradient) in [(key, of_key), (value, of_value)] {
                from.extend(gradient.and_then(|g| Cotangent::new(tensor.clone(), g)));
            }
        }
        for (shift, gradient) in self.time.iter().zip(gradients.time) {
            from.extend(match (shift, gradient) {
                (TimeShift::Same(x), Some(TimeShift::Same(g))) => Cotangent::new(x.clone(), g),
                (TimeShift::Each(x), Some(TimeShift::Each(g))) => Cotangent::new(x.clone(), g),
                _ => None,
            });
        }
        kernels::backward(from)
    }
}

/// A leaf with the numbers of a tensor that would be tracked; others as they are.
fn leaf<const D: usize>(x: &Tensor<D>) -> Tensor<D> {
    match x.is_autodiff() {
        true => x.clone().without_autodiff().autodiff().require_grad(),
        false => x.clone(),
    }
}

/// A leaf as deep in the tape as the inside of a network.
fn entered(leaf: &Tensor<4>) -> Tensor<4> {
    (0..DEPTH).fold(leaf.clone(), |x, _| kernels::alias(x))
}

/// Steps up to a block, and the block; of the last piece up to the output.
struct Piece<'a> {
    unet: &'a UNet,
    steps: &'a [Step<'a>],
    is_last: bool,
}

impl Piece<'_> {
    /// The state and the branches after it.
    fn run(
        &self,
        x: Tensor<4>,
        branches: Vec<Tensor<4>>,
        known: &Known,
        layers: &[LayerInfo],
    ) -> (Tensor<4>, Vec<Tensor<4>>) {
        let conditioning = &known.conditioning;
        let mut pass = Pass {
            time: &known.time,
            context: &conditioning.context,
            objects: conditioning.objects.as_deref(),
            pictures: conditioning.pictures.as_deref(),
            layers,
            wanted: &vec![false; layers.len()],
            probe: &mut NoProbe,
            branches,
            tape: None,
            end: None,
            merging: None,
            cross: Cross::Compute,
        };
        let y = match self.is_last {
            true => self.unet.run_on(self.steps, x, &mut pass),
            false => run(self.steps, x, &mut pass),
        };
        (y, pass.branches)
    }
}

/// The pieces of a list of steps, none of them empty: each ends with a block, the last with the list.
fn pieces(steps: &[Step]) -> Vec<Range<usize>> {
    let blocks = steps.iter().enumerate();
    let ends = blocks.filter_map(|(i, step)| step.recomputes().then_some(i + 1));
    let mut begin = 0;
    let mut pieces = Vec::new();
    for end in ends.chain([steps.len()]) {
        // SDXL's last step is a block.
        if begin < end {
            pieces.push(begin..end);
        }
        begin = end;
    }
    pieces
}

/// How many of the branches before `steps` they look at.
fn reach(steps: &[Step]) -> usize {
    let (mut own, mut taken, mut reach) = (0, 0, 0);
    for step in steps {
        match step {
            Step::Branch | Step::Enter(_) => own += 1,
            // It goes by the size of the branch that joins next.
            Step::Upsample(_) if own == 0 => reach = reach.max(taken + 1),
            Step::Leave(_) | Step::Concatenate if own == 0 => {
                taken += 1;
                reach = reach.max(taken);
            }
            Step::Leave(_) | Step::Concatenate => own -= 1,
            _ => {}
        }
    }
    reach
}

impl UNet {
    /// The output for `sample`, as [`forward_prepared`](Self::forward_prepared), without autodiff. What is trained of this
    /// network and of `known` is under autodiff, and not tracked.
    pub(crate) fn forward_in_pieces(&self, sample: Tensor<4>, known: Known) -> (Tensor<4>, Pieces) {
        let layers = self.layer_infos(&sample, &known.conditioning);
        let steps = self.steps();
        let mut x = self.input(sample.clone());
        let (mut below, mut borders) = (Vec::new(), Vec::new());
        for range in pieces(&steps) {
            let piece = Piece {
                unet: self,
                steps: &steps[range.clone()],
                is_last: range.end == steps.len(),
            };
            let branches = below.split_off(below.len() - reach(piece.steps));
            borders.push(Border {
                x: x.clone(),
                branches: branches.clone(),
            });
            let (y, branches) = piece.run(x, branches, &known, &layers);
            below.extend(branches);
            x = y;
        }
        let pieces = Pieces {
            sample,
            known,
            borders,
        };
        (x.without_autodiff(), pieces)
    }

    /// The gradients to what blocks were told, from that to the output. `leave` gets the tape of each piece, the last first,
    /// and takes from it the gradients to this network's leaves.
    pub(crate) fn backward_in_pieces(
        &self,
        forward: Pieces,
        cotangent: Tensor<4>,
        leave: &mut dyn FnMut(&mut Gradients),
    ) -> KnownGradients {
        let known = forward.known.leaves();
        let layers = self.layer_infos(&forward.sample, &known.conditioning);
        let steps = self.steps();
        let mut of_known = KnownGradients::default();
        let mut of_branches: Vec<Option<Tensor<4>>> = Vec::new();
        let mut of_x = Some(cotangent);
        for (range, border) in pieces(&steps).into_iter().zip(forward.borders).rev() {
            let piece = Piece {
                unet: self,
                steps: &steps[range.clone()],
                is_last: range.end == steps.len(),
            };
            let x = leaf(&border.x);
            let branches: Vec<_> = border.branches.iter().map(leaf).collect();
            drop(border);
            let inside = branches.iter().map(entered).collect();
            let (y, left) = piece.run(entered(&x), inside, &known, &layers);
            let of_left = of_branches.split_off(of_branches.len() - left.len());
            let from = std::iter::once((y, of_x)).chain(left.into_iter().zip(of_left));
            let from = from.filter_map(|(tensor, gradient)| Cotangent::new(tensor, gradient?));
            let Some(mut tape) = kernels::backward(from.collect()) else {
                // Nothing that is trained lies further back.
                break;
            };
            of_x = x.grad_remove(&mut tape);
            let gradients = branches.iter().map(|branch| branch.grad_remove(&mut tape));
            of_branches.extend(gradients);
            known.take(&mut tape, &mut of_known);
            leave(&mut tape);
        }
        of_known
    }
}
