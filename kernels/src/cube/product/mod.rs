//! Affine layers and convolutions in 16 bits on matrix units, with bias and residual branch in the same kernel, and without trying
//! anything out: which tile and how many parts is computed from the sizes. Burn times all the kernels that it has for a new size, which
//! takes minutes of compiling before the first picture (`benches/results/h100-2026-11-26.md`).

mod kernel;

use super::layout::{channels_last, empty_channels_last, pitch};
use super::*;
use burn::backend::DispatchDevice;
use burn_cubecl::CubeDevice;
use cubecl::features::MmaConfig;
use kernel::{Config, PIECE, SizesLaunch, Tile, product_kernel, sum_kernel};

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
        let depth = x.meta.shape()[2];
        let (x, x_pitch) = runs(x);
        let (weight, weight_pitch) = runs(weight);
        let (onto, onto_pitch) = onto_runs(onto, given[1]);
        let out = empty(&x, shape.clone(), x.dtype);
        let problem = Problem {
            rows: shape[0] * shape[1],
            columns: shape[2],
            depth,
            pitch: x_pitch,
            weight_row: weight_pitch,
            weight_pitch,
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
            depth,
            pitch: x_pitch,
            weight_row: down * across * weight_pitch,
            weight_pitch,
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

/// With rows that begin at multiples of 16 bytes.
fn aligned(
    (x, pitch): (CubeTensor, usize),
    copy: impl Fn(CubeTensor) -> (CubeTensor, usize),
) -> (CubeTensor, usize) {
    let start = x.handle.offset_start.unwrap_or(0) as usize;
    match pitch.is_multiple_of(PIECE) && start.is_multiple_of(PIECE * x.elem_size()) {
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
fn packed(x: CubeTensor) -> CubeTensor {
    let x = burn_cubecl::kernel::into_contiguous(x);
    match x.handle.offset_start.unwrap_or(0).is_multiple_of(16) {
        true => x,
        false => x.copy(),
    }
}

struct Window {
    size: [usize; 2],
    out: [usize; 2],
    /// Down and across.
    pixels: [usize; 2],
    stride: usize,
    /// Above and before.
    padding: [usize; 2],
}

/// Sizes and distances in elements.
struct Problem {
    rows: usize,
    columns: usize,
    depth: usize,
    pitch: usize,
    weight_row: usize,
    weight_pitch: usize,
    onto_pitch: usize,
    window: Option<Window>,
}

impl Problem {
    fn steps(&self, tile: &Tile) -> usize {
        let taps = self
            .window
            .as_ref()
            .map_or(1, |window| window.pixels.iter().product());
        taps * self.depth.div_ceil(tile.depth)
    }
}

/// Tiles, and how much of the matrix units' time a full multiprocessor uses with them, relative to the first one's: for rows, and for
/// windows, where a row costs more to find. Measured by `benches/products.rs`; larger ones were no better.
const TILES: [(Tile, [f64; 2]); 4] = [
    (tile([128, 64], 64, 3), [1.0, 0.94]),
    (tile([64, 128], 64, 3), [0.9, 1.0]),
    (tile([64, 64], 64, 3), [0.7, 0.66]),
    (LEAST_DEEP, [0.6, 0.58]),
];
/// For windows of fewer channels.
const LEAST_DEEP: Tile = tile([64, 64], 32, 4);

const fn tile([rows, columns]: [usize; 2], depth: usize, stages: usize) -> Tile {
    Tile {
        rows,
        columns,
        depth,
        stages,
        planes: [2, 2],
    }
}

/// Numbers of parts that the depth is divided into.
const PARTS: [usize; 5] = [1, 2, 4, 8, 16];
/// What a cube does before and after its steps, in steps.
const AROUND: usize = 1;
/// How busy the matrix units are with one, two, three or more cubes on a multiprocessor.
const BUSY: [f64; 4] = [0.55, 0.85, 0.92, 1.0];
/// Products that a full multiprocessor does in a second, and seconds for the launch that sums parts and for each element of one. Measured on an
/// H100; elsewhere only what they are to one another counts.
const RATE: f64 = 1.5e12;
const SUMMING: f64 = 2e-6;
const SUMMED: f64 = 4e-12;

/// What the choice depends on.
struct Device {
    processors: usize,
    /// Bytes of shared memory.
    shared: usize,
}

impl Device {
    fn of(client: &Client) -> Self {
        let hardware = &client.properties().hardware;
        Self {
            processors: hardware.num_streaming_multiprocessors.unwrap_or(64) as usize,
            shared: hardware.max_shared_memory_size,
        }
    }
}

/// The tile and the number of parts of the depth that should take the least time.
fn choose(problem: &Problem, device: &Device) -> (Tile, usize) {
    let mut best = (f64::MAX, LEAST_DEEP, 1);
    for (tile, shares) in TILES {
        let whole = problem.window.is_none() || problem.depth.is_multiple_of(tile.depth);
        if tile.shared() > device.shared || !whole {
            continue;
        }
        let share = shares[usize::from(problem.window.is_some())];
        let tiles = problem.rows.div_ceil(tile.rows) * problem.columns.div_ceil(tile.columns);
        let steps = problem.steps(&tile);
        for parts in PARTS.into_iter().filter(|parts| *parts <= steps) {
            let each = steps.div_ceil(parts);
            let cubes = (tiles * steps.div_ceil(each)).div_ceil(device.processors);
            let together = cubes.min(device.shared / tile.shared());
            let work = (tile.rows * tile.columns * tile.depth * (each + AROUND)) as f64;
            let busy = share * BUSY[together.min(BUSY.len()) - 1];
            let again = match parts {
                1 => 0.0,
                _ => SUMMING + (problem.rows * problem.columns * parts) as f64 * SUMMED,
            };
            let time = cubes as f64 * work / (busy * RATE) + again;
            if time < best.0 {
                best = (time, tile, parts);
            }
        }
    }
    (best.1, best.2)
}

fn launch(
    problem: &Problem,
    [x, weight, bias, onto]: [CubeTensor; 4],
    given: [bool; 2],
    out: &CubeTensor,
) {
    let client = x.client.clone();
    let (tile, parts) = choose(problem, &Device::of(&client));
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
    let bias = match given[0] {
        true => packed(bias),
        false => bias,
    };
    let window = problem.window.as_ref();
    let of_window = |f: fn(&Window) -> usize| window.map_or(1, f) as u32;
    let sizes = SizesLaunch::new(
        problem.rows,
        problem.columns,
        problem.depth / PIECE,
        steps,
        share,
        problem.pitch / PIECE,
        problem.weight_row / PIECE,
        problem.weight_pitch / PIECE,
        problem.onto_pitch / 2,
        of_window(|window| window.size[0]),
        of_window(|window| window.size[1]),
        of_window(|window| window.out[0]),
        of_window(|window| window.out[1]),
        of_window(|window| window.pixels[1]),
        of_window(|window| window.stride),
        of_window(|window| window.padding[0]),
        of_window(|window| window.padding[1]),
        problem.depth.div_ceil(tile.depth),
    );
    let config = Config {
        tile,
        window: window.is_some(),
        bias: given[0] && whole,
        onto: given[1] && whole,
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

/// Whether the tensor's device has what the kernel is made of, for its type: products of 16 × 8 × 16, loads of their operands, and
/// copies that the threads do not wait for.
fn has_units<const D: usize>(x: &Tensor<D>) -> bool {
    let element = match x.dtype() {
        DType::F16 => ElemType::Float(FloatKind::F16),
        DType::BF16 => ElemType::Float(FloatKind::BF16),
        _ => return false,
    };
    let device = x.device();
    let DispatchDevice::Cube(device) = device.as_dispatch() else {
        return false;
    };
    let device: &CubeDevice = device;
    let client = device.client();
    let features = &client.properties().features;
    let product = MmaConfig {
        a_type: element,
        b_type: element,
        cd_type: ElemType::Float(FloatKind::F32),
        m: 16,
        n: 8,
        k: 16,
    };
    features.copy_async
        && features.matmul.mma.contains(&product)
        && features.matmul.ldmatrix.contains(&element)
}

/// Whether all of these are of one type.
fn same_types<const D: usize, const E: usize>(
    x: &Tensor<D>,
    weight: &Tensor<E>,
    bias: Option<&Tensor<1>>,
    onto: Option<&Tensor<D>>,
) -> bool {
    let dtype = x.dtype();
    weight.dtype() == dtype
        && bias.is_none_or(|bias| bias.dtype() == dtype)
        && onto.is_none_or(|onto| onto.dtype() == dtype)
}

/// With zeros behind it along an axis, up to a multiple of `unit`.
fn filled_up<const D: usize>(x: &Tensor<D>, axis: usize, unit: usize) -> Tensor<D> {
    let mut zeros = x.dims();
    let rest = zeros[axis].next_multiple_of(unit) - zeros[axis];
    if rest == 0 {
        return x.clone();
    }
    zeros[axis] = rest;
    let zeros = Tensor::zeros(zeros, (&x.device(), x.dtype()));
    Tensor::cat(vec![x.clone(), zeros], axis)
}

/// Results come in groups of these.
const GROUP: usize = 4;

/// [`crate::linear`] with or without a bias, and onto something.
pub(crate) fn affine(
    x: &Tensor<3>,
    weight: &Tensor<2>,
    bias: Option<&Tensor<1>>,
    onto: Option<&Tensor<3>>,
) -> Option<Tensor<3>> {
    let [outputs, inputs] = weight.dims();
    if !same_types(x, weight, bias, onto) || !has_units(x) {
        return None;
    }
    // Before anything is filled up: what is under autodiff stays there.
    operand(x)?;
    if !inputs.is_multiple_of(PIECE) || !outputs.is_multiple_of(GROUP) {
        let weight = filled_up(&filled_up(weight, 1, PIECE), 0, GROUP);
        let bias = bias.map(|bias| filled_up(bias, 0, GROUP));
        let onto = onto.map(|onto| filled_up(onto, 2, GROUP));
        let y = affine(
            &filled_up(x, 2, PIECE),
            &weight,
            bias.as_ref(),
            onto.as_ref(),
        )?;
        return Some(y.narrow(2, 0, outputs));
    }
    let (x, weight) = (operand(x)?, operand(weight)?);
    let given = [bias.is_some(), onto.is_some()];
    let bias = bias.map_or_else(|| Some(weight.clone()), operand)?;
    let onto = onto.map_or_else(|| Some(weight.clone()), operand)?;
    let y = Dispatch::affine(x, weight, bias, onto, given);
    Some(Tensor::from_dispatch(y))
}

/// [`crate::conv2d`], with padding above and before.
pub(crate) fn convolve(
    x: &Tensor<4>,
    weight: &Tensor<4>,
    bias: Option<&Tensor<1>>,
    stride: usize,
    padding: [usize; 2],
) -> Option<Tensor<4>> {
    let [outputs, inputs, down, across] = weight.dims();
    let [_, channels, height, width] = x.dims();
    let fits = height + 2 * padding[0] >= down && width + 2 * padding[1] >= across;
    if !fits || channels != inputs || !same_types(x, weight, bias, None) || !has_units(x) {
        return None;
    }
    operand(x)?;
    // All of a step is under one pixel of the window.
    let depth = LEAST_DEEP.depth;
    if !inputs.is_multiple_of(depth) || !outputs.is_multiple_of(GROUP) {
        let weight = filled_up(&filled_up(weight, 1, depth), 0, GROUP);
        let bias = bias.map(|bias| filled_up(bias, 0, GROUP));
        let y = convolve(
            &filled_up(x, 1, depth),
            &weight,
            bias.as_ref(),
            stride,
            padding,
        )?;
        return Some(y.narrow(1, 0, outputs));
    }
    let (x, weight) = (operand(x)?, operand(weight)?);
    let given = [bias.is_some(), false];
    let bias = bias.map_or_else(|| Some(weight.clone()), operand)?;
    let y = Dispatch::convolve(x, weight.clone(), bias, weight, given, stride, padding);
    Some(Tensor::from_dispatch(y))
}

/// [`crate::linear_input_grad`].
pub(crate) fn affine_input_grad(grad: &Tensor<3>, weight: &Tensor<2>) -> Option<Tensor<3>> {
    affine(grad, &weight.clone().transpose(), None, None)
}

/// [`crate::conv2d_input_grad`]: a convolution of the gradient with the weight turned around, with zeros between the
/// gradient's pixels where the stride skipped some.
pub(crate) fn convolve_input_grad(
    grad: &Tensor<4>,
    weight: &Tensor<4>,
    input: [usize; 4],
    [stride, padding]: [usize; 2],
) -> Option<Tensor<4>> {
    let [_, _, side, across] = weight.dims();
    let [_, _, height, width] = input;
    if side != across || padding >= side || !has_units(grad) {
        return None;
    }
    operand(grad)?;
    let around = side - 1 - padding;
    // Of the pixels that no output reaches there may be more than the zeros after the last one.
    let sizes = [2, 3].map(|axis| grad.dims()[axis] * stride + 2 * around + 1 - side);
    if sizes[0] < height || sizes[1] < width {
        return None;
    }
    let turned = weight.clone().permute([1, 2, 3, 0]).flip([1, 2]);
    let turned = turned.permute([0, 3, 1, 2]);
    let of_x = convolve(&spread(grad, stride), &turned, None, 1, [around; 2])?;
    if sizes == [height, width] {
        return Some(of_x);
    }
    Some(of_x.narrow(2, 0, height).narrow(3, 0, width))
}

/// Each pixel with `stride - 1` zeros after it, down and across.
fn spread(x: &Tensor<4>, stride: usize) -> Tensor<4> {
    if stride == 1 {
        return x.clone();
    }
    let [batch, channels, height, width] = x.dims();
    let pixels = x.clone().permute([0, 2, 3, 1]);
    let zeros = |shape: [usize; 4]| Tensor::zeros(shape, (&x.device(), x.dtype()));
    // To both sides of the middle axis: the pixel itself, and what is behind it.
    let pixels: Tensor<4> = pixels.reshape([batch * height * width, 1, 1, channels]);
    let behind = zeros([batch * height * width, 1, stride - 1, channels]);
    let lines: Tensor<4> =
        Tensor::cat(vec![pixels, behind], 2).reshape([batch * height, 1, width * stride, channels]);
    let below = zeros([batch * height, stride - 1, width * stride, channels]);
    let spread: Tensor<4> = Tensor::cat(vec![lines, below], 1).reshape([
        batch,
        height * stride,
        width * stride,
        channels,
    ]);
    spread.permute([0, 3, 1, 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(rows: usize, columns: usize, depth: usize, kernel: Option<usize>) -> Problem {
        Problem {
            rows,
            columns,
            depth,
            pitch: depth,
            weight_row: depth,
            weight_pitch: depth,
            onto_pitch: columns,
            window: kernel.map(|kernel| Window {
                size: [1, rows],
                out: [1, rows],
                pixels: [kernel; 2],
                stride: 1,
                padding: [kernel / 2; 2],
            }),
        }
    }

    #[test]
    fn what_is_chosen_fits_the_device_and_the_depth() {
        for (processors, shared) in [(132, 232_448), (128, 101_376), (40, 49_152), (1, 0)] {
            let device = Device { processors, shared };
            for (rows, columns, depth) in
                [(8192, 320, 320), (2, 4, 8), (128, 1280, 1280), (9, 64, 96)]
            {
                for kernel in [None, Some(3)] {
                    let problem = problem(rows, columns, depth.max(32), kernel);
                    let (tile, parts) = choose(&problem, &device);
                    assert!(tile.shared() <= shared.max(LEAST_DEEP.shared()), "{tile:?}");
                    assert!((1..=problem.steps(&tile)).contains(&parts), "{parts}");
                    let whole = problem.depth.is_multiple_of(tile.depth);
                    assert!(kernel.is_none() || whole, "{tile:?} of {depth}");
                }
            }
        }
    }

    #[test]
    fn few_results_of_a_great_depth_are_shared() {
        let device = Device {
            processors: 132,
            shared: 232_448,
        };
        let (_, parts) = choose(&problem(128, 1280, 1280, Some(3)), &device);
        assert!(parts > 1);
        let (_, parts) = choose(&problem(8192, 2560, 320, None), &device);
        assert_eq!(parts, 1);
    }
}
