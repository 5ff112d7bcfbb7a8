//! The matrix units: those of one plane, which take 16 rows and 8 columns from registers, and those of four planes together, which take 64
//! rows and all columns of a tile from shared memory.

use super::super::*;
use cubecl::cmma::{MatrixIdent, MmaDefinition};

use super::kernel::{Config, Numbers, PLANE, Piece, Tile, place};

/// Of every 16 rows and 8 columns that a plane computes, the four numbers of a thread: two columns of one row, and of the eighth row after it.
pub(super) type Sums = Sequence<Array<Vector<f32, Const<4>>>>;

/// Planes that multiply together.
const GROUP: usize = 4;
/// Pieces of the depth that the units take at once.
const TAKEN: usize = 2;

#[cube]
pub(super) fn nothing(#[comptime] tile: Tile) -> Sums {
    let units = comptime!(tile.units());
    let mut sums = Sequence::<Array<Vector<f32, Const<4>>>>::new();
    #[unroll]
    for _ in 0..comptime!(units[0] * units[1]) {
        let mut sum = Array::<Vector<f32, Const<4>>>::new(1usize);
        sum[0] = Vector::new(0.0f32);
        sums.push(sum);
    }
    sums
}

/// What a plane multiplies of a part of the depth: tiles of 16 rows, and of 8 columns, in registers of 32 bits.
#[derive(CubeType)]
struct Operands {
    rows: Sequence<Array<u32>>,
    columns: Sequence<Array<u32>>,
}

/// Each quarter of the plane names eight rows of 16 bytes: the thread's registers of them, rounded if the units want it.
#[cube]
fn four(from: &Shared<[Piece]>, at: usize, #[comptime] config: Config) -> Array<u32> {
    let definition = MmaDefinition::<half::f16, half::f16, f32>::new(16usize, 8usize, 16usize);
    let found =
        definition.load_matrix::<Piece, Const<1>>(&from[at..at + 1], MatrixIdent::A, 4usize, false);
    let mut four = Array::<u32>::new(4usize);
    #[unroll]
    for i in 0..4usize {
        let value = found[i].extract(0usize);
        if comptime!(matches!(config.numbers, Numbers::Tf32)) {
            four[i] = rounded(f32::reinterpret(value));
        } else {
            four[i] = value;
        }
    }
    four
}

/// f32 as the units take it: rounded to eleven digits.
#[cube]
pub(in crate::cube) fn rounded(x: f32) -> u32 {
    let rounded: u32;
    gpu_asm!("cvt.rna.tf32.f32 {}, {};", out(_) rounded, in(_) x, options(nomem));
    rounded
}

/// `before` and the product of 16 rows, four registers, with 8 columns, two registers, of so much depth.
#[cube]
pub(in crate::cube) fn add_product(
    rows: &Array<u32>,
    columns: &Array<u32>,
    before: Vector<f32, Const<4>>,
    #[comptime] depth: usize,
    #[comptime] name: &str,
) -> Vector<f32, Const<4>> {
    let (a0, a1, a2, a3) = (rows[0], rows[1], rows[2], rows[3]);
    let (b0, b1) = (columns[0], columns[1]);
    let sum: Vector<f32, Const<4>>;
    gpu_asm!(
        "mma.sync.aligned.m16n8k{depth}.row.col.f32.{name}.{name}.f32 {sum}, {{{a0}, {a1}, {a2}, {a3}}}, {{{b0}, {b1}}}, {before};",
        sum = out(_) sum, a0 = in(_) a0, a1 = in(_) a1, a2 = in(_) a2, a3 = in(_) a3,
        b0 = in(_) b0, b1 = in(_) b1, before = in(_) before, options(nomem),
    );
    sum
}

#[cube]
fn operands(
    left: &Shared<[Piece]>,
    right: &Shared<[Piece]>,
    stage: usize,
    #[comptime] k: usize,
    #[comptime] config: Config,
) -> Operands {
    let tile = comptime!(config.tile);
    let pieces = comptime!(tile.pieces);
    let units = comptime!(tile.units());
    let lane = UNIT_POS as usize % PLANE;
    let plane = UNIT_POS as usize / PLANE;
    let above = plane / tile.planes[1] * comptime!(units[0] * 16);
    let before = plane % tile.planes[1] * comptime!(units[1] * 8);
    let left_at = stage * comptime!(tile.rows * pieces);
    let right_at = stage * comptime!(tile.columns * pieces);
    let mut rows = Sequence::<Array<u32>>::new();
    #[unroll]
    for i in 0..comptime!(units[0]) {
        let row = above + i * 16 + lane % 16;
        let at = left_at + place(row, k * TAKEN + lane / 16, pieces);
        rows.push(four(left, at, config));
    }
    let mut columns = Sequence::<Array<u32>>::new();
    #[unroll]
    for j in 0..comptime!(units[1] / 2) {
        let row = before + j * 16 + lane / 16 * 8 + lane % 8;
        let at = right_at + place(row, k * TAKEN + lane / 8 % 2, pieces);
        let four = four(right, at, config);
        #[unroll]
        for half in 0..2usize {
            let mut pair = Array::<u32>::new(2usize);
            pair[0] = four[comptime!(half * 2)];
            pair[1] = four[comptime!(half * 2 + 1)];
            columns.push(pair);
        }
    }
    Operands { rows, columns }
}

/// Adds a stage's products to the sums.
#[cube]
pub(super) fn multiply_by_planes(
    left: &Shared<[Piece]>,
    right: &Shared<[Piece]>,
    sums: &mut Sums,
    stage: usize,
    #[comptime] config: Config,
) {
    let units = comptime!(config.tile.units());
    let last = comptime!(config.tile.pieces / TAKEN - 1);
    let depth = comptime!(config.numbers.in_piece() * TAKEN);
    let name = comptime!(config.numbers.name());
    let mut ready = Sequence::<Operands>::new();
    ready.push(operands(left, right, stage, 0usize, config));
    #[unroll]
    for k in 0..comptime!(last + 1) {
        // Loaded while the units compute.
        if comptime!(k < last) {
            ready.push(operands(left, right, stage, comptime!(k + 1), config));
        }
        let now = ready.index(k);
        #[unroll]
        for j in 0..comptime!(units[1]) {
            #[unroll]
            for i in 0..comptime!(units[0]) {
                let of = comptime!(i * units[1] + j);
                let (a, b, before) = (now.rows.index(i), now.columns.index(j), sums.index(of)[0]);
                let sum = add_product(a, b, before, depth, name);
                sums.index_mut(of)[0] = sum;
            }
        }
    }
}

/// The group's sums, in registers that are known by name: the units add to them while the threads go on, and the compiler of CUDA's C++, which
/// moves what is in its own variables, would not know of it.
fn register(i: usize) -> String {
    format!("prepose_sum{i}")
}

/// All of them, as the units want them.
fn registers(tile: &Tile) -> String {
    let names: Vec<String> = (0..tile.columns / 2).map(register).collect();
    format!("{{{}}}", names.join(", "))
}

/// The group's sums begin at zero.
#[cube]
pub(super) fn forget(#[comptime] tile: Tile) {
    let count = comptime!(tile.columns / 2);
    gpu_asm!(".reg .f32 prepose_sum<{count}>;");
    #[unroll]
    for i in 0..count {
        let name = comptime!(register(i));
        gpu_asm!("mov.f32 {name}, 0f00000000;");
    }
}

/// Waits for the group's products.
#[cube]
pub(super) fn wait_for_group() {
    gpu_asm!("wgmma.wait_group.sync.aligned 0;");
}

/// Where shared memory lies, in pieces and in the first half of a descriptor, which says: rows of 128 bytes, in the order of `place`.
#[cube]
fn described(memory: &Shared<[Piece]>) -> u32 {
    let pointer = memory[0..1].as_ptr();
    let address: u32;
    gpu_asm!(
        "{{ .reg .u64 at; cvta.to.shared.u64 at, {pointer}; cvt.u32.u64 {address}, at; }}",
        address = out(_) address, pointer = mem_in(_) pointer, options(explicit_mem),
    );
    address / 16u32 + 0x1_0000u32
}

/// Lets the group's units add a stage's products to its sums.
#[cube]
pub(super) fn multiply_by_group(
    left: &Shared<[Piece]>,
    right: &Shared<[Piece]>,
    stage: usize,
    #[comptime] config: Config,
) {
    let tile = comptime!(config.tile);
    let group = UNIT_POS as usize / comptime!(PLANE * GROUP);
    let rows = described(left)
        + (stage * comptime!(tile.rows * tile.pieces) + group * comptime!(64 * tile.pieces)) as u32;
    let columns = described(right) + (stage * comptime!(tile.columns * tile.pieces)) as u32;
    let width = comptime!(tile.columns);
    let depth = comptime!(config.numbers.in_piece() * TAKEN);
    let name = comptime!(config.numbers.name());
    let sums = comptime!(registers(&tile));
    gpu_asm!("wgmma.fence.sync.aligned;");
    #[unroll]
    for k in 0..comptime!(tile.pieces / TAKEN) {
        let (a, b) = (
            rows + comptime!((k * TAKEN) as u32),
            columns + comptime!((k * TAKEN) as u32),
        );
        // Eight rows are 1024 bytes, 64 pieces, from the next; 1 at the top is the order in memory. Neither operand is turned around: 0, 0.
        gpu_asm!(
            "{{ .reg .b64 left, right; .reg .pred more; mov.b64 left, {{{a}, 0x40000040}}; mov.b64 right, {{{b}, 0x40000040}}; setp.eq.b32 more, {a}, {a};",
            "wgmma.mma_async.sync.aligned.m64n{width}k{depth}.f32.{name}.{name} {sums}, left, right, more, 1, 1, 0, 0; }}",
            a = in(_) a, b = in(_) b,
        );
    }
    gpu_asm!("wgmma.commit_group.sync.aligned;");
}

/// The group's sums, once it has finished.
#[cube]
pub(super) fn sums_of_group(sums: &mut Sums, #[comptime] tile: Tile) {
    #[unroll]
    for j in 0..comptime!(tile.columns / 8) {
        let mut four = Vector::<f32, Const<4>>::new(0.0f32);
        #[unroll]
        for i in 0..4usize {
            let name = comptime!(register(j * 4 + i));
            let value: f32;
            gpu_asm!("mov.f32 {value}, {name};", value = out(_) value);
            four.insert(i, value);
        }
        sums.index_mut(j)[0] = four;
    }
}
