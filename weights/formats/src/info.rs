//! What is known of a tensor before its bytes are read.

use crate::MAX_AXES;
use crate::dtype::StoredType;

/// What a file says about one of its tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// The type of its elements.
    pub dtype: StoredType,
    /// Its extents, at most [`MAX_AXES`] of them; their product fits a `usize`.
    pub shape: Vec<usize>,
}

impl TensorInfo {
    /// How many elements it has.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// How many elements a tensor of this shape would have, if it is one that can be had. Extents of 0 do not hide
    /// others that are too large to be multiplied in another order.
    pub(crate) fn elements_of(shape: &[usize]) -> Option<usize> {
        if shape.len() > MAX_AXES {
            return None;
        }
        let product = |product: usize, extent: &usize| product.checked_mul((*extent).max(1));
        let elements = shape.iter().try_fold(1, product)?;
        Some(if shape.contains(&0) { 0 } else { elements })
    }
}

/// Which of several equal parts along a tensor's first axis: `index` of `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorPart {
    /// Counted from 0.
    pub index: usize,
    /// How many parts there are, at least 1.
    pub of: usize,
}

impl TensorPart {
    /// The whole tensor.
    pub const WHOLE: Self = Self { index: 0, of: 1 };
}
