//! Attention on matrix units that multiply 16 × 8 × 16 (NVIDIA's from the A100 on), after FlashAttention-2 (Dao 2023, arXiv 2307.08691):
//! scores stay in registers from the product that makes them to the product with the values.
//!
//! A plane has sixteen queries, or twice as many. It multiplies them by a step's keys, takes the softmax of what it has seen so far, and
//! adds the step's values; meanwhile the next step's keys and values are on their way to shared memory. There, rows begin an odd number of
//! pieces of 16 bytes apart, so that loads of eight rows do not meet in the same banks. Rows need not be filled up: what is missing up to
//! a multiple of 16 arrives as zeros.

mod gradients;
mod steps;

use super::super::product::{PIECE, PLANE, has_units, packed};
use super::*;
use cubecl::cmma::{MatrixIdent, MmaDefinition};
pub(super) use gradients::input_grads;
use steps::*;

/// The widest rows whose sums a plane keeps in registers.
const MOST: usize = 160;
/// Planes of a cube.
const PLANES: usize = 4;
/// Steps in shared memory: one that is read, one that arrives.
const STAGES: usize = 2;

/// What a kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Config {
    /// Elements of a row.
    width: usize,
    /// Sixteens of queries of a plane.
    tiles: usize,
    /// Keys of a step.
    keys: usize,
}

impl Config {
    fn of(width: usize) -> Self {
        Self {
            width,
            tiles: if width <= 64 { 2 } else { 1 },
            keys: if width <= 80 { 64 } else { 32 },
        }
    }

    /// Sixteenths of the depth of a score's product.
    const fn depth(&self) -> usize {
        self.width.div_ceil(16)
    }

    /// Eights of a result's row.
    const fn columns(&self) -> usize {
        self.width / 8
    }

    /// Eights of a step's scores.
    const fn scores(&self) -> usize {
        self.keys / 8
    }

    /// Pieces of a row of keys or values in shared memory, and from one to the next.
    const fn pieces(&self) -> usize {
        2 * self.depth()
    }

    const fn pitch(&self) -> usize {
        self.pieces() | 1
    }

    /// Queries of a cube.
    const fn rows(&self) -> usize {
        PLANES * self.tiles * 16
    }
}

type Pair<F> = Vector<F, Const<2>>;
type Piece<F> = Vector<F, Const<8>>;

/// A head's rows: where the first begins, and how far each is from the one before.
#[derive(CubeType, Clone, Copy)]
struct Rows {
    first: usize,
    apart: usize,
}

#[cube]
fn rows_at(strides: &Strides4, head: usize, heads: usize) -> Rows {
    Rows {
        first: start(strides, head, heads),
        apart: strides.row,
    }
}

/// What a plane knows of its queries: for every sixteen of them and eight columns the sums of values, and for every row the largest
/// score and, of the thread's own scores, the sum of what became of them.
#[derive(CubeType)]
struct Seen {
    sums: Sequence<Array<Pair<f32>>>,
    most: Array<f32>,
    total: Array<f32>,
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn units_kernel<F: Float>(
    q: &[Pair<F>],
    k: &[Piece<F>],
    v: &[Piece<F>],
    out: &mut [Pair<F>],
    of_q: Strides4,
    of_k: Strides4,
    of_v: Strides4,
    of_out: Strides4,
    heads: usize,
    all_heads: usize,
    queries: usize,
    keys: usize,
    scale: f32,
    #[comptime] config: Config,
    #[define(F)] _type: ElemType,
) {
    let blocks = (queries + comptime!(config.rows() - 1)) / comptime!(config.rows());
    let cube = CUBE_POS;
    let head = cube / blocks;
    // Cubes past the last head keep step with nothing to write.
    let rows = select(head < all_heads, queries, 0usize);
    let head = min(head, all_heads - 1);
    let plane = UNIT_POS as usize / PLANE;
    let first = cube % blocks * comptime!(config.rows()) + plane * comptime!(config.tiles * 16);
    let of_keys = rows_at(&of_k, head, heads);
    let of_values = rows_at(&of_v, head, heads);

    let stage_size = comptime!(config.keys * config.pitch());
    let mut key_stages =
        Shared::<[Piece<F>]>::new_aligned_slice(comptime!(STAGES * stage_size), 16usize);
    let mut value_stages =
        Shared::<[Piece<F>]>::new_aligned_slice(comptime!(STAGES * stage_size), 16usize);
    fetch::<F>(k, &of_keys, 0usize, keys, &mut key_stages, 0usize, config);
    fetch::<F>(
        v,
        &of_values,
        0usize,
        keys,
        &mut value_stages,
        0usize,
        config,
    );
    gpu_asm!("cp.async.commit_group;");

    let own = own_rows::<F>(q, &rows_at(&of_q, head, heads), first, rows, config);
    let mut seen = nothing_seen(config);
    let mut from = 0usize;
    let mut stage = 0usize;
    while from < keys {
        let next = from + config.keys;
        let other = stage_size - stage;
        if next < keys {
            fetch::<F>(k, &of_keys, next, keys, &mut key_stages, other, config);
            fetch::<F>(v, &of_values, next, keys, &mut value_stages, other, config);
        }
        gpu_asm!("cp.async.commit_group;");
        gpu_asm!("cp.async.wait_group 1;");
        sync_cube();
        let mut scores = scores_of::<F>(&own, &key_stages, stage, config);
        if next > keys {
            hide(&mut scores, from, keys, config);
        }
        weigh(&mut scores, &mut seen, scale, config);
        add_values::<F>(&scores, &value_stages, &mut seen, stage, config);
        // Nobody writes to a stage before all have read it.
        sync_cube();
        stage = other;
        from = next;
    }
    let of_out = rows_at(&of_out, head, heads);
    write_rows::<F>(&seen, out, &of_out, first, rows, config);
}

/// The result as `[B, H, N, D]`, the heads of each query next to each other, or `None` where there are no such units for the type, or rows are
/// too wide or no whole number of pieces.
pub(super) fn attention(q: &CubeTensor, k: &CubeTensor, v: &CubeTensor) -> Option<CubeTensor> {
    let [batch, heads, queries, width] = [0, 1, 2, 3].map(|axis| q.meta.shape()[axis]);
    let keys = k.meta.shape()[2];
    let same = k.dtype == q.dtype && v.dtype == q.dtype;
    let fits = width.is_multiple_of(PIECE) && width <= MOST && queries * keys > 0;
    if !same || !fits || !has_units(&q.client, q.dtype) {
        return None;
    }
    let [q, k, v] = [q, k, v].map(|x| in_pieces(x.clone()));
    let out = heads_inside(&q, [batch, heads, queries, width], q.dtype);
    let config = Config::of(width);
    let client = q.client.clone();
    let cubes = batch * heads * queries.div_ceil(config.rows());
    // SAFETY: rows past the last are neither read nor written.
    unsafe {
        units_kernel::launch_unchecked(
            &client,
            grid(&client, cubes),
            CubeDim::new_1d((PLANES * PLANE) as u32),
            address(&[&q, &k, &v, &out]),
            q.clone().into_buffer_arg(),
            k.clone().into_buffer_arg(),
            v.clone().into_buffer_arg(),
            out.clone().into_buffer_arg(),
            strides(&q, 2),
            strides(&k, PIECE),
            strides(&v, PIECE),
            strides(&out, 2),
            heads,
            batch * heads,
            queries,
            keys,
            // Powers of two take the place of exponentials.
            std::f32::consts::LOG2_E / (width as f32).sqrt(),
            config,
            element(&q),
        );
    }
    Some(out)
}

/// The same with rows that begin at multiples of a piece, copied only where they do not.
fn in_pieces(x: CubeTensor) -> CubeTensor {
    let steps = (0..3).filter(|axis| x.meta.shape()[*axis] != 1);
    let mut lengths = steps.map(|axis| x.meta.strides()[axis]);
    let start = x.handle.offset_start.unwrap_or(0) as usize / x.elem_size();
    let whole = x.meta.strides()[3] == 1
        && start.is_multiple_of(PIECE)
        && lengths.all(|length| length.is_multiple_of(PIECE));
    match whole {
        true => x,
        false => packed(x),
    }
}
