//! Products of f32 in AMX's tiles. An f32 is exactly the sum of three bf16: its first, middle and last eight digits. Of the nine
//! products of two numbers' parts six are summed; the other three together are at most 2⁻²¹ of the whole and 2⁻²⁴ on average, as
//! much as one rounding of an f32.
//!
//! Henry, Tang & Heinecke 2019, "Leveraging the bfloat16 Artificial Intelligence Datatype for Higher-Precision Computations", arXiv
//! 1904.06376.
//!
//! A sum with something infinite in it is NaN, since the middle part of an infinite number is none.

use super::super::{GROUP, Words};
use super::{Operands, SIDE, Sums, shape, sums_of};
use crate::cpu::simd::Vector;
use core::arch::asm;
use core::arch::x86_64::{
    __m512, _mm512_and_si512, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_loadu_ps,
    _mm512_maskz_loadu_ps, _mm512_or_si512, _mm512_set1_epi32, _mm512_srli_epi32,
    _mm512_storeu_si512, _mm512_sub_ps,
};

/// Words of f32 in three parts. Summed elements come in steps of 32; of each step a row has sixteen words of first parts, then as
/// many of middle and of last ones, and word `i` of them has the parts of elements `i` and `i + 16`.
pub(crate) struct Parts;

/// Summed elements of a step, and the words that they take.
const STEP: usize = 2 * SIDE;
const WORDS: usize = Parts::PARTS * SIDE;

impl Words for Parts {
    const PER_WORD: usize = 2;
    const PARTS: usize = 3;

    #[inline(always)]
    fn words(count: usize) -> usize {
        count.div_ceil(STEP) * WORDS
    }
    #[inline(always)]
    fn dot<V: Vector>(_: V, _: V, _: V) -> V {
        unreachable!("there are no parts without tiles")
    }
}

/// [`super::multiply`] of parts.
///
/// # Safety
/// As for that, with whole steps.
#[inline(always)]
pub(super) unsafe fn multiply(of: Operands, sums: Sums) {
    let Operands { left, panel } = of;
    let width = panel.groups * GROUP;
    let (upper, steps) = (left.at, panel.kc / WORDS);
    let lower = upper.wrapping_add(SIDE * left.stride);
    let a = (upper, lower, 4 * left.stride, 4 * WORDS);
    let b = (panel.at, 4 * width, 4 * WORDS * width);
    // The smallest products come first, and an operand that is in a tile is used again where it can be.
    // SAFETY: all addresses lie in the caller's operands and sums, since the tiles have as many rows and words as these.
    unsafe {
        shape(left.rows, SIDE);
        match (left.rows > SIDE, panel.groups > 1) {
            (true, true) => sums_of!(
                a,
                b,
                steps,
                sums,
                [
                    "tileloadd tmm4, [{upper} + {left_bytes}]",
                    "tileloadd tmm6, [{panel} + {panel_bytes} + 4096]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{panel} + {panel_bytes} + 4160]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm5, [{lower} + {left_bytes}]",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "tileloadd tmm6, [{panel} + {panel_bytes} + 2048]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{panel} + {panel_bytes} + 2112]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "tileloadd tmm4, [{upper} + {left_bytes} + 64]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm5, [{lower} + {left_bytes} + 64]",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "tileloadd tmm6, [{panel} + {panel_bytes}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{panel} + {panel_bytes} + 64]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "tileloadd tmm4, [{upper} + {left_bytes} + 128]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm5, [{lower} + {left_bytes} + 128]",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "tileloadd tmm4, [{upper} + {left_bytes}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm5, [{lower} + {left_bytes}]",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7"
                ],
                [("0", 0, 0), ("1", 0, 1), ("2", 1, 0), ("3", 1, 1)]
            ),
            (true, false) => sums_of!(
                a,
                b,
                steps,
                sums,
                [
                    "tileloadd tmm4, [{upper} + {left_bytes}]",
                    "tileloadd tmm7, [{panel} + {panel_bytes} + 2048]",
                    "tdpbf16ps tmm0, tmm4, tmm7",
                    "tileloadd tmm5, [{lower} + {left_bytes}]",
                    "tdpbf16ps tmm2, tmm5, tmm7",
                    "tileloadd tmm6, [{panel} + {panel_bytes} + 1024]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tileloadd tmm4, [{upper} + {left_bytes} + 64]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm5, [{lower} + {left_bytes} + 64]",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tileloadd tmm7, [{panel} + {panel_bytes}]",
                    "tdpbf16ps tmm0, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm7",
                    "tileloadd tmm4, [{upper} + {left_bytes} + 128]",
                    "tdpbf16ps tmm0, tmm4, tmm7",
                    "tileloadd tmm5, [{lower} + {left_bytes} + 128]",
                    "tdpbf16ps tmm2, tmm5, tmm7",
                    "tileloadd tmm4, [{upper} + {left_bytes}]",
                    "tdpbf16ps tmm0, tmm4, tmm7",
                    "tileloadd tmm5, [{lower} + {left_bytes}]",
                    "tdpbf16ps tmm2, tmm5, tmm7"
                ],
                [("0", 0, 0), ("2", 1, 0)]
            ),
            (false, true) => sums_of!(
                a,
                b,
                steps,
                sums,
                [
                    "tileloadd tmm4, [{upper} + {left_bytes}]",
                    "tileloadd tmm6, [{panel} + {panel_bytes} + 4096]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{panel} + {panel_bytes} + 4160]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm6, [{panel} + {panel_bytes} + 2048]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{panel} + {panel_bytes} + 2112]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm4, [{upper} + {left_bytes} + 64]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm6, [{panel} + {panel_bytes}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{panel} + {panel_bytes} + 64]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm4, [{upper} + {left_bytes} + 128]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm4, [{upper} + {left_bytes}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7"
                ],
                [("0", 0, 0), ("1", 0, 1)]
            ),
            (false, false) => sums_of!(
                a,
                b,
                steps,
                sums,
                [
                    "tileloadd tmm4, [{upper} + {left_bytes}]",
                    "tileloadd tmm6, [{panel} + {panel_bytes} + 2048]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{panel} + {panel_bytes} + 1024]",
                    "tdpbf16ps tmm0, tmm4, tmm7",
                    "tileloadd tmm4, [{upper} + {left_bytes} + 64]",
                    "tdpbf16ps tmm0, tmm4, tmm7",
                    "tileloadd tmm6, [{panel} + {panel_bytes}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm4, [{upper} + {left_bytes} + 128]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm4, [{upper} + {left_bytes}]",
                    "tdpbf16ps tmm0, tmm4, tmm6"
                ],
                [("0", 0, 0)]
            ),
        }
    }
}

/// Writes the parts of sixteen numbers and sixteen others, as words that are `apart`.
///
/// # Safety
/// `to` must have room for them.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn in_parts(mut first: __m512, mut second: __m512, to: *mut f32, apart: usize) {
    let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
    for part in 0..Parts::PARTS {
        let digits = _mm512_castps_si512(first);
        let first_part = _mm512_and_si512(digits, upper);
        let second_part = _mm512_and_si512(_mm512_castps_si512(second), upper);
        let words = _mm512_or_si512(_mm512_srli_epi32::<16>(digits), second_part);
        // SAFETY: the caller's room.
        unsafe { _mm512_storeu_si512(to.add(part * apart).cast(), words) };
        first = _mm512_sub_ps(first, _mm512_castsi512_ps(first_part));
        second = _mm512_sub_ps(second, _mm512_castsi512_ps(second_part));
    }
}

/// The first `count` of up to sixteen numbers, then zeros.
///
/// # Safety
/// `from` must have them.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn first_of(from: *const f32, count: usize) -> __m512 {
    // SAFETY: the mask has the caller's numbers.
    unsafe { _mm512_maskz_loadu_ps(((1u32 << count.min(SIDE)) - 1) as u16, from) }
}

/// Writes the parts of `count` numbers that follow each other.
///
/// # Safety
/// `from` must have them, `to` room for their words, and the processor AVX-512F.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn row_in_parts(from: *const f32, count: usize, to: *mut f32) {
    for step in (0..count).step_by(STEP) {
        let (from, rest) = (from.wrapping_add(step), count - step);
        // SAFETY: so many of the caller's numbers are left, and there is room for whole steps.
        unsafe {
            let first = first_of(from, rest);
            let second = first_of(from.wrapping_add(SIDE), rest.saturating_sub(SIDE));
            in_parts(first, second, to.add(Parts::words(step)), SIDE);
        }
    }
}

/// Writes the parts of `count` rows of a group, one behind the other in `from`, as rows of words, `stride` apart.
///
/// # Safety
/// `from` must have the rows and room for more up to a whole step, `to` room for their words; the processor must have AVX-512F.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn columns_in_parts(from: *mut f32, count: usize, to: *mut f32, stride: usize) {
    for row in count..count.next_multiple_of(STEP) {
        // SAFETY: the caller's room.
        unsafe { from.add(row * GROUP).write_bytes(0, GROUP) };
    }
    for step in (0..count).step_by(STEP) {
        for word in 0..SIDE {
            // SAFETY: these rows were given or are zero now; there is room for whole steps.
            unsafe {
                let from = from.add((step + word) * GROUP);
                let first = _mm512_loadu_ps(from);
                let second = _mm512_loadu_ps(from.add(SIDE * GROUP));
                let to = to.add((Parts::words(step) + word) * stride);
                in_parts(first, second, to, SIDE * stride);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::{Level, level};
    use crate::selftest::noise;

    /// The words of two parts each, as numbers.
    fn both(word: f32) -> [f32; 2] {
        let bits = word.to_bits();
        [bits << 16, bits & 0xffff_0000].map(f32::from_bits)
    }

    #[test]
    fn parts_are_the_whole() {
        if level() < Level::Avx512 {
            return;
        }
        let count = 77;
        let numbers = noise(count * GROUP, 1).into_iter().enumerate();
        // From tiny to huge.
        let mut numbers: Vec<f32> = numbers
            .map(|(i, x)| x * 10f32.powi(i as i32 % 60 - 25))
            .collect();
        numbers[3] = f32::MAX;
        numbers[40] = -f32::MAX;
        let words = Parts::words(count);
        let sum = |of: &dyn Fn(usize) -> f32, k: usize| {
            let (step, k) = (k / STEP, k % STEP);
            let parts =
                [0, 1, 2].map(|part| both(of(step * WORDS + part * SIDE + k % SIDE))[k / SIDE]);
            assert!(parts.iter().all(|part| part.to_bits() & 0xffff == 0));
            (parts[2] + parts[1]) + parts[0]
        };
        let mut row = vec![f32::NAN; words];
        let mut columns = vec![f32::NAN; words * GROUP];
        let mut whole = numbers.clone();
        whole.resize(count.next_multiple_of(STEP) * GROUP, f32::NAN);
        // SAFETY: there is AVX-512; the numbers and the rooms are as large as they must be.
        unsafe {
            row_in_parts(numbers.as_ptr(), count, row.as_mut_ptr());
            columns_in_parts(whole.as_mut_ptr(), count, columns.as_mut_ptr(), GROUP);
        }
        for k in 0..count.next_multiple_of(STEP) {
            let want = if k < count { numbers[k] } else { 0.0 };
            assert_eq!(sum(&|word| row[word], k), want, "{k}");
            for column in 0..GROUP {
                let want = if k < count {
                    numbers[k * GROUP + column]
                } else {
                    0.0
                };
                let got = sum(&|word| columns[word * GROUP + column], k);
                assert_eq!(got, want, "{k}, column {column}");
            }
        }
    }
}
