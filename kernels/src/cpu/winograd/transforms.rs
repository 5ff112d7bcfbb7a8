//! The transforms of input, weight and result.

use super::super::prefetch;
use super::super::simd::{Element, Vector};
use super::lines::{LINE, Run};
use super::{GROUP, Numbers, Pixels, SEEN, TILE, Winograd};
use core::ops::Range;

/// The points ±A and ±B.
const A: f32 = 0.625;
const B: f32 = 1.5;

/// Reads a vector from each of six places.
macro_rules! six {
    ($V:ident, |$i:ident| $at:expr) => {
        [0usize, 1, 2, 3, 4, 5].map(|$i| <$V as Vector>::load($at))
    };
}

/// Of six pixels in a line.
#[inline(always)]
fn of_input<V: Vector>(x: [V; SEEN]) -> [V; SEEN] {
    let [a2, b2] = [V::splat(-A * A), V::splat(-B * B)];
    let (low, sum) = (V::splat(A * A * B * B), V::splat(-(A * A + B * B)));
    let even_a = x[2].mul_add(b2, x[4]);
    let odd_a = x[1].mul_add(b2, x[3]).mul(V::splat(A));
    let even_b = x[2].mul_add(a2, x[4]);
    let odd_b = x[1].mul_add(a2, x[3]).mul(V::splat(B));
    [
        x[0].mul_add(low, x[2].mul_add(sum, x[4])),
        even_a.add(odd_a),
        even_a.sub(odd_a),
        even_b.add(odd_b),
        even_b.sub(odd_b),
        x[1].mul_add(low, x[3].mul_add(sum, x[5])),
    ]
}

/// Of three taps in a line.
#[inline(always)]
fn of_weight<V: Vector>(taps: [V; 3]) -> [V; SEEN] {
    let at = |point: f32, other: f32| {
        let scale = 1.0 / (2.0 * point * point * (point * point - other * other));
        let even = taps[2].mul_add(
            V::splat(point * point * scale),
            taps[0].mul(V::splat(scale)),
        );
        let odd = taps[1].mul(V::splat(point * scale));
        [even.add(odd), even.sub(odd)]
    };
    let ([a, minus_a], [b, minus_b]) = (at(A, B), at(B, A));
    let zero = taps[0].mul(V::splat(1.0 / (A * A * B * B)));
    [zero, a, minus_a, b, minus_b, taps[2]]
}

/// Back to four pixels in a line.
#[inline(always)]
fn of_output<V: Vector>(m: [V; SEEN]) -> [V; TILE] {
    let (even_a, odd_a) = (m[1].add(m[2]), m[1].sub(m[2]));
    let (even_b, odd_b) = (m[3].add(m[4]), m[3].sub(m[4]));
    let odd = |power: i32| {
        let of_b = odd_b.mul(V::splat(B.powi(power)));
        odd_a.mul_add(V::splat(A.powi(power)), of_b)
    };
    [
        m[0].add(even_a.add(even_b)),
        odd(1),
        even_a.mul_add(V::splat(A * A), even_b.mul(V::splat(B * B))),
        odd(3).add(m[5]),
    ]
}

/// The transpose of [`of_output`]: of four pixels in a line of a gradient.
#[inline(always)]
fn of_gradient<V: Vector>(g: [V; TILE]) -> [V; SEEN] {
    let at = |point: f32| {
        let even = g[2].mul_add(V::splat(point * point), g[0]);
        let cube = V::splat(point.powi(3));
        let odd = g[1].mul_add(V::splat(point), g[3].mul(cube));
        [even.add(odd), even.sub(odd)]
    };
    let ([a, minus_a], [b, minus_b]) = (at(A), at(B));
    [g[0], a, minus_a, b, minus_b, g[3]]
}

/// The transpose of [`of_weight`]: back to three taps in a line.
#[inline(always)]
fn of_taps<V: Vector>(m: [V; SEEN]) -> [V; 3] {
    let scale =
        |point: f32, other: f32| 1.0 / (2.0 * point * point * (point * point - other * other));
    let (of_a, of_b) = (scale(A, B), scale(B, A));
    let even_a = m[1].add(m[2]).mul(V::splat(of_a));
    let odd_a = m[1].sub(m[2]).mul(V::splat(of_a * A));
    let even_b = m[3].add(m[4]).mul(V::splat(of_b));
    let odd_b = m[3].sub(m[4]).mul(V::splat(of_b * B));
    let low = V::splat(1.0 / (A * A * B * B));
    let last = even_b.mul_add(V::splat(B * B), m[5]);
    [
        m[0].mul_add(low, even_a.add(even_b)),
        odd_a.add(odd_b),
        even_a.mul_add(V::splat(A * A), last),
    ]
}

/// Writes the transformed pixels of sixteen tiles of a gradient, those of two places `apart`.
///
/// # Safety
/// `to` must have room for them.
#[inline(always)]
pub(super) unsafe fn transform_gradient<V: Vector>(tile: &Pixels, to: *mut f32, apart: usize) {
    for lane in (0..GROUP).step_by(V::LANES) {
        let pixel =
            |row: usize, column: usize| tile[row * TILE + column].as_ptr().wrapping_add(lane);
        let mut lines = [[V::splat(0.0); TILE]; SEEN];
        // SAFETY: sixteen lanes are whole vectors, for which `to` has room.
        unsafe {
            for column in 0..TILE {
                let line = of_gradient([0, 1, 2, 3].map(|row| V::load(pixel(row, column))));
                for (lines, line) in lines.iter_mut().zip(line) {
                    lines[column] = line;
                }
            }
            for (row, line) in lines.into_iter().enumerate() {
                for (column, line) in of_gradient(line).into_iter().enumerate() {
                    line.store(to.wrapping_add((row * SEEN + column) * apart + lane));
                }
            }
        }
    }
}

/// Transforms sums of sixteen channels back to their nine taps; sums of two places are `apart`.
///
/// # Safety
/// `from` must have the sums.
#[inline(always)]
pub(super) unsafe fn transform_taps<V: Vector>(
    from: *const f32,
    apart: usize,
    to: &mut [[f32; GROUP]; 9],
) {
    for lane in (0..GROUP).step_by(V::LANES) {
        let mut lines = [[V::splat(0.0); SEEN]; 3];
        for column in 0..SEEN {
            let at = |row: usize| from.wrapping_add((row * SEEN + column) * apart + lane);
            // SAFETY: the caller's sums.
            let line = of_taps(unsafe { six!(V, |row| at(row)) });
            for (lines, line) in lines.iter_mut().zip(line) {
                lines[column] = line;
            }
        }
        for (row, line) in lines.into_iter().enumerate() {
            for (column, tap) in of_taps(line).into_iter().enumerate() {
                // SAFETY: sixteen lanes are whole vectors.
                unsafe { tap.store(to[row * 3 + column].as_mut_ptr().wrapping_add(lane)) };
            }
        }
    }
}

/// Writes the transformed numbers of sixteen tiles, those of two places `apart`.
///
/// # Safety
/// `to` must have room for them.
#[inline(always)]
pub(super) unsafe fn transform_input<V: Vector>(numbers: &mut Numbers, to: *mut f32, apart: usize) {
    for lane in (0..GROUP).step_by(V::LANES) {
        let at = numbers.as_mut_ptr().cast::<f32>().wrapping_add(lane);
        let place = |row: usize, column: usize| at.wrapping_add((row * SEEN + column) * GROUP);
        // SAFETY: a vector of each place is among the numbers, and `to` has room for as many.
        unsafe {
            for column in 0..SEEN {
                let line = of_input(six!(V, |row| place(row, column)));
                for (row, line) in line.into_iter().enumerate() {
                    line.store(place(row, column));
                }
            }
            for row in 0..SEEN {
                let line = of_input(six!(V, |column| place(row, column)));
                for (column, line) in line.into_iter().enumerate() {
                    line.store(to.wrapping_add((row * SEEN + column) * apart + lane));
                }
            }
        }
    }
}

/// Writes the transformed weights of an output for a block of channels, those of two places `apart`.
///
/// # Safety
/// As for [`Winograd::run`], which has the channels; `to` must have room for the channels of each place, rounded up to whole groups.
#[inline(always)]
pub(super) unsafe fn transform_weight<V: Vector, E: Element>(
    job: &Winograd<'_, E>,
    output: usize,
    channels: Range<usize>,
    to: *mut f32,
    apart: usize,
) {
    let taps_of = |channel: usize| {
        let at = output * job.weight.row + channel * job.weight.channel;
        job.weight.from.wrapping_add(at)
    };
    for (i, first) in channels.clone().step_by(GROUP).enumerate() {
        let rows: [_; GROUP] = core::array::from_fn(|j| taps_of(first + j));
        // The next output's, which lie in pieces too short for the processor to foresee.
        prefetch::far(rows[0].wrapping_add(job.weight.row), 9 * GROUP);
        for lane in (0..GROUP).step_by(V::LANES) {
            let there = (channels.end - first).saturating_sub(lane).min(V::LANES);
            // SAFETY: nine taps of the output for each of these channels.
            let mut taps = unsafe { V::columns::<E, 9>(&rows[lane..lane + there]) };
            if job.weight.turned {
                taps.reverse();
            }
            let mut lines = [[V::splat(0.0); 3]; SEEN];
            for column in 0..3 {
                let line = of_weight([0, 3, 6].map(|row| taps[row + column]));
                for (lines, line) in lines.iter_mut().zip(line) {
                    lines[column] = line;
                }
            }
            for (row, line) in lines.into_iter().enumerate() {
                for (column, line) in of_weight(line).into_iter().enumerate() {
                    let at = (row * SEEN + column) * apart + i * GROUP + lane;
                    // SAFETY: whole groups of channels are the caller's room.
                    unsafe { line.store(to.wrapping_add(at)) };
                }
            }
        }
    }
}

/// Transforms sixteen tiles of an output back and writes them; sums of two places are `apart`.
///
/// # Safety
/// As for [`Winograd::run`]; `from` must have the sums.
#[inline(always)]
pub(super) unsafe fn finish<V: Vector, E: Element>(
    job: &Winograd<'_, E>,
    output: usize,
    runs: &[Run],
    from: *const f32,
    apart: usize,
) {
    let bias = V::splat(job.bias.map_or(0.0, |bias| bias[output]));
    let mut result = [[0.0f32; LINE]; TILE];
    for lane in (0..GROUP).step_by(V::LANES) {
        let mut lines = [[V::splat(0.0); SEEN]; TILE];
        for column in 0..SEEN {
            let at = |row: usize| from.wrapping_add((row * SEEN + column) * apart + lane);
            // SAFETY: the caller's sums.
            let line = of_output(unsafe { six!(V, |row| at(row)) });
            for (lines, line) in lines.iter_mut().zip(line) {
                lines[column] = line;
            }
        }
        for (line, result) in lines.into_iter().zip(&mut result) {
            let pixels = of_output(line).map(|pixel| {
                let pixel = pixel.add(bias);
                match job.relu {
                    true => V::splat(0.0).max(pixel),
                    false => pixel,
                }
            });
            // SAFETY: four pixels of each lane.
            unsafe { V::store_fours(pixels, result.as_mut_ptr().wrapping_add(lane * TILE)) };
        }
    }
    // SAFETY: the caller's contract.
    unsafe { job.scatter::<V>(output, runs, &result) };
}
