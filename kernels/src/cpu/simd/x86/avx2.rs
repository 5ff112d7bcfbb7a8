//! Vectors of AVX2 with FMA.

use super::super::Element;
use super::super::turned::{turned_eights, turned_fours};
use super::super::vector::Vector;
use core::arch::x86_64::*;
use half::bf16;

impl Vector for __m256 {
    const LANES: usize = 8;
    const TILE_ROWS: usize = 6;
    const STRIP_ROWS: usize = 48;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's 8 elements, which need no alignment; `multiversion` has checked for AVX2.
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as in `load`.
        unsafe { _mm256_storeu_ps(to, self) }
    }
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: `multiversion` has checked for AVX2.
        unsafe { _mm256_set1_ps(x) }
    }
    instructions! {
        add(self, other) = _mm256_add_ps;
        sub(self, other) = _mm256_sub_ps;
        mul(self, other) = _mm256_mul_ps;
        div(self, other) = _mm256_div_ps;
        max(self, other) = _mm256_max_ps;
        min(self, other) = _mm256_min_ps;
        mul_add(self, a, b) = _mm256_fmadd_ps;
        round(self) = _mm256_round_ps::<0x08>;
    }
    #[inline(always)]
    fn times_exp2(self, whole: Self) -> Self {
        // SAFETY: `multiversion` has checked for AVX2.
        unsafe {
            let biased = _mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127));
            _mm256_mul_ps(self, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased)))
        }
    }
    #[inline(always)]
    fn zero_where_below(self, x: Self, limit: f32) -> Self {
        // SAFETY: `multiversion` has checked for AVX2.
        unsafe {
            let keep = _mm256_cmp_ps::<_CMP_NLT_UQ>(x, _mm256_set1_ps(limit));
            _mm256_and_ps(keep, self)
        }
    }
    #[inline(always)]
    fn copy_sign(self, sign: Self) -> Self {
        // SAFETY: `multiversion` has checked for AVX2.
        unsafe {
            let mask = _mm256_set1_ps(-0.0);
            _mm256_or_ps(_mm256_andnot_ps(mask, self), _mm256_and_ps(mask, sign))
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self {
        // SAFETY: the caller's 8 elements of 16 bits; `multiversion` has checked for AVX2.
        unsafe {
            let narrow = _mm_loadu_si128(from.cast());
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(narrow)))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(self, to: *mut bf16) {
        // SAFETY: the caller's room for 8 elements of 16 bits; `multiversion` has checked for AVX2.
        unsafe {
            let bits = rounded(self);
            // Both lanes of 128 bits are packed by themselves.
            let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(bits, bits));
            _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(packed));
        }
    }
    #[inline(always)]
    fn pairs_bf16(self, second: Self) -> Self {
        let [low, high] = [self, second].map(rounded);
        // SAFETY: `multiversion` has checked for AVX2.
        unsafe { _mm256_castsi256_ps(_mm256_or_si256(low, _mm256_slli_epi32::<16>(high))) }
    }
    #[inline(always)]
    unsafe fn columns<E: Element, const N: usize>(rows: &[*const E]) -> [Self; N] {
        let mut columns = [Self::splat(0.0); N];
        let whole = if rows.len() == 8 { N - N % 8 } else { 0 };
        for first in (0..whole).step_by(8) {
            let mut eight = [Self::splat(0.0); 8];
            for (vector, row) in eight.iter_mut().zip(rows) {
                // SAFETY: eight of the caller's `N` elements of each row follow; `multiversion` has checked for AVX2.
                *vector = unsafe { E::load(row.add(first)) };
            }
            let eight = turned_eights(eight);
            for (column, vector) in columns[first..].iter_mut().zip(eight) {
                *column = vector;
            }
        }
        for (j, column) in columns.iter_mut().enumerate().skip(whole) {
            let mut lanes = [0.0f32; 8];
            for (lane, row) in lanes.iter_mut().zip(rows) {
                // SAFETY: the caller's row of this lane.
                *lane = unsafe { *row.add(j) }.widen();
            }
            // SAFETY: eight lanes.
            *column = unsafe { Self::load(lanes.as_ptr()) };
        }
        columns
    }
    #[inline(always)]
    unsafe fn load_fours(from: *const f32) -> [Self; 4] {
        // SAFETY: the caller's 32 elements; `multiversion` has checked for AVX2.
        turned_fours([0, 1, 2, 3].map(|i| unsafe {
            let low = _mm256_castps128_ps256(_mm_loadu_ps(from.add(4 * i)));
            _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(from.add(16 + 4 * i)))
        }))
    }
    #[inline(always)]
    unsafe fn store_fours(columns: [Self; 4], to: *mut f32) {
        for (i, row) in turned_fours(columns).into_iter().enumerate() {
            // SAFETY: the caller's room for 32 elements; `multiversion` has checked for AVX2.
            unsafe {
                _mm_storeu_ps(to.add(4 * i), _mm256_castps256_ps128(row));
                _mm_storeu_ps(to.add(16 + 4 * i), _mm256_extractf128_ps::<1>(row));
            }
        }
    }
    #[inline(always)]
    fn halves(self) -> [Self; 2] {
        // SAFETY: `multiversion` has checked for AVX2.
        unsafe {
            let bits = _mm256_castps_si256(self);
            let low = _mm256_slli_epi32::<16>(bits);
            let high = _mm256_and_si256(bits, _mm256_set1_epi32(-0x1_0000));
            [_mm256_castsi256_ps(low), _mm256_castsi256_ps(high)]
        }
    }
}

/// The nearest bf16, ties to even, in the lower half of each lane.
#[inline(always)]
fn rounded(x: __m256) -> __m256i {
    // SAFETY: `multiversion` has checked for AVX2.
    unsafe {
        let bits = _mm256_castps_si256(x);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
        let up = _mm256_castsi256_ps(_mm256_add_epi32(bits, half));
        // Rounding would carry a NaN into the sign.
        let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040_0000));
        let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x);
        let both = _mm256_blendv_ps(up, _mm256_castsi256_ps(quiet), nan);
        _mm256_srli_epi32::<16>(_mm256_castps_si256(both))
    }
}
