//! One kernel for products and for convolutions, on the matrix units of GPUs that copy to shared memory by themselves (NVIDIA's
//! from the A100 on): rows of the left operand are tokens, or the pixels of a result with all that their window covers; rows of
//! the right one are outputs of a weight.
//!
//! A cube computes a tile of the result. Of the depth it has several steps in shared memory at once: while it multiplies one, the
//! next ones are on their way. In shared memory, pieces of 16 bytes lie in an order in which neither copies nor loads of
//! eight rows meet in the same banks.

use super::super::*;
use cubecl::cmma::{MatrixIdent, MmaDefinition};
use cubecl::prelude::barrier::copy_async_checked;

use super::finish::write;

/// Elements of 16 bits that are copied at once.
pub(in crate::cube) const PIECE: usize = 8;
/// Threads of a plane.
pub(in crate::cube) const PLANE: usize = 32;

/// What is the same for all launches of a compiled kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Config {
    pub tile: Tile,
    /// Whether rows are pixels with what a window covers.
    pub window: bool,
    pub bias: bool,
    pub onto: bool,
}

/// A cube's part of the result, and who computes what of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Tile {
    pub rows: usize,
    pub columns: usize,
    /// Elements of the depth in a step.
    pub depth: usize,
    /// Steps in shared memory.
    pub stages: usize,
    /// Planes, below and beside one another.
    pub planes: [usize; 2],
}

impl Tile {
    pub const fn threads(&self) -> usize {
        self.planes[0] * self.planes[1] * PLANE
    }

    const fn pieces(&self) -> usize {
        self.depth / PIECE
    }

    /// Bytes of shared memory.
    pub const fn shared(&self) -> usize {
        self.stages * (self.rows + self.columns) * self.depth * 2
    }

    /// Units' tiles of 16 × 8 that a plane computes, below and beside one another.
    pub const fn units(&self) -> [usize; 2] {
        [
            self.rows / self.planes[0] / 16,
            self.columns / self.planes[1] / 8,
        ]
    }
}

/// Sizes and distances; those of a depth in pieces.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Sizes {
    pub rows: usize,
    pub columns: usize,
    /// Of a row of the left operand, or of one pixel.
    depth: usize,
    /// All steps, and those of one cube.
    steps: usize,
    share: usize,
    /// From one row of the left operand, or one pixel, to the next.
    pitch: usize,
    /// From one row of the right operand to the next, and from one pixel of its window.
    weight_row: usize,
    weight_pitch: usize,
    /// From one row of what is added to the next, in pairs.
    pub onto_pitch: usize,
    height: u32,
    width: u32,
    out_height: u32,
    out_width: u32,
    /// Pixels of a line of the window.
    across: u32,
    stride: u32,
    above: u32,
    before: u32,
    /// Steps for each pixel of the window.
    taps: usize,
}

/// Where a thread's pieces of the left operand come from: the row itself, or the picture's first pixel and the upper left corner of
/// the window.
#[derive(CubeType)]
struct Origins {
    first: Array<usize>,
    top: Array<i32>,
    left: Array<i32>,
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
pub(super) fn product_kernel<F: Float, G: Float>(
    x: &[Vector<F, Const<8>>],
    weight: &[Vector<F, Const<8>>],
    bias: &[Vector<F, Const<2>>],
    onto: &[Vector<F, Const<2>>],
    out: &mut [Vector<G, Const<2>>],
    sizes: Sizes,
    #[comptime] config: Config,
    #[define(F, G)] _types: [ElemType; 2],
) {
    let tile = comptime!(config.tile);
    let pieces = comptime!(tile.pieces());
    let stages = comptime!(tile.stages);
    let units = comptime!(tile.units());
    let row = CUBE_POS_X as usize * tile.rows;
    let column = CUBE_POS_Y as usize * tile.columns;
    let begin = CUBE_POS_Z as usize * sizes.share;
    let end = min(begin + sizes.share, sizes.steps);

    let mut left = Shared::<[Vector<F, Const<8>>]>::new_aligned_slice(
        comptime!(stages * tile.rows * pieces),
        16usize,
    );
    let mut right = Shared::<[Vector<F, Const<8>>]>::new_aligned_slice(
        comptime!(stages * tile.columns * pieces),
        16usize,
    );
    let origins = origins(row, &sizes, config);

    let definition = MmaDefinition::<F, F, f32>::new(16usize, 8usize, 16usize);
    let mut sums = Sequence::<Array<Vector<f32, Const<2>>>>::new();
    #[unroll]
    for _ in 0..comptime!(units[0] * units[1]) {
        let mut sum = Array::<Vector<f32, Const<2>>>::new(2usize);
        sum[0] = Vector::new(0.0f32);
        sum[1] = Vector::new(0.0f32);
        sums.push(sum);
    }

    #[unroll]
    for stage in 0..comptime!(stages - 1) {
        if begin + stage < end {
            load::<F>(
                x,
                weight,
                &mut left,
                &mut right,
                &origins,
                column,
                begin + stage,
                stage,
                &sizes,
                config,
            );
        }
        gpu_asm!("cp.async.commit_group;");
    }
    let waiting = comptime!(stages - 2);
    let mut step = begin;
    let mut stage = 0usize;
    let mut free = comptime!(stages - 1).runtime();
    while step < end {
        gpu_asm!("cp.async.wait_group {waiting};");
        sync_cube();
        let ahead = step + comptime!(stages - 1);
        if ahead < end {
            load::<F>(
                x, weight, &mut left, &mut right, &origins, column, ahead, free, &sizes, config,
            );
        }
        gpu_asm!("cp.async.commit_group;");
        multiply::<F>(&definition, &left, &right, &mut sums, stage, tile);
        free = stage;
        stage += 1;
        if stage == stages {
            stage = 0usize;
        }
        step += 1;
    }
    write::<F, G>(&sums, bias, onto, out, row, column, &sizes, config);
}

/// Where a piece of a row lies, so that eight rows' pieces of one number are in eight different groups of banks.
#[cube]
fn place(row: usize, piece: usize, #[comptime] pieces: usize) -> usize {
    if comptime!(pieces == 4) {
        row * pieces + (piece ^ (row / 2 % 4))
    } else {
        row * pieces + (piece ^ (row % 8))
    }
}

#[cube]
fn origins(row: usize, sizes: &Sizes, #[comptime] config: Config) -> Origins {
    let tile = comptime!(config.tile);
    let pieces = comptime!(tile.pieces());
    let apart = comptime!(tile.threads() / pieces);
    let count = comptime!(tile.rows * pieces / tile.threads());
    let mut first = Array::<usize>::new(count);
    let mut top = Array::<i32>::new(count);
    let mut left = Array::<i32>::new(count);
    #[unroll]
    for i in 0..count {
        let mine = row + UNIT_POS as usize / pieces + i * apart;
        let inside = mine < sizes.rows;
        if comptime!(config.window) {
            let pixel = mine as u32;
            let line = pixel / sizes.out_width;
            let across = pixel % sizes.out_width;
            let down = line % sizes.out_height;
            let picture = line / sizes.out_height;
            first[i] = (picture * sizes.height * sizes.width) as usize;
            // Past the last row: above every picture.
            top[i] = select(
                inside,
                (down * sizes.stride) as i32 - sizes.above as i32,
                i32::new(-1_000_000),
            );
            left[i] = (across * sizes.stride) as i32 - sizes.before as i32;
        } else {
            first[i] = mine * sizes.pitch;
            top[i] = select(inside, i32::new(0), i32::new(-1));
            left[i] = 0i32;
        }
    }
    Origins { first, top, left }
}

/// Starts to copy a step's pieces to the stage.
#[cube]
#[allow(clippy::too_many_arguments)]
fn load<F: Float>(
    x: &[Vector<F, Const<8>>],
    weight: &[Vector<F, Const<8>>],
    left: &mut Shared<[Vector<F, Const<8>>]>,
    right: &mut Shared<[Vector<F, Const<8>>]>,
    origins: &Origins,
    column: usize,
    step: usize,
    stage: usize,
    sizes: &Sizes,
    #[comptime] config: Config,
) {
    let tile = comptime!(config.tile);
    let pieces = comptime!(tile.pieces());
    let apart = comptime!(tile.threads() / pieces);
    let piece = UNIT_POS as usize % pieces;
    let line = UNIT_POS as usize / pieces;
    let mut channel = step * pieces + piece;
    let mut weight_from = channel;
    let mut down = 0i32;
    let mut across = 0i32;
    if comptime!(config.window) {
        // All of a step is under one pixel of the window.
        let tap = step / sizes.taps;
        channel = step % sizes.taps * pieces + piece;
        weight_from = tap * sizes.weight_pitch + channel;
        down = (tap as u32 / sizes.across) as i32;
        across = (tap as u32 % sizes.across) as i32;
    }
    let within = channel < sizes.depth;

    let to = stage * comptime!(tile.rows * pieces);
    #[unroll]
    for i in 0..comptime!(tile.rows * pieces / tile.threads()) {
        let at = to + place(line + i * apart, piece, pieces);
        let mut inside = within && origins.top[i] >= 0;
        let mut from = origins.first[i] + channel;
        if comptime!(config.window) {
            let y = origins.top[i] + down;
            let x = origins.left[i] + across;
            inside =
                within && y >= 0 && y < sizes.height as i32 && x >= 0 && x < sizes.width as i32;
            let pixel =
                origins.first[i] + y as u32 as usize * sizes.width as usize + x as u32 as usize;
            from = pixel * sizes.pitch + channel;
        }
        let from = select(inside, from, 0usize);
        let length = select(inside, 1usize, 0usize);
        copy_async_checked(&x[from..from + length], &mut left[at..at + 1], 8u32);
    }

    let to = stage * comptime!(tile.columns * pieces);
    #[unroll]
    for i in 0..comptime!(tile.columns * pieces / tile.threads()) {
        let row = line + i * apart;
        let at = to + place(row, piece, pieces);
        let inside = within && column + row < sizes.columns;
        let from = select(
            inside,
            (column + row) * sizes.weight_row + weight_from,
            0usize,
        );
        let length = select(inside, 1usize, 0usize);
        copy_async_checked(&weight[from..from + length], &mut right[at..at + 1], 8u32);
    }
}

/// What a plane multiplies of one sixteenth of depth: tiles of 16 rows, and of 8 columns.
#[derive(CubeType)]
struct Operands<F: Float> {
    rows: Sequence<Array<Vector<F, Const<2>>>>,
    columns: Sequence<Array<Vector<F, Const<2>>>>,
}

#[cube]
fn operands<F: Float>(
    definition: &MmaDefinition<F, F, f32>,
    left: &Shared<[Vector<F, Const<8>>]>,
    right: &Shared<[Vector<F, Const<8>>]>,
    stage: usize,
    #[comptime] k: usize,
    #[comptime] tile: Tile,
) -> Operands<F> {
    let pieces = comptime!(tile.pieces());
    let units = comptime!(tile.units());
    let lane = UNIT_POS as usize % PLANE;
    let plane = UNIT_POS as usize / PLANE;
    let above = plane / tile.planes[1] * comptime!(units[0] * 16);
    let before = plane % tile.planes[1] * comptime!(units[1] * 8);
    let left_at = stage * comptime!(tile.rows * pieces);
    let right_at = stage * comptime!(tile.columns * pieces);
    let mut rows = Sequence::<Array<Vector<F, Const<2>>>>::new();
    #[unroll]
    for i in 0..comptime!(units[0]) {
        let row = above + i * 16 + lane % 16;
        let at = left_at + place(row, k * 2 + lane / 16, pieces);
        rows.push(definition.load_matrix::<Vector<F, Const<8>>, Const<2>>(
            &left[at..at + 1],
            MatrixIdent::A,
            4usize,
            false,
        ));
    }
    let mut columns = Sequence::<Array<Vector<F, Const<2>>>>::new();
    #[unroll]
    for j in 0..comptime!(units[1] / 2) {
        let row = before + j * 16 + lane / 16 * 8 + lane % 8;
        let at = right_at + place(row, k * 2 + lane / 8 % 2, pieces);
        let four = definition.load_matrix::<Vector<F, Const<8>>, Const<2>>(
            &right[at..at + 1],
            MatrixIdent::B,
            4usize,
            false,
        );
        #[unroll]
        for half in 0..2usize {
            let mut pair = Array::<Vector<F, Const<2>>>::new(2usize);
            pair[0] = four[comptime!(half * 2)];
            pair[1] = four[comptime!(half * 2 + 1)];
            columns.push(pair);
        }
    }
    Operands::<F> { rows, columns }
}

/// Adds a stage's products to the sums.
#[cube]
fn multiply<F: Float>(
    definition: &MmaDefinition<F, F, f32>,
    left: &Shared<[Vector<F, Const<8>>]>,
    right: &Shared<[Vector<F, Const<8>>]>,
    sums: &mut Sequence<Array<Vector<f32, Const<2>>>>,
    stage: usize,
    #[comptime] tile: Tile,
) {
    let units = comptime!(tile.units());
    let last = comptime!(tile.depth / 16 - 1);
    let mut ready = Sequence::<Operands<F>>::new();
    ready.push(operands::<F>(definition, left, right, stage, 0usize, tile));
    #[unroll]
    for k in 0..comptime!(last + 1) {
        // Loaded while the units compute.
        if comptime!(k < last) {
            ready.push(operands::<F>(
                definition,
                left,
                right,
                stage,
                comptime!(k + 1),
                tile,
            ));
        }
        let now = ready.index(k);
        #[unroll]
        for j in 0..comptime!(units[1]) {
            #[unroll]
            for i in 0..comptime!(units[0]) {
                let of = comptime!(i * units[1] + j);
                let sum =
                    definition.execute(now.rows.index(i), now.columns.index(j), sums.index(of));
                sums.index_mut(of)[0] = sum[0];
                sums.index_mut(of)[1] = sum[1];
            }
        }
    }
}
