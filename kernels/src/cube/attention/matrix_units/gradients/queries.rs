//! The gradient to queries, in two sweeps over the keys: how large a row's scores are together, then the sum.

use super::parts::*;
use super::*;

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
pub(super) fn units_query_grad_kernel<F: Float>(
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
