//! Scaled dot-product attention (Vaswani et al. 2017), with and without its probabilities.

use crate::cpu::attention::{Attention, Heads};
use crate::flex::{Operand, filled, filled_with_layout};
use burn::backend::flex::Layout;
use burn::tensor::{Shape, Tensor};

/// `softmax(q kᵀ / √D) v` for queries `[B, H, N, D]`, keys `[B, H, M, D]` and values `[B, H, M, D]`,
/// giving `[B, H, N, D]` in the type of the queries.
pub fn attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    fast(&q, &k, &v, false, false).map_or_else(|| plain::attention(q, k, v), |(out, _)| out)
}

/// As [`attention`], where query `i` sees keys `0..=i` only, as in CLIP's text encoders. `N` = `M`.
pub fn causal_attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    fast(&q, &k, &v, true, false).map_or_else(|| plain::causal_attention(q, k, v), |(out, _)| out)
}

/// As [`attention`], and the probabilities `[B, H, N, M]` it used.
pub fn attention_with_probs(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
    match fast(&q, &k, &v, false, true) {
        Some((out, Some(probs))) => (out, probs),
        _ => plain::attention_with_probs(q, k, v),
    }
}

/// The result, laid out as `[B, N, H, D]` so that merging the heads afterwards copies nothing, and
/// the probabilities if they are asked for.
fn fast(
    q: &Tensor<4>,
    k: &Tensor<4>,
    v: &Tensor<4>,
    causal: bool,
    with_probs: bool,
) -> Option<(Tensor<4>, Option<Tensor<4>>)> {
    let [batch, heads, queries, width] = q.dims();
    let keys = k.dims()[2];
    assert_eq!(
        [k.dims(), v.dims()],
        [[batch, heads, keys, width]; 2],
        "attention: keys and values"
    );
    if batch * heads * queries * keys * width == 0 || (causal && queries != keys) {
        return None;
    }
    let operand = |tensor| {
        let operand = Operand::new(tensor)?;
        let strides: [isize; 4] = operand.strides();
        let rows = strides[3] == 1 && strides.iter().all(|&stride| stride >= 0);
        Some(if rows { operand } else { operand.contiguous() })
    };
    let (q_host, k, v) = (operand(q)?, operand(k)?, operand(v)?);
    let rows = |operand: &Operand| {
        let [batch, head, row, _] = operand.strides::<4>().map(|stride| stride as usize);
        Heads {
            at: operand.as_ptr(),
            strides: [batch, head, row],
        }
    };
    let problem = |out, probs| Attention {
        q: rows(&q_host),
        k: rows(&k),
        v: rows(&v),
        out,
        batch,
        heads,
        queries,
        keys,
        width,
        causal,
        probs,
    };
    let strides = [queries * heads * width, width, heads * width, 1].map(|s| s as isize);
    let layout = Layout::new(Shape::from(q.dims()), strides.to_vec(), 0);
    // SAFETY: the sizes are those of the tensors, and both results are written whole.
    unsafe {
        if with_probs {
            let mut out = None;
            let probs = filled([batch, heads, queries, keys], q.dtype(), |probs| {
                out = Some(filled_with_layout(layout, q.dtype(), |out| {
                    problem(out, probs).run()
                }));
            });
            Some((out?, Some(probs)))
        } else {
            let null = core::ptr::null_mut();
            Some((
                filled_with_layout(layout, q.dtype(), |out| problem(out, null).run()),
                None,
            ))
        }
    }
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
