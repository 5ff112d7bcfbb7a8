//! What hands out parameters, by their names.

use burn::prelude::*;
use burn::tensor::{DType, TensorData};

/// Something that hands out named parameters.
pub trait ParamSource {
    /// The parameter `name` (the full key, in diffusers' or transformers' naming) in PyTorch's
    /// layout, with exactly `shape` and any float type.
    ///
    /// A source never fails here: it records a missing or mis-shaped tensor and returns zeros of
    /// `shape`, so that all problems of a checkpoint can be reported together at the end.
    fn take(&mut self, name: &str, shape: &[usize]) -> TensorData;

    /// Whether the source has a parameter of this full name.
    fn contains(&self, name: &str) -> bool;
}

/// Something that hands out parameters that are tensors already, of which some are trained.
pub(crate) trait TensorSource {
    /// The elements of the parameter `name` in PyTorch's order and of type `dtype`; under autodiff if it is trained. The
    /// weight of a convolution may come in the order `[Out, k, k, In]` where the device wants that: the second result.
    fn take(&mut self, wanted: &Wanted, dtype: DType, filters: bool) -> (Tensor<1>, bool);

    /// Those of several one after the other.
    fn take_stacked(&mut self, wanted: &[Wanted], dtype: DType) -> Tensor<1>;

    /// Whether there is a parameter of this full name.
    fn contains(&self, name: &str) -> bool;

    /// The low-rank branch of the layer at `path`, if it has one.
    fn low_rank(&mut self, path: &str, dtype: DType) -> Option<Factors>;
}

/// The factors of a low-rank branch, which adds `up (down x)` to the result of a layer.
#[derive(Debug, Clone)]
pub(crate) struct Factors {
    /// `[r, In · k · k]`.
    pub down: Tensor<2>,
    /// `[Out, r]`, times the branch's scale.
    pub up: Tensor<2>,
}

/// A parameter by its full name, with the shape that a checkpoint has it in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// In diffusers' or transformers' naming.
    pub name: String,
    /// In PyTorch's layout.
    pub shape: Vec<usize>,
}

/// Where parameters come from, or where it is written down which are wanted.
pub(super) enum Origin<'a> {
    Source(&'a mut dyn ParamSource),
    Outline {
        wanted: &'a mut Vec<Wanted>,
        contains: &'a dyn Fn(&str) -> bool,
    },
    Tensors(&'a mut dyn TensorSource),
}
