//! The type of the networks' weights.

use serde::{Deserialize, Serialize};

/// The type of the networks' weights, and of what their layers hand on.
///
/// Sums, statistics of norms, softmax and activations are computed in f32 whatever it is. The embedding of timesteps, the
/// parameters of norms, latents, schedulers, losses of guidance and pictures stay f32 too. On the CPU bf16 is multiplied as
/// such where the processor can (AMX, AVX512-BF16), else it is widened in registers; f16 is widened, layer by layer, and saves
/// memory between calls only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 32 bits.
    F32,
    /// 16 bits with 5 of exponent.
    F16,
    /// 16 bits with 8 of exponent.
    Bf16,
}

impl Dtype {
    /// Burn's name for it.
    pub fn float(self) -> burn::tensor::FloatDType {
        use burn::tensor::FloatDType;
        match self {
            Dtype::F32 => FloatDType::F32,
            Dtype::F16 => FloatDType::F16,
            Dtype::Bf16 => FloatDType::BF16,
        }
    }
}
