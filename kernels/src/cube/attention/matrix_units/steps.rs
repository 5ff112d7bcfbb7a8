//! What a plane does with a step's keys and values.

use super::*;
use cubecl::prelude::barrier::copy_async_checked;

/// Starts to copy the rows from `first` on to the stage, with zeros behind their ends and behind the last.
#[cube]
pub(super) fn fetch<F: Float>(
    x: &[Piece<F>],
    rows: &Rows,
    first: usize,
    count: usize,
    to: &mut Shared<[Piece<F>]>,
    stage: usize,
    #[comptime] config: Config,
) {
    let mut at = UNIT_POS as usize;
    while at < comptime!(config.keys * config.pieces()) {
        let row = at / comptime!(config.pieces());
        let piece = at % comptime!(config.pieces());
        let inside = first + row < count && piece < comptime!(config.columns());
        let from = select(
            inside,
            rows.first + (first + row) * rows.apart + piece,
            0usize,
        );
        let length = select(inside, 1usize, 0usize);
        let place = stage + row * comptime!(config.pitch()) + piece;
        copy_async_checked(&x[from..from + length], &mut to[place..place + 1], 8u32);
        at += comptime!(PLANES * PLANE);
    }
}

/// A thread's part of the plane's queries, as the units take their left operands: for each sixteen rows and sixteenth of the depth two rows
/// of two pairs.
#[cube]
pub(super) fn own_rows<F: Float>(
    q: &[Pair<F>],
    of_q: &Rows,
    first: usize,
    rows: usize,
    #[comptime] config: Config,
) -> Sequence<Array<Pair<F>>> {
    let lane = UNIT_POS as usize % PLANE;
    let mut own = Sequence::<Array<Pair<F>>>::new();
    #[unroll]
    for i in 0..config.tiles {
        #[unroll]
        for d in 0..comptime!(config.depth()) {
            let mut four = Array::<Pair<F>>::new(4usize);
            #[unroll]
            for part in 0..4usize {
                let row = first + comptime!(i * 16 + part % 2 * 8) + lane / 4;
                let pair = comptime!(d * 8 + part / 2 * 4) + lane % 4;
                let mut values = Vector::new(F::new(0.0));
                if row < rows && pair < comptime!(config.width / 2) {
                    values = q[of_q.first + row * of_q.apart + pair];
                }
                four[part] = values;
            }
            own.push(four);
        }
    }
    own
}

#[cube]
pub(super) fn nothing_seen(#[comptime] config: Config) -> Seen {
    let mut sums = Sequence::<Array<Pair<f32>>>::new();
    #[unroll]
    for _ in 0..comptime!(config.tiles * config.columns()) {
        sums.push(zeros());
    }
    let mut most = Array::<f32>::new(comptime!(config.tiles * 2));
    let mut total = Array::<f32>::new(comptime!(config.tiles * 2));
    #[unroll]
    for row in 0..comptime!(config.tiles * 2) {
        most[row] = f32::new(LEAST);
        total[row] = 0.0f32;
    }
    Seen { sums, most, total }
}

#[cube]
fn zeros() -> Array<Pair<f32>> {
    let mut zeros = Array::<Pair<f32>>::new(2usize);
    zeros[0] = Vector::new(0.0f32);
    zeros[1] = Vector::new(0.0f32);
    zeros
}

/// Products of the plane's queries with a stage's keys, for every sixteen queries and eight keys.
#[cube]
pub(super) fn scores_of<F: Float>(
    own: &Sequence<Array<Pair<F>>>,
    keys: &Shared<[Piece<F>]>,
    stage: usize,
    #[comptime] config: Config,
) -> Sequence<Array<Pair<f32>>> {
    let definition = MmaDefinition::<F, F, f32>::new(16usize, 8usize, 16usize);
    let lane = UNIT_POS as usize % PLANE;
    let mut scores = Sequence::<Array<Pair<f32>>>::new();
    #[unroll]
    for _ in 0..comptime!(config.tiles * config.scores()) {
        scores.push(zeros());
    }
    #[unroll]
    for d in 0..comptime!(config.depth()) {
        #[unroll]
        for j in 0..comptime!(config.keys / 16) {
            let row = comptime!(j * 16) + lane / 16 * 8 + lane % 8;
            let at = stage + row * comptime!(config.pitch()) + comptime!(d * 2) + lane / 8 % 2;
            let four = definition.load_matrix::<Piece<F>, Const<2>>(
                &keys[at..at + 1],
                MatrixIdent::B,
                4usize,
                false,
            );
            #[unroll]
            for half in 0..2usize {
                let right = half_of(&four, half);
                #[unroll]
                for i in 0..config.tiles {
                    let of = comptime!(i * config.scores() + j * 2 + half);
                    let left = own.index(comptime!(i * config.depth() + d));
                    let sum = definition.execute(left, &right, scores.index(of));
                    scores.index_mut(of)[0] = sum[0];
                    scores.index_mut(of)[1] = sum[1];
                }
            }
        }
    }
    scores
}

/// Two of the four that a load brings: one right operand.
#[cube]
fn half_of<F: Float>(four: &Array<Pair<F>>, #[comptime] half: usize) -> Array<Pair<F>> {
    let mut pair = Array::<Pair<F>>::new(2usize);
    pair[0] = four[comptime!(half * 2)];
    pair[1] = four[comptime!(half * 2 + 1)];
    pair
}

/// Makes the scores of keys past the last the least.
#[cube]
pub(super) fn hide(
    scores: &mut Sequence<Array<Pair<f32>>>,
    from: usize,
    keys: usize,
    #[comptime] config: Config,
) {
    let lane = UNIT_POS as usize % PLANE;
    #[unroll]
    for j in 0..comptime!(config.scores()) {
        #[unroll]
        for side in 0..2usize {
            let key = from + comptime!(j * 8 + side) + lane % 4 * 2;
            if key >= keys {
                #[unroll]
                for i in 0..config.tiles {
                    let of = comptime!(i * config.scores() + j);
                    #[unroll]
                    for half in 0..2usize {
                        let mut pair = scores.index(of)[half];
                        pair.insert(side, f32::new(LEAST));
                        scores.index_mut(of)[half] = pair;
                    }
                }
            }
        }
    }
}

/// Turns scores, times `scale`, into powers of two of how far they are below the largest one so far, and lets what was seen before fade by as
/// much as that has risen.
#[cube]
pub(super) fn weigh(
    scores: &mut Sequence<Array<Pair<f32>>>,
    seen: &mut Seen,
    scale: f32,
    #[comptime] config: Config,
) {
    #[unroll]
    for i in 0..config.tiles {
        #[unroll]
        for half in 0..2usize {
            let row = comptime!(i * 2 + half);
            let mut most = seen.most[row];
            #[unroll]
            for j in 0..comptime!(config.scores()) {
                let pair = scores.index(comptime!(i * config.scores() + j))[half];
                most = max(
                    most,
                    max(pair.extract(0usize), pair.extract(1usize)) * scale,
                );
            }
            // Four threads have a row.
            most = max(most, plane_shuffle_xor(most, 1u32));
            most = max(most, plane_shuffle_xor(most, 2u32));
            let fade = power_of_two(seen.most[row] - most);
            seen.most[row] = most;
            let mut total = seen.total[row] * fade;
            #[unroll]
            for c in 0..comptime!(config.columns()) {
                let of = comptime!(i * config.columns() + c);
                let sum = seen.sums.index(of)[half];
                seen.sums.index_mut(of)[half] = sum * Vector::new(fade);
            }
            #[unroll]
            for j in 0..comptime!(config.scores()) {
                let of = comptime!(i * config.scores() + j);
                let pair = scores.index(of)[half];
                let first = power_of_two(pair.extract(0usize) * scale - most);
                let second = power_of_two(pair.extract(1usize) * scale - most);
                total += first + second;
                let mut weights = Vector::new(first);
                weights.insert(1usize, second);
                scores.index_mut(of)[half] = weights;
            }
            seen.total[row] = total;
        }
    }
}

/// 2ˣ by the device's own instruction, right to about two units in the last place; CUDA makes more instructions of an exponential.
#[cube]
pub(super) fn power_of_two(x: f32) -> f32 {
    let y: f32;
    gpu_asm!("ex2.approx.ftz.f32 {}, {};", out(_) y, in(_) x, options(nomem));
    y
}

/// Adds a stage's values, each as often as its weight says. A product's results lie in the threads as the next one's left operand wants them.
#[cube]
pub(super) fn add_values<F: Float>(
    weights: &Sequence<Array<Pair<f32>>>,
    values: &Shared<[Piece<F>]>,
    seen: &mut Seen,
    stage: usize,
    #[comptime] config: Config,
) {
    let definition = MmaDefinition::<F, F, f32>::new(16usize, 8usize, 16usize);
    let lane = UNIT_POS as usize % PLANE;
    #[unroll]
    for j in 0..comptime!(config.keys / 16) {
        let mut left = Sequence::<Array<Pair<F>>>::new();
        #[unroll]
        for i in 0..config.tiles {
            let mut four = Array::<Pair<F>>::new(4usize);
            #[unroll]
            for part in 0..4usize {
                let of = comptime!(i * config.scores() + j * 2 + part / 2);
                four[part] = Vector::cast_from(weights.index(of)[comptime!(part % 2)]);
            }
            left.push(four);
        }
        #[unroll]
        for c in 0..comptime!(config.columns().div_ceil(2)) {
            let row = comptime!(j * 16) + lane / 8 % 2 * 8 + lane % 8;
            let at = stage + row * comptime!(config.pitch()) + comptime!(c * 2) + lane / 16;
            // Turned around: eight rows of memory are a column each.
            let four = definition.load_matrix::<Piece<F>, Const<2>>(
                &values[at..at + 1],
                MatrixIdent::B,
                4usize,
                true,
            );
            #[unroll]
            for half in 0..2usize {
                if comptime!(c * 2 + half < config.columns()) {
                    let right = half_of(&four, half);
                    #[unroll]
                    for i in 0..config.tiles {
                        let of = comptime!(i * config.columns() + c * 2 + half);
                        let sum = definition.execute(left.index(i), &right, seen.sums.index(of));
                        seen.sums.index_mut(of)[0] = sum[0];
                        seen.sums.index_mut(of)[1] = sum[1];
                    }
                }
            }
        }
    }
}

/// Divides by the totals and writes the plane's rows.
#[cube]
pub(super) fn write_rows<F: Float>(
    seen: &Seen,
    out: &mut [Pair<F>],
    of_out: &Rows,
    first: usize,
    rows: usize,
    #[comptime] config: Config,
) {
    let lane = UNIT_POS as usize % PLANE;
    #[unroll]
    for i in 0..config.tiles {
        #[unroll]
        for half in 0..2usize {
            let mut total = seen.total[comptime!(i * 2 + half)];
            total += plane_shuffle_xor(total, 1u32);
            total += plane_shuffle_xor(total, 2u32);
            let share = 1.0f32 / total;
            let row = first + comptime!(i * 16 + half * 8) + lane / 4;
            if row < rows {
                #[unroll]
                for c in 0..comptime!(config.columns()) {
                    let sum = seen.sums.index(comptime!(i * config.columns() + c))[half];
                    let to = of_out.first + row * of_out.apart + comptime!(c * 4) + lane % 4;
                    out[to] = Vector::cast_from(sum * Vector::new(share));
                }
            }
        }
    }
}
