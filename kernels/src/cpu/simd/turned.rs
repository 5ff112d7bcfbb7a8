//! Matrices turned in registers.

use core::arch::x86_64::*;

/// Turns a matrix of 16 × 16 words: 4 × 4 blocks inside lanes of 128 bits, then the lanes. May only be called where the processor has AVX-512F.
#[inline(always)]
pub(super) fn turned(mut rows: [__m512; 16]) -> [__m512; 16] {
    // SAFETY: the caller has checked for AVX-512F.
    unsafe {
        for i in (0..16).step_by(4) {
            let [a, b, c, d] = [rows[i], rows[i + 1], rows[i + 2], rows[i + 3]];
            let low_ab = _mm512_castps_pd(_mm512_unpacklo_ps(a, b));
            let high_ab = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
            let low_cd = _mm512_castps_pd(_mm512_unpacklo_ps(c, d));
            let high_cd = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
            rows[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(low_ab, low_cd));
            rows[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low_ab, low_cd));
            rows[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high_ab, high_cd));
            rows[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high_ab, high_cd));
        }
        // Now rows[4q + r], lane l, holds column 4l + r of rows 4q..4q + 4.
        let mut columns = rows;
        for r in 0..4 {
            let [a, b, c, d] = [rows[r], rows[4 + r], rows[8 + r], rows[12 + r]];
            let low_ab = _mm512_shuffle_f32x4::<0x88>(a, b);
            let high_ab = _mm512_shuffle_f32x4::<0xdd>(a, b);
            let low_cd = _mm512_shuffle_f32x4::<0x88>(c, d);
            let high_cd = _mm512_shuffle_f32x4::<0xdd>(c, d);
            columns[r] = _mm512_shuffle_f32x4::<0x88>(low_ab, low_cd);
            columns[4 + r] = _mm512_shuffle_f32x4::<0x88>(high_ab, high_cd);
            columns[8 + r] = _mm512_shuffle_f32x4::<0xdd>(low_ab, low_cd);
            columns[12 + r] = _mm512_shuffle_f32x4::<0xdd>(high_ab, high_cd);
        }
        columns
    }
}

/// Turns a matrix of 8 × 8 words. May only be called where the processor has AVX2.
#[inline(always)]
pub(super) fn turned_eights(rows: [__m256; 8]) -> [__m256; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    // SAFETY: the caller has checked for AVX2.
    let (low, high) = unsafe {
        (
            [
                _mm256_permute2f128_ps::<0x20>(a, e),
                _mm256_permute2f128_ps::<0x20>(b, f),
                _mm256_permute2f128_ps::<0x20>(c, g),
                _mm256_permute2f128_ps::<0x20>(d, h),
            ],
            [
                _mm256_permute2f128_ps::<0x31>(a, e),
                _mm256_permute2f128_ps::<0x31>(b, f),
                _mm256_permute2f128_ps::<0x31>(c, g),
                _mm256_permute2f128_ps::<0x31>(d, h),
            ],
        )
    };
    let [a, b, c, d] = turned_fours(low);
    let [e, f, g, h] = turned_fours(high);
    [a, b, c, d, e, f, g, h]
}

/// Turns both matrices of 4 × 4 whose rows are in the halves of these vectors.
#[inline(always)]
pub(super) fn turned_fours([a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
    // SAFETY: `multiversion` has checked for AVX2.
    unsafe {
        let low_ab = _mm256_castps_pd(_mm256_unpacklo_ps(a, b));
        let high_ab = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
        let low_cd = _mm256_castps_pd(_mm256_unpacklo_ps(c, d));
        let high_cd = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
        [
            _mm256_castpd_ps(_mm256_unpacklo_pd(low_ab, low_cd)),
            _mm256_castpd_ps(_mm256_unpackhi_pd(low_ab, low_cd)),
            _mm256_castpd_ps(_mm256_unpacklo_pd(high_ab, high_cd)),
            _mm256_castpd_ps(_mm256_unpackhi_pd(high_ab, high_cd)),
        ]
    }
}
