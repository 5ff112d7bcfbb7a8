//! Group and layer normalisation with SiLU, and their gradients.
//!
//! A group is a row of elements, and some threads of a cube share a row: they take its mean and its
//! sum of squared deviations in one sweep (the vectors' own, merged by the formula of Chan, Golub and
//! LeVeque 1983, which cancels nothing), and normalise in a second, which finds the row in a cache.
//! Rows too long for one cube are cut into pieces that several cubes measure first.
//!
//! Convolutions on these backends give pictures whose channels lie next to each other and copy any
//! other picture into that order; pictures that come so are read and returned so.

use super::*;

/// Vectors of a row from which on it is cut into pieces, if there are few rows.
const LONG: usize = 1 << 15;
/// Vectors of such a piece, about.
const PIECE: usize = 1 << 13;
/// Rows that keep a large GPU busy with one cube each.
const MANY: usize = 256;

/// How to normalise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Groups of channels. For a layer norm 1.
    pub groups: usize,
    pub eps: f64,
    pub silu: bool,
    /// Over the last axis, whose elements are the channels.
    pub layer: bool,
}

/// [`crate::group_norm`].
pub(crate) fn group_norm(
    x: &Tensor<4>,
    groups: usize,
    [weight, bias]: [&Tensor<1>; 2],
    eps: f64,
    silu: bool,
) -> Option<Tensor<4>> {
    let options = Options {
        groups,
        eps,
        silu,
        layer: false,
    };
    let (weight, bias) = (operand(weight)?, operand(bias)?);
    let y = Dispatch::norm(operand(x)?, weight, bias, options);
    Some(Tensor::from_dispatch(y))
}

/// [`crate::layer_norm`].
pub(crate) fn layer_norm(
    x: &Tensor<3>,
    weight: &Tensor<1>,
    bias: &Tensor<1>,
    eps: f64,
) -> Option<Tensor<3>> {
    let (weight, bias) = (operand(weight)?, operand(bias)?);
    let y = Dispatch::norm(operand(x)?, weight, bias, Options::of_layer(eps));
    Some(Tensor::from_dispatch(y))
}

/// [`crate::group_norm_input_grad`].
pub(crate) fn group_norm_input_grad(
    grad: &Tensor<4>,
    x: &Tensor<4>,
    groups: usize,
    [weight, bias]: [&Tensor<1>; 2],
    eps: f64,
    silu: bool,
) -> Option<Tensor<4>> {
    let options = Options {
        groups,
        eps,
        silu,
        layer: false,
    };
    let (weight, bias) = (operand(weight)?, operand(bias)?);
    let y = Dispatch::norm_input_grad(operand(grad)?, operand(x)?, weight, bias, options);
    Some(Tensor::from_dispatch(y))
}

/// [`crate::layer_norm_input_grad`].
pub(crate) fn layer_norm_input_grad(
    grad: &Tensor<3>,
    x: &Tensor<3>,
    weight: &Tensor<1>,
    eps: f64,
) -> Option<Tensor<3>> {
    // Nothing reads the bias without SiLU.
    let (weight, bias) = (operand(weight)?, operand(weight)?);
    let (grad, x) = (operand(grad)?, operand(x)?);
    let y = Dispatch::norm_input_grad(grad, x, weight, bias, Options::of_layer(eps));
    Some(Tensor::from_dispatch(y))
}

impl Options {
    fn of_layer(eps: f64) -> Self {
        Self {
            groups: 1,
            eps,
            silu: false,
            layer: true,
        }
    }
}

/// Where the elements of the rows are, in vectors.
#[derive(CubeType, CubeLaunch)]
struct Rows {
    /// Number of rows.
    count: usize,
    /// Vectors of a row.
    length: usize,
    /// Rows of a sample.
    groups: usize,
    /// Channels of a row.
    channels: usize,
    /// Elements of a channel.
    plane: usize,
    /// Vectors of a row that lie next to each other, where channels do.
    run: usize,
}

/// What the kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Config {
    /// Channels lie next to each other.
    channels_last: bool,
    silu: bool,
    /// Elements of a vector.
    vector: usize,
    /// Threads of a row, a power of two.
    lanes: usize,
    /// Rows of a cube.
    rows: usize,
    /// Pieces of a row, each a cube's.
    pieces: usize,
}

/// Vector number `i` of row `row`.
#[cube]
fn place(rows: &Rows, row: usize, i: usize, #[comptime] config: Config) -> usize {
    if comptime!(config.channels_last) {
        let pixel = (row / rows.groups) * rows.plane + i / rows.run;
        (pixel * rows.groups + row % rows.groups) * rows.run + i % rows.run
    } else {
        row * rows.length + i
    }
}

/// The channel of element `lane` of that vector.
#[cube]
fn channel(
    rows: &Rows,
    row: usize,
    i: usize,
    #[comptime] lane: usize,
    #[comptime] config: Config,
) -> usize {
    let first = (row % rows.groups) * rows.channels;
    if comptime!(config.channels_last) {
        first + (i % rows.run) * config.vector + lane
    } else {
        first + i * config.vector / rows.plane
    }
}

/// The channels' numbers for the elements of that vector.
#[cube]
fn by_channel<W: Float, N: Size>(
    of: &[W],
    rows: &Rows,
    row: usize,
    i: usize,
    #[comptime] config: Config,
) -> Vector<f32, N> {
    let mut values =
        Vector::<f32, N>::new(f32::cast_from(of[channel(rows, row, i, 0usize, config)]));
    if comptime!(config.channels_last) {
        #[unroll]
        for lane in 1..config.vector {
            values.insert(
                lane,
                f32::cast_from(of[channel(rows, row, i, lane, config)]),
            );
        }
    }
    values
}

/// Mean, sum of squared deviations and number of two sets from those of each.
#[cube]
fn join(mean: f32, spread: f32, count: f32, other: (f32, f32, f32)) -> (f32, f32, f32) {
    let (other_mean, other_spread, other_count) = other;
    let total = count + other_count;
    let share = other_count / max(total, 1.0f32);
    let apart = other_mean - mean;
    (
        mean + apart * share,
        spread + other_spread + apart * apart * count * share,
        total,
    )
}

/// Mean, sum of squared deviations and number of every `config.lanes`-th vector of a row.
#[cube]
fn moments<F: Float, N: Size>(
    x: &[Vector<F, N>],
    rows: &Rows,
    row: usize,
    first: usize,
    end: usize,
    #[comptime] config: Config,
) -> (f32, f32, f32) {
    let length = comptime!(config.vector as f32);
    let mut mean = 0.0f32;
    let mut spread = 0.0f32;
    let mut count = 0.0f32;
    let mut i = first;
    while i < end {
        let values = Vector::<f32, N>::cast_from(x[place(rows, row, i, config)]);
        let own_mean = values.vector_sum() / length;
        let apart = values - Vector::new(own_mean);
        let own_spread = (apart * apart).vector_sum();
        let joined = join(mean, spread, count, (own_mean, own_spread, length));
        mean = joined.0;
        spread = joined.1;
        count = joined.2;
        i += config.lanes;
    }
    (mean, spread, count)
}

/// Mean and variance of a row from those of its threads, the same for all of them.
#[cube]
fn gather(
    own: (f32, f32, f32),
    lane: usize,
    slot: usize,
    #[comptime] config: Config,
) -> (f32, f32, f32) {
    let units = comptime!(config.lanes * config.rows);
    let mut means = Shared::new_slice(units);
    let mut spreads = Shared::new_slice(units);
    let mut counts = Shared::new_slice(units);
    let at = slot * config.lanes + lane;
    means[at] = own.0;
    spreads[at] = own.1;
    counts[at] = own.2;
    sync_cube();
    #[unroll]
    for level in 0..comptime!(config.lanes.ilog2()) {
        let half = comptime!(config.lanes >> (level + 1));
        if lane < half {
            let other = (means[at + half], spreads[at + half], counts[at + half]);
            let joined = join(means[at], spreads[at], counts[at], other);
            means[at] = joined.0;
            spreads[at] = joined.1;
            counts[at] = joined.2;
        }
        sync_cube();
    }
    let first = slot * config.lanes;
    (means[first], spreads[first], counts[first])
}

/// `1 / (1 + exp(-y))`.
#[cube]
fn sigmoid<N: Size>(y: Vector<f32, N>) -> Vector<f32, N> {
    // Infinities are undefined in WGSL, and the sigmoid of -80 is nothing in any of the types.
    let y = max(y, Vector::new(-80.0f32));
    Vector::new(1.0f32) / (Vector::new(1.0f32) + (-y).exp())
}

/// Normalises the vectors `first..end` of a row, from `first + lane` on every `config.lanes`-th.
#[cube]
#[allow(clippy::too_many_arguments)]
fn apply<F: Float, W: Float, N: Size>(
    x: &[Vector<F, N>],
    weight: &[W],
    bias: &[W],
    y: &mut [Vector<F, N>],
    rows: &Rows,
    row: usize,
    first: usize,
    end: usize,
    mean: f32,
    scale: f32,
    #[comptime] config: Config,
) {
    let mut i = first;
    while i < end {
        let at = place(rows, row, i, config);
        let values = Vector::<f32, N>::cast_from(x[at]);
        let normalised = (values - Vector::new(mean)) * Vector::new(scale);
        let mut result = normalised * by_channel::<W, N>(weight, rows, row, i, config)
            + by_channel::<W, N>(bias, rows, row, i, config);
        if comptime!(config.silu) {
            result = result * sigmoid::<N>(result);
        }
        y[at] = Vector::cast_from(result);
        i += config.lanes;
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn norm_kernel<F: Float, W: Float, N: Size>(
    x: &[Vector<F, N>],
    weight: &[W],
    bias: &[W],
    y: &mut [Vector<F, N>],
    rows: Rows,
    eps: f32,
    #[comptime] config: Config,
    #[define(F, W)] _types: [ElemType; 2],
) {
    let lane = UNIT_POS_X as usize;
    let slot = UNIT_POS_Y as usize;
    let row = CUBE_POS as usize * config.rows + slot;
    let end = select(row < rows.count, rows.length, 0);
    let own = moments::<F, N>(x, &rows, row, lane, end, config);
    let (mean, spread, count) = gather(own, lane, slot, config);
    let scale = (spread / max(count, 1.0f32) + eps).inverse_sqrt();
    apply::<F, W, N>(
        x, weight, bias, y, &rows, row, lane, end, mean, scale, config,
    );
}

/// Mean and sum of squared deviations of each piece of each row.
#[cube(launch_unchecked, address_type = "dynamic")]
fn measure_kernel<F: Float, N: Size>(
    x: &[Vector<F, N>],
    measured: &mut [f32],
    rows: Rows,
    piece: usize,
    #[comptime] config: Config,
    #[define(F)] _type: ElemType,
) {
    let lane = UNIT_POS_X as usize;
    let cube = CUBE_POS as usize;
    let row = cube / config.pieces;
    let first = cube % config.pieces * piece;
    let inside = select(row < rows.count, rows.length, 0);
    let end = min(first + piece, inside);
    let own = moments::<F, N>(x, &rows, row, first + lane, end, config);
    let (mean, spread, _count) = gather(own, lane, 0, config);
    if lane == 0 && row < rows.count {
        measured[cube * 2] = mean;
        measured[cube * 2 + 1] = spread;
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn apply_kernel<F: Float, W: Float, N: Size>(
    x: &[Vector<F, N>],
    weight: &[W],
    bias: &[W],
    measured: &[f32],
    y: &mut [Vector<F, N>],
    rows: Rows,
    piece: usize,
    eps: f32,
    #[comptime] config: Config,
    #[define(F, W)] _types: [ElemType; 2],
) {
    let cube = CUBE_POS as usize;
    let row = cube / config.pieces;
    if row < rows.count {
        let mut mean = 0.0f32;
        let mut spread = 0.0f32;
        let mut count = 0.0f32;
        for i in 0..config.pieces {
            let at = (row * config.pieces + i) * 2;
            let vectors = min(rows.length - i * piece, piece);
            let number = f32::cast_from(vectors as u32) * comptime!(config.vector as f32);
            let joined = join(
                mean,
                spread,
                count,
                (measured[at], measured[at + 1], number),
            );
            mean = joined.0;
            spread = joined.1;
            count = joined.2;
        }
        let scale = (spread / count + eps).inverse_sqrt();
        let first = cube % config.pieces * piece;
        let end = min(first + piece, rows.length);
        let from = first + UNIT_POS_X as usize;
        apply::<F, W, N>(
            x, weight, bias, y, &rows, row, from, end, mean, scale, config,
        );
    }
}

/// The normalised elements of a vector, and the gradient to them.
#[cube]
#[allow(clippy::too_many_arguments)]
fn inner_grad<F: Float, G: Float, W: Float, N: Size>(
    grad: &[Vector<G, N>],
    x: &[Vector<F, N>],
    weight: &[W],
    bias: &[W],
    rows: &Rows,
    row: usize,
    i: usize,
    mean: f32,
    scale: f32,
    #[comptime] config: Config,
) -> (Vector<f32, N>, Vector<f32, N>) {
    let at = place(rows, row, i, config);
    let values = Vector::<f32, N>::cast_from(x[at]);
    let normalised = (values - Vector::new(mean)) * Vector::new(scale);
    let weight = by_channel::<W, N>(weight, rows, row, i, config);
    let mut grad = Vector::<f32, N>::cast_from(grad[at]);
    if comptime!(config.silu) {
        let y = normalised * weight + by_channel::<W, N>(bias, rows, row, i, config);
        let gate = sigmoid::<N>(y);
        // silu'(y) = σ(y) (1 + y (1 − σ(y)))
        let one = Vector::new(1.0f32);
        grad = grad * gate * (one + y * (one - gate));
    }
    (normalised, grad * weight)
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn norm_input_grad_kernel<F: Float, G: Float, W: Float, N: Size>(
    grad: &[Vector<G, N>],
    x: &[Vector<F, N>],
    weight: &[W],
    bias: &[W],
    of_x: &mut [Vector<G, N>],
    rows: Rows,
    eps: f32,
    #[comptime] config: Config,
    #[define(F, G, W)] _types: [ElemType; 3],
) {
    let lane = UNIT_POS_X as usize;
    let slot = UNIT_POS_Y as usize;
    let row = CUBE_POS as usize * config.rows + slot;
    let end = select(row < rows.count, rows.length, 0);
    let own = moments::<F, N>(x, &rows, row, lane, end, config);
    let (mean, spread, count) = gather(own, lane, slot, config);
    let count = max(count, 1.0f32);
    let scale = (spread / count + eps).inverse_sqrt();

    // The parts of the gradient that would shift the mean and stretch the deviation.
    let mut shift = Vector::<f32, N>::new(0.0f32);
    let mut stretch = Vector::<f32, N>::new(0.0f32);
    let mut i = lane;
    while i < end {
        let (normalised, inner) =
            inner_grad::<F, G, W, N>(grad, x, weight, bias, &rows, row, i, mean, scale, config);
        shift += inner;
        stretch += inner * normalised;
        i += config.lanes;
    }
    let units = comptime!(config.lanes * config.rows);
    let mut shifts = Shared::new_slice(units);
    let mut stretches = Shared::new_slice(units);
    let at = slot * config.lanes + lane;
    shifts[at] = shift.vector_sum();
    stretches[at] = stretch.vector_sum();
    sync_cube();
    #[unroll]
    for level in 0..comptime!(config.lanes.ilog2()) {
        let half = comptime!(config.lanes >> (level + 1));
        if lane < half {
            shifts[at] += shifts[at + half];
            stretches[at] += stretches[at + half];
        }
        sync_cube();
    }
    let shift = shifts[slot * config.lanes] / count;
    let stretch = stretches[slot * config.lanes] / count;

    let mut i = lane;
    while i < end {
        let (normalised, inner) =
            inner_grad::<F, G, W, N>(grad, x, weight, bias, &rows, row, i, mean, scale, config);
        let rest = inner - Vector::new(shift) - normalised * Vector::new(stretch);
        of_x[place(&rows, row, i, config)] = Vector::cast_from(rest * Vector::new(scale));
        i += config.lanes;
    }
}

/// What there is to launch.
struct Problem {
    rows: [usize; 6],
    config: Config,
    /// Vectors of a piece.
    piece: usize,
}

impl Problem {
    /// For operands that all have the layout of the first.
    fn new(operands: &[&CubeTensor], channels_last: bool, options: &Options) -> Self {
        let x = operands[0];
        let shape = x.meta.shape();
        let (samples, channels, plane) = if options.layer {
            let channels = shape[shape.len() - 1];
            (shape.num_elements() / channels, channels, 1)
        } else {
            (shape[0], shape[1], shape[2] * shape[3])
        };
        let channels_last = channels_last || options.layer;
        let count = samples * options.groups;
        let group = channels / options.groups;
        let run = if channels_last { group } else { plane };
        let vector = vector_size(operands, &[run]);
        let length = group * plane / vector;

        let wanted = (length / 4).next_power_of_two().max(8);
        let most = if count < MANY { 1024 } else { 256 };
        let lanes = units(&x.client, wanted.min(most));
        let rows = (units(&x.client, 256) / lanes).max(1);
        let pieces = if count < MANY && length >= LONG {
            length.div_ceil(PIECE)
        } else {
            1
        };
        let piece = length.div_ceil(pieces);
        Self {
            rows: [count, length, options.groups, group, plane, group / vector],
            config: Config {
                channels_last,
                silu: options.silu,
                vector,
                lanes,
                rows: if pieces > 1 { 1 } else { rows },
                pieces: length.div_ceil(piece),
            },
            piece,
        }
    }

    fn rows(&self) -> RowsLaunch {
        let [count, length, groups, channels, plane, run] = self.rows;
        // Division by it is compiled, though nothing reads the result.
        RowsLaunch::new(count, length, groups, channels, plane, run.max(1))
    }

    fn cubes(&self, client: &Client) -> (CubeCount, CubeDim) {
        let Config {
            lanes,
            rows,
            pieces,
            ..
        } = self.config;
        let cubes = self.rows[0].div_ceil(rows) * pieces;
        (
            grid(client, cubes),
            CubeDim::new_2d(lanes as u32, rows as u32),
        )
    }
}

/// The tensor in one of the two layouts that the kernels read, and whether that has the channels next
/// to each other.
fn in_layout(x: CubeTensor, options: &Options) -> (CubeTensor, bool) {
    if options.layer || x.is_contiguous() {
        return (into_contiguous(x), false);
    }
    let last = is_channels_last(&x);
    (if last { x } else { into_contiguous(x) }, last)
}

fn is_channels_last(x: &CubeTensor) -> bool {
    let shape = x.meta.shape();
    let [_, channels, height, width] = [shape[0], shape[1], shape[2], shape[3]];
    let wanted = [height * width * channels, 1, width * channels, channels];
    let strides = x.meta.strides();
    (0..4).all(|axis| shape[axis] == 1 || strides[axis] == wanted[axis])
}

/// `x` in the layout of channels next to each other.
fn into_channels_last(x: CubeTensor) -> CubeTensor {
    if is_channels_last(&x) {
        return x;
    }
    let swap = |mut x: CubeTensor, axes: [usize; 4]| {
        let shape: Vec<usize> = axes.iter().map(|axis| x.meta.shape()[*axis]).collect();
        let strides: Vec<usize> = axes.iter().map(|axis| x.meta.strides()[*axis]).collect();
        *x.meta = Metadata::new(Shape::from(shape), Strides::new(&strides));
        x
    };
    swap(into_contiguous(swap(x, [0, 2, 3, 1])), [0, 3, 1, 2])
}

/// Weight and bias as the kernels read them: contiguous and of one type.
fn affine(weight: CubeTensor, bias: CubeTensor) -> (CubeTensor, CubeTensor) {
    let (weight, bias) = same_type(weight, bias);
    (into_contiguous(weight), into_contiguous(bias))
}

/// Runs [`Kernels::norm`].
pub(super) fn launch(
    x: CubeTensor,
    weight: CubeTensor,
    bias: CubeTensor,
    options: Options,
) -> CubeTensor {
    let (x, channels_last) = in_layout(x, &options);
    let (weight, bias) = affine(weight, bias);
    let y = empty_like(&x, x.dtype);
    let problem = Problem::new(&[&x, &y], channels_last, &options);
    let client = x.client.clone();
    let (cubes, dim) = problem.cubes(&client);
    let (vector, config) = (problem.config.vector, problem.config);
    let types = [element(&x), element(&weight)];
    let address = address(&[&x]);
    // SAFETY: the rows cover the tensors and no more, and what the sizes leave over does nothing.
    unsafe {
        if config.pieces == 1 {
            norm_kernel::launch_unchecked(
                &client,
                cubes,
                dim,
                address,
                vector,
                x.into_buffer_arg(),
                weight.into_buffer_arg(),
                bias.into_buffer_arg(),
                y.clone().into_buffer_arg(),
                problem.rows(),
                options.eps as f32,
                config,
                types,
            );
        } else {
            let shape = Shape::from([problem.rows[0], config.pieces, 2]);
            let measured = empty(&x, shape, DType::F32);
            measure_kernel::launch_unchecked(
                &client,
                cubes.clone(),
                dim,
                address,
                vector,
                x.clone().into_buffer_arg(),
                measured.clone().into_buffer_arg(),
                problem.rows(),
                problem.piece,
                config,
                types[0],
            );
            apply_kernel::launch_unchecked(
                &client,
                cubes,
                dim,
                address,
                vector,
                x.into_buffer_arg(),
                weight.into_buffer_arg(),
                bias.into_buffer_arg(),
                measured.into_buffer_arg(),
                y.clone().into_buffer_arg(),
                problem.rows(),
                problem.piece,
                options.eps as f32,
                config,
                types,
            );
        }
    }
    y
}

/// Runs [`Kernels::norm_input_grad`].
pub(super) fn launch_input_grad(
    grad: CubeTensor,
    x: CubeTensor,
    weight: CubeTensor,
    bias: CubeTensor,
    options: Options,
) -> CubeTensor {
    let (x, channels_last) = in_layout(x, &options);
    let grad = if channels_last {
        into_channels_last(grad)
    } else {
        into_contiguous(grad)
    };
    let (weight, bias) = affine(weight, bias);
    let of_x = empty_like(&x, grad.dtype);
    let mut problem = Problem::new(&[&x, &grad, &of_x], channels_last, &options);
    // One cube for a row, however long: gradients are for networks whose rows are short.
    problem.config.pieces = 1;
    let client = x.client.clone();
    let (cubes, dim) = problem.cubes(&client);
    let types = [element(&x), element(&grad), element(&weight)];
    // SAFETY: the rows cover the tensors and no more, and what the sizes leave over does nothing.
    unsafe {
        norm_input_grad_kernel::launch_unchecked(
            &client,
            cubes,
            dim,
            address(&[&x]),
            problem.config.vector,
            grad.into_buffer_arg(),
            x.into_buffer_arg(),
            weight.into_buffer_arg(),
            bias.into_buffer_arg(),
            of_x.clone().into_buffer_arg(),
            problem.rows(),
            options.eps as f32,
            problem.config,
            types,
        );
    }
    of_x
}
