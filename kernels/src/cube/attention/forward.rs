//! The forward pass: scores of a tile of keys at a time, with a running maximum and sum.

use super::*;

/// [`crate::attention`] and [`crate::causal_attention`].
pub(crate) fn attention([q, k, v]: [&Tensor<4>; 3], causal: bool) -> Option<Tensor<4>> {
    if causal && q.dims()[2] != k.dims()[2] {
        return None;
    }
    let out = Dispatch::attention(operand(q)?, operand(k)?, operand(v)?, causal);
    Some(Tensor::from_dispatch(out))
}

/// [`crate::attention_with_probs`].
pub(crate) fn attention_with_probs([q, k, v]: [&Tensor<4>; 3]) -> Option<(Tensor<4>, Tensor<4>)> {
    let (q, k, v) = (operand(q)?, operand(k)?, operand(v)?);
    let (out, probs) = Dispatch::attention_with_probs(q, k, v);
    Some((Tensor::from_dispatch(out), Tensor::from_dispatch(probs)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Config {
    shape: Shape2d,
    causal: bool,
    probs: bool,
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn attention_kernel<F: Float, K: Float, N: Size>(
    q: &[Vector<F, N>],
    k: &[Vector<K, N>],
    v: &[Vector<K, N>],
    out: &mut [Vector<F, N>],
    probs: &mut [F],
    of_q: Strides4,
    of_k: Strides4,
    of_v: Strides4,
    of_out: Strides4,
    heads: usize,
    all_heads: usize,
    queries: usize,
    keys: usize,
    scale: f32,
    #[comptime] config: Config,
    #[define(F, K)] _types: [ElemType; 2],
) {
    let shape = comptime!(config.shape);
    let blocks = (queries + comptime!(shape.rows - 1)) / shape.rows;
    let cube = CUBE_POS;
    let head = cube / blocks;
    // Cubes past the last head keep step with nothing to do.
    let rows = select(head < all_heads, queries, 0);
    let head = min(head, all_heads - 1);
    let query = cube % blocks * shape.rows + UNIT_POS_X as usize;
    let inside = query < rows;
    let part = UNIT_POS_Y as usize * shape.quads;

    let from = start(&of_q, head, heads) + query * of_q.row;
    let own = keep::<F, N>(q, from, part, inside, scale, shape);
    let k_head = start(&of_k, head, heads);
    let v_head = start(&of_v, head, heads);

    let mut key_tile =
        Shared::<[Quad]>::new_slice(comptime!(shape.tile * shape.quads * shape.split));
    let mut value_tile =
        Shared::<[Quad]>::new_slice(comptime!(shape.tile * shape.quads * shape.split));
    let mut exchange = Shared::<[f32]>::new_slice(comptime!(exchanged(&shape)));

    let mut sums = Array::<Quad>::new(shape.quads);
    #[unroll]
    for p in 0..shape.quads {
        sums[p] = Quad::new(0.0f32);
    }
    let mut most = f32::new(LEAST);
    let mut total = 0.0f32;

    let mut seen = keys;
    if comptime!(config.causal) {
        seen = min(keys, (cube % blocks + 1) * shape.rows);
    }
    let mut first = 0usize;
    while first < seen {
        sync_cube();
        fill::<K, N>(
            k,
            k_head,
            of_k.row,
            first,
            keys,
            1.0f32,
            &mut key_tile,
            shape,
        );
        fill::<K, N>(
            v,
            v_head,
            of_v.row,
            first,
            keys,
            1.0f32,
            &mut value_tile,
            shape,
        );
        sync_cube();
        for block in 0..comptime!(shape.tile / shape.block) {
            let at = block * shape.block;
            let mut scores = part_of_products(&own, &key_tile, at, shape);
            complete(&mut scores, &mut exchange, shape);

            let mut new_most = most;
            #[unroll]
            for j in 0..shape.block {
                let key = first + at + j;
                let mut visible = key < keys;
                if comptime!(config.causal) {
                    visible = visible && key <= query;
                }
                scores[j] = select(visible, scores[j], f32::new(LEAST));
                new_most = max(new_most, scores[j]);
            }
            // It rises in the first blocks and hardly ever after.
            if new_most > most {
                let fade = (most - new_most).exp();
                most = new_most;
                total *= fade;
                #[unroll]
                for p in 0..shape.quads {
                    sums[p] *= Quad::new(fade);
                }
            }
            #[unroll]
            for j in 0..shape.block {
                let weight = (scores[j] - most).exp();
                total += weight;
                let row = (at + j) * comptime!(shape.quads * shape.split) + part;
                #[unroll]
                for p in 0..shape.quads {
                    sums[p] += value_tile[row + p] * Quad::new(weight);
                }
            }
        }
        first += shape.tile;
    }

    let share = 1.0f32 / total;
    if inside {
        #[unroll]
        for p in 0..shape.quads {
            sums[p] *= Quad::new(share);
        }
        let to = start(&of_out, head, heads) + query * of_out.row;
        write::<F, N>(out, to, part, &sums, shape);
    }

    if comptime!(config.probs) {
        let mut first = 0usize;
        while first < keys {
            sync_cube();
            fill::<K, N>(
                k,
                k_head,
                of_k.row,
                first,
                keys,
                1.0f32,
                &mut key_tile,
                shape,
            );
            sync_cube();
            for block in 0..comptime!(shape.tile / shape.block) {
                let at = block * shape.block;
                let mut scores = part_of_products(&own, &key_tile, at, shape);
                complete(&mut scores, &mut exchange, shape);
                #[unroll]
                for j in 0..shape.block {
                    let key = first + at + j;
                    // The row's threads all have the scores: each writes some.
                    let mine = comptime!(j % shape.split) as u32 == UNIT_POS_Y;
                    if inside && mine && key < keys {
                        let probability = (scores[j] - most).exp() * share;
                        probs[(head * queries + query) * keys + key] = F::cast_from(probability);
                    }
                }
            }
            first += shape.tile;
        }
    }
}

/// Runs [`Kernels::attention`].
pub(in crate::cube) fn launch(
    q: CubeTensor,
    k: CubeTensor,
    v: CubeTensor,
    causal: bool,
) -> CubeTensor {
    let out = (!causal).then(|| {
        matrix_units::attention(&q, &k, &v).or_else(|| accelerated::attention(&q, &k, &v))
    });
    out.flatten().unwrap_or_else(|| run(q, k, v, causal, None))
}

/// Runs [`Kernels::attention_with_probs`].
pub(in crate::cube) fn launch_with_probs(
    q: CubeTensor,
    k: CubeTensor,
    v: CubeTensor,
) -> (CubeTensor, CubeTensor) {
    let shape = q.meta.shape();
    let shape = [shape[0], shape[1], shape[2], k.meta.shape()[2]];
    let probs = empty(&q, Shape::from(shape), q.dtype);
    (run(q, k, v, false, Some(&probs)), probs)
}

/// The result; probabilities are written to `probs`.
fn run(
    q: CubeTensor,
    k: CubeTensor,
    v: CubeTensor,
    causal: bool,
    probs: Option<&CubeTensor>,
) -> CubeTensor {
    let (k, v) = same_type(k, v);
    let ([q, k, v], vector) = rows_of([q, k, v]);
    let sizes = q.meta.shape();
    let [batch, heads, queries, width] = [sizes[0], sizes[1], sizes[2], sizes[3]];
    let keys = k.meta.shape()[2];
    let out = heads_inside(&q, [batch, heads, queries, width], q.dtype);
    let client = q.client.clone();
    let config = Config {
        shape: Shape2d::new(&client, width, vector, WIDEST, 2, 1),
        causal,
        probs: probs.is_some(),
    };
    let cubes = batch * heads * queries.div_ceil(config.shape.rows);
    let types = [element(&q), element(&k)];
    // Without probabilities nothing is written there.
    let to_probs = probs.cloned().unwrap_or_else(|| out.clone());
    // SAFETY: rows past the last are neither read nor written.
    unsafe {
        attention_kernel::launch_unchecked(
            &client,
            grid(&client, cubes),
            config.shape.dim(),
            address(&[&q, &k, &v, &out, &to_probs]),
            vector,
            q.clone().into_buffer_arg(),
            k.clone().into_buffer_arg(),
            v.clone().into_buffer_arg(),
            out.clone().into_buffer_arg(),
            to_probs.into_buffer_arg(),
            strides(&q, vector),
            strides(&k, vector),
            strides(&v, vector),
            strides(&out, vector),
            heads,
            batch * heads,
            queries,
            keys,
            (width as f32).sqrt().recip(),
            config,
            types,
        );
    }
    out
}
