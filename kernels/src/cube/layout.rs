//! Views of tensors that Burn would copy, and pictures with their channels next to each other, the order in which
//! convolutions on these backends read and write them.
//!
//! CUDA's allocator begins each row of a tensor at a multiple of up to 512 bytes, and to it the channels of a pixel are
//! a row: pixels of 320 channels in f16, 640 bytes, are 1024 bytes apart. What takes such a picture as it is spares a
//! copy, and the next convolution another.

use std::ops::Range;

use super::*;
use burn_cubecl::CubeDevice;
use burn_cubecl::kernel::slice;

/// Operations on pictures that keep the channels next to each other.
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(crate) trait Layouts: Backend {
    /// `[B, C, H, W]` and `[B, D, H, W]` to `[B, C + D, H, W]`.
    #[fusion(dtype = first, shape = joined(first, second))]
    fn cat_channels(first: FloatTensor<Self>, second: FloatTensor<Self>) -> FloatTensor<Self>;

    /// `[B, C, H, W]` to `[B, H · W, C]`.
    #[fusion(dtype = x, shape = tokens_of(x))]
    fn picture_to_tokens(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The elements `start..start + count` of each row.
    #[fusion(dtype = x, shape = narrowed(x, *count))]
    fn narrow_columns(x: FloatTensor<Self>, start: usize, count: usize) -> FloatTensor<Self>;

    /// The heads `first..first + heads` of `[B, N, all · width]` as `[B, heads, N, width]`.
    #[fusion(dtype = x, shape = heads_of(x, *width, *heads))]
    fn split_heads(
        x: FloatTensor<Self>,
        width: usize,
        first: usize,
        heads: usize,
    ) -> FloatTensor<Self>;

    /// `[B, C, H, W]` to `[B, C, 2H, 2W]`, each pixel four times.
    #[fusion(dtype = x, shape = doubled(x))]
    fn double(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// `[B, C, 2H, 2W]` to `[B, C, H, W]`, the sum of each four pixels.
    #[fusion(dtype = x, shape = halved(x))]
    fn halve(x: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl Layouts for CubeBackend {
    fn cat_channels(first: FloatTensor<Self>, second: FloatTensor<Self>) -> FloatTensor<Self> {
        launch_cat(first, second)
    }

    fn picture_to_tokens(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let (mut x, pitch) = channels_last(x);
        let shape = tokens_of(x.meta.shape());
        let strides = Strides::new(&[shape[1] * pitch, pitch, 1]);
        *x.meta = Metadata::new(shape, strides);
        x
    }

    fn narrow_columns(x: FloatTensor<Self>, start: usize, count: usize) -> FloatTensor<Self> {
        columns(x, start, count)
    }

    fn split_heads(
        x: FloatTensor<Self>,
        width: usize,
        first: usize,
        heads: usize,
    ) -> FloatTensor<Self> {
        let mut x = columns(x, first * width, heads * width);
        let shape = heads_of(x.meta.shape(), width, heads);
        let [batch, row, channel] = [0, 1, 2].map(|axis| x.meta.strides()[axis]);
        let strides = Strides::new(&[batch, width * channel, row, channel]);
        *x.meta = Metadata::new(shape, strides);
        x
    }

    fn double(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let shape = doubled(x.meta.shape());
        launch_resize(x, shape, true)
    }

    fn halve(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let shape = halved(x.meta.shape());
        launch_resize(x, shape, false)
    }
}

/// [`crate::cat_channels`] of two.
pub(crate) fn cat_channels(first: &Tensor<4>, second: &Tensor<4>) -> Option<Tensor<4>> {
    let y = Dispatch::cat_channels(operand(first)?, operand(second)?);
    Some(Tensor::from_dispatch(y))
}

/// [`crate::picture_to_tokens`].
pub(crate) fn picture_to_tokens(x: &Tensor<4>) -> Option<Tensor<3>> {
    let y = Dispatch::picture_to_tokens(operand(x)?);
    Some(Tensor::from_dispatch(y))
}

/// [`crate::narrow_columns`].
pub(crate) fn narrow_columns<const D: usize>(
    x: &Tensor<D>,
    start: usize,
    count: usize,
) -> Option<Tensor<D>> {
    let y = Dispatch::narrow_columns(operand(x)?, start, count);
    Some(Tensor::from_dispatch(y))
}

/// [`crate::split_heads`].
pub(crate) fn split_heads(x: &Tensor<3>, width: usize, heads: &Range<usize>) -> Option<Tensor<4>> {
    let y = Dispatch::split_heads(operand(x)?, width, heads.start, heads.len());
    Some(Tensor::from_dispatch(y))
}

/// [`crate::upsample_nearest2x`].
pub(crate) fn upsample_nearest2x(x: &Tensor<4>) -> Option<Tensor<4>> {
    Some(Tensor::from_dispatch(Dispatch::double(operand(x)?)))
}

/// [`crate::upsample_nearest2x_input_grad`].
pub(crate) fn upsample_nearest2x_input_grad(grad: &Tensor<4>) -> Option<Tensor<4>> {
    Some(Tensor::from_dispatch(Dispatch::halve(operand(grad)?)))
}

fn joined(first: &Shape, second: &Shape) -> Shape {
    let mut shape = first.clone();
    shape[1] += second[1];
    shape
}

fn tokens_of(shape: &Shape) -> Shape {
    Shape::from([shape[0], shape[2] * shape[3], shape[1]])
}

fn narrowed(shape: &Shape, count: usize) -> Shape {
    let mut shape = shape.clone();
    let last = shape.num_dims() - 1;
    shape[last] = count;
    shape
}

fn heads_of(shape: &Shape, width: usize, heads: usize) -> Shape {
    Shape::from([shape[0], heads, shape[1], width])
}

fn doubled(shape: &Shape) -> Shape {
    Shape::from([shape[0], shape[1], shape[2] * 2, shape[3] * 2])
}

fn halved(shape: &Shape) -> Shape {
    Shape::from([shape[0], shape[1], shape[2] / 2, shape[3] / 2])
}

/// What the widest loads of CUDA's kernels need, in bytes.
const CUDA_ALIGNMENT: u64 = 16;

/// [`Layouts::narrow_columns`], without a copy where the device can bind memory from there on. CUDA can from anywhere, but
/// CubeCL names the alignment of its allocator, 512 bytes, and Burn's own slices keep to that.
fn columns(mut x: CubeTensor, start: usize, count: usize) -> CubeTensor {
    let last = x.meta.num_dims() - 1;
    let shape = narrowed(x.meta.shape(), count);
    let of_element = (x.meta.strides()[last] * x.dtype.size()) as u64;
    let before = start as u64 * of_element;
    let after = (x.meta.shape()[last] - start - count) as u64 * of_element;
    let alignment = match x.device {
        CubeDevice::Cuda(_) => CUDA_ALIGNMENT,
        _ => x.client.properties().memory.alignment,
    };
    if !before.is_multiple_of(alignment) || !after.is_multiple_of(alignment) {
        let whole = x.meta.shape().iter().map(|length| 0..*length);
        let mut ranges: Vec<_> = whole.collect();
        ranges[last] = start..start + count;
        return slice(x, &ranges);
    }
    x.handle = x.handle.offset_start(before).offset_end(after);
    *x.meta = Metadata::new(shape, x.meta.strides().clone());
    x
}

/// From one run of elements to the next, if the last axis is a run without gaps and the runs follow each other at one
/// distance, which may leave gaps between them.
pub(super) fn pitch(shape: &[usize], strides: &[usize]) -> Option<usize> {
    let last = shape.len() - 1;
    if shape[last] > 1 && strides[last] != 1 {
        return None;
    }
    let (mut pitch, mut runs) = (None, 1);
    for axis in (0..last).rev().filter(|axis| shape[*axis] > 1) {
        // The innermost axis that has a second run tells how far that is.
        if strides[axis] != *pitch.get_or_insert(strides[axis]) * runs {
            return None;
        }
        runs *= shape[axis];
    }
    let pitch = pitch.unwrap_or(shape[last]);
    (pitch >= shape[last]).then_some(pitch)
}

/// [`pitch`] of the pixels of a picture `[B, C, H, W]`.
pub(super) fn pixel_pitch(x: &CubeTensor) -> Option<usize> {
    let inside = |axes: &[usize]| [0, 2, 3, 1].map(|axis| axes[axis]);
    pitch(
        &inside(x.meta.shape().as_slice()),
        &inside(x.meta.strides()),
    )
}

/// The picture `[B, C, H, W]` with its channels next to each other, copied only if they are not, and the elements from
/// one pixel to the next.
pub(super) fn channels_last(x: CubeTensor) -> (CubeTensor, usize) {
    if let Some(pitch) = pixel_pitch(&x) {
        return (x, pitch);
    }
    let channels = x.meta.shape()[1];
    let x = permuted(into_contiguous(permuted(x, [0, 2, 3, 1])), [0, 3, 1, 2]);
    (x, channels)
}

fn permuted(mut x: CubeTensor, axes: [usize; 4]) -> CubeTensor {
    let shape = axes.map(|axis| x.meta.shape()[axis]);
    let strides = axes.map(|axis| x.meta.strides()[axis]);
    *x.meta = Metadata::new(Shape::from(shape), Strides::new(&strides));
    x
}

/// An uninitialised picture of this shape `[B, C, H, W]`, its channels next to each other and without gaps.
pub(super) fn empty_channels_last(like: &CubeTensor, shape: Shape, dtype: DType) -> CubeTensor {
    let [batch, channels, height, width] = [0, 1, 2, 3].map(|axis| shape[axis]);
    let inside = Shape::from([batch, height, width, channels]);
    permuted(empty(like, inside, dtype), [0, 3, 1, 2])
}

/// Where the vectors of joined pixels come from.
#[derive(CubeType, CubeLaunch)]
struct Joint {
    /// Vectors of the result.
    count: usize,
    /// Vectors of a pixel in the first picture, and in both.
    first: usize,
    both: usize,
    /// Vectors from one pixel to the next in the pictures.
    first_pitch: usize,
    second_pitch: usize,
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn cat_kernel<F: Float, N: Size>(
    first: &[Vector<F, N>],
    second: &[Vector<F, N>],
    y: &mut [Vector<F, N>],
    joint: Joint,
    #[define(F)] _type: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i < joint.count {
        let pixel = i / joint.both;
        let at = i % joint.both;
        if at < joint.first {
            y[i] = first[pixel * joint.first_pitch + at];
        } else {
            y[i] = second[pixel * joint.second_pitch + at - joint.first];
        }
    }
}

fn launch_cat(first: CubeTensor, second: CubeTensor) -> CubeTensor {
    let (first, second) = same_type(first, second);
    let ((first, first_pitch), (second, second_pitch)) =
        (channels_last(first), channels_last(second));
    let channels = [&first, &second].map(|x| x.meta.shape()[1]);
    let shape = joined(first.meta.shape(), second.meta.shape());
    let y = empty_channels_last(&first, shape, first.dtype);
    let operands = [&first, &second, &y];
    let lengths = [channels[0], channels[1], first_pitch, second_pitch];
    let vector = vector_size(&operands, &lengths);
    let address = address(&operands);
    let count = y.meta.shape().num_elements() / vector;
    let joint = JointLaunch::new(
        count,
        channels[0] / vector,
        (channels[0] + channels[1]) / vector,
        first_pitch / vector,
        second_pitch / vector,
    );
    let client = first.client.clone();
    let (cubes, dim) = elementwise(&client, count);
    let dtype = element(&first);
    // SAFETY: threads without a vector do nothing, and pixels are as many and as far apart as the sizes say.
    unsafe {
        cat_kernel::launch_unchecked(
            &client,
            cubes,
            dim,
            address,
            vector,
            first.into_buffer_arg(),
            second.into_buffer_arg(),
            y.clone().into_buffer_arg(),
            joint,
            dtype,
        );
    }
    y
}

/// A change of size, in vectors.
#[derive(CubeType, CubeLaunch)]
struct Sizes {
    /// Vectors of the result, and of one of its pixels.
    count: usize,
    run: usize,
    /// Pixels of a row of the result and of the input.
    width: usize,
    from_width: usize,
    /// Vectors from one pixel of the input to the next.
    pitch: usize,
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn resize_kernel<F: Float, N: Size>(
    x: &[Vector<F, N>],
    y: &mut [Vector<F, N>],
    sizes: Sizes,
    #[comptime] double: bool,
    #[define(F)] _type: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i < sizes.count {
        let pixel = i / sizes.run;
        let at = i % sizes.run;
        // Rows of all samples in one: their heights are even or doubled, so none is cut in the wrong place.
        let row = pixel / sizes.width;
        let column = pixel % sizes.width;
        if comptime!(double) {
            let from = row / 2 * sizes.from_width + column / 2;
            y[i] = x[from * sizes.pitch + at];
        } else {
            let mut sum = Vector::<f32, N>::new(0.0f32);
            #[unroll]
            for corner in 0..4usize {
                let down = comptime!(corner / 2);
                let right = comptime!(corner % 2);
                let from = (row * 2 + down) * sizes.from_width + column * 2 + right;
                sum += Vector::<f32, N>::cast_from(x[from * sizes.pitch + at]);
            }
            y[i] = Vector::cast_from(sum);
        }
    }
}

/// To twice the size, or half of it.
fn launch_resize(x: CubeTensor, shape: Shape, double: bool) -> CubeTensor {
    let (x, pitch) = channels_last(x);
    let y = empty_channels_last(&x, shape, x.dtype);
    let channels = x.meta.shape()[1];
    let vector = vector_size(&[&x, &y], &[channels, pitch]);
    let count = y.meta.shape().num_elements() / vector;
    let sizes = SizesLaunch::new(
        count,
        channels / vector,
        y.meta.shape()[3],
        x.meta.shape()[3],
        pitch / vector,
    );
    let client = x.client.clone();
    let (cubes, dim) = elementwise(&client, count);
    let (dtype, address) = (element(&x), address(&[&x, &y]));
    // SAFETY: threads without a vector do nothing, and pixels are as many and as far apart as the sizes say.
    unsafe {
        resize_kernel::launch_unchecked(
            &client,
            cubes,
            dim,
            address,
            vector,
            x.into_buffer_arg(),
            y.clone().into_buffer_arg(),
            sizes,
            double,
            dtype,
        );
    }
    y
}

#[cfg(test)]
mod tests {
    use super::pitch;

    #[test]
    fn pixels_are_one_distance_apart_or_it_has_no_name() {
        // Without gaps, and 320 channels in f16 as CUDA's allocator gives them.
        assert_eq!(pitch(&[2, 4, 6, 8], &[192, 48, 8, 1]), Some(8));
        let shape = [2, 64, 64, 320];
        assert_eq!(pitch(&shape, &[64 * 64 * 512, 64 * 512, 512, 1]), Some(512));
        // Axes of length one have any stride.
        assert_eq!(pitch(&[1, 1, 1, 8], &[5, 3, 7, 1]), Some(8));
        assert_eq!(pitch(&[3, 1, 1, 8], &[16, 3, 7, 1]), Some(16));
        assert_eq!(pitch(&[1, 5, 1, 1], &[1, 16, 16, 9]), Some(16));
        // Gaps between rows of pixels, or between samples only.
        assert_eq!(pitch(&[1, 4, 6, 8], &[400, 100, 8, 1]), None);
        assert_eq!(pitch(&[2, 4, 6, 8], &[200, 48, 8, 1]), None);
        // Planes; one pixel shown everywhere; pixels that overlap.
        assert_eq!(pitch(&[1, 4, 6, 8], &[192, 6, 1, 24]), None);
        assert_eq!(pitch(&[1, 4, 6, 8], &[0, 0, 0, 1]), None);
        assert_eq!(pitch(&[1, 1, 6, 8], &[24, 24, 4, 1]), None);
    }
}
