//! Scaled dot-product attention (Vaswani et al. 2017), with and without its probabilities.

use crate::cpu::attention::forward::Attention;
use crate::cpu::attention::grid::Grid;
use crate::cpu::attention::input_grads::InputGrads;
use crate::cpu::attention::query_grad::QueryGrad;
use crate::cpu::attention::{Heads, Sizes};
use crate::cpu::simd::Element;
use crate::flex::{Operand, by_type, filled, filled_with_layout};
use crate::plain;
use crate::profile::{self, Family, attention_flops};
use crate::recorded;
use burn::backend::flex::Layout;
use burn::tensor::{DType, Shape, Tensor};

/// `softmax(q kᵀ / √D) v` for queries `[B, H, N, D]`, keys `[B, H, M, D]` and values `[B, H, M, D]`,
/// giving `[B, H, N, D]` in the type of the queries.
pub fn attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    if let Some(y) = recorded::attention(&q, &k, &v) {
        return y;
    }
    let _span = profile::span(Family::Attention, &q, || {
        attention_flops(q.dims(), k.dims()[2], 2)
    });
    fast!(
        by_type!([q, k, v], fast(&q, &k, &v, false, false)).map(|(out, _)| out),
        crate::cube::attention([&q, &k, &v], false)
    )
    .unwrap_or_else(|| plain::attention(q, k, v))
}

/// As [`attention`], where query `i` sees keys `0..=i` only, as in CLIP's text encoders. `N` = `M`.
pub fn causal_attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    let _span = profile::span(Family::Attention, &q, || {
        attention_flops(q.dims(), k.dims()[2], 2)
    });
    fast!(
        by_type!([q, k, v], fast(&q, &k, &v, true, false)).map(|(out, _)| out),
        crate::cube::attention([&q, &k, &v], true)
    )
    .unwrap_or_else(|| plain::causal_attention(q, k, v))
}

/// As [`attention`], and the probabilities `[B, H, N, M]` it used.
pub fn attention_with_probs(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
    let _span = profile::span(Family::Attention, &q, || {
        attention_flops(q.dims(), k.dims()[2], 2)
    });
    fast!(
        by_type!([q, k, v], fast(&q, &k, &v, false, true))
            .and_then(|(out, probs)| Some((out, probs?))),
        crate::cube::attention_with_probs([&q, &k, &v])
    )
    .unwrap_or_else(|| plain::attention_with_probs(q, k, v))
}

/// As [`attention`] of the places of a square grid to each other, row by row, where each score has two products of the
/// query added: with the entry of `positions` for the distance of the rows, and with that for the distance of the columns
/// (Li et al. 2022, "MViTv2"). `positions` `[2 · (2 · side − 1), D]` has those of rows from −(side − 1) on, the query's row
/// minus the key's, and then those of columns. What is added is not divided by √D.
///
/// # Panics
/// If there are not `side²` queries and as many keys.
pub fn grid_attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, positions: Tensor<2>) -> Tensor<4> {
    let _span = profile::span(Family::Attention, &q, || {
        attention_flops(q.dims(), k.dims()[2], 2)
    });
    let side = plain::grid_side(&positions);
    let [_, _, queries, _] = q.dims();
    assert_eq!([queries, k.dims()[2]], [side * side; 2], "grid_attention");
    fast_grid(&q, &k, &v, &positions, side)
        .unwrap_or_else(|| plain::grid_attention(q, k, v, positions))
}

fn fast_grid(
    q: &Tensor<4>,
    k: &Tensor<4>,
    v: &Tensor<4>,
    positions: &Tensor<2>,
    side: usize,
) -> Option<Tensor<4>> {
    let dims @ [batch, heads, queries, width] = q.dims();
    assert_eq!(
        [k.dims(), v.dims()],
        [dims; 2],
        "grid_attention: keys, values"
    );
    if batch * heads * queries * width == 0 {
        return None;
    }
    let (q_rows, k, v) = (rows::<f32>(q)?, rows(k)?, rows(v)?);
    // Backwards, so that the parts of the keys of a row lie in their order. The scores are divided by √D later.
    let table = positions.clone().cast(DType::F32).flip([0]) * (width as f64).sqrt();
    let parts = q
        .clone()
        .reshape([batch * heads, queries, width])
        .cast(DType::F32);
    let parts = Operand::<f32>::new(&crate::linear(parts, table, None))?.contiguous();
    let problem = |out| Attention {
        q: heads_of(&q_rows),
        k: heads_of(&k),
        v: heads_of(&v),
        out,
        batch,
        heads,
        queries,
        keys: queries,
        width,
        causal: false,
        probs: core::ptr::null_mut(),
        grid: Some(Grid {
            parts: parts.as_ptr(),
            side,
        }),
    };
    let layout = heads_inside(dims);
    // SAFETY: the sizes, none of which is 0, are those of the tensors; rows are runs, as `rows` has seen to; each query has
    // its parts; the result is written whole, in the order of `heads_inside`.
    Some(unsafe { filled_with_layout(layout, q.dtype(), |out| problem(out).run()) })
}

/// The result, laid out as `[B, N, H, D]` so that merging the heads afterwards copies nothing, and
/// the probabilities if they are asked for.
fn fast<E: Element>(
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
    if !width.is_multiple_of(E::PER_WORD) {
        return fast::<f32>(q, k, v, causal, with_probs);
    }
    let (q_rows, k, v) = (rows::<E>(q)?, rows(k)?, rows(v)?);
    let problem = |out, probs| Attention {
        q: heads_of(&q_rows),
        k: heads_of(&k),
        v: heads_of(&v),
        out,
        batch,
        heads,
        queries,
        keys,
        width,
        causal,
        probs,
        grid: None,
    };
    let layout = heads_inside(q.dims());
    // SAFETY: the sizes, none of which is 0, are those of the tensors; rows are runs, as `rows` has seen to; both results
    // are written whole, the first in the order of `heads_inside`.
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

/// An operand whose rows of `D` elements are runs, which begin whole words apart if `D` elements are whole words.
fn rows<E: Element>(tensor: &Tensor<4>) -> Option<Operand<E>> {
    let operand = Operand::<E>::new(tensor)?;
    let strides: [isize; 4] = operand.strides();
    let runs = strides[3] == 1 && strides.iter().all(|&stride| stride >= 0);
    let words = strides[2] % E::PER_WORD as isize == 0;
    Some(match runs && words {
        true => operand,
        false => operand.contiguous(),
    })
}

fn heads_of<E: Element>(rows: &Operand<E>) -> Heads<E> {
    let [batch, head, row, _] = rows.strides::<4>().map(|stride| stride as usize);
    Heads {
        at: rows.as_ptr(),
        strides: [batch, head, row],
    }
}

/// `[B, H, N, D]` laid out as `[B, N, H, D]`.
fn heads_inside([batch, heads, rows, width]: [usize; 4]) -> Layout {
    let strides = [rows * heads * width, width, heads * width, 1].map(|s| s as isize);
    Layout::new(
        Shape::from([batch, heads, rows, width]),
        strides.to_vec(),
        0,
    )
}

/// Gradients of [`attention`] with respect to `q`, `k` and `v`, from the gradient `grad`
/// `[B, H, N, D]` with respect to its result and that result, `out`.
///
/// The probabilities are computed again for some queries at a time, so that the memory needed does
/// not grow with `N·M` (Rabe & Staats 2021; Dao et al. 2022).
pub fn attention_input_grads(
    grad: Tensor<4>,
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    out: Tensor<4>,
) -> (Tensor<4>, Tensor<4>, Tensor<4>) {
    let _span = profile::span(Family::Attention, &q, || {
        attention_flops(q.dims(), k.dims()[2], 5)
    });
    fast!(
        by_type!(
            [grad, q, k, v, out],
            fast_input_grads(&grad, [&q, &k, &v], &out)
        ),
        crate::cube::attention_input_grads(&grad, [&q, &k, &v], &out)
    )
    .unwrap_or_else(|| plain::attention_input_grads(grad, q, k, v, out))
}

fn fast_input_grads<E: Element>(
    grad: &Tensor<4>,
    [q, k, v]: [&Tensor<4>; 3],
    out: &Tensor<4>,
) -> Option<(Tensor<4>, Tensor<4>, Tensor<4>)> {
    let sizes = sizes(q, k, v);
    assert_eq!(
        [grad.dims(), out.dims()],
        [q.dims(); 2],
        "attention_input_grads: the result and its gradient"
    );
    if q.shape().num_elements() * k.shape().num_elements() == 0 {
        return None;
    }
    if !sizes.width.is_multiple_of(E::PER_WORD) {
        return fast_input_grads::<f32>(grad, [q, k, v], out);
    }
    let (grad, out) = (rows::<E>(grad)?, rows(out)?);
    let (q_rows, k_rows, v_rows) = (rows(q)?, rows(k)?, rows(v)?);
    let (mut of_k, mut of_v) = (None, None);
    let key_layout = || heads_inside(k.dims());
    // SAFETY: the sizes, none of which is 0, are those of the tensors; rows are runs, as `rows` has seen to; all three
    // results are written whole, in the order of `heads_inside`.
    let of_q = unsafe {
        filled_with_layout(heads_inside(q.dims()), q.dtype(), |q_grad| {
            of_k = Some(filled_with_layout(key_layout(), k.dtype(), |k_grad| {
                of_v = Some(filled_with_layout(key_layout(), v.dtype(), |v_grad| {
                    InputGrads {
                        sizes,
                        grad: heads_of(&grad),
                        out: heads_of(&out),
                        q: heads_of(&q_rows),
                        k: heads_of(&k_rows),
                        v: heads_of(&v_rows),
                        q_grad,
                        k_grad,
                        v_grad,
                    }
                    .run();
                }));
            }));
        })
    };
    Some((of_q, of_k?, of_v?))
}

fn sizes(q: &Tensor<4>, k: &Tensor<4>, v: &Tensor<4>) -> Sizes {
    let [batch, heads, queries, width] = q.dims();
    let keys = k.dims()[2];
    assert_eq!(
        [k.dims(), v.dims()],
        [[batch, heads, keys, width]; 2],
        "attention: keys and values"
    );
    Sizes {
        batch,
        heads,
        queries,
        keys,
        width,
    }
}

/// Gradient of [`attention_with_probs`] with respect to the queries alone, as when keys and values
/// come from a fixed context: from the gradient with respect to the result, `grad` `[B, H, N, D]`,
/// and that with respect to the probabilities, `grad_probs` `[B, H, N, M]`, or `[B, 1, N, M]` when it
/// is the same for every head. What is `None` counts as zero.
pub fn attention_query_grad(
    grad: Option<Tensor<4>>,
    grad_probs: Option<Tensor<4>>,
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
) -> Tensor<4> {
    let _span = profile::span(Family::Attention, &q, || {
        attention_flops(q.dims(), k.dims()[2], 2 + usize::from(grad.is_some()))
    });
    let cpu = |grad: Option<&Tensor<4>>, probs: Option<&Tensor<4>>| {
        let mut gradients = grad.into_iter().chain(probs);
        if gradients.all(|grad| grad.dtype() == DType::BF16) {
            by_type!([q, k, v], fast_query_grad(grad, probs, [&q, &k, &v]))
        } else {
            fast_query_grad::<f32>(grad, probs, [&q, &k, &v])
        }
    };
    fast!(
        cpu(grad.as_ref(), grad_probs.as_ref()),
        crate::cube::attention_query_grad(grad.as_ref(), grad_probs.as_ref(), [&q, &k, &v])
    )
    .unwrap_or_else(|| plain::attention_query_grad(grad, grad_probs, q, k, v))
}

fn fast_query_grad<E: Element>(
    grad: Option<&Tensor<4>>,
    grad_probs: Option<&Tensor<4>>,
    [q, k, v]: [&Tensor<4>; 3],
) -> Option<Tensor<4>> {
    let sizes = sizes(q, k, v);
    let [batch, heads, queries, _] = q.dims();
    if let Some(grad) = grad {
        assert_eq!(grad.dims(), q.dims(), "attention_query_grad: gradient");
    }
    if let Some(grad) = grad_probs {
        let given = if grad.dims()[1] == 1 { 1 } else { heads };
        assert_eq!(
            grad.dims(),
            [batch, given, queries, sizes.keys],
            "attention_query_grad: gradient of the probabilities"
        );
    }
    let nothing = grad.is_none() && grad_probs.is_none();
    if nothing || q.shape().num_elements() * k.shape().num_elements() == 0 {
        return None;
    }
    if !sizes.width.is_multiple_of(E::PER_WORD) {
        return fast_query_grad::<f32>(grad, grad_probs, [q, k, v]);
    }
    let (q_rows, k, v) = (rows::<E>(q)?, rows(k)?, rows(v)?);
    // Outside is `None` for a tensor that has no fast path, inside for no tensor.
    let of = |tensor: Option<&Tensor<4>>| match tensor {
        Some(tensor) => rows(tensor).map(Some),
        None => Some(None),
    };
    let (grad, probs) = (of(grad)?, of(grad_probs)?);
    let same_for_all = grad_probs.is_some_and(|grad| grad.dims()[1] == 1);
    let probs_rows = probs.as_ref().map(heads_of).map(|mut rows| {
        rows.strides[1] *= usize::from(!same_for_all);
        rows
    });
    // SAFETY: the sizes, none of which is 0, are those of the tensors, except that one head of the gradient of the
    // probabilities may be all of them, with a stride of 0; all of the result is written, in the order of `heads_inside`.
    Some(unsafe {
        filled_with_layout(heads_inside(q.dims()), q.dtype(), |q_grad| {
            QueryGrad {
                sizes,
                grad: grad.as_ref().map(heads_of),
                grad_probs: probs_rows,
                q: heads_of(&q_rows),
                k: heads_of(&k),
                v: heads_of(&v),
                q_grad,
            }
            .run();
        })
    })
}
