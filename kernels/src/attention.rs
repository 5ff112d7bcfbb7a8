//! Scaled dot-product attention (Vaswani et al. 2017), with and without its probabilities.

use burn::tensor::Tensor;

/// `softmax(q kᵀ / √D) v` for queries `[B, H, N, D]`, keys `[B, H, M, D]` and values `[B, H, M, D]`,
/// giving `[B, H, N, D]` in the type of the queries.
pub fn attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    plain::attention(q, k, v)
}

/// As [`attention`], where query `i` sees keys `0..=i` only, as in CLIP's text encoders. `N` = `M`.
pub fn causal_attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    plain::causal_attention(q, k, v)
}

/// As [`attention`], and the probabilities `[B, H, N, M]` it used.
pub fn attention_with_probs(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
    plain::attention_with_probs(q, k, v)
}

pub(crate) mod plain {
    use burn::tensor::ops::AttentionModuleOptions;
    use burn::tensor::{DType, Tensor, activation, module};

    /// Reference of [`crate::attention`]: Burn's own, which is a fused kernel on GPUs where it can
    /// be (it never is with a custom scale, so none is given).
    pub fn attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
        module::attention(q, k, v, None, None, AttentionModuleOptions::default())
    }

    /// Reference of [`crate::causal_attention`].
    pub fn causal_attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
        let options = AttentionModuleOptions {
            is_causal: true,
            ..Default::default()
        };
        module::attention(q, k, v, None, None, options)
    }

    /// Reference of [`crate::attention_with_probs`], with the softmax in f32.
    pub fn attention_with_probs(
        q: Tensor<4>,
        k: Tensor<4>,
        v: Tensor<4>,
    ) -> (Tensor<4>, Tensor<4>) {
        let dtype = q.dtype();
        let scale = (q.dims()[3] as f64).powf(-0.5);
        // Scaled before the product, so that f16 scores stay in range.
        let scores = (q * scale).matmul(k.transpose()).cast(DType::F32);
        let probs = activation::softmax(scores, 3).cast(dtype);
        (probs.clone().matmul(v), probs)
    }
}
