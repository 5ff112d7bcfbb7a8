//! The gradients: probabilities are computed again from scores, a tile at a time.
//!
//! With `s = q kᵀ / √D`, `p = softmax(s)`, `out = p v` and the gradient `g` to `out` (and `h` to `p`
//! where that is asked for), the gradient to a probability is `d = g vᵀ + h`, that to a score is
//! `p (d − Σ p d)`, and `Σ p d = g · out` without `h`.

use super::*;

/// [`crate::attention_query_grad`].
pub(crate) fn attention_query_grad(
    grad: Option<&Tensor<4>>,
    grad_probs: Option<&Tensor<4>>,
    [q, k, v]: [&Tensor<4>; 3],
) -> Option<Tensor<4>> {
    let (q, k, v) = (operand(q)?, operand(k)?, operand(v)?);
    let given = [grad.is_some(), grad_probs.is_some()];
    // What is not there is not read.
    let or_q = |tensor: Option<&Tensor<4>>| match tensor {
        Some(tensor) => operand(tensor),
        None => Some(q.clone()),
    };
    let (grad, grad_probs) = (or_q(grad)?, or_q(grad_probs)?);
    let of_q = Dispatch::attention_query_grad(grad, grad_probs, q, k, v, given);
    Some(Tensor::from_dispatch(of_q))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Config {
    shape: Shape2d,
    /// There is a gradient to the result.
    grad: bool,
    /// There is a gradient to the probabilities.
    grad_probs: bool,
    /// The result is there, and no gradient to the probabilities.
    out: bool,
}

/// Gradient to the queries. A thread keeps a part of a query, of its gradient and of that to the
/// result. The first sweep over the keys gives the logarithm of the sum of exponentials and `Σ p d`,
/// which are kept for the gradient to keys and values; the second the gradient.
#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn query_grad_kernel<F: Float, K: Float, G: Float, P: Float, N: Size>(
    q: &[Vector<F, N>],
    k: &[Vector<K, N>],
    v: &[Vector<K, N>],
    grad: &[Vector<G, N>],
    out: &[Vector<G, N>],
    grad_probs: &[P],
    of_q: &mut [Vector<F, N>],
    logs: &mut [f32],
    alongs: &mut [f32],
    at_q: Strides4,
    at_k: Strides4,
    at_v: Strides4,
    at_grad: Strides4,
    at_out: Strides4,
    at_grad_probs: Strides4,
    at_of_q: Strides4,
    heads: usize,
    all_heads: usize,
    queries: usize,
    keys: usize,
    scale: f32,
    #[comptime] config: Config,
    #[define(F, K, G, P)] _types: [ElemType; 4],
) {
    let shape = comptime!(config.shape);
    let here = position(queries, all_heads, shape);
    let part = here.part;
    let from = start(&at_q, here.head, heads) + here.row * at_q.row;
    let own = keep::<F, N>(q, from, part, here.inside, scale, shape);
    let from = start(&at_grad, here.head, heads) + here.row * at_grad.row;
    let wanted = here.inside && comptime!(config.grad);
    let own_grad = keep::<G, N>(grad, from, part, wanted, 1.0f32, shape);
    let of_probs = start(&at_grad_probs, here.head, heads) + here.row * at_grad_probs.row;
    let k_head = start(&at_k, here.head, heads);
    let v_head = start(&at_v, here.head, heads);

    let mut key_tile =
        Shared::<[Quad]>::new_slice(comptime!(shape.tile * shape.quads * shape.split));
    let mut value_tile =
        Shared::<[Quad]>::new_slice(comptime!(shape.tile * shape.quads * shape.split));
    let mut exchange = Shared::<[f32]>::new_slice(comptime!(exchanged(&shape)));

    let mut most = f32::new(LEAST);
    let mut total = 0.0f32;
    let mut along = 0.0f32;
    if comptime!(config.out) {
        let from = start(&at_out, here.head, heads) + here.row * at_out.row;
        let result = keep::<G, N>(out, from, part, here.inside, 1.0f32, shape);
        let mut sum = own_grad[0] * result[0];
        #[unroll]
        for p in 1..shape.quads {
            sum += own_grad[p] * result[p];
        }
        // The threads of a row share the sum as they share a product.
        let mut product = Array::<f32>::new(shape.block);
        #[unroll]
        for j in 0..shape.block {
            product[j] = sum.vector_sum();
        }
        complete(&mut product, &mut exchange, shape);
        along = product[0];
    }
    let mut first = 0usize;
    while first < keys {
        sync_cube();
        fill::<K, N>(
            k,
            k_head,
            at_k.row,
            first,
            keys,
            1.0f32,
            &mut key_tile,
            shape,
        );
        if comptime!(config.grad && !config.out) {
            fill::<K, N>(
                v,
                v_head,
                at_v.row,
                first,
                keys,
                1.0f32,
                &mut value_tile,
                shape,
            );
        }
        sync_cube();
        for block in 0..comptime!(shape.tile / shape.block) {
            let at = block * shape.block;
            let mut scores = part_of_products(&own, &key_tile, at, shape);
            complete(&mut scores, &mut exchange, shape);
            let mut new_most = most;
            #[unroll]
            for j in 0..shape.block {
                scores[j] = select(first + at + j < keys, scores[j], f32::new(LEAST));
                new_most = max(new_most, scores[j]);
            }
            let fade = (most - new_most).exp();
            most = new_most;
            total *= fade;
            if comptime!(config.out) {
                #[unroll]
                for j in 0..shape.block {
                    total += (scores[j] - most).exp();
                }
            } else {
                along *= fade;
                let to_probs = to_probabilities::<P>(
                    &own_grad,
                    &value_tile,
                    grad_probs,
                    of_probs,
                    first,
                    at,
                    keys,
                    here.inside,
                    &mut exchange,
                    config,
                );
                #[unroll]
                for j in 0..shape.block {
                    let weight = (scores[j] - most).exp();
                    total += weight;
                    along += weight * to_probs[j];
                }
            }
        }
        first += shape.tile;
    }
    if comptime!(!config.out) {
        along /= total;
    }
    let log = most + total.ln();

    let mut sums = Array::<Quad>::new(shape.quads);
    #[unroll]
    for p in 0..shape.quads {
        sums[p] = Quad::new(0.0f32);
    }
    let mut first = 0usize;
    while first < keys {
        sync_cube();
        fill::<K, N>(
            k,
            k_head,
            at_k.row,
            first,
            keys,
            1.0f32,
            &mut key_tile,
            shape,
        );
        if comptime!(config.grad) {
            fill::<K, N>(
                v,
                v_head,
                at_v.row,
                first,
                keys,
                1.0f32,
                &mut value_tile,
                shape,
            );
        }
        sync_cube();
        for block in 0..comptime!(shape.tile / shape.block) {
            let at = block * shape.block;
            let mut scores = part_of_products(&own, &key_tile, at, shape);
            complete(&mut scores, &mut exchange, shape);
            let to_probs = to_probabilities::<P>(
                &own_grad,
                &value_tile,
                grad_probs,
                of_probs,
                first,
                at,
                keys,
                here.inside,
                &mut exchange,
                config,
            );
            #[unroll]
            for j in 0..shape.block {
                let row = (at + j) * comptime!(shape.quads * shape.split) + part;
                // Keys past the last are rows of zeros, whose share of the sum is nothing.
                let to_score = (scores[j] - log).exp() * (to_probs[j] - along) * scale;
                let to_score = select(first + at + j < keys, to_score, 0.0f32);
                #[unroll]
                for p in 0..shape.quads {
                    sums[p] += key_tile[row + p] * Quad::new(to_score);
                }
            }
        }
        first += shape.tile;
    }
    if here.inside {
        let to = start(&at_of_q, here.head, heads) + here.row * at_of_q.row;
        write::<F, N>(of_q, to, part, &sums, shape);
        if comptime!(config.out) && part == 0 {
            let to = here.head * queries + here.row;
            logs[to] = log;
            alongs[to] = along;
        }
    }
}

/// Gradients to the probabilities of a block of keys.
#[cube]
#[allow(clippy::too_many_arguments)]
fn to_probabilities<P: Float>(
    own_grad: &Array<Quad>,
    value_tile: &Shared<[Quad]>,
    grad_probs: &[P],
    of_probs: usize,
    first: usize,
    at: usize,
    keys: usize,
    inside: bool,
    exchange: &mut Shared<[f32]>,
    #[comptime] config: Config,
) -> Array<f32> {
    let shape = comptime!(config.shape);
    let mut to_probs = Array::<f32>::new(shape.block);
    #[unroll]
    for j in 0..shape.block {
        to_probs[j] = 0.0f32;
    }
    if comptime!(config.grad) {
        let mut products = part_of_products(own_grad, value_tile, at, shape);
        complete(&mut products, exchange, shape);
        #[unroll]
        for j in 0..shape.block {
            to_probs[j] = products[j];
        }
    }
    if comptime!(config.grad_probs) {
        #[unroll]
        for j in 0..shape.block {
            let key = first + at + j;
            if inside && key < keys {
                to_probs[j] += f32::cast_from(grad_probs[of_probs + key]);
            }
        }
    }
    to_probs
}

/// Runs [`Kernels::attention_query_grad`].
pub(in crate::cube) fn launch(
    grad: CubeTensor,
    grad_probs: CubeTensor,
    q: CubeTensor,
    k: CubeTensor,
    v: CubeTensor,
    given: [bool; 2],
) -> CubeTensor {
    let (k, v) = same_type(k, v);
    let ([grad_probs], _) = rows_of([grad_probs]);
    let ([q, k, v, grad], vector) = rows_of([q, k, v, grad]);
    run_query_grad(
        [&q, &k, &v],
        (&grad, &grad, Some(&grad_probs)),
        given,
        None,
        vector,
    )
}

/// The gradient to the queries from that to the result and that to the probabilities, as far as they
/// are `given`. If the result is, so is where to keep what the other gradients need.
pub(super) fn run_query_grad(
    [q, k, v]: [&CubeTensor; 3],
    (grad, out, grad_probs): (&CubeTensor, &CubeTensor, Option<&CubeTensor>),
    given: [bool; 2],
    kept: Option<[&CubeTensor; 2]>,
    vector: usize,
) -> CubeTensor {
    let sizes = q.meta.shape();
    let [batch, heads, queries, width] = [sizes[0], sizes[1], sizes[2], sizes[3]];
    let keys = k.meta.shape()[2];
    let of_q = heads_inside(q, [batch, heads, queries, width], q.dtype);
    let client = q.client.clone();
    let config = Config {
        shape: Shape2d::new(&client, width, vector, WIDEST, 2, 1),
        grad: given[0],
        grad_probs: given[1],
        out: kept.is_some(),
    };
    let grad_probs = grad_probs.unwrap_or(grad);
    let cubes = batch * heads * queries.div_ceil(config.shape.rows);
    let types = [element(q), element(k), element(grad), element(grad_probs)];
    // Where nothing is kept nothing is written.
    let [logs, alongs] = match kept {
        Some([logs, alongs]) => [logs.clone(), alongs.clone()],
        None => [(); 2].map(|()| empty(q, Shape::from([1]), DType::F32)),
    };
    // SAFETY: rows past the last are neither read nor written.
    unsafe {
        query_grad_kernel::launch_unchecked(
            &client,
            grid(&client, cubes),
            config.shape.dim(),
            address(&[q, k, v, grad, out, grad_probs, &of_q]),
            vector,
            q.clone().into_buffer_arg(),
            k.clone().into_buffer_arg(),
            v.clone().into_buffer_arg(),
            grad.clone().into_buffer_arg(),
            out.clone().into_buffer_arg(),
            grad_probs.clone().into_buffer_arg(),
            of_q.clone().into_buffer_arg(),
            logs.into_buffer_arg(),
            alongs.into_buffer_arg(),
            strides(q, vector),
            strides(k, vector),
            strides(v, vector),
            strides(grad, vector),
            strides(out, vector),
            strides(grad_probs, 1),
            strides(&of_q, vector),
            heads,
            batch * heads,
            queries,
            keys,
            (width as f32).sqrt().recip(),
            config,
            types,
        );
    }
    of_q
}
