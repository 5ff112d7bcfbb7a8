//! From pictures to tokens.

use burn::prelude::*;

use crate::layers::Linear;
use crate::params::Params;

/// A convolution whose stride is the side of its kernel, so that it sees each pixel once: a linear layer on patches.
#[derive(Module, Debug)]
pub(crate) struct Patches {
    projection: Linear,
    side: usize,
}

impl Patches {
    /// For patches of `side` × `side` pixels of three channels.
    pub fn load(params: Params, channels: usize, side: usize, bias: bool) -> Self {
        Self {
            projection: Linear::load_patches(params, [3, channels], side, bias),
            side,
        }
    }

    /// Pictures `[B, 3, H, W]` to tokens `[B, H/side · W/side, C]`, row by row. What is left over at the lower and right
    /// borders is not looked at.
    pub fn forward(&self, pictures: Tensor<4>) -> Tensor<3> {
        let [batch, channels, height, width] = pictures.dims();
        let side = self.side;
        let (rows, columns) = (height / side, width / side);
        let whole = pictures
            .narrow(2, 0, rows * side)
            .narrow(3, 0, columns * side);
        let patches: Tensor<6> = whole
            .reshape([batch, channels, rows, side, columns, side])
            .permute([0, 2, 4, 1, 3, 5]);
        let patches = patches.reshape([batch, rows * columns, channels * side * side]);
        self.projection
            .forward(patches.cast(self.projection.dtype()))
    }
}
