//! Group and layer normalisation with SiLU, and their gradients.
//!
//! A group is a row of elements, and some threads of a cube share a row: they take its mean and its
//! sum of squared deviations in one sweep (the vectors' own, merged by the formula of Chan, Golub and
//! LeVeque 1983, which cancels nothing), and normalise in a second, which finds the row in a cache.
//! Rows too long for one cube are cut into pieces that several cubes measure first.
//!
//! Convolutions on these backends give pictures whose channels lie next to each other, perhaps with gaps between the
//! pixels ([`super::layout`]), and copy any other picture into that order; pictures that come so are read and returned so.

mod forward;
mod gradient;
mod order;

pub(super) use forward::launch;
pub(super) use gradient::launch as launch_input_grad;

use super::*;
use order::{Order, as_pixels, as_tokens, empty_result, in_order};

/// Vectors of a row from which on it is cut into pieces, if there are few rows.
const LONG: usize = 1 << 15;
/// Vectors of such a piece, about.
const PIECE: usize = 1 << 13;
/// Rows that keep a large GPU busy with one cube each.
const MANY: usize = 256;

/// A norm's choices that are no tensors.
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
    /// Vectors from one pixel to the next of the input, where channels lie next to each other.
    x_pitch: usize,
    /// The same of the gradient.
    grad_pitch: usize,
    /// The same of the result.
    y_pitch: usize,
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

/// What there is to launch.
struct Problem {
    rows: [usize; 6],
    /// Vectors from one pixel to the next of input, gradient and result.
    pitches: [usize; 3],
    config: Config,
    /// Vectors of a piece.
    piece: usize,
}

impl Problem {
    /// For an input and perhaps a gradient, all in the order of the first or with pixels of their own pitch, and a
    /// result without gaps.
    fn new(inputs: &[(&CubeTensor, Order)], y: &CubeTensor, options: &Options) -> Self {
        let (x, order) = inputs[0];
        let shape = x.meta.shape();
        let (samples, channels, plane) = if options.layer {
            let channels = shape[shape.len() - 1];
            (shape.num_elements() / channels, channels, 1)
        } else {
            (shape[0], shape[1], shape[2] * shape[3])
        };
        let channels_last = order != Order::Planes;
        let count = samples * options.groups;
        let group = channels / options.groups;
        let run = if channels_last { group } else { plane };
        let grad = inputs.last().map_or(order, |(_, order)| *order);
        // Planes have no pitch, and zero is a multiple of everything.
        let pitches = [order.pitch(), grad.pitch(), channels];
        let operands: Vec<_> = inputs.iter().map(|(x, _)| *x).chain([y]).collect();
        let vector = vector_size(&operands, &[run, pitches[0], pitches[1]]);
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
            pitches: pitches.map(|pitch| pitch / vector),
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
        let [x, grad, y] = self.pitches;
        // Division by it is compiled, though nothing reads the result.
        RowsLaunch::new(
            count,
            length,
            groups,
            channels,
            plane,
            run.max(1),
            x,
            grad,
            y,
        )
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

/// Weight and bias as the kernels read them: contiguous and of one type.
fn affine(weight: CubeTensor, bias: CubeTensor) -> (CubeTensor, CubeTensor) {
    let (weight, bias) = same_type(weight, bias);
    (into_contiguous(weight), into_contiguous(bias))
}

/// Vector number `i` of row `row` of an operand whose pixels, if channels lie next to each other, are `pitch` vectors
/// apart.
#[cube]
fn place(rows: &Rows, pitch: usize, row: usize, i: usize, #[comptime] config: Config) -> usize {
    if comptime!(config.channels_last) {
        let pixel = (row / rows.groups) * rows.plane + i / rows.run;
        pixel * pitch + (row % rows.groups) * rows.run + i % rows.run
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
        let values = Vector::<f32, N>::cast_from(x[place(rows, rows.x_pitch, row, i, config)]);
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
