//! The orders in memory that the kernels read, and how an operand comes into one.

use super::*;

/// How the rows of an operand lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Channel after channel, without gaps.
    Planes,
    /// Pixel after pixel, each with its channels next to each other, this many elements apart.
    Pixels(usize),
}

impl Order {
    /// Elements from one pixel to the next.
    pub(super) fn pitch(self) -> usize {
        match self {
            Order::Planes => 0,
            Order::Pixels(pitch) => pitch,
        }
    }
}

/// The operand in one of the orders that the kernels read, copied only if it has none of them.
pub(super) fn in_order(x: CubeTensor, options: &Options) -> (CubeTensor, Order) {
    if options.layer {
        return as_tokens(x);
    }
    if x.is_contiguous() {
        return (x, Order::Planes);
    }
    // Parts of pictures whose channels are neighbours stay in that order.
    if x.meta.strides()[1] == 1 || layout::pixel_pitch(&x).is_some() {
        return as_pixels(x);
    }
    (into_contiguous(x), Order::Planes)
}

/// A picture `[B, C, H, W]`, pixel after pixel.
pub(super) fn as_pixels(x: CubeTensor) -> (CubeTensor, Order) {
    let (x, pitch) = layout::channels_last(x);
    (x, Order::Pixels(pitch))
}

/// Tokens `[B, N, C]`, one after the other.
pub(super) fn as_tokens(x: CubeTensor) -> (CubeTensor, Order) {
    if let Some(pitch) = layout::pitch(x.meta.shape().as_slice(), x.meta.strides()) {
        return (x, Order::Pixels(pitch));
    }
    let x = into_contiguous(x);
    let channels = x.meta.shape().as_slice().last().copied();
    (x, Order::Pixels(channels.unwrap_or(1)))
}

/// An uninitialised result in the order of `x`, without gaps.
pub(super) fn empty_result(
    x: &CubeTensor,
    order: Order,
    options: &Options,
    dtype: DType,
) -> CubeTensor {
    let shape = x.meta.shape().clone();
    match order {
        Order::Pixels(_) if !options.layer => layout::empty_channels_last(x, shape, dtype),
        _ => empty(x, shape, dtype),
    }
}
