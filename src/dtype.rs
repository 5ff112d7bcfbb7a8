//! The type of the networks' weights.

use serde::{Deserialize, Serialize};

/// The type of the networks' weights. Norms, softmax and latents are f32 whatever it is.
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
