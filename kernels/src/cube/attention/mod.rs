//! Attention and its gradients without a matrix of scores (Rabe & Staats 2021; Dao et al. 2022).
//!
//! A thread owns a part of one row (a query, or in the gradient to keys and values a key) and keeps it
//! in registers, with what it sums up. Rows of the other side go through shared memory, a tile at a
//! time, and every thread of a plane reads the same address there, which costs as much as one thread's
//! read. Rows wider than 40 are shared by two and more threads, which exchange their parts of the
//! scores through shared memory.
//!
//! Nothing of this depends on the size of a plane, on tensor cores or on atomics. Where there are matrix units for f16 or bf16,
//! [`matrix_units`] come first, or else [`accelerated`].

mod accelerated;
mod forward;
mod input_grads;
mod matrix_units;
mod query_grad;

use super::*;

pub(crate) use forward::{attention, attention_with_probs};
pub(super) use forward::{launch, launch_with_probs};
pub(crate) use input_grads::attention_input_grads;
pub(super) use input_grads::launch as launch_input_grads;
pub(crate) use query_grad::attention_query_grad;
pub(super) use query_grad::launch as launch_query_grad;

/// Four neighbours of a row, as they are kept in shared memory and registers.
type Quad = Vector<f32, Const<4>>;

/// Less than any score, and no infinity, which WGSL does not know.
const LEAST: f32 = -1e30;

/// Elements of a row in a thread's registers, at most, for each array it keeps.
const WIDEST: usize = 40;
/// Threads of a cube.
const UNITS: usize = 128;
/// Rows of the other side that a thread scores at a time, at most.
const BLOCK: usize = 4;
/// Rows of a tile, at most.
const TILE: usize = 32;
/// Shared memory for a cube, at most, so that several fit on a multiprocessor.
const SHARED: usize = 32 << 10;

/// What a kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Shape2d {
    /// Elements of a row.
    width: usize,
    /// Quads of a row in one thread.
    quads: usize,
    /// Threads of a row.
    split: usize,
    /// Rows of a cube.
    rows: usize,
    /// Rows of the other side that are scored at a time.
    block: usize,
    /// Rows of the other side in shared memory, a multiple of `block`.
    tile: usize,
    /// Elements that are read at once: 4 or 1.
    vector: usize,
}

impl Shape2d {
    /// For threads that keep up to `widest` elements of a row, with `tiles` arrays of the other side
    /// in shared memory and `exchanged` numbers exchanged for each score.
    fn new(
        client: &Client,
        width: usize,
        vector: usize,
        widest: usize,
        tiles: usize,
        exchanged: usize,
    ) -> Self {
        let all = width.div_ceil(4);
        let units = units(client, UNITS);
        let mut split = 1;
        while split < units && all.div_ceil(split) * 4 > widest {
            split *= 2;
        }
        let quads = all.div_ceil(split);
        let shared = client
            .properties()
            .hardware
            .max_shared_memory_size
            .min(SHARED);
        let bytes = |block: usize, tile: usize| {
            let exchange = if split > 1 {
                block * units * exchanged
            } else {
                0
            };
            (tiles * tile * quads * split * 4 + 2 * tile + exchange) * 4
        };
        let mut block = BLOCK;
        while block > 1 && bytes(block, block) > shared {
            block /= 2;
        }
        let mut tile = TILE.max(block);
        while tile > block && bytes(block, tile) > shared {
            tile /= 2;
        }
        Self {
            width,
            quads,
            split,
            rows: units / split,
            block,
            tile,
            vector,
        }
    }

    fn dim(&self) -> CubeDim {
        CubeDim::new_2d(self.rows as u32, self.split as u32)
    }
}

/// How far the rows of `[B, H, N, D]` are apart, in vectors.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Strides4 {
    batch: usize,
    head: usize,
    row: usize,
}

fn strides(x: &CubeTensor, vector: usize) -> Strides4Launch {
    let [batch, head, row] = [0, 1, 2].map(|axis| match x.meta.shape()[axis] {
        1 => 0,
        _ => x.meta.strides()[axis] / vector,
    });
    Strides4Launch::new(batch, head, row)
}

/// Operands whose rows are runs, and the number of elements that can be read at once.
fn rows_of<const K: usize>(operands: [CubeTensor; K]) -> ([CubeTensor; K], usize) {
    let operands = operands.map(
        |x| match x.meta.shape()[3] == 1 || x.meta.strides()[3] == 1 {
            true => x,
            false => into_contiguous(x),
        },
    );
    let wide = operands.iter().all(|x| {
        let steps = (0..3).map(|axis| match x.meta.shape()[axis] {
            1 => 0,
            _ => x.meta.strides()[axis],
        });
        let start = x.handle.offset_start.unwrap_or(0) as usize / x.elem_size();
        let lengths = steps.chain([x.meta.shape()[3], start]);
        let most = x.client.properties().hardware.max_vector_size;
        most >= 4 && lengths.into_iter().all(|length| length.is_multiple_of(4))
    });
    (operands, if wide { 4 } else { 1 })
}

/// An uninitialised `[B, H, N, D]` laid out as `[B, N, H, D]`, so that merging the heads copies nothing.
fn heads_inside(
    like: &CubeTensor,
    [batch, heads, rows, width]: [usize; 4],
    dtype: DType,
) -> CubeTensor {
    let bytes = batch * heads * rows * width * dtype.size();
    let strides = Strides::new(&[rows * heads * width, width, heads * width, 1]);
    CubeTensor::new(
        like.client.clone(),
        like.client.empty(bytes),
        Metadata::new(Shape::from([batch, heads, rows, width]), strides),
        like.device.clone(),
        dtype,
    )
}

/// The vector at which a head's rows start.
#[cube]
fn start(strides: &Strides4, head: usize, heads: usize) -> usize {
    head / heads * strides.batch + head % heads * strides.head
}

/// Quad number `quad` of the row that starts at vector `row`, with zeros past its end.
#[cube]
fn read<F: Float, N: Size>(
    x: &[Vector<F, N>],
    row: usize,
    quad: usize,
    #[comptime] shape: Shape2d,
) -> Quad {
    let mut values = Quad::new(0.0f32);
    if comptime!(shape.vector == 4) {
        if quad * 4 < shape.width {
            values = vector_to_quad::<F, N>(x[row + quad]);
        }
    } else {
        #[unroll]
        for lane in 0..4usize {
            if quad * 4 + lane < shape.width {
                values.insert(
                    lane,
                    f32::cast_from(x[row + quad * 4 + lane].extract(0usize)),
                );
            }
        }
    }
    values
}

#[cube]
fn vector_to_quad<F: Float, N: Size>(x: Vector<F, N>) -> Quad {
    let mut values = Quad::new(0.0f32);
    #[unroll]
    for lane in 0..4usize {
        values.insert(lane, f32::cast_from(x.extract(lane)));
    }
    values
}

/// Writes a thread's quads of a row.
#[cube]
fn write<F: Float, N: Size>(
    to: &mut [Vector<F, N>],
    row: usize,
    first: usize,
    values: &Array<Quad>,
    #[comptime] shape: Shape2d,
) {
    #[unroll]
    for p in 0..shape.quads {
        let quad = first + p;
        if comptime!(shape.vector == 4) {
            if quad * 4 < shape.width {
                let mut vector = Vector::<F, N>::new(F::new(0.0));
                #[unroll]
                for lane in 0..4usize {
                    vector.insert(lane, F::cast_from(values[p].extract(lane)));
                }
                to[row + quad] = vector;
            }
        } else {
            #[unroll]
            for lane in 0..4usize {
                if quad * 4 + lane < shape.width {
                    to[row + quad * 4 + lane] = Vector::new(F::cast_from(values[p].extract(lane)));
                }
            }
        }
    }
}

/// A thread's quads of a row, times `scale`.
#[cube]
fn keep<F: Float, N: Size>(
    x: &[Vector<F, N>],
    row: usize,
    first: usize,
    inside: bool,
    scale: f32,
    #[comptime] shape: Shape2d,
) -> Array<Quad> {
    let mut kept = Array::<Quad>::new(shape.quads);
    #[unroll]
    for p in 0..shape.quads {
        let mut values = Quad::new(0.0f32);
        if inside {
            values = read::<F, N>(x, row, first + p, shape) * Quad::new(scale);
        }
        kept[p] = values;
    }
    kept
}

/// Fills a tile with the rows from `first` on, with zeros from row `count` on.
#[cube]
#[allow(clippy::too_many_arguments)]
fn fill<F: Float, N: Size>(
    x: &[Vector<F, N>],
    head: usize,
    stride: usize,
    first: usize,
    count: usize,
    scale: f32,
    tile: &mut Shared<[Quad]>,
    #[comptime] shape: Shape2d,
) {
    let across = comptime!(shape.quads * shape.split);
    let units = comptime!(shape.rows * shape.split);
    let mut at = UNIT_POS as usize;
    while at < comptime!(across * shape.tile) {
        let row = first + at / across;
        let mut values = Quad::new(0.0f32);
        if row < count {
            values = read::<F, N>(x, head + row * stride, at % across, shape) * Quad::new(scale);
        }
        tile[at] = values;
        at += units;
    }
}

/// The products of a thread's row with the rows `first..first + block` of a tile, as far as the thread
/// has the row.
#[cube]
fn part_of_products(
    own: &Array<Quad>,
    tile: &Shared<[Quad]>,
    first: usize,
    #[comptime] shape: Shape2d,
) -> Array<f32> {
    let across = comptime!(shape.quads * shape.split);
    let from = first * across + UNIT_POS_Y as usize * shape.quads;
    let mut products = Array::<f32>::new(shape.block);
    #[unroll]
    for j in 0..shape.block {
        let mut sum = own[0] * tile[from + comptime!(j * across)];
        #[unroll]
        for p in 1..shape.quads {
            sum += own[p] * tile[from + comptime!(j * across + p)];
        }
        products[j] = sum.vector_sum();
    }
    products
}

/// Completes products by those of the row's other threads. All threads of the cube must come here.
#[cube]
fn complete(products: &mut Array<f32>, exchange: &mut Shared<[f32]>, #[comptime] shape: Shape2d) {
    if comptime!(shape.split > 1) {
        let row = UNIT_POS_X as usize;
        let part = UNIT_POS_Y as usize;
        sync_cube();
        #[unroll]
        for j in 0..shape.block {
            exchange[(comptime!(j * shape.split) + part) * shape.rows + row] = products[j];
        }
        sync_cube();
        #[unroll]
        for j in 0..shape.block {
            let mut sum = exchange[comptime!(j * shape.split * shape.rows) + row];
            #[unroll]
            for part in 1..shape.split {
                sum += exchange[comptime!((j * shape.split + part) * shape.rows) + row];
            }
            products[j] = sum;
        }
    }
}

/// Numbers in shared memory to exchange products in.
fn exchanged(shape: &Shape2d) -> usize {
    if shape.split > 1 {
        shape.block * shape.rows * shape.split
    } else {
        1
    }
}

/// Where a cube's rows are.
#[derive(CubeType, Clone, Copy)]
struct Position {
    head: usize,
    row: usize,
    inside: bool,
    /// The first of the thread's quads.
    part: usize,
}

#[cube]
fn position(rows: usize, all_heads: usize, #[comptime] shape: Shape2d) -> Position {
    let blocks = (rows + comptime!(shape.rows - 1)) / shape.rows;
    let cube = CUBE_POS;
    let head = cube / blocks;
    let row = cube % blocks * shape.rows + UNIT_POS_X as usize;
    Position {
        head: min(head, all_heads - 1),
        row,
        inside: head < all_heads && row < rows,
        part: UNIT_POS_Y as usize * shape.quads,
    }
}
