//! The feed-forward layer of a transformer block.

use burn::prelude::*;
use prepose_kernels as kernels;

use crate::layers::Linear;
use crate::params::{Gate, Params};

/// Four times as wide inside, gated with GELU.
#[derive(Module, Debug)]
pub(crate) struct FeedForward {
    proj: Linear,
    out: Linear,
}

impl FeedForward {
    pub fn load(params: Params, channels: usize) -> Self {
        Self::load_gated(params, channels, &Gate::OPEN)
    }

    /// One whose result is `gate` times what the checkpoint's would be.
    pub fn load_gated(mut params: Params, channels: usize, gate: &Gate) -> Self {
        let inner = 4 * channels;
        Self {
            proj: Linear::load(params.pp("net.0.proj"), channels, 2 * inner, true),
            out: Linear::load(params.pp("net.2").gated(gate), inner, channels, true),
        }
    }

    /// The input of the gate.
    pub fn open(&self, x: Tensor<3>) -> Tensor<3> {
        self.proj.forward(x)
    }

    /// From the input of the gate to the result, added `onto` the residual.
    pub fn close(&self, gate: Tensor<3>, onto: Tensor<3>) -> Tensor<3> {
        self.out.forward_onto(kernels::geglu(gate), onto)
    }

    pub fn input_grad(&self, grad: Tensor<3>, gate: Tensor<3>) -> Tensor<3> {
        let grad = kernels::geglu_input_grad(self.out.input_grad(grad), gate);
        self.proj.input_grad(grad)
    }
}
