//! The UNet as a list of steps, and the gradient of each to its input.
//!
//! The list says once what comes after what. A forward pass follows it, as far as it is asked to; a
//! gradient follows it backwards. Branches (skip connections and the residuals of transformers) are
//! a stack either way: going forward a feature map is pushed where it branches off and popped where
//! it joins again, going backward its gradient is pushed where it joined and popped where it
//! branched off. A branch that joined in no recorded step is not on the stack then and counts for
//! nothing.

use burn::prelude::*;
use prepose_kernels as kernels;

use super::pass::{Pass, Tape};
use super::transformer::{Known, Transformer2d, TransformerBlock};
use crate::attention::KeyValue;
use crate::ip_adapter::PictureLayer;
use crate::layers::Conv2d;
use crate::resnet::{Downsample, ResnetBlock, Upsample};

/// One step. The state that they hand on is `[B, C, H, W]`, inside of transformers `[B, H, W, C]`.
#[derive(Clone, Copy)]
pub(crate) enum Step<'a> {
    /// `conv_in`, from latent channels to those of the first resolution.
    Convolve(&'a Conv2d),
    /// A residual block with its number.
    Resnet(&'a ResnetBlock, usize),
    /// From feature maps, which branch off, to tokens.
    Enter(&'a Transformer2d),
    /// A transformer block with the number of its cross-attention layer.
    Attend(&'a TransformerBlock, usize),
    /// From tokens to feature maps, and the branch is added.
    Leave(&'a Transformer2d),
    Downsample(&'a Downsample),
    /// To the size of the branch that joins next.
    Upsample(&'a Upsample),
    Branch,
    /// The branch joins as further channels.
    Concatenate,
}

/// Steps in the order of execution.
#[derive(Default)]
pub(crate) struct Steps<'a> {
    list: Vec<Step<'a>>,
    resnets: usize,
    layers: usize,
}

impl<'a> Steps<'a> {
    pub fn push(&mut self, step: Step<'a>) {
        self.list.push(step);
    }

    pub fn resnet(&mut self, block: &'a ResnetBlock) {
        self.push(Step::Resnet(block, self.resnets));
        self.resnets += 1;
    }

    pub fn transformer(&mut self, transformer: &'a Transformer2d) {
        self.push(Step::Enter(transformer));
        for block in transformer.blocks() {
            self.push(Step::Attend(block, self.layers));
            self.layers += 1;
        }
        self.push(Step::Leave(transformer));
    }

    pub fn into_list(self) -> Vec<Step<'a>> {
        self.list
    }
}

/// The state of one gradient computation.
pub(crate) struct Gradient<'a> {
    /// The keys and values of every cross-attention layer, in the order of execution.
    pub context: &'a [KeyValue],
    /// Whether GLIGEN's layers ran.
    pub grounded: bool,
    /// What the same layers know of pictures.
    pub pictures: Option<&'a [Vec<PictureLayer>]>,
    /// The gradients to the probabilities of the same layers.
    pub probabilities: Vec<Option<Tensor<4>>>,
    /// The gradients to the branches.
    pub branches: Vec<Option<Tensor<4>>>,
}

impl Step<'_> {
    /// `None` if the pass ends in this step.
    pub fn forward(&self, x: Tensor<4>, pass: &mut Pass) -> Option<Tensor<4>> {
        Some(match self {
            Step::Convolve(conv) => {
                pass.keep(&x.dims());
                conv.forward(x)
            }
            Step::Resnet(block, number) if pass.tape.is_some() => {
                let h = resnet_half(block, *number, &x, pass);
                block.second_half(x, h)
            }
            Step::Resnet(block, number) => block.forward(x, Some(&pass.time[*number])),
            Step::Enter(transformer) => {
                pass.keep(&x);
                pass.branches.push(x.clone());
                transformer.enter(x)
            }
            Step::Attend(block, layer) => return block.forward(x, *layer, pass),
            Step::Leave(transformer) => {
                let branch = pass.branches.pop().expect("what entered leaves");
                transformer.leave(x, branch)
            }
            Step::Downsample(downsampler) => {
                pass.keep(&x.dims());
                downsampler.forward(x)
            }
            Step::Upsample(upsampler) => match pass.branches.last().map(Tensor::dims) {
                // An odd feature map was rounded up on the way down.
                Some([_, _, height, width]) => upsampler.forward_to(x, height, width),
                None => upsampler.forward(x),
            },
            Step::Branch => {
                pass.branches.push(x.clone());
                x
            }
            Step::Concatenate => {
                let branch = pass.branches.pop().expect("a branch for each that joins");
                pass.keep(&x.dims()[1]);
                kernels::cat_channels(x, branch)
            }
        })
    }

    /// The number of its cross-attention layer, if it has one.
    pub fn layer(&self) -> Option<usize> {
        match self {
            Step::Attend(_, layer) => Some(*layer),
            _ => None,
        }
    }

    /// Whether the step keeps its input first and the rest can be computed from that again.
    pub fn recomputes(&self) -> bool {
        matches!(self, Step::Resnet(..) | Step::Attend(..))
    }

    /// Fills the tape as [`Self::forward`] does, from the same input, and does nothing besides.
    pub fn keep_again(&self, x: Tensor<4>, pass: &mut Pass) {
        match self {
            Step::Resnet(block, number) => {
                resnet_half(block, *number, &x, pass);
            }
            Step::Attend(block, layer) => {
                block.open(x, *layer, pass);
            }
            _ => unreachable!("only blocks are recomputed"),
        }
    }

    /// The gradient to the step's input from that of its result, if there is one.
    pub fn input_grad(
        &self,
        grad: Option<Tensor<4>>,
        mut tape: Tape,
        state: &mut Gradient,
    ) -> Option<Tensor<4>> {
        match self {
            Step::Convolve(conv) => Some(conv.input_grad(grad?, tape.read())),
            Step::Resnet(block, _) => Some(block.input_grad(grad?, tape.read(), tape.read())),
            Step::Enter(transformer) => {
                let branch = state.branches.pop().flatten();
                let inner = grad.map(|grad| transformer.enter_input_grad(grad, tape.read()));
                sum(inner, branch)
            }
            Step::Attend(block, layer) => {
                let probabilities = state.probabilities[*layer].take();
                let known = Known {
                    text: &state.context[*layer],
                    pictures: (state.pictures).map_or(&[], |pictures| &pictures[*layer]),
                    grounded: state.grounded,
                };
                block.input_grad(grad, probabilities, known, tape)
            }
            Step::Leave(transformer) => {
                state.branches.push(grad.clone());
                Some(transformer.leave_input_grad(grad?))
            }
            Step::Downsample(downsampler) => Some(downsampler.input_grad(grad?, tape.read())),
            Step::Upsample(upsampler) => Some(upsampler.input_grad(grad?)),
            Step::Branch => sum(grad, state.branches.pop().flatten()),
            Step::Concatenate => {
                let channels: usize = tape.read();
                let parts = grad.map(|grad| {
                    let branch = grad.dims()[1] - channels;
                    (
                        kernels::narrow_channels(grad.clone(), 0, channels),
                        kernels::narrow_channels(grad, channels, branch),
                    )
                });
                let (x, branch) = parts.unzip();
                state.branches.push(branch);
                x
            }
        }
    }
}

fn resnet_half(block: &ResnetBlock, number: usize, x: &Tensor<4>, pass: &mut Pass) -> Tensor<4> {
    pass.keep(x);
    let h = block.first_half(x.clone(), Some(&pass.time[number]));
    pass.keep(&h);
    h
}

/// The sum of the gradients that there are.
fn sum(a: Option<Tensor<4>>, b: Option<Tensor<4>>) -> Option<Tensor<4>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}
