//! Gradients of attention on the same units, after FlashAttention-2: probabilities are computed again from scores, in registers. One kernel
//! for queries, which leaves of each what the other wants, and one for keys and values.
//!
//! What is multiplied by a gradient to scores is rounded to eleven digits and keeps its exponent (TF32): f16 would lose most of what is
//! left of a gradient that thousands of keys share.

mod keys;
mod parts;
mod queries;

use super::super::super::product::multiplies_tf32;
use super::*;
use keys::units_key_value_grad_kernel;
use queries::units_query_grad_kernel;

/// The widest rows for which a plane has registers: it keeps the sums of two.
const MOST_OF_TWO: usize = 80;

impl Config {
    fn of_gradients(width: usize) -> Self {
        Self {
            width,
            tiles: 1,
            keys: if width <= 64 { 64 } else { 32 },
        }
    }
}

/// The gradients to queries, keys and values, or `None` where there are no such units for the type, or rows are too wide or no whole number
/// of pieces.
pub(in crate::cube::attention) fn input_grads(
    grad: &CubeTensor,
    [q, k, v]: [&CubeTensor; 3],
    out: &CubeTensor,
) -> Option<(CubeTensor, CubeTensor, CubeTensor)> {
    let [batch, heads, queries, width] = [0, 1, 2, 3].map(|axis| q.meta.shape()[axis]);
    let keys = k.meta.shape()[2];
    let same = [grad, k, v, out].iter().all(|x| x.dtype == q.dtype);
    let fits = width.is_multiple_of(PIECE) && width <= MOST_OF_TWO && queries * keys > 0;
    if !same || !fits || !has_units(&q.client, q.dtype) || !multiplies_tf32(&q.client) {
        return None;
    }
    let [grad, q, k, v, out] = [grad, q, k, v, out].map(|x| in_pieces(x.clone()));
    let config = Config::of_gradients(width);
    let client = q.client.clone();
    let scale = (width as f32).sqrt().recip();
    let of_q = heads_inside(&q, [batch, heads, queries, width], q.dtype);
    let of_k = heads_inside(&k, [batch, heads, keys, width], k.dtype);
    let of_v = heads_inside(&k, [batch, heads, keys, width], v.dtype);
    let kept = || empty(&q, Shape::from([batch, heads, queries]), DType::F32);
    let (logs, alongs) = (kept(), kept());
    let dim = CubeDim::new_1d((PLANES * PLANE) as u32);
    let cubes = |rows: usize| grid(&client, batch * heads * rows.div_ceil(config.rows()));
    // SAFETY: rows past the last are neither read nor written.
    unsafe {
        units_query_grad_kernel::launch_unchecked(
            &client,
            cubes(queries),
            dim,
            address(&[&q, &k, &v, &grad, &out, &of_q]),
            q.clone().into_buffer_arg(),
            k.clone().into_buffer_arg(),
            v.clone().into_buffer_arg(),
            grad.clone().into_buffer_arg(),
            out.clone().into_buffer_arg(),
            of_q.clone().into_buffer_arg(),
            logs.clone().into_buffer_arg(),
            alongs.clone().into_buffer_arg(),
            strides(&q, 2),
            strides(&k, PIECE),
            strides(&v, PIECE),
            strides(&grad, 2),
            strides(&out, 2),
            strides(&of_q, 2),
            heads,
            batch * heads,
            queries,
            keys,
            scale,
            config,
            element(&q),
        );
        units_key_value_grad_kernel::launch_unchecked(
            &client,
            cubes(keys),
            dim,
            address(&[&q, &k, &v, &grad, &of_k]),
            q.clone().into_buffer_arg(),
            k.clone().into_buffer_arg(),
            v.clone().into_buffer_arg(),
            grad.clone().into_buffer_arg(),
            logs.into_buffer_arg(),
            alongs.into_buffer_arg(),
            of_k.clone().into_buffer_arg(),
            of_v.clone().into_buffer_arg(),
            strides(&q, PIECE),
            strides(&k, 2),
            strides(&v, 2),
            strides(&grad, PIECE),
            strides(&of_k, 2),
            heads,
            batch * heads,
            queries,
            keys,
            scale,
            config,
            element(&q),
        );
    }
    Some((of_q, of_k, of_v))
}
