//! What parameters are multiplied with when they are read.

use burn::prelude::*;

/// A number that parameters are multiplied with.
#[derive(Debug, Clone)]
pub(crate) enum Gate {
    /// It stays what it is when the network is loaded.
    Fixed(f32),
    /// One element, f32: it is trained, or was.
    Tensor(Box<Tensor<1>>),
}

impl Gate {
    /// What changes nothing.
    pub const OPEN: Self = Self::Fixed(1.0);

    /// `x` times it, in the type of `x`.
    pub(super) fn times(&self, x: Tensor<1>) -> Tensor<1> {
        match self {
            Self::Fixed(1.0) => x,
            Self::Fixed(factor) => x * *factor,
            Self::Tensor(factor) => {
                let dtype = x.dtype();
                x * (**factor).clone().cast(dtype)
            }
        }
    }
}
