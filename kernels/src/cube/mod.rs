//! Kernels for the CubeCL backends (CUDA, Vulkan, Metal, WebGPU), and the way to them: the public
//! functions of the crate come here with tensors that are on such a device, outside autodiff.
//!
//! Every kernel computes in f32, whatever the type of its operands, and takes loads and stores as wide
//! as shapes and alignment allow.

mod activation;
mod attention;
mod deformable;
mod few_rows;
mod layout;
mod linear;
mod matmul;
mod nms;
mod norm;
mod overwrite;
mod product;
mod roi_align;

pub(crate) use activation::{geglu, geglu_input_grad};
pub(crate) use attention::{
    attention, attention_input_grads, attention_query_grad, attention_with_probs,
};
pub(crate) use deformable::deformable_attention;
pub(crate) use few_rows::few_rows;
pub(crate) use layout::{
    cat_channels, narrow_columns, picture_to_tokens, split_heads, upsample_nearest2x,
    upsample_nearest2x_input_grad,
};
pub(crate) use linear::{linear, pointwise, pointwise_input_grad};
pub(crate) use matmul::matmul;
pub(crate) use nms::nms;
pub(crate) use norm::{group_norm, group_norm_input_grad, layer_norm, layer_norm_input_grad};
pub(crate) use overwrite::overwrite;
pub(crate) use product::{affine, affine_input_grad, convolve, convolve_input_grad};
pub(crate) use roi_align::roi_align;

#[cfg(feature = "fusion")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Backend, BackendTensor, Dispatch, DispatchTensor, DispatchTensorKind, backend_extension,
};
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::{cast, into_contiguous};
use burn_cubecl::ops::permute;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::*;
use cubecl::zspace::{Strides, metadata::Metadata};

/// The kernels as operations of a backend: with fusion, a tensor exists only once the operations
/// before it have run, and these run in their turn.
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(crate) trait Kernels: Backend {
    /// Attention of `q` `[B, H, N, D]` to `k` and `v` `[B, H, M, D]`, in the type of `q`.
    #[fusion(dtype = q, shape = q)]
    fn attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        causal: bool,
    ) -> FloatTensor<Self>;

    /// Attention and its probabilities.
    #[fusion(meta = with_probs)]
    fn attention_with_probs(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// Gradients of attention to queries, keys and values.
    #[fusion(meta = |_grad, q, k, v, _out| (q.clone(), k.clone(), v.clone()))]
    fn attention_input_grads(
        grad: FloatTensor<Self>,
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        out: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// Gradient of attention with probabilities to the queries, from what is `given` of those to the
    /// result and to the probabilities.
    #[fusion(dtype = q, shape = q)]
    fn attention_query_grad(
        grad: FloatTensor<Self>,
        grad_probs: FloatTensor<Self>,
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        given: [bool; 2],
    ) -> FloatTensor<Self>;

    /// 1 for each box that stays and 0 for the others.
    #[fusion(dtype = boxes, shape = Shape::from([boxes[0], boxes[1]]))]
    fn nms(boxes: FloatTensor<Self>, limit: f32) -> FloatTensor<Self>;

    /// Regions from the first `count` levels.
    #[fusion(dtype = level0, shape = roi_align::pooled(level0, rois, options))]
    fn roi_align(
        level0: FloatTensor<Self>,
        level1: FloatTensor<Self>,
        level2: FloatTensor<Self>,
        level3: FloatTensor<Self>,
        rois: FloatTensor<Self>,
        count: usize,
        options: crate::plain::RoiAlign,
    ) -> FloatTensor<Self>;

    /// Sums of values at the places of each query and head.
    #[fusion(dtype = values, shape = deformable::summed(values, weights))]
    fn deformable_attention(
        values: FloatTensor<Self>,
        locations: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        levels: crate::plain::Levels,
    ) -> FloatTensor<Self>;

    /// The first halves of the rows times the GELU of the second.
    #[fusion(dtype = x, shape = activation::halved(x))]
    fn geglu(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Gradient of `geglu` to its input.
    #[fusion(dtype = grad, shape = x)]
    fn geglu_input_grad(grad: FloatTensor<Self>, x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Group or layer normalisation.
    #[fusion(dtype = x, shape = x)]
    fn norm(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        options: norm::Options,
    ) -> FloatTensor<Self>;

    /// Gradient of `norm` to its input.
    #[fusion(dtype = grad, shape = x)]
    fn norm_input_grad(
        grad: FloatTensor<Self>,
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        options: norm::Options,
    ) -> FloatTensor<Self>;
}

#[cfg(feature = "fusion")]
fn with_probs(q: &TensorSpec, k: &TensorSpec, _v: &TensorSpec) -> (TensorSpec, TensorSpec) {
    let mut shape = q.shape.clone();
    shape[3] = k.shape[2];
    (q.clone(), TensorSpec::new(shape, q.dtype))
}

impl Kernels for CubeBackend {
    fn attention_input_grads(
        grad: FloatTensor<Self>,
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        out: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        attention::launch_input_grads(grad, q, k, v, out)
    }

    fn attention_query_grad(
        grad: FloatTensor<Self>,
        grad_probs: FloatTensor<Self>,
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        given: [bool; 2],
    ) -> FloatTensor<Self> {
        attention::launch_query_grad(grad, grad_probs, q, k, v, given)
    }

    fn nms(boxes: FloatTensor<Self>, limit: f32) -> FloatTensor<Self> {
        nms::launch(boxes, limit)
    }

    fn roi_align(
        level0: FloatTensor<Self>,
        level1: FloatTensor<Self>,
        level2: FloatTensor<Self>,
        level3: FloatTensor<Self>,
        rois: FloatTensor<Self>,
        count: usize,
        options: crate::plain::RoiAlign,
    ) -> FloatTensor<Self> {
        roi_align::launch([level0, level1, level2, level3], rois, count, options)
    }

    fn deformable_attention(
        values: FloatTensor<Self>,
        locations: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        levels: crate::plain::Levels,
    ) -> FloatTensor<Self> {
        deformable::launch(values, locations, weights, levels)
    }

    fn attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        causal: bool,
    ) -> FloatTensor<Self> {
        attention::launch(q, k, v, causal)
    }

    fn attention_with_probs(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        attention::launch_with_probs(q, k, v)
    }

    fn geglu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        activation::launch_geglu(x)
    }

    fn geglu_input_grad(grad: FloatTensor<Self>, x: FloatTensor<Self>) -> FloatTensor<Self> {
        activation::launch_geglu_input_grad(grad, x)
    }

    fn norm(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        options: norm::Options,
    ) -> FloatTensor<Self> {
        norm::launch(x, weight, bias, options)
    }

    fn norm_input_grad(
        grad: FloatTensor<Self>,
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        options: norm::Options,
    ) -> FloatTensor<Self> {
        norm::launch_input_grad(grad, x, weight, bias, options)
    }
}

/// The tensor as the operations of [`Kernels`] take it. `None` if it is empty, not on a CubeCL
/// device, under autodiff, or neither f32 nor f16 nor bf16.
fn operand<const D: usize>(tensor: &Tensor<D>) -> Option<DispatchTensor> {
    let kind = matches!(tensor.dtype(), DType::F32 | DType::F16 | DType::BF16);
    if !kind || tensor.shape().num_elements() == 0 {
        return None;
    }
    let tensor = tensor.clone().into_dispatch();
    matches!(
        tensor.kind,
        DispatchTensorKind::Cube(BackendTensor::Float(_))
    )
    .then_some(tensor)
}

fn element(tensor: &CubeTensor) -> ElemType {
    match tensor.dtype {
        DType::F16 => ElemType::Float(FloatKind::F16),
        DType::BF16 => ElemType::Float(FloatKind::BF16),
        _ => ElemType::Float(FloatKind::F32),
    }
}

/// An uninitialised tensor on the device of `like`, one element after the other.
fn empty(like: &CubeTensor, shape: Shape, dtype: DType) -> CubeTensor {
    let handle = like.client.empty(shape.num_elements() * dtype.size());
    CubeTensor::new_contiguous(
        like.client.clone(),
        like.device.clone(),
        shape,
        handle,
        dtype,
    )
}

/// Elements that a thread reads at once: 16 bytes of the widest operand, as far as the device has such
/// vectors, every one of `lengths` is a multiple of them and the operands start at one.
fn vector_size(operands: &[&CubeTensor], lengths: &[usize]) -> usize {
    let first = operands[0];
    let widest = operands.iter().map(|x| x.elem_size()).max().unwrap_or(4);
    let most = first.client.properties().hardware.max_vector_size;
    let mut size = (16 / widest).min(most.max(1));
    let fits = |size: usize| {
        lengths.iter().all(|length| length.is_multiple_of(size))
            && operands.iter().all(|x| {
                let start = x.handle.offset_start.unwrap_or(0) as usize;
                start.is_multiple_of(size * x.elem_size())
            })
    };
    while size > 1 && !fits(size) {
        size /= 2;
    }
    size
}

/// Two tensors of one type, that of the first.
fn same_type(first: CubeTensor, second: CubeTensor) -> (CubeTensor, CubeTensor) {
    if first.dtype == second.dtype {
        (first, second)
    } else {
        let second = cast(second, first.dtype);
        (first, second)
    }
}

/// The width of indices into all of these.
fn address(operands: &[&CubeTensor]) -> AddressType {
    let widths = operands.iter().map(|x| x.required_address_type());
    widths.max().unwrap_or_default()
}

/// A grid of at least `cubes` cubes within the limits of the device, to be numbered by `CUBE_POS`;
/// those past `cubes` have nothing to do.
fn grid(client: &Client, cubes: usize) -> CubeCount {
    let (most_x, most_y, _) = client.properties().hardware.max_cube_count;
    let (most_x, most_y) = (most_x as usize, most_y as usize);
    let x = cubes.min(most_x);
    let y = cubes.div_ceil(x.max(1)).min(most_y);
    let z = cubes.div_ceil((x * y).max(1));
    CubeCount::Static(x as u32, y as u32, z as u32)
}

/// Cubes for `work` threads.
fn elementwise(client: &Client, work: usize) -> (CubeCount, CubeDim) {
    let units = units(client, 256);
    (
        grid(client, work.div_ceil(units)),
        CubeDim::new_1d(units as u32),
    )
}

/// The largest power of two up to `wanted` that a cube may have as its number of threads.
fn units(client: &Client, wanted: usize) -> usize {
    let hardware = &client.properties().hardware;
    let most = (hardware.max_units_per_cube as usize).min(hardware.max_cube_dim.0 as usize);
    let most = wanted.clamp(1, most.max(1));
    1 << most.ilog2()
}
