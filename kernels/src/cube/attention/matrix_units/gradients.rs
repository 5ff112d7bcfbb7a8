//! Gradients of attention on the same units, after FlashAttention-2: probabilities are computed again from scores, in registers. One kernel
//! for queries, which leaves of each what the other wants, and one for keys and values.
//!
//! What is multiplied by a gradient to scores is rounded to eleven digits and keeps its exponent (TF32): f16 would lose most of what is
//! left of a gradient that thousands of keys share.

use super::super::super::product::{add_product, multiplies_tf32, rounded};
use super::*;

/// The widest rows for which a plane has registers: it keeps the sums of two.
const MOST_OF_TWO: usize = 80;

/// For every eight columns four numbers of a thread, as the units give them.
type Sums = Sequence<Array<Vector<f32, Const<4>>>>;

impl Config {
    fn of_gradients(width: usize) -> Self {
        Self {
            width,
            tiles: 1,
            keys: if width <= 64 { 64 } else { 32 },
        }
    }
}

#[cube]
fn no_sums(#[comptime] config: Config) -> Sums {
    let mut sums = Sequence::<Array<Vector<f32, Const<4>>>>::new();
    #[unroll]
    for _ in 0..config.columns() {
        let mut four = Array::<Vector<f32, Const<4>>>::new(1usize);
        four[0] = Vector::new(0.0f32);
        sums.push(four);
    }
    sums
}

/// The sum of what the four threads of a row have.
#[cube]
fn sum_of_row(part: f32) -> f32 {
    let two = part + plane_shuffle_xor(part, 1u32);
    two + plane_shuffle_xor(two, 2u32)
}

/// Products of the plane's rows with each other, of a thread's two rows.
#[cube]
fn along<F: Float>(
    a: &Sequence<Array<Pair<F>>>,
    b: &Sequence<Array<Pair<F>>>,
    #[comptime] config: Config,
) -> Array<f32> {
    let mut sums = Array::<f32>::new(2usize);
    #[unroll]
    for half in 0..2usize {
        let mut sum = 0.0f32;
        #[unroll]
        for d in 0..config.depth() {
            #[unroll]
            for part in 0..2usize {
                let of = comptime!(part * 2 + half);
                let a: Pair<f32> = Vector::cast_from(a.index(d)[of]);
                let b: Pair<f32> = Vector::cast_from(b.index(d)[of]);
                sum += (a * b).vector_sum();
            }
        }
        sums[half] = sum_of_row(sum);
    }
    sums
}

/// Adds a stage's rows, each as often as its weight says. A thread has two neighbouring weights of a row and, of a matrix that was turned
/// around, the two rows that they belong to: which of the units' eight places of depth these take does not matter, if both take the same.
#[cube]
fn add_rows<F: Float>(
    weights: &Sequence<Array<Pair<f32>>>,
    rows: &Shared<[Piece<F>]>,
    sums: &mut Sums,
    stage: usize,
    #[comptime] config: Config,
) {
    let definition = MmaDefinition::<F, F, f32>::new(16usize, 8usize, 16usize);
    let lane = UNIT_POS as usize % PLANE;
    #[unroll]
    for j in 0..comptime!(config.keys / 16) {
        let mut left = Sequence::<Array<u32>>::new();
        #[unroll]
        for some in 0..2usize {
            let of = comptime!(j * 2 + some);
            let (upper, lower) = (weights.index(of)[0], weights.index(of)[1]);
            let mut four = Array::<u32>::new(4usize);
            four[0] = rounded(upper.extract(0usize));
            four[1] = rounded(lower.extract(0usize));
            four[2] = rounded(upper.extract(1usize));
            four[3] = rounded(lower.extract(1usize));
            left.push(four);
        }
        #[unroll]
        for c in 0..comptime!(config.columns().div_ceil(2)) {
            let row = comptime!(j * 16) + lane / 8 % 2 * 8 + lane % 8;
            let at = stage + row * comptime!(config.pitch()) + comptime!(c * 2) + lane / 16;
            let four = definition.load_matrix::<Piece<F>, Const<2>>(
                &rows[at..at + 1],
                MatrixIdent::B,
                4usize,
                true,
            );
            #[unroll]
            for half in 0..2usize {
                if comptime!(c * 2 + half < config.columns()) {
                    #[unroll]
                    for some in 0..2usize {
                        let two: Pair<f32> = Vector::cast_from(four[comptime!(half * 2 + some)]);
                        let mut right = Array::<u32>::new(2usize);
                        right[0] = u32::reinterpret(two.extract(0usize));
                        right[1] = u32::reinterpret(two.extract(1usize));
                        let of = comptime!(c * 2 + half);
                        let before = sums.index(of)[0];
                        let sum = add_product(left.index(some), &right, before, 8usize, "tf32");
                        sums.index_mut(of)[0] = sum;
                    }
                }
            }
        }
    }
}

/// Writes the plane's rows, times `scale`.
#[cube]
fn write_sums<F: Float>(
    sums: &Sums,
    out: &mut [Pair<F>],
    of_out: &Rows,
    first: usize,
    rows: usize,
    scale: f32,
    #[comptime] config: Config,
) {
    let lane = UNIT_POS as usize % PLANE;
    #[unroll]
    for half in 0..2usize {
        let row = first + comptime!(half * 8) + lane / 4;
        if row < rows {
            #[unroll]
            for c in 0..config.columns() {
                let four = sums.index(c)[0];
                let mut pair: Pair<f32> = Vector::new(four.extract(comptime!(half * 2)) * scale);
                pair.insert(1usize, four.extract(comptime!(half * 2 + 1)) * scale);
                let at = of_out.first + row * of_out.apart + comptime!(c * 4) + lane % 4;
                out[at] = Vector::cast_from(pair);
            }
        }
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn units_query_grad_kernel<F: Float>(
    q: &[Pair<F>],
    k: &[Piece<F>],
    v: &[Piece<F>],
    grad: &[Pair<F>],
    result: &[Pair<F>],
    of_q: &mut [Pair<F>],
    logs: &mut [f32],
    alongs: &mut [f32],
    at_q: Strides4,
    at_k: Strides4,
    at_v: Strides4,
    at_grad: Strides4,
    at_result: Strides4,
    at_of_q: Strides4,
    heads: usize,
    all_heads: usize,
    queries: usize,
    keys: usize,
    scale: f32,
    #[comptime] config: Config,
    #[define(F)] _type: ElemType,
) {
    let blocks = (queries + comptime!(config.rows() - 1)) / comptime!(config.rows());
    let cube = CUBE_POS;
    let head = cube / blocks;
    // Cubes past the last head keep step with nothing to write.
    let rows = select(head < all_heads, queries, 0usize);
    let head = min(head, all_heads - 1);
    let plane = UNIT_POS as usize / PLANE;
    let lane = UNIT_POS as usize % PLANE;
    let first = cube % blocks * comptime!(config.rows()) + plane * 16;
    let of_keys = rows_at(&at_k, head, heads);
    let of_values = rows_at(&at_v, head, heads);
    let in_twos = scale * comptime!(std::f32::consts::LOG2_E);

    let stage_size = comptime!(config.keys * config.pitch());
    let mut key_stages =
        Shared::<[Piece<F>]>::new_aligned_slice(comptime!(STAGES * stage_size), 16usize);
    let mut value_stages =
        Shared::<[Piece<F>]>::new_aligned_slice(comptime!(STAGES * stage_size), 16usize);

    let own = own_rows::<F>(q, &rows_at(&at_q, head, heads), first, rows, config);
    let own_grad = own_rows::<F>(grad, &rows_at(&at_grad, head, heads), first, rows, config);
    let own_result = own_rows::<F>(
        result,
        &rows_at(&at_result, head, heads),
        first,
        rows,
        config,
    );
    let along = along::<F>(&own_grad, &own_result, config);

    // The first sweep: how large the scores are together.
    fetch::<F>(k, &of_keys, 0usize, keys, &mut key_stages, 0usize, config);
    gpu_asm!("cp.async.commit_group;");
    let mut seen = nothing_seen(config);
    let mut from = 0usize;
    let mut stage = 0usize;
    while from < keys {
        let next = from + config.keys;
        let other = stage_size - stage;
        if next < keys {
            fetch::<F>(k, &of_keys, next, keys, &mut key_stages, other, config);
        }
        gpu_asm!("cp.async.commit_group;");
        gpu_asm!("cp.async.wait_group 1;");
        sync_cube();
        let mut scores = scores_of::<F>(&own, &key_stages, stage, config);
        if next > keys {
            hide(&mut scores, from, keys, config);
        }
        weigh(&mut scores, &mut seen, in_twos, config);
        // Nobody writes to a stage before all have read it.
        sync_cube();
        stage = other;
        from = next;
    }
    let mut log = Array::<f32>::new(2usize);
    #[unroll]
    for half in 0..2usize {
        let total = sum_of_row(seen.total[half]);
        log[half] = seen.most[half] + total.ln() * comptime!(std::f32::consts::LOG2_E);
    }

    // The second: the gradient.
    fetch::<F>(k, &of_keys, 0usize, keys, &mut key_stages, 0usize, config);
    fetch::<F>(
        v,
        &of_values,
        0usize,
        keys,
        &mut value_stages,
        0usize,
        config,
    );
    gpu_asm!("cp.async.commit_group;");
    let mut sums = no_sums(config);
    let mut from = 0usize;
    let mut stage = 0usize;
    while from < keys {
        let next = from + config.keys;
        let other = stage_size - stage;
        if next < keys {
            fetch::<F>(k, &of_keys, next, keys, &mut key_stages, other, config);
            fetch::<F>(v, &of_values, next, keys, &mut value_stages, other, config);
        }
        gpu_asm!("cp.async.commit_group;");
        gpu_asm!("cp.async.wait_group 1;");
        sync_cube();
        let mut scores = scores_of::<F>(&own, &key_stages, stage, config);
        if next > keys {
            hide(&mut scores, from, keys, config);
        }
        let to_probs = scores_of::<F>(&own_grad, &value_stages, stage, config);
        #[unroll]
        for j in 0..config.scores() {
            #[unroll]
            for half in 0..2usize {
                let score = scores.index(j)[half] * Vector::new(in_twos);
                let to_prob = to_probs.index(j)[half] - Vector::new(along[half]);
                let mut to_score = Vector::new(
                    power_of_two(score.extract(0usize) - log[half]) * to_prob.extract(0usize),
                );
                to_score.insert(
                    1usize,
                    power_of_two(score.extract(1usize) - log[half]) * to_prob.extract(1usize),
                );
                scores.index_mut(j)[half] = to_score;
            }
        }
        add_rows::<F>(&scores, &key_stages, &mut sums, stage, config);
        sync_cube();
        stage = other;
        from = next;
    }
    let of_out = rows_at(&at_of_q, head, heads);
    write_sums::<F>(&sums, of_q, &of_out, first, rows, scale, config);
    #[unroll]
    for half in 0..2usize {
        let row = first + comptime!(half * 8) + lane / 4;
        let part = lane % 4;
        if row < rows && part == 0 {
            logs[head * queries + row] = log[half];
            alongs[head * queries + row] = along[half];
        }
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn units_key_value_grad_kernel<F: Float>(
    q: &[Piece<F>],
    k: &[Pair<F>],
    v: &[Pair<F>],
    grad: &[Piece<F>],
    logs: &[f32],
    alongs: &[f32],
    of_k: &mut [Pair<F>],
    of_v: &mut [Pair<F>],
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
    #[comptime] config: Config,
    #[define(F)] _type: ElemType,
) {
    let blocks = (keys + comptime!(config.rows() - 1)) / comptime!(config.rows());
    let cube = CUBE_POS;
    let head = cube / blocks;
    // Cubes past the last head keep step with nothing to write.
    let rows = select(head < all_heads, keys, 0usize);
    let head = min(head, all_heads - 1);
    let plane = UNIT_POS as usize / PLANE;
    let lane = UNIT_POS as usize % PLANE;
    let first = cube % blocks * comptime!(config.rows()) + plane * 16;
    let of_queries = rows_at(&at_q, head, heads);
    let of_grads = rows_at(&at_grad, head, heads);
    let in_twos = scale * comptime!(std::f32::consts::LOG2_E);

    let stage_size = comptime!(config.keys * config.pitch());
    let mut query_stages =
        Shared::<[Piece<F>]>::new_aligned_slice(comptime!(STAGES * stage_size), 16usize);
    let mut grad_stages =
        Shared::<[Piece<F>]>::new_aligned_slice(comptime!(STAGES * stage_size), 16usize);
    fetch::<F>(
        q,
        &of_queries,
        0usize,
        queries,
        &mut query_stages,
        0usize,
        config,
    );
    fetch::<F>(
        grad,
        &of_grads,
        0usize,
        queries,
        &mut grad_stages,
        0usize,
        config,
    );
    gpu_asm!("cp.async.commit_group;");

    let own_key = own_rows::<F>(k, &rows_at(&at_k, head, heads), first, rows, config);
    let own_value = own_rows::<F>(v, &rows_at(&at_v, head, heads), first, rows, config);
    let mut key_sums = no_sums(config);
    let mut value_sums = no_sums(config);
    let mut from = 0usize;
    let mut stage = 0usize;
    while from < queries {
        let next = from + config.keys;
        let other = stage_size - stage;
        if next < queries {
            fetch::<F>(
                q,
                &of_queries,
                next,
                queries,
                &mut query_stages,
                other,
                config,
            );
            fetch::<F>(
                grad,
                &of_grads,
                next,
                queries,
                &mut grad_stages,
                other,
                config,
            );
        }
        gpu_asm!("cp.async.commit_group;");
        gpu_asm!("cp.async.wait_group 1;");
        sync_cube();
        let mut scores = scores_of::<F>(&own_key, &query_stages, stage, config);
        let mut to_probs = scores_of::<F>(&own_value, &grad_stages, stage, config);
        #[unroll]
        for j in 0..config.scores() {
            #[unroll]
            for side in 0..2usize {
                let query = from + comptime!(j * 8 + side) + lane % 4 * 2;
                // Queries past the last: so large a sum leaves nothing of theirs.
                let mut log = f32::new(-LEAST);
                let mut along = 0.0f32;
                if query < queries {
                    log = logs[head * queries + query];
                    along = alongs[head * queries + query];
                }
                #[unroll]
                for half in 0..2usize {
                    let mut score = scores.index(j)[half];
                    let mut to_prob = to_probs.index(j)[half];
                    let probability = power_of_two(score.extract(side) * in_twos - log);
                    to_prob.insert(side, probability * (to_prob.extract(side) - along));
                    score.insert(side, probability);
                    scores.index_mut(j)[half] = score;
                    to_probs.index_mut(j)[half] = to_prob;
                }
            }
        }
        add_rows::<F>(&scores, &grad_stages, &mut value_sums, stage, config);
        add_rows::<F>(&to_probs, &query_stages, &mut key_sums, stage, config);
        // Nobody writes to a stage before all have read it.
        sync_cube();
        stage = other;
        from = next;
    }
    let of_out = rows_at(&at_of_k, head, heads);
    write_sums::<F>(&key_sums, of_k, &of_out, first, rows, scale, config);
    write_sums::<F>(&value_sums, of_v, &of_out, first, rows, 1.0f32, config);
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
