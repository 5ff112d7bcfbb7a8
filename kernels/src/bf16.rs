//! What the processor does with bf16.

use crate::cpu::simd::{Level, level};

/// How products of bf16 are computed on the CPU. Sums are f32 in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bf16Products {
    /// In tiles of 16 rows of 32 (AMX): several times as fast as f32.
    Tiles,
    /// In vectors of 16 pairs (AVX512-BF16): twice as fast as f32 where the processor multiplies as many of them a second.
    Pairs,
    /// As f32, in registers: slower than f32, and with half of its memory.
    Widened,
}

/// How this processor computes products of bf16.
pub fn bf16_products() -> Bf16Products {
    match level() {
        Level::Amx => Bf16Products::Tiles,
        Level::Avx512Bf16 => Bf16Products::Pairs,
        Level::Avx512 | Level::Avx2 | Level::Portable => Bf16Products::Widened,
    }
}
