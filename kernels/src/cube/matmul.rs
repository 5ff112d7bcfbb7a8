//! Products of small matrices, such as those of the losses on attention maps: a thread for each number of the result, or a cube
//! where there are few of them and each is a long sum. They are too small for it to matter how, but Burn would try some
//! twenty kernels for each of their sizes before it computes one.

use super::few_rows::{UNITS, sum_of_cube};
use super::*;

/// Multiplications from which on it is left to Burn, whose kernels are worth trying then.
const LARGE: usize = 1 << 28;
/// Multiplications of one number of the result from which on a cube shares them, if there are no more numbers than [`FEW`].
const LONG: usize = 256;
const FEW: usize = 1 << 14;

#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(crate) trait SmallMatmul: Backend {
    /// `[…, M, K]` by `[…, K, N]`: `[…, M, N]`. Axes before the last two are as long as each other, or 1.
    #[fusion(dtype = left, shape = multiplied(left, right))]
    fn small_matmul(left: FloatTensor<Self>, right: FloatTensor<Self>) -> FloatTensor<Self>;
}

fn multiplied(left: &Shape, right: &Shape) -> Shape {
    let last = left.num_dims() - 1;
    let mut shape = left.clone();
    for axis in 0..last - 1 {
        shape[axis] = left[axis].max(right[axis]);
    }
    shape[last] = right[last];
    shape
}

/// Where the elements of an operand lie: elements from one to the next along each of four axes, 0 along those that it has not.
#[derive(CubeType, CubeLaunch)]
struct Steps {
    outer: usize,
    inner: usize,
    row: usize,
    column: usize,
}

/// The steps of an operand of up to four axes.
fn steps(x: &CubeTensor) -> StepsLaunch {
    let missing = 4 - x.meta.num_dims();
    let [outer, inner, row, column] = core::array::from_fn(|axis| {
        let own = axis.checked_sub(missing);
        own.map_or(0, |own| match x.meta.shape()[own] {
            1 => 0,
            _ => x.meta.strides()[own],
        })
    });
    StepsLaunch::new(outer, inner, row, column)
}

impl SmallMatmul for CubeBackend {
    fn small_matmul(left: FloatTensor<Self>, right: FloatTensor<Self>) -> FloatTensor<Self> {
        let shape = multiplied(left.meta.shape(), right.meta.shape());
        let last = shape.num_dims() - 1;
        let (rows, columns) = (shape[last - 1], shape[last]);
        // Axes are counted from the last.
        let inner = if last >= 2 { shape[last - 2] } else { 1 };
        let depth = left.meta.shape()[last];
        let out = empty(&left, shape, left.dtype);
        let count = out.meta.shape().num_elements();
        let client = left.client.clone();
        let shared = depth >= LONG && count <= FEW;
        let (cubes, dim, units) = if shared {
            let units = units(&client, UNITS);
            (grid(&client, count), CubeDim::new_1d(units as u32), units)
        } else {
            let (cubes, dim) = elementwise(&client, count);
            (cubes, dim, 1)
        };
        let (left_steps, right_steps) = (steps(&left), steps(&right));
        // SAFETY: threads and cubes past the last number write nothing, and all that is read is within the shapes.
        unsafe {
            matmul_kernel::launch_unchecked(
                &client,
                cubes,
                dim,
                address(&[&left, &right, &out]),
                left.clone().into_buffer_arg(),
                right.into_buffer_arg(),
                out.clone().into_buffer_arg(),
                left_steps,
                right_steps,
                SizesLaunch::new(inner, rows, columns, depth, count),
                units,
                element(&left),
            );
        }
        out
    }
}

#[derive(CubeType, CubeLaunch)]
struct Sizes {
    inner: usize,
    rows: usize,
    columns: usize,
    depth: usize,
    count: usize,
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn matmul_kernel<F: Float>(
    left: &[F],
    right: &[F],
    out: &mut [F],
    left_steps: Steps,
    right_steps: Steps,
    sizes: Sizes,
    #[comptime] units: usize,
    #[define(F)] _type: ElemType,
) {
    let asked = if comptime!(units > 1) {
        CUBE_POS
    } else {
        ABSOLUTE_POS
    };
    // Those past the last keep step with nothing to write.
    let i = min(asked, sizes.count - 1);
    let column = i % sizes.columns;
    let row = i / sizes.columns % sizes.rows;
    let sample = i / (sizes.columns * sizes.rows);
    let inner = sample % sizes.inner;
    let outer = sample / sizes.inner;
    let from = outer * left_steps.outer + inner * left_steps.inner + row * left_steps.row;
    let by = outer * right_steps.outer + inner * right_steps.inner + column * right_steps.column;
    let first = if comptime!(units > 1) {
        UNIT_POS as usize
    } else {
        0usize.runtime()
    };
    let mut sum = 0.0f32;
    let mut k = first;
    while k < sizes.depth {
        let a = f32::cast_from(left[from + k * left_steps.column]);
        let b = f32::cast_from(right[by + k * right_steps.row]);
        sum += a * b;
        k += units;
    }
    if comptime!(units > 1) {
        sum = sum_of_cube(sum, units);
    }
    if asked < sizes.count && first == 0 {
        out[i] = F::cast_from(sum);
    }
}

/// [`crate::matmul`] of small matrices.
pub(crate) fn matmul<const D: usize>(left: &Tensor<D>, right: &Tensor<D>) -> Option<Tensor<D>> {
    let columns = right.dims()[D - 1];
    let batch = (0..D - 2).map(|axis| left.dims()[axis].max(right.dims()[axis]));
    let work = batch.product::<usize>() * left.dims()[D - 2] * left.dims()[D - 1] * columns;
    if D > 4 || work >= LARGE || left.dtype() != right.dtype() {
        return None;
    }
    let y = Dispatch::small_matmul(operand(left)?, operand(right)?);
    Some(Tensor::from_dispatch(y))
}
