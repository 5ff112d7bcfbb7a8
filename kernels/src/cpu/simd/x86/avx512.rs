//! Vectors of AVX-512.

use super::super::Element;
use super::super::turned::turned;
use super::super::vector::{Tiles, Vector, dot_of_halves};
use core::arch::x86_64::*;
use core::mem::transmute;
use half::bf16;

/// Sixteen f32; with the instructions of AVX512-BF16 if `BF16`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Wide<const BF16: bool>(__m512);

impl<const BF16: bool> Vector for Wide<BF16>
where
    Self: Tiles,
{
    const LANES: usize = 16;
    const TILE_ROWS: usize = 8;
    // Panels of three groups are larger than that cache.
    const STRIP_ROWS: usize = Self::TILE_ROWS;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's 16 elements, which need no alignment; `multiversion` has checked for AVX-512F.
        unsafe { Self(_mm512_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as in `load`.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: `multiversion` has checked for AVX-512F.
        unsafe { Self(_mm512_set1_ps(x)) }
    }
    instructions! {
        Self: add(self, other) = _mm512_add_ps;
        Self: sub(self, other) = _mm512_sub_ps;
        Self: mul(self, other) = _mm512_mul_ps;
        Self: div(self, other) = _mm512_div_ps;
        Self: max(self, other) = _mm512_max_ps;
        Self: min(self, other) = _mm512_min_ps;
        Self: mul_add(self, a, b) = _mm512_fmadd_ps;
        Self: round(self) = _mm512_roundscale_ps::<0x08>;
    }
    #[inline(always)]
    fn times_exp2(self, whole: Self) -> Self {
        // SAFETY: `multiversion` has checked for AVX-512F.
        unsafe { Self(_mm512_scalef_ps(self.0, whole.0)) }
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: `multiversion` has checked for AVX-512F.
        unsafe { _mm512_reduce_add_ps(self.0) }
    }
    #[inline(always)]
    fn largest(self) -> f32 {
        // A lane that is no number must not win; of two operands the instruction returns the second then.
        // SAFETY: `multiversion` has checked for AVX-512F.
        unsafe {
            let least = _mm512_set1_ps(f32::NEG_INFINITY);
            _mm512_reduce_max_ps(_mm512_max_ps(self.0, least))
        }
    }
    #[inline(always)]
    fn zero_where_below(self, x: Self, limit: f32) -> Self {
        // SAFETY: `multiversion` has checked for AVX-512F.
        unsafe {
            let keep = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x.0, _mm512_set1_ps(limit));
            Self(_mm512_maskz_mov_ps(keep, self.0))
        }
    }
    #[inline(always)]
    fn copy_sign(self, sign: Self) -> Self {
        // SAFETY: `multiversion` has checked for AVX-512F.
        unsafe {
            let mask = _mm512_set1_epi32(i32::MIN);
            let magnitude = _mm512_andnot_si512(mask, _mm512_castps_si512(self.0));
            let sign = _mm512_and_si512(mask, _mm512_castps_si512(sign.0));
            Self(_mm512_castsi512_ps(_mm512_or_si512(magnitude, sign)))
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self {
        // SAFETY: the caller's 16 elements of 16 bits.
        let narrow = unsafe { _mm256_loadu_si256(from.cast()) };
        widen(narrow)
    }
    #[inline(always)]
    unsafe fn load_first_bf16(from: *const bf16, count: usize) -> Self {
        // SAFETY: lanes outside the mask are not read; the caller has `count` elements.
        let narrow = unsafe { _mm256_maskz_loadu_epi16(first(count), from.cast()) };
        widen(narrow)
    }
    #[inline(always)]
    unsafe fn store_bf16(self, to: *mut bf16) {
        // SAFETY: the caller's room for 16 elements of 16 bits.
        unsafe { _mm256_storeu_si256(to.cast(), narrow(self)) };
    }
    #[inline(always)]
    unsafe fn store_first_bf16(self, to: *mut bf16, count: usize) {
        // SAFETY: lanes outside the mask are not written; the caller has room for `count` elements.
        unsafe { _mm256_mask_storeu_epi16(to.cast(), first(count), narrow(self)) };
    }
    #[inline(always)]
    fn pairs_bf16(self, second: Self) -> Self {
        let [low, high] = [self, second].map(narrow);
        // SAFETY: `multiversion` has checked for AVX-512F.
        unsafe {
            let high = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(high));
            let both = _mm512_or_si512(_mm512_cvtepu16_epi32(low), high);
            Self(_mm512_castsi512_ps(both))
        }
    }
    #[inline(always)]
    unsafe fn columns<E: Element, const N: usize>(rows: &[*const E]) -> [Self; N] {
        let mut vectors = [Self::splat(0.0).0; 16];
        for (vector, row) in vectors.iter_mut().zip(rows) {
            // SAFETY: the caller's `N` elements of each row.
            *vector = unsafe { E::load_first::<Self>(*row, N) }.0;
        }
        let vectors = turned(vectors);
        let mut columns = [Self::splat(0.0); N];
        for (column, vector) in columns.iter_mut().zip(vectors) {
            *column = Self(vector);
        }
        columns
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        // SAFETY: lanes outside the mask are not read; the caller has `count` elements.
        unsafe { Self(_mm512_maskz_loadu_ps(first(count), from)) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        // SAFETY: lanes outside the mask are not written; the caller has room for `count` elements.
        unsafe { _mm512_mask_storeu_ps(to, first(count), self.0) };
    }
    #[inline(always)]
    unsafe fn load_fours(from: *const f32) -> [Self; 4] {
        // SAFETY: the caller's 64 elements; `multiversion` has checked for AVX-512F.
        unsafe {
            let [a, b, c, d] = [0, 16, 32, 48].map(|i| _mm512_loadu_ps(from.add(i)));
            let first = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
            let two = |first| {
                let low = _mm512_permutex2var_ps(a, first, b);
                let high = _mm512_permutex2var_ps(c, first, d);
                let [even, odd] = [
                    _mm512_shuffle_f32x4::<0x44>(low, high),
                    _mm512_shuffle_f32x4::<0xee>(low, high),
                ];
                [Self(even), Self(odd)]
            };
            let [x, y] = two(first);
            let [z, w] = two(_mm512_add_epi32(first, _mm512_set1_epi32(2)));
            [x, y, z, w]
        }
    }
    #[inline(always)]
    unsafe fn store_fours(columns: [Self; 4], to: *mut f32) {
        let [x, y, z, w] = columns.map(|column| column.0);
        // SAFETY: the caller's room for 64 elements; `multiversion` has checked for AVX-512F.
        unsafe {
            let rows = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let pairs = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
            for half in 0..2 {
                let rows = _mm512_add_epi32(rows, _mm512_set1_epi32(8 * half));
                let low = _mm512_castps_pd(_mm512_permutex2var_ps(x, rows, y));
                let high = _mm512_castps_pd(_mm512_permutex2var_ps(z, rows, w));
                for quarter in 0..2 {
                    let pairs = _mm512_add_epi64(pairs, _mm512_set1_epi64(4 * quarter));
                    let four = _mm512_permutex2var_pd(low, pairs, high);
                    let to = to.add((32 * half + 16 * quarter as i32) as usize);
                    _mm512_storeu_ps(to, _mm512_castpd_ps(four));
                }
            }
        }
    }
    #[inline(always)]
    fn halves(self) -> [Self; 2] {
        // SAFETY: `multiversion` has checked for AVX-512F.
        unsafe {
            let bits = _mm512_castps_si512(self.0);
            let low = _mm512_slli_epi32::<16>(bits);
            let high = _mm512_and_si512(bits, _mm512_set1_epi32(-0x1_0000));
            [low, high].map(|bits| Self(_mm512_castsi512_ps(bits)))
        }
    }
    #[inline(always)]
    fn dot_bf16(self, other: Self, sum: Self) -> Self {
        if !BF16 {
            return dot_of_halves(self, other, sum);
        }
        // SAFETY: vectors are numbers; `multiversion` has checked for AVX512-BF16.
        unsafe {
            let [a, b] = [self, other].map(|x| transmute::<__m512, __m512bh>(x.0));
            Self(_mm512_dpbf16_ps(sum.0, a, b))
        }
    }
}

/// A mask of the first `count` of 16 lanes.
#[inline(always)]
fn first(count: usize) -> u16 {
    ((1u32 << count) - 1) as u16
}

#[inline(always)]
fn widen<const BF16: bool>(narrow: __m256i) -> Wide<BF16> {
    // SAFETY: `multiversion` has checked for AVX-512F.
    unsafe {
        let bits = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(narrow));
        Wide(_mm512_castsi512_ps(bits))
    }
}

/// Rounds to the nearest bf16, ties to even. The instruction takes numbers below 2⁻¹²⁶ as 0.
#[inline(always)]
fn narrow<const BF16: bool>(x: Wide<BF16>) -> __m256i {
    // SAFETY: `multiversion` has checked for AVX-512F, and for AVX512-BF16 if `BF16`; vectors are numbers.
    unsafe {
        if BF16 {
            return transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(x.0));
        }
        let bits = _mm512_castps_si512(x.0);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
        let rounded = _mm512_add_epi32(bits, half);
        // Rounding would carry a NaN into the sign.
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x.0, x.0);
        let rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x0040_0000));
        _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded))
    }
}
