//! Tables of learned positions at other sizes.

use burn::prelude::*;
use burn::tensor::{DType, TensorData};

/// Keys' parameter in PyTorch's bicubic interpolation.
const A: f64 = -0.75;

/// The table `[N·N, C]` of a grid of `side` × `side` positions, interpolated to `[rows · columns, C]` as PyTorch's
/// `interpolate(mode="bicubic", align_corners=False)` does, f32.
///
/// `offset` is what the authors of DINOv2 add to the new size before they compare it with the old, against rounding: 0.1;
/// transformers has 0.
pub(crate) fn resample(
    table: Tensor<2>,
    side: usize,
    [rows, columns]: [usize; 2],
    offset: f64,
) -> Tensor<2> {
    let [count, channels] = table.dims();
    debug_assert_eq!(count, side * side);
    if [rows, columns] == [side, side] {
        return table;
    }
    let device = table.device();
    let table = table.cast(DType::F32);
    let along = |to: usize, x: Tensor<2>| {
        let matrix = TensorData::new(weights(side, to, offset), [to, side]);
        Tensor::<2>::from_data(matrix, (&device, DType::F32)).matmul(x)
    };
    // Along the columns first: [side, side · C] has them as its second axis.
    let by_column: Tensor<3> = table.reshape([side, side, channels]).swap_dims(0, 1);
    let wide = along(columns, by_column.reshape([side, side * channels]));
    let by_row: Tensor<3> = wide.reshape([columns, side, channels]).swap_dims(0, 1);
    let both = along(rows, by_row.reshape([side, columns * channels]));
    both.reshape([rows * columns, channels])
}

/// The matrix `[to, from]` of a bicubic interpolation. Places beyond the edge are the edge.
fn weights(from: usize, to: usize, offset: f64) -> Vec<f32> {
    let scale = from as f64 / (to as f64 + offset);
    let mut matrix = vec![0f32; to * from];
    for (i, line) in matrix.chunks_exact_mut(from).enumerate() {
        let at = (i as f64 + 0.5) * scale - 0.5;
        let part = at - at.floor();
        for (step, weight) in (-1..=2).zip(keys(part)) {
            let place = (at.floor() as isize + step).clamp(0, from as isize - 1);
            line[place as usize] += weight as f32;
        }
    }
    matrix
}

/// The weights of the two neighbours before and the two after a place `part` of the way between the middle ones.
fn keys(part: f64) -> [f64; 4] {
    let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    [
        far(part + 1.0),
        near(part),
        near(1.0 - part),
        far(2.0 - part),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_sum_to_one() {
        for (from, to, offset) in [(37, 16, 0.0), (37, 16, 0.1), (4, 9, 0.0), (1, 3, 0.0)] {
            for line in weights(from, to, offset).chunks(from) {
                assert!((line.iter().sum::<f32>() - 1.0).abs() < 1e-6);
            }
        }
    }
}
