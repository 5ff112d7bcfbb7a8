//! What the kernels of queries and of keys have in common.

use super::super::super::super::product::{add_product, rounded};
use super::*;

/// For every eight columns four numbers of a thread, as the units give them.
pub(super) type Sums = Sequence<Array<Vector<f32, Const<4>>>>;

#[cube]
pub(super) fn no_sums(#[comptime] config: Config) -> Sums {
    let mut sums = Sequence::<Array<Vector<f32, Const<4>>>>::new();
    #[unroll]
    for _ in 0..config.columns() {
        let mut four = Array::<Vector<f32, Const<4>>>::new(1usize);
        four[0] = Vector::new(0.0f32);
        sums.push(four);
    }
    sums
}

/// The sum of what the four threads of a row have.
#[cube]
pub(super) fn sum_of_row(part: f32) -> f32 {
    let two = part + plane_shuffle_xor(part, 1u32);
    two + plane_shuffle_xor(two, 2u32)
}

/// Products of the plane's rows with each other, of a thread's two rows.
#[cube]
pub(super) fn along<F: Float>(
    a: &Sequence<Array<Pair<F>>>,
    b: &Sequence<Array<Pair<F>>>,
    #[comptime] config: Config,
) -> Array<f32> {
    let mut sums = Array::<f32>::new(2usize);
    #[unroll]
    for half in 0..2usize {
        let mut sum = 0.0f32;
        #[unroll]
        for d in 0..config.depth() {
            #[unroll]
            for part in 0..2usize {
                let of = comptime!(part * 2 + half);
                let a: Pair<f32> = Vector::cast_from(a.index(d)[of]);
                let b: Pair<f32> = Vector::cast_from(b.index(d)[of]);
                sum += (a * b).vector_sum();
            }
        }
        sums[half] = sum_of_row(sum);
    }
    sums
}

/// Adds a stage's rows, each as often as its weight says. A thread has two neighbouring weights of a row and, of a matrix that was turned
/// around, the two rows that they belong to: which of the units' eight places of depth these take does not matter, if both take the same.
#[cube]
pub(super) fn add_rows<F: Float>(
    weights: &Sequence<Array<Pair<f32>>>,
    rows: &Shared<[Piece<F>]>,
    sums: &mut Sums,
    stage: usize,
    #[comptime] config: Config,
) {
    let definition = MmaDefinition::<F, F, f32>::new(16usize, 8usize, 16usize);
    let lane = UNIT_POS as usize % PLANE;
    #[unroll]
    for j in 0..comptime!(config.keys / 16) {
        let mut left = Sequence::<Array<u32>>::new();
        #[unroll]
        for some in 0..2usize {
            let of = comptime!(j * 2 + some);
            let (upper, lower) = (weights.index(of)[0], weights.index(of)[1]);
            let mut four = Array::<u32>::new(4usize);
            four[0] = rounded(upper.extract(0usize));
            four[1] = rounded(lower.extract(0usize));
            four[2] = rounded(upper.extract(1usize));
            four[3] = rounded(lower.extract(1usize));
            left.push(four);
        }
        #[unroll]
        for c in 0..comptime!(config.columns().div_ceil(2)) {
            let row = comptime!(j * 16) + lane / 8 % 2 * 8 + lane % 8;
            let at = stage + row * comptime!(config.pitch()) + comptime!(c * 2) + lane / 16;
            let four = definition.load_matrix::<Piece<F>, Const<2>>(
                &rows[at..at + 1],
                MatrixIdent::B,
                4usize,
                true,
            );
            #[unroll]
            for half in 0..2usize {
                if comptime!(c * 2 + half < config.columns()) {
                    #[unroll]
                    for some in 0..2usize {
                        let two: Pair<f32> = Vector::cast_from(four[comptime!(half * 2 + some)]);
                        let mut right = Array::<u32>::new(2usize);
                        right[0] = u32::reinterpret(two.extract(0usize));
                        right[1] = u32::reinterpret(two.extract(1usize));
                        let of = comptime!(c * 2 + half);
                        let before = sums.index(of)[0];
                        let sum = add_product(left.index(some), &right, before, 8usize, "tf32");
                        sums.index_mut(of)[0] = sum;
                    }
                }
            }
        }
    }
}

/// Writes the plane's rows, times `scale`.
#[cube]
pub(super) fn write_sums<F: Float>(
    sums: &Sums,
    out: &mut [Pair<F>],
    of_out: &Rows,
    first: usize,
    rows: usize,
    scale: f32,
    #[comptime] config: Config,
) {
    let lane = UNIT_POS as usize % PLANE;
    #[unroll]
    for half in 0..2usize {
        let row = first + comptime!(half * 8) + lane / 4;
        if row < rows {
            #[unroll]
            for c in 0..config.columns() {
                let four = sums.index(c)[0];
                let mut pair: Pair<f32> = Vector::new(four.extract(comptime!(half * 2)) * scale);
                pair.insert(1usize, four.extract(comptime!(half * 2 + 1)) * scale);
                let at = of_out.first + row * of_out.apart + comptime!(c * 4) + lane % 4;
                out[at] = Vector::cast_from(pair);
            }
        }
    }
}
