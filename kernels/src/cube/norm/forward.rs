//! The forward pass.

use super::*;

/// Normalises the vectors `first..end` of a row, from `first + lane` on every `config.lanes`-th.
#[cube]
#[allow(clippy::too_many_arguments)]
fn apply<F: Float, W: Float, N: Size>(
    x: &[Vector<F, N>],
    weight: &[W],
    bias: &[W],
    y: &mut [Vector<F, N>],
    rows: &Rows,
    row: usize,
    first: usize,
    end: usize,
    mean: f32,
    scale: f32,
    #[comptime] config: Config,
) {
    let mut i = first;
    while i < end {
        let from = place(rows, rows.x_pitch, row, i, config);
        let values = Vector::<f32, N>::cast_from(x[from]);
        let normalised = (values - Vector::new(mean)) * Vector::new(scale);
        let mut result = normalised * by_channel::<W, N>(weight, rows, row, i, config)
            + by_channel::<W, N>(bias, rows, row, i, config);
        if comptime!(config.silu) {
            result = result * sigmoid::<N>(result);
        }
        y[place(rows, rows.y_pitch, row, i, config)] = Vector::cast_from(result);
        i += config.lanes;
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn norm_kernel<F: Float, W: Float, N: Size>(
    x: &[Vector<F, N>],
    weight: &[W],
    bias: &[W],
    y: &mut [Vector<F, N>],
    rows: Rows,
    eps: f32,
    #[comptime] config: Config,
    #[define(F, W)] _types: [ElemType; 2],
) {
    let lane = UNIT_POS_X as usize;
    let slot = UNIT_POS_Y as usize;
    let row = CUBE_POS * config.rows + slot;
    let end = select(row < rows.count, rows.length, 0);
    let own = moments::<F, N>(x, &rows, row, lane, end, config);
    let (mean, spread, count) = gather(own, lane, slot, config);
    let scale = (spread / max(count, 1.0f32) + eps).inverse_sqrt();
    apply::<F, W, N>(
        x, weight, bias, y, &rows, row, lane, end, mean, scale, config,
    );
}

/// Mean and sum of squared deviations of each piece of each row.
#[cube(launch_unchecked, address_type = "dynamic")]
fn measure_kernel<F: Float, N: Size>(
    x: &[Vector<F, N>],
    measured: &mut [f32],
    rows: Rows,
    piece: usize,
    #[comptime] config: Config,
    #[define(F)] _type: ElemType,
) {
    let lane = UNIT_POS_X as usize;
    let cube = CUBE_POS;
    let row = cube / config.pieces;
    let first = cube % config.pieces * piece;
    let inside = select(row < rows.count, rows.length, 0);
    let end = min(first + piece, inside);
    let own = moments::<F, N>(x, &rows, row, first + lane, end, config);
    let (mean, spread, _count) = gather(own, lane, 0, config);
    if lane == 0 && row < rows.count {
        measured[cube * 2] = mean;
        measured[cube * 2 + 1] = spread;
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn apply_kernel<F: Float, W: Float, N: Size>(
    x: &[Vector<F, N>],
    weight: &[W],
    bias: &[W],
    measured: &[f32],
    y: &mut [Vector<F, N>],
    rows: Rows,
    piece: usize,
    eps: f32,
    #[comptime] config: Config,
    #[define(F, W)] _types: [ElemType; 2],
) {
    let cube = CUBE_POS;
    let row = cube / config.pieces;
    if row < rows.count {
        let mut mean = 0.0f32;
        let mut spread = 0.0f32;
        let mut count = 0.0f32;
        for i in 0..config.pieces {
            let at = (row * config.pieces + i) * 2;
            let vectors = min(rows.length - i * piece, piece);
            let number = f32::cast_from(vectors as u32) * comptime!(config.vector as f32);
            let joined = join(
                mean,
                spread,
                count,
                (measured[at], measured[at + 1], number),
            );
            mean = joined.0;
            spread = joined.1;
            count = joined.2;
        }
        let scale = (spread / count + eps).inverse_sqrt();
        let first = cube % config.pieces * piece;
        let end = min(first + piece, rows.length);
        let from = first + UNIT_POS_X as usize;
        apply::<F, W, N>(
            x, weight, bias, y, &rows, row, from, end, mean, scale, config,
        );
    }
}

/// Runs [`Kernels::norm`].
pub(in crate::cube) fn launch(
    x: CubeTensor,
    weight: CubeTensor,
    bias: CubeTensor,
    options: Options,
) -> CubeTensor {
    let (x, order) = in_order(x, &options);
    let (weight, bias) = affine(weight, bias);
    let y = empty_result(&x, order, &options, x.dtype);
    let problem = Problem::new(&[(&x, order)], &y, &options);
    let client = x.client.clone();
    let (cubes, dim) = problem.cubes(&client);
    let (vector, config) = (problem.config.vector, problem.config);
    let types = [element(&x), element(&weight)];
    let address = address(&[&x, &y]);
    // SAFETY: the rows cover the tensors and no more, and what the sizes leave over does nothing.
    unsafe {
        if config.pieces == 1 {
            norm_kernel::launch_unchecked(
                &client,
                cubes,
                dim,
                address,
                vector,
                x.into_buffer_arg(),
                weight.into_buffer_arg(),
                bias.into_buffer_arg(),
                y.clone().into_buffer_arg(),
                problem.rows(),
                options.eps as f32,
                config,
                types,
            );
        } else {
            let shape = Shape::from([problem.rows[0], config.pieces, 2]);
            let measured = empty(&x, shape, DType::F32);
            measure_kernel::launch_unchecked(
                &client,
                cubes.clone(),
                dim,
                address,
                vector,
                x.clone().into_buffer_arg(),
                measured.clone().into_buffer_arg(),
                problem.rows(),
                problem.piece,
                config,
                types[0],
            );
            apply_kernel::launch_unchecked(
                &client,
                cubes,
                dim,
                address,
                vector,
                x.into_buffer_arg(),
                weight.into_buffer_arg(),
                bias.into_buffer_arg(),
                measured.into_buffer_arg(),
                y.clone().into_buffer_arg(),
                problem.rows(),
                problem.piece,
                options.eps as f32,
                config,
                types,
            );
        }
    }
    y
}
