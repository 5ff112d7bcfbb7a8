//! Tensors with gaps in memory, such as CUDA's allocator leaves between rows. Here they hold NaN, so that whoever reads
//! one is seen.

use super::*;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Shape;
use burn_cubecl::CubeBackend;
use cubecl::zspace::metadata::Metadata;

#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
trait Gaps: Backend {
    /// The first `width` elements along the last axis, as a view.
    #[fusion(dtype = x, shape = narrow(x, *width))]
    fn first_of_each(x: FloatTensor<Self>, width: usize) -> FloatTensor<Self>;
}

impl Gaps for CubeBackend {
    fn first_of_each(mut x: FloatTensor<Self>, width: usize) -> FloatTensor<Self> {
        let shape = narrow(x.meta.shape(), width);
        *x.meta = Metadata::new(shape, x.meta.strides().clone());
        x
    }
}

fn narrow(shape: &Shape, width: usize) -> Shape {
    let mut shape = shape.clone();
    let last = shape.len() - 1;
    shape[last] = width;
    shape
}

/// `x` on the device, its rows `pitch` elements apart.
pub(super) fn rows<const D: usize>(x: &Tensor<D>, pitch: usize, device: &Device) -> Tensor<D> {
    let mut gaps = x.dims();
    let width = gaps[D - 1];
    if pitch == width {
        return upload(x, device);
    }
    gaps[D - 1] = pitch - width;
    let gaps = Tensor::<D>::full(gaps, f32::NAN, &Device::flex()).cast(x.dtype());
    let whole = upload(&Tensor::cat(vec![x.clone(), gaps], D - 1), device);
    Tensor::from_dispatch(Dispatch::first_of_each(whole.into_dispatch(), width))
}

/// The picture `x` `[B, C, H, W]` on the device as a convolution leaves it: channels next to each other, pixels `pitch`
/// elements apart.
pub(super) fn picture(x: &Tensor<4>, pitch: usize, device: &Device) -> Tensor<4> {
    rows(&x.clone().permute([0, 2, 3, 1]), pitch, device).permute([0, 3, 1, 2])
}
