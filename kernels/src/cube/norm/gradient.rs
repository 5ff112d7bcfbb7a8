//! The gradient to the input.

use super::*;

/// The normalised elements of a vector, and the gradient to them.
#[cube]
#[allow(clippy::too_many_arguments)]
fn inner_grad<F: Float, G: Float, W: Float, N: Size>(
    grad: &[Vector<G, N>],
    x: &[Vector<F, N>],
    weight: &[W],
    bias: &[W],
    rows: &Rows,
    row: usize,
    i: usize,
    mean: f32,
    scale: f32,
    #[comptime] config: Config,
) -> (Vector<f32, N>, Vector<f32, N>) {
    let values = Vector::<f32, N>::cast_from(x[place(rows, rows.x_pitch, row, i, config)]);
    let normalised = (values - Vector::new(mean)) * Vector::new(scale);
    let weight = by_channel::<W, N>(weight, rows, row, i, config);
    let from = place(rows, rows.grad_pitch, row, i, config);
    let mut grad = Vector::<f32, N>::cast_from(grad[from]);
    if comptime!(config.silu) {
        let y = normalised * weight + by_channel::<W, N>(bias, rows, row, i, config);
        let gate = sigmoid::<N>(y);
        // silu'(y) = σ(y) (1 + y (1 − σ(y)))
        let one = Vector::new(1.0f32);
        grad = grad * gate * (one + y * (one - gate));
    }
    (normalised, grad * weight)
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn norm_input_grad_kernel<F: Float, G: Float, W: Float, N: Size>(
    grad: &[Vector<G, N>],
    x: &[Vector<F, N>],
    weight: &[W],
    bias: &[W],
    of_x: &mut [Vector<G, N>],
    rows: Rows,
    eps: f32,
    #[comptime] config: Config,
    #[define(F, G, W)] _types: [ElemType; 3],
) {
    let lane = UNIT_POS_X as usize;
    let slot = UNIT_POS_Y as usize;
    let row = CUBE_POS * config.rows + slot;
    let end = select(row < rows.count, rows.length, 0);
    let own = moments::<F, N>(x, &rows, row, lane, end, config);
    let (mean, spread, count) = gather(own, lane, slot, config);
    let count = max(count, 1.0f32);
    let scale = (spread / count + eps).inverse_sqrt();

    // The parts of the gradient that would shift the mean and stretch the deviation.
    let mut shift = Vector::<f32, N>::new(0.0f32);
    let mut stretch = Vector::<f32, N>::new(0.0f32);
    let mut i = lane;
    while i < end {
        let (normalised, inner) =
            inner_grad::<F, G, W, N>(grad, x, weight, bias, &rows, row, i, mean, scale, config);
        shift += inner;
        stretch += inner * normalised;
        i += config.lanes;
    }
    let units = comptime!(config.lanes * config.rows);
    let mut shifts = Shared::new_slice(units);
    let mut stretches = Shared::new_slice(units);
    let at = slot * config.lanes + lane;
    shifts[at] = shift.vector_sum();
    stretches[at] = stretch.vector_sum();
    sync_cube();
    #[unroll]
    for level in 0..comptime!(config.lanes.ilog2()) {
        let half = comptime!(config.lanes >> (level + 1));
        if lane < half {
            shifts[at] += shifts[at + half];
            stretches[at] += stretches[at + half];
        }
        sync_cube();
    }
    let shift = shifts[slot * config.lanes] / count;
    let stretch = stretches[slot * config.lanes] / count;

    let mut i = lane;
    while i < end {
        let (normalised, inner) =
            inner_grad::<F, G, W, N>(grad, x, weight, bias, &rows, row, i, mean, scale, config);
        let rest = inner - Vector::new(shift) - normalised * Vector::new(stretch);
        let to = place(&rows, rows.y_pitch, row, i, config);
        of_x[to] = Vector::cast_from(rest * Vector::new(scale));
        i += config.lanes;
    }
}

/// Runs [`Kernels::norm_input_grad`].
pub(in crate::cube) fn launch(
    grad: CubeTensor,
    x: CubeTensor,
    weight: CubeTensor,
    bias: CubeTensor,
    options: Options,
) -> CubeTensor {
    let (x, order) = in_order(x, &options);
    let (grad, of_grad) = match order {
        _ if options.layer => as_tokens(grad),
        Order::Pixels(_) => as_pixels(grad),
        Order::Planes => (into_contiguous(grad), Order::Planes),
    };
    let (weight, bias) = affine(weight, bias);
    let of_x = empty_result(&x, order, &options, grad.dtype);
    let mut problem = Problem::new(&[(&x, order), (&grad, of_grad)], &of_x, &options);
    // One cube for a row, however long: gradients are for networks whose rows are short.
    problem.config.pieces = 1;
    let client = x.client.clone();
    let (cubes, dim) = problem.cubes(&client);
    let types = [element(&x), element(&grad), element(&weight)];
    let address = address(&[&x, &grad, &of_x]);
    // SAFETY: the rows cover the tensors and no more, and what the sizes leave over does nothing.
    unsafe {
        norm_input_grad_kernel::launch_unchecked(
            &client,
            cubes,
            dim,
            address,
            problem.config.vector,
            grad.into_buffer_arg(),
            x.into_buffer_arg(),
            weight.into_buffer_arg(),
            bias.into_buffer_arg(),
            of_x.clone().into_buffer_arg(),
            problem.rows(),
            options.eps as f32,
            problem.config,
            types,
        );
    }
    of_x
}
