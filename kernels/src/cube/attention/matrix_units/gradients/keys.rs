//! The gradients to keys and values, in one sweep over the queries.

use super::parts::*;
use super::*;

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
pub(super) fn units_key_value_grad_kernel<F: Float>(
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
