//! Random numbers of a tensor, the same whatever the number of threads.

use burn::tensor::FloatDType;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use prepose_models::params::Wanted;
use rayon::prelude::*;

/// Elements that a thread makes at a time; each such block has random numbers of its own.
pub(super) const BLOCK: usize = 1 << 14;

/// How the values of a tensor are distributed: uniformly around `mean`, `span` from end to end.
pub(super) struct Values {
    key: u64,
    mean: f32,
    span: f32,
}

impl Values {
    pub fn of(tensor: &Wanted, network: &str, seed: u64) -> Self {
        let (mean, deviation) = match (&*tensor.shape, &*tensor.name) {
            (_, name) if name.ends_with("bias") => (0.0, 0.02),
            (_, name) if name.contains("embedding.weight") => (0.0, 0.05),
            ([_], _) => (1.0, 0.05),
            ([_, inputs @ ..], _) => (0.0, (inputs.iter().product::<usize>() as f32).powf(-0.5)),
            ([], _) => (0.0, 1.0),
        };
        let name = network.bytes().chain([b'.']).chain(tensor.name.bytes());
        Self {
            key: name.fold(mix(seed), |key, byte| mix(key ^ u64::from(byte))),
            mean,
            // The variance of a uniform distribution is a twelfth of its width squared.
            span: deviation * 12f32.sqrt(),
        }
    }

    /// The elements from block `first` on, as `dtype` in little endian.
    pub fn fill(&self, first: usize, dtype: FloatDType, bytes: &mut [u8]) {
        match dtype {
            FloatDType::F16 => self.blocks(first, bytes, |values, bytes: &mut [[u8; 2]]| {
                let mut narrow = vec![f16::ZERO; values.len()];
                narrow.convert_from_f32_slice(values);
                put(&narrow, bytes, |value| value.to_le_bytes());
            }),
            FloatDType::BF16 => self.blocks(first, bytes, |values, bytes: &mut [[u8; 2]]| {
                let mut narrow = vec![bf16::ZERO; values.len()];
                narrow.convert_from_f32_slice(values);
                put(&narrow, bytes, |value| value.to_le_bytes());
            }),
            _ => self.blocks(first, bytes, |values, bytes: &mut [[u8; 4]]| {
                put(values, bytes, |value| value.to_le_bytes());
            }),
        }
    }

    fn blocks<const W: usize>(
        &self,
        first: usize,
        bytes: &mut [u8],
        convert: impl Fn(&[f32], &mut [[u8; W]]) + Sync,
    ) {
        let (elements, _) = bytes.as_chunks_mut::<W>();
        let blocks = elements.par_chunks_mut(BLOCK).enumerate();
        blocks.for_each(|(block, elements)| {
            let mut values = vec![0.0; elements.len()];
            self.draw((first + block) as u64, &mut values);
            convert(&values, elements);
        });
    }

    /// The values of a block: SplitMix64 (Steele et al. 2014) by counter, four values a word.
    fn draw(&self, block: u64, values: &mut [f32]) {
        let start = mix(self.key ^ mix(block));
        let step = self.span / 65536.0;
        let low = self.mean - 0.5 * self.span + 0.5 * step;
        for (four, counter) in values.chunks_mut(4).zip(1..) {
            let mut word = mix(start.wrapping_add(GOLDEN.wrapping_mul(counter)));
            for value in four {
                *value = low + step * f32::from(word as u16);
                word >>= 16;
            }
        }
    }
}

/// 2⁶⁴ divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64's output function.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn put<T: Copy, const W: usize>(values: &[T], bytes: &mut [[u8; W]], to: impl Fn(T) -> [u8; W]) {
    for (bytes, value) in bytes.iter_mut().zip(values) {
        *bytes = to(*value);
    }
}
