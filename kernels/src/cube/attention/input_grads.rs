//! The gradients to queries, keys and values together.

use super::query_grad::run_query_grad;
use super::*;

/// Elements of a row in a thread's registers for each array, in the kernel that keeps four.
const WIDEST_OF_FOUR: usize = 24;

/// [`crate::attention_input_grads`].
pub(crate) fn attention_input_grads(
    grad: &Tensor<4>,
    [q, k, v]: [&Tensor<4>; 3],
    out: &Tensor<4>,
) -> Option<(Tensor<4>, Tensor<4>, Tensor<4>)> {
    let (grad, out) = (operand(grad)?, operand(out)?);
    let (q, k, v) = (operand(q)?, operand(k)?, operand(v)?);
    let (of_q, of_k, of_v) = Dispatch::attention_input_grads(grad, q, k, v, out);
    Some((
        Tensor::from_dispatch(of_q),
        Tensor::from_dispatch(of_k),
        Tensor::from_dispatch(of_v),
    ))
}

/// Gradients to keys and values. A thread keeps a part of a key, a value and their gradients, and
/// queries with their gradients go through shared memory.
#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn key_value_grad_kernel<F: Float, K: Float, G: Float, N: Size>(
    q: &[Vector<F, N>],
    k: &[Vector<K, N>],
    v: &[Vector<K, N>],
    grad: &[Vector<G, N>],
    logs: &[f32],
    alongs: &[f32],
    of_k: &mut [Vector<K, N>],
    of_v: &mut [Vector<K, N>],
    at_q: Strides4,
    at_k: Strides4,
    at_v: Strides4,
    at_grad: Strides4,
    at_of_k: Strides4,
    heads: usize,
    all_heads: usize,
    queries: usize,
    keys: usize,
    scale: f32,
    #[comptime] shape: Shape2d,
    #[define(F, K, G)] _types: [ElemType; 3],
) {
    let here = position(keys, all_heads, shape);
    let part = here.part;
    let from = start(&at_k, here.head, heads) + here.row * at_k.row;
    let own_key = keep::<K, N>(k, from, part, here.inside, 1.0f32, shape);
    let from = start(&at_v, here.head, heads) + here.row * at_v.row;
    let own_value = keep::<K, N>(v, from, part, here.inside, 1.0f32, shape);
    let q_head = start(&at_q, here.head, heads);
    let grad_head = start(&at_grad, here.head, heads);

    let mut query_tile =
        Shared::<[Quad]>::new_slice(comptime!(shape.tile * shape.quads * shape.split));
    let mut grad_tile =
        Shared::<[Quad]>::new_slice(comptime!(shape.tile * shape.quads * shape.split));
    let mut log_tile = Shared::<[f32]>::new_slice(shape.tile);
    let mut along_tile = Shared::<[f32]>::new_slice(shape.tile);
    let mut exchange = Shared::<[f32]>::new_slice(comptime!(exchanged(&shape)));

    let mut key_sums = Array::<Quad>::new(shape.quads);
    let mut value_sums = Array::<Quad>::new(shape.quads);
    #[unroll]
    for p in 0..shape.quads {
        key_sums[p] = Quad::new(0.0f32);
        value_sums[p] = Quad::new(0.0f32);
    }
    let mut first = 0usize;
    while first < queries {
        sync_cube();
        fill::<F, N>(
            q,
            q_head,
            at_q.row,
            first,
            queries,
            scale,
            &mut query_tile,
            shape,
        );
        fill::<G, N>(
            grad,
            grad_head,
            at_grad.row,
            first,
            queries,
            1.0f32,
            &mut grad_tile,
            shape,
        );
        let mut at = UNIT_POS as usize;
        while at < shape.tile {
            // Rows past the last get a sum of exponentials that leaves nothing of theirs.
            let mut log = f32::new(-LEAST);
            let mut along = 0.0f32;
            if first + at < queries {
                log = logs[here.head * queries + first + at];
                along = alongs[here.head * queries + first + at];
            }
            log_tile[at] = log;
            along_tile[at] = along;
            at += comptime!(shape.rows * shape.split);
        }
        sync_cube();
        for block in 0..comptime!(shape.tile / shape.block) {
            let at = block * shape.block;
            let mut scores = part_of_products(&own_key, &query_tile, at, shape);
            complete(&mut scores, &mut exchange, shape);
            let mut to_probs = part_of_products(&own_value, &grad_tile, at, shape);
            complete(&mut to_probs, &mut exchange, shape);
            #[unroll]
            for j in 0..shape.block {
                let row = (at + j) * comptime!(shape.quads * shape.split) + part;
                let probability = (scores[j] - log_tile[at + j]).exp();
                let to_score = probability * (to_probs[j] - along_tile[at + j]);
                #[unroll]
                for p in 0..shape.quads {
                    value_sums[p] += grad_tile[row + p] * Quad::new(probability);
                    key_sums[p] += query_tile[row + p] * Quad::new(to_score);
                }
            }
        }
        first += shape.tile;
    }
    if here.inside {
        let to = start(&at_of_k, here.head, heads) + here.row * at_of_k.row;
        write::<K, N>(of_k, to, part, &key_sums, shape);
        write::<K, N>(of_v, to, part, &value_sums, shape);
    }
}

/// Runs [`Kernels::attention_input_grads`].
pub(in crate::cube) fn launch(
    grad: CubeTensor,
    q: CubeTensor,
    k: CubeTensor,
    v: CubeTensor,
    out: CubeTensor,
) -> (CubeTensor, CubeTensor, CubeTensor) {
    if let Some(grads) = matrix_units::input_grads(&grad, [&q, &k, &v], &out) {
        return grads;
    }
    let (k, v) = same_type(k, v);
    let (grad, out) = same_type(grad, out);
    let ([q, k, v, grad, out], vector) = rows_of([q, k, v, grad, out]);
    let sizes = q.meta.shape();
    let [batch, heads, queries, width] = [sizes[0], sizes[1], sizes[2], sizes[3]];
    let keys = k.meta.shape()[2];
    let kept = || empty(&q, Shape::from([batch, heads, queries]), DType::F32);
    let (logs, alongs) = (kept(), kept());
    let of_q = run_query_grad(
        [&q, &k, &v],
        (&grad, &out, None),
        [true, false],
        Some([&logs, &alongs]),
        vector,
    );

    let of_k = heads_inside(&k, [batch, heads, keys, width], k.dtype);
    let of_v = heads_inside(&k, [batch, heads, keys, width], v.dtype);
    let client = q.client.clone();
    let shape = Shape2d::new(&client, width, vector, WIDEST_OF_FOUR, 2, 1);
    let cubes = batch * heads * keys.div_ceil(shape.rows);
    // SAFETY: rows past the last are neither read nor written.
    unsafe {
        key_value_grad_kernel::launch_unchecked(
            &client,
            grid(&client, cubes),
            shape.dim(),
            address(&[&q, &k, &v, &grad, &of_k]),
            vector,
            q.clone().into_buffer_arg(),
            k.clone().into_buffer_arg(),
            v.clone().into_buffer_arg(),
            grad.clone().into_buffer_arg(),
            logs.into_buffer_arg(),
            alongs.into_buffer_arg(),
            of_k.clone().into_buffer_arg(),
            of_v.clone().into_buffer_arg(),
            strides(&q, vector),
            strides(&k, vector),
            strides(&v, vector),
            strides(&grad, vector),
            strides(&of_k, vector),
            heads,
            batch * heads,
            queries,
            keys,
            (width as f32).sqrt().recip(),
            shape,
            [element(&q), element(&k), element(&grad)],
        );
    }
    (of_q, of_k, of_v)
}
