//! One kernel for products and for convolutions, on the matrix units of GPUs that copy to shared memory by themselves (NVIDIA's
//! from the A100 on): rows of the left operand are tokens, or the pixels of a result with all that their window covers; rows of
//! the right one are outputs of a weight.
//!
//! A cube computes a tile of the result. Of the depth it has several steps in shared memory at once: while it multiplies one, the
//! next ones are on their way. In shared memory, pieces of 16 bytes lie in an order in which neither copies nor loads of
//! eight rows meet in the same banks. Up to the units and the result, numbers are bytes: 16 bits or 32 make no difference.

use super::super::*;
use cubecl::prelude::barrier::copy_async_checked;

use super::finish::write;
use super::units::{
    forget, multiply_by_group, multiply_by_planes, nothing, sums_of_group, wait_for_group,
};

/// 16 bytes, which are copied at once.
pub(super) type Piece = Vector<u32, Const<4>>;
/// Elements of 16 bits in a piece.
pub(in crate::cube) const PIECE: usize = 8;
/// Threads of a plane.
pub(in crate::cube) const PLANE: usize = 32;

/// What is the same for all launches of a compiled kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Config {
    pub tile: Tile,
    pub numbers: Numbers,
    /// Whether rows are pixels with what a window covers.
    pub window: bool,
    pub bias: bool,
    pub onto: bool,
    /// How many results are written at once: 16 bytes.
    pub together: usize,
}

/// What the units multiply. Sums are f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Numbers {
    F16,
    Bf16,
    /// f32, rounded to the eleven digits that f16 has too, as PyTorch's convolutions are by default.
    Tf32,
}

impl Numbers {
    /// Their name in PTX.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Tf32 => "tf32",
        }
    }

    /// How many are a piece.
    pub const fn in_piece(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 8,
            Self::Tf32 => 4,
        }
    }
}

/// A cube's part of the result, and who computes what of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Tile {
    pub rows: usize,
    pub columns: usize,
    /// Pieces of the depth in a step.
    pub pieces: usize,
    /// Steps in shared memory.
    pub stages: usize,
    /// Planes, below and beside one another.
    pub planes: [usize; 2],
    /// Whether four planes multiply together, by units that read shared memory themselves (Hopper's).
    pub groups: bool,
}

impl Tile {
    pub const fn threads(&self) -> usize {
        self.planes[0] * self.planes[1] * PLANE
    }

    /// Bytes of shared memory.
    pub const fn shared(&self) -> usize {
        self.stages * (self.rows + self.columns) * self.pieces * 16
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
    /// From one row of what is added to the next, in as many as are written at once.
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
pub(super) fn product_kernel<F: Float, G: Float, N: Size>(
    x: &[Piece],
    weight: &[Piece],
    bias: &[Vector<F, N>],
    onto: &[Vector<F, N>],
    out: &mut [Vector<G, N>],
    sizes: Sizes,
    #[comptime] config: Config,
    #[define(F, G)] _types: [ElemType; 2],
) {
    let tile = comptime!(config.tile);
    let stages = comptime!(tile.stages);
    let row = CUBE_POS_X as usize * tile.rows;
    let column = CUBE_POS_Y as usize * tile.columns;
    let begin = CUBE_POS_Z as usize * sizes.share;
    let end = min(begin + sizes.share, sizes.steps);

    // Where groups multiply, the order of the pieces repeats from multiples of 1024 bytes on.
    let mut left = Shared::<[Piece]>::new_aligned_slice(
        comptime!(stages * tile.rows * tile.pieces),
        1024usize,
    );
    let mut right = Shared::<[Piece]>::new_aligned_slice(
        comptime!(stages * tile.columns * tile.pieces),
        1024usize,
    );
    let origins = origins(row, &sizes, config);
    let mut sums = nothing(tile);
    if comptime!(tile.groups) {
        forget(tile);
    }

    let in_flight = comptime!(stages - 1);
    #[unroll]
    for stage in 0..in_flight {
        if begin + stage < end {
            load(
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
    let waiting = comptime!(in_flight - 1);
    let mut step = begin;
    let mut stage = 0usize;
    let mut free = in_flight.runtime();
    while step < end {
        gpu_asm!("cp.async.wait_group {waiting};");
        if comptime!(tile.groups) {
            // The units see what threads copied only after this; without its last word it would wait for all copies.
            gpu_asm!("fence.proxy.async.shared::cta;");
            wait_for_group();
        }
        sync_cube();
        if comptime!(tile.groups) {
            multiply_by_group(&left, &right, stage, config);
        }
        let ahead = step + in_flight;
        if ahead < end {
            load(
                x, weight, &mut left, &mut right, &origins, column, ahead, free, &sizes, config,
            );
        }
        gpu_asm!("cp.async.commit_group;");
        if comptime!(!tile.groups) {
            multiply_by_planes(&left, &right, &mut sums, stage, config);
        }
        stage = following(stage, stages);
        free = following(free, stages);
        step += 1;
    }
    if comptime!(tile.groups) {
        wait_for_group();
        sums_of_group(&mut sums, tile);
    }
    write::<F, G, N>(&sums, bias, onto, out, row, column, &sizes, config);
}

/// The stage after this one.
#[cube]
fn following(stage: usize, #[comptime] stages: usize) -> usize {
    select(stage + 1 == stages, 0usize, stage + 1)
}

/// Where a piece of a row lies, so that eight rows' pieces of one number are in eight different groups of banks.
#[cube]
pub(super) fn place(row: usize, piece: usize, #[comptime] pieces: usize) -> usize {
    if comptime!(pieces == 4) {
        row * pieces + (piece ^ (row / 2 % 4))
    } else {
        row * pieces + (piece ^ (row % 8))
    }
}

#[cube]
fn origins(row: usize, sizes: &Sizes, #[comptime] config: Config) -> Origins {
    let tile = comptime!(config.tile);
    let pieces = comptime!(tile.pieces);
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
fn load(
    x: &[Piece],
    weight: &[Piece],
    left: &mut Shared<[Piece]>,
    right: &mut Shared<[Piece]>,
    origins: &Origins,
    column: usize,
    step: usize,
    stage: usize,
    sizes: &Sizes,
    #[comptime] config: Config,
) {
    let tile = comptime!(config.tile);
    let pieces = comptime!(tile.pieces);
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
        copy_async_checked(&x[from..from + length], &mut left[at..at + 1], 4u32);
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
        copy_async_checked(&weight[from..from + length], &mut right[at..at + 1], 4u32);
    }
}
