//! References of attention and its gradients.

use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{DType, Int, Tensor, activation, module};

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
pub fn attention_with_probs(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
    let dtype = q.dtype();
    let scale = (q.dims()[3] as f64).powf(-0.5);
    // Scaled before the product, so that f16 scores stay in range.
    let probs = probabilities(q * scale, k.transpose()).cast(dtype);
    (probs.clone().matmul(v), probs)
}

/// Places along a side of the grid that `positions` of [`crate::grid_attention`] are for.
pub(crate) fn grid_side(positions: &Tensor<2>) -> usize {
    (positions.dims()[0] / 2).div_ceil(2)
}

/// Reference of [`crate::grid_attention`], with the softmax in f32.
pub fn grid_attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, positions: Tensor<2>) -> Tensor<4> {
    let dtype = q.dtype();
    let side = grid_side(&positions);
    let [batch, heads, queries, width] = q.dims();
    let device = q.device();
    let positions = positions.cast(DType::F32);
    // The rows of the tables that each pair of places has, `[1, side, D, side]` by query and key.
    let pairs = |first: usize| {
        let distance = |i: usize| (first + i / side + side - 1 - i % side) as i32;
        let rows: Vec<i32> = (0..side * side).map(distance).collect();
        let rows = Tensor::<1, Int>::from_data(rows.as_slice(), &device);
        let table: Tensor<4> = (positions.clone().select(0, rows)).reshape([1, side, side, width]);
        table.swap_dims(2, 3)
    };
    let grid: Tensor<4> = q.clone().reshape([batch * heads, side, side, width]);
    let grid = grid.cast(DType::F32);
    let by_row = grid.clone().matmul(pairs(0));
    let by_column = grid.swap_dims(1, 2).matmul(pairs(2 * side - 1));
    let by_column = by_column.swap_dims(1, 2);
    let by_row: Tensor<5> = by_row.unsqueeze_dim(4);
    let by_column: Tensor<5> = by_column.unsqueeze_dim(3);
    let added: Tensor<5> = by_row + by_column;
    let scale = (width as f64).powf(-0.5);
    let scores = (q * scale).matmul(k.transpose()).cast(DType::F32);
    let scores = scores + added.reshape([batch, heads, queries, queries]);
    let probs = activation::softmax(scores, 3).cast(dtype);
    probs.matmul(v)
}

/// Scores that [`attention_input_grads`] holds at a time, at most (unless there are more keys).
const CHUNK: usize = 1 << 24;

/// Reference of [`crate::attention_input_grads`]. Scores and their gradients are f32 from the
/// softmax on: those gradients are smaller than `grad` by the number of keys.
pub fn attention_input_grads(
    grad: Tensor<4>,
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    out: Tensor<4>,
) -> (Tensor<4>, Tensor<4>, Tensor<4>) {
    let dtype = q.dtype();
    let [batch, heads, queries, width] = q.dims();
    let keys = k.dims()[2];
    let scale = (width as f64).powf(-0.5);
    let chunk = (CHUNK / (batch * heads * keys).max(1)).max(1);
    let (keys_wide, keys_transposed) = (k.clone().cast(DType::F32), k.transpose());
    let values_transposed = v.transpose();
    let mut q_grad = Vec::new();
    let mut sums: Option<(Tensor<4>, Tensor<4>)> = None;
    for first in (0..queries).step_by(chunk) {
        let rows = |x: &Tensor<4>| x.clone().narrow(2, first, chunk.min(queries - first));
        let (grad, q, out) = (rows(&grad), rows(&q) * scale, rows(&out));
        let probs = probabilities(q.clone(), keys_transposed.clone());
        let along = (grad.clone().cast(DType::F32) * out.cast(DType::F32)).sum_dim(3);
        let probs_grad = grad.clone().matmul(values_transposed.clone());
        let scores_grad = probs.clone() * (probs_grad.cast(DType::F32) - along);
        q_grad.push((scores_grad.clone().matmul(keys_wide.clone()) * scale).cast(dtype));
        let k_part = scores_grad.transpose().matmul(q.cast(DType::F32));
        let v_part = probs.cast(dtype).transpose().matmul(grad).cast(DType::F32);
        sums = Some(match sums {
            Some((k_grad, v_grad)) => (k_grad + k_part, v_grad + v_part),
            None => (k_part, v_part),
        });
    }
    let (k_grad, v_grad) = sums.expect("attention with at least one query");
    (
        Tensor::cat(q_grad, 2),
        k_grad.cast(dtype),
        v_grad.cast(dtype),
    )
}

/// Reference of [`crate::attention_query_grad`].
pub fn attention_query_grad(
    grad: Option<Tensor<4>>,
    grad_probs: Option<Tensor<4>>,
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
) -> Tensor<4> {
    let dtype = q.dtype();
    let scale = (q.dims()[3] as f64).powf(-0.5);
    let from_output = grad.map(|grad| grad.matmul(v.transpose()).cast(DType::F32));
    let given = grad_probs.map(|grad| grad.cast(DType::F32));
    let probs_grad = match (from_output, given) {
        (Some(a), Some(b)) => a + b,
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return q.zeros_like(),
    };
    let probs = probabilities(q * scale, k.clone().transpose());
    let along = (probs.clone() * probs_grad.clone()).sum_dim(3);
    let scores_grad = probs * (probs_grad - along);
    (scores_grad.matmul(k.cast(DType::F32)) * scale).cast(dtype)
}

/// The softmax in f32, for queries that are already scaled.
fn probabilities(q: Tensor<4>, k_transposed: Tensor<4>) -> Tensor<4> {
    activation::softmax(q.matmul(k_transposed).cast(DType::F32), 3)
}
