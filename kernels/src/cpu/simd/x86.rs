//! The vectors of AVX-512 and of AVX2 with FMA.

use super::vector::Vector;
use core::arch::x86_64::*;

/// Methods that are one instruction each, of vectors to a vector.
macro_rules! instructions {
    ($($name:ident($this:ident $(, $other:ident)*) = $instruction:expr;)*) => {$(
        #[inline(always)]
        fn $name($this $(, $other: Self)*) -> Self {
            // SAFETY: the processor has the instruction: `multiversion` has checked (see `Vector`).
            unsafe { $instruction($this $(, $other)*) }
        }
    )*};
}

impl Vector for __m512 {
    const LANES: usize = 16;
    const TILE_ROWS: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's 16 elements, which need no alignment; `multiversion` has checked for AVX-512F.
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as in `load`.
        unsafe { _mm512_storeu_ps(to, self) }
    }
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: `multiversion` has checked for AVX-512F.
        unsafe { _mm512_set1_ps(x) }
    }
    instructions! {
        add(self, other) = _mm512_add_ps;
        sub(self, other) = _mm512_sub_ps;
        mul(self, other) = _mm512_mul_ps;
        div(self, other) = _mm512_div_ps;
        max(self, other) = _mm512_max_ps;
        min(self, other) = _mm512_min_ps;
        mul_add(self, a, b) = _mm512_fmadd_ps;
        round(self) = _mm512_roundscale_ps::<0x08>;
    }
    #[inline(always)]
    fn exp2_integer(self) -> Self {
        // SAFETY: `multiversion` has checked for AVX-512F.
        unsafe { _mm512_scalef_ps(_mm512_set1_ps(1.0), self) }
    }
    #[inline(always)]
    fn zero_where_below(self, x: Self, limit: f32) -> Self {
        // SAFETY: `multiversion` has checked for AVX-512F.
        unsafe {
            let keep = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, _mm512_set1_ps(limit));
            _mm512_maskz_mov_ps(keep, self)
        }
    }
    #[inline(always)]
    fn copy_sign(self, sign: Self) -> Self {
        // SAFETY: `multiversion` has checked for AVX-512F.
        unsafe {
            let mask = _mm512_set1_epi32(i32::MIN);
            let magnitude = _mm512_andnot_si512(mask, _mm512_castps_si512(self));
            let sign = _mm512_and_si512(mask, _mm512_castps_si512(sign));
            _mm512_castsi512_ps(_mm512_or_si512(magnitude, sign))
        }
    }
}

impl Vector for __m256 {
    const LANES: usize = 8;
    const TILE_ROWS: usize = 6;

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
    fn exp2_integer(self) -> Self {
        // SAFETY: `multiversion` has checked for AVX2.
        unsafe {
            let biased = _mm256_add_epi32(_mm256_cvtps_epi32(self), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
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
}
