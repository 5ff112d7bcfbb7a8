//! In which order the elements of pictures and of the weights of convolutions lie in memory.
//!
//! Convolutions on the CPU read pictures `[B, C, H, W]` channel after channel, as they are written down. Those on GPUs
//! read and write them pixel after pixel, and filters tap after tap, with the channels next to each other; they take
//! such a tensor as a view with its axes in the usual order, and copy any other one at every call. What is here says
//! which order a device wants, and joins and reads pictures without leaving it.

use std::ops::Range;

use crate::profile::{self, Family};
use burn::tensor::{Device, Tensor};

/// Whether convolutions on this device want channels next to each other: pictures `[B, C, H, W]` as a view of
/// `[B, H, W, C]`, weights `[Out, In, k, k]` as one of `[Out, k, k, In]`. Elsewhere they want none.
pub fn prefers_channels_last(device: &Device) -> bool {
    #[cfg(feature = "gpu")]
    {
        let device = device.clone().without_autodiff();
        matches!(device.as_dispatch(), burn::backend::DispatchDevice::Cube(_))
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ = device;
        false
    }
}

/// `weight` `[Out, In]` as that of a convolution of one pixel, `[Out, In, 1, 1]`, without a copy here or there.
pub fn pointwise_kernel(weight: Tensor<2>) -> Tensor<4> {
    let [output, input] = weight.dims();
    if prefers_channels_last(&weight.device()) {
        // The same elements either way. But so the axes of length one have the stride of a whole filter, which is
        // aligned as the loads in bulk (TMA) of new GPUs demand of every axis.
        let weight: Tensor<4> = weight.reshape([output, 1, 1, input]);
        return weight.permute([0, 3, 1, 2]);
    }
    weight.reshape([output, input, 1, 1])
}

/// The channels of `first` `[B, C, H, W]`, then those of `second` `[B, D, H, W]`: `[B, C + D, H, W]`. On GPUs they lie
/// next to each other.
///
/// # Panics
/// If the pictures differ in number or size.
pub fn cat_channels(first: Tensor<4>, second: Tensor<4>) -> Tensor<4> {
    let _span = profile::span(Family::Other, &first, || 0);
    let rest = |x: &Tensor<4>| [0, 2, 3].map(|axis| x.dims()[axis]);
    assert_eq!(rest(&first), rest(&second), "cat_channels: number and size");
    #[cfg(feature = "gpu")]
    if let Some(joined) = crate::cube::cat_channels(&first, &second) {
        return joined;
    }
    Tensor::cat(vec![first, second], 1)
}

/// The channels `start..start + count` of `x` `[B, C, H, W]`: `[B, count, H, W]`. On GPUs they lie next to each other.
///
/// # Panics
/// If the picture has fewer channels.
pub fn narrow_channels(x: Tensor<4>, start: usize, count: usize) -> Tensor<4> {
    if prefers_channels_last(&x.device()) {
        // What is cut out is written in the order of its axes.
        let pixels = x.permute([0, 2, 3, 1]).narrow(3, start, count);
        return pixels.permute([0, 3, 1, 2]);
    }
    x.narrow(1, start, count)
}

/// The pixels of `x` `[B, C, H, W]`, row after row, as tokens `[B, H · W, C]`: a view of the same memory, on GPUs if the
/// channels lie next to each other there.
pub fn picture_to_tokens(x: Tensor<4>) -> Tensor<3> {
    #[cfg(feature = "gpu")]
    if let Some(tokens) = crate::cube::picture_to_tokens(&x) {
        return tokens;
    }
    let [batch, channels, height, width] = x.dims();
    x.reshape([batch, channels, height * width]).swap_dims(1, 2)
}

/// The elements `start..start + count` of each row of `x`: a view. On some GPUs memory must begin at a multiple of up to 256
/// bytes; rows that would begin elsewhere are copied there.
///
/// # Panics
/// If the rows have fewer elements.
pub fn narrow_columns<const D: usize>(x: Tensor<D>, start: usize, count: usize) -> Tensor<D> {
    let row = x.dims()[D - 1];
    assert!(
        start + count <= row,
        "narrow_columns: {start} + {count} of {row}"
    );
    #[cfg(feature = "gpu")]
    if let Some(columns) = crate::cube::narrow_columns(&x, start, count) {
        return columns;
    }
    x.narrow(D - 1, start, count)
}

/// The heads `heads` of tokens `[B, N, all · width]`, each a part of each token: `[B, heads, N, width]`, a view as far as
/// [`narrow_columns`] is one.
///
/// # Panics
/// If tokens are not whole numbers of heads, or have fewer.
pub fn split_heads(x: Tensor<3>, width: usize, heads: Range<usize>) -> Tensor<4> {
    let [batch, n, channels] = x.dims();
    assert!(
        channels.is_multiple_of(width) && heads.end * width <= channels,
        "split_heads: {heads:?} of {channels} / {width}"
    );
    #[cfg(feature = "gpu")]
    if let Some(split) = crate::cube::split_heads(&x, width, &heads) {
        return split;
    }
    x.reshape([batch, n, channels / width, width])
        .narrow(2, heads.start, heads.len())
        .swap_dims(1, 2)
}
