//! Affine layers and convolutions on matrix units, with bias and residual branch in the same kernel, and without trying
//! anything out: which tile and how many parts is computed from the sizes. Burn times all the kernels that it has for a new size, which
//! takes minutes of compiling before the first picture (`benches/results/h100-2026-11-26.md`).

mod choice;
mod finish;
mod kernel;
mod layers;
mod units;

pub(super) use kernel::PLANE;
pub(crate) use layers::{affine, affine_input_grad, convolve, convolve_input_grad};
pub(super) use layers::{has_units, multiplies_tf32};
pub(super) use units::{add_product, rounded};

use super::layout::{channels_last, empty_channels_last, pitch};
use super::*;
use choice::{Device, Problem, Window, choose};
use finish::sum_kernel;
pub(super) use kernel::PIECE;
use kernel::{Config, Numbers, SizesLaunch, product_kernel};

/// Products of views.
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(crate) trait Products: Backend {
    /// `[B, N, In]` by `[Out, In]`: `[B, N, Out]`, plus what is `given` of the bias `[Out]` and of `onto` `[B, N, Out]`.
    #[fusion(dtype = x, shape = affine_shape(x, weight))]
    fn affine(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        onto: FloatTensor<Self>,
        given: [bool; 2],
    ) -> FloatTensor<Self>;

    /// `[B, In, H, W]` by `[Out, In, h, w]`, plus what is `given`.
    #[fusion(dtype = x, shape = convolved_shape(x, weight, *stride, *padding))]
    fn convolve(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        onto: FloatTensor<Self>,
        given: [bool; 2],
        stride: usize,
        padding: [usize; 2],
    ) -> FloatTensor<Self>;
}

fn affine_shape(x: &Shape, weight: &Shape) -> Shape {
    Shape::from([x[0], x[1], weight[0]])
}

fn convolved_shape(x: &Shape, weight: &Shape, stride: usize, padding: [usize; 2]) -> Shape {
    let size = |axis: usize| (x[axis] + 2 * padding[axis - 2] - weight[axis]) / stride + 1;
    Shape::from([x[0], weight[0], size(2), size(3)])
}

impl Products for CubeBackend {
    fn affine(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        onto: FloatTensor<Self>,
        given: [bool; 2],
    ) -> FloatTensor<Self> {
        let shape = affine_shape(x.meta.shape(), weight.meta.shape());
        let piece = in_piece(x.dtype);
        let depth = x.meta.shape()[2] / piece;
        let (x, x_pitch) = runs(x);
        let (weight, weight_pitch) = runs(weight);
        let (onto, onto_pitch) = onto_runs(onto, given[1]);
        let out = empty(&x, shape.clone(), x.dtype);
        let problem = Problem {
            rows: shape[0] * shape[1],
            columns: shape[2],
            depth,
            pitch: x_pitch / piece,
            weight_row: weight_pitch / piece,
            weight_pitch: weight_pitch / piece,
            onto_pitch,
            window: None,
        };
        launch(&problem, [x, weight, bias, onto], given, &out);
        out
    }

    fn convolve(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        onto: FloatTensor<Self>,
        given: [bool; 2],
        stride: usize,
        padding: [usize; 2],
    ) -> FloatTensor<Self> {
        let shape = convolved_shape(x.meta.shape(), weight.meta.shape(), stride, padding);
        let [height, width] = [2, 3].map(|axis| x.meta.shape()[axis]);
        let [depth, down, across] = [1, 2, 3].map(|axis| weight.meta.shape()[axis]);
        let piece = in_piece(x.dtype);
        let (x, x_pitch) = aligned(channels_last(x), repacked);
        let (weight, weight_pitch) = aligned(channels_last(weight), repacked);
        let (onto, onto_pitch) = match given[1] {
            true => channels_last(onto),
            false => (onto, 0),
        };
        let out = empty_channels_last(&x, shape.clone(), x.dtype);
        let problem = Problem {
            rows: shape[0] * shape[2] * shape[3],
            columns: shape[1],
            depth: depth / piece,
            pitch: x_pitch / piece,
            weight_row: down * across * weight_pitch / piece,
            weight_pitch: weight_pitch / piece,
            onto_pitch,
            window: Some(Window {
                size: [height, width],
                out: [shape[2], shape[3]],
                pixels: [down, across],
                stride,
                padding,
            }),
        };
        launch(&problem, [x, weight, bias, onto], given, &out);
        out
    }
}

/// A picture in memory of its own, its channels next to each other without gaps.
fn repacked(x: CubeTensor) -> (CubeTensor, usize) {
    let channels = x.meta.shape()[1];
    let inside = packed(permute(x, &[0, 2, 3, 1]));
    (permute(inside, &[0, 3, 1, 2]), channels)
}

/// Bytes of a piece.
const BYTES: usize = 16;

/// How many elements are a piece.
pub(super) fn in_piece(dtype: DType) -> usize {
    BYTES / dtype.size()
}

/// With rows that begin at multiples of 16 bytes.
fn aligned(
    (x, pitch): (CubeTensor, usize),
    copy: impl Fn(CubeTensor) -> (CubeTensor, usize),
) -> (CubeTensor, usize) {
    let start = x.handle.offset_start.unwrap_or(0) as usize;
    match pitch.is_multiple_of(in_piece(x.dtype)) && start.is_multiple_of(BYTES) {
        true => (x, pitch),
        false => copy(x),
    }
}

/// Rows without gaps inside, one distance apart, copied only if they are not.
fn runs(x: CubeTensor) -> (CubeTensor, usize) {
    let copy = |x: CubeTensor| {
        let width = x.meta.shape()[x.meta.shape().num_dims() - 1];
        (packed(x), width)
    };
    match pitch(x.meta.shape().as_slice(), x.meta.strides()) {
        Some(pitch) => aligned((x, pitch), copy),
        None => copy(x),
    }
}

fn onto_runs(onto: CubeTensor, given: bool) -> (CubeTensor, usize) {
    match given {
        true => runs(onto),
        false => (onto, 0),
    }
}

/// One row after the other, from a multiple of 16 bytes on.
pub(super) fn packed(x: CubeTensor) -> CubeTensor {
    let x = burn_cubecl::kernel::into_contiguous(x);
    match x.handle.offset_start.unwrap_or(0).is_multiple_of(16) {
        true => x,
        false => x.copy(),
    }
}

fn launch(
    problem: &Problem,
    [x, weight, bias, onto]: [CubeTensor; 4],
    given: [bool; 2],
    out: &CubeTensor,
) {
    let client = x.client.clone();
    let numbers = match x.dtype {
        DType::F16 => Numbers::F16,
        DType::BF16 => Numbers::Bf16,
        _ => Numbers::Tf32,
    };
    let (tile, parts) = choose(problem, &Device::of(&client, numbers));
    let steps = problem.steps(&tile);
    let share = steps.div_ceil(parts);
    let parts = steps.div_ceil(share);
    let whole = parts == 1;
    let to = match whole {
        true => out.clone(),
        false => empty(
            out,
            Shape::from([parts, problem.rows, problem.columns]),
            DType::F32,
        ),
    };
    let together = in_piece(to.dtype);
    let bias = match given[0] {
        true => packed(bias),
        false => bias,
    };
    let window = problem.window.as_ref();
    let of_window = |f: fn(&Window) -> usize| window.map_or(1, f) as u32;
    let sizes = SizesLaunch::new(
        problem.rows,
        problem.columns,
        problem.depth,
        steps,
        share,
        problem.pitch,
        problem.weight_row,
        problem.weight_pitch,
        problem.onto_pitch / together,
        of_window(|window| window.size[0]),
        of_window(|window| window.size[1]),
        of_window(|window| window.out[0]),
        of_window(|window| window.out[1]),
        of_window(|window| window.pixels[1]),
        of_window(|window| window.stride),
        of_window(|window| window.padding[0]),
        of_window(|window| window.padding[1]),
        problem.depth.div_ceil(tile.pieces),
    );
    let config = Config {
        tile,
        numbers,
        window: window.is_some(),
        bias: given[0] && whole,
        onto: given[1] && whole,
        together,
    };
    let cubes = CubeCount::Static(
        problem.rows.div_ceil(tile.rows) as u32,
        problem.columns.div_ceil(tile.columns) as u32,
        parts as u32,
    );
    // SAFETY: nothing is read or written past rows, columns and depth.
    unsafe {
        product_kernel::launch_unchecked(
            &client,
            cubes,
            CubeDim::new_1d(tile.threads() as u32),
            address(&[&x, &weight, &bias, &onto, &to]),
            together,
            x.clone().into_buffer_arg(),
            weight.into_buffer_arg(),
            bias.clone().into_buffer_arg(),
            onto.clone().into_buffer_arg(),
            to.clone().into_buffer_arg(),
            sizes,
            config,
            [element(&x), element(&to)],
        );
    }
    if whole {
        return;
    }
    let count = problem.rows * problem.columns / 4;
    let (cubes, dim) = elementwise(&client, count);
    // SAFETY: threads past the last group do nothing.
    unsafe {
        sum_kernel::launch_unchecked(
            &client,
            cubes,
            dim,
            address(&[&to, &bias, &onto, out]),
            to.into_buffer_arg(),
            bias.into_buffer_arg(),
            onto.into_buffer_arg(),
            out.clone().into_buffer_arg(),
            parts,
            count,
            problem.columns / 4,
            problem.onto_pitch / 4,
            given,
            element(out),
        );
    }
}
