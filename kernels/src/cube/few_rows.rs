//! Affine layers of a few rows, such as those of a timestep's embedding: a cube for each output. They are too small for it to matter how,
//! but Burn would try some twenty kernels for each of their sizes before it computes one.

use super::layout::pitch;
use super::*;

/// Rows up to which it is taken.
const MOST: usize = 8;
/// Threads of a cube.
pub(super) const UNITS: usize = 64;

#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(crate) trait FewRows: Backend {
    /// `[B, N, In]` by `[Out, In]`: `[B, N, Out]`, plus the bias `[Out]` if it is given.
    #[fusion(dtype = x, shape = Shape::from([x[0], x[1], weight[0]]))]
    fn few_rows(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        biased: bool,
    ) -> FloatTensor<Self>;
}

impl FewRows for CubeBackend {
    fn few_rows(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        biased: bool,
    ) -> FloatTensor<Self> {
        let [(x, x_pitch), (weight, weight_pitch)] = [x, weight].map(|operand| {
            let found = pitch(operand.meta.shape().as_slice(), operand.meta.strides());
            match found {
                Some(pitch) => (operand, pitch),
                None => {
                    let last = operand.meta.shape().num_dims() - 1;
                    let width = operand.meta.shape()[last];
                    (into_contiguous(operand), width)
                }
            }
        });
        let bias = if biased { into_contiguous(bias) } else { bias };
        let [batch, n, depth] = [0, 1, 2].map(|axis| x.meta.shape()[axis]);
        let outputs = weight.meta.shape()[0];
        let out = empty(&x, Shape::from([batch, n, outputs]), x.dtype);
        let vector = vector_size(&[&x, &weight], &[depth, x_pitch, weight_pitch]);
        let client = x.client.clone();
        let units = units(&client, UNITS);
        // SAFETY: nothing is read past the rows, and cubes past the last output write nothing.
        unsafe {
            few_rows_kernel::launch_unchecked(
                &client,
                grid(&client, outputs),
                CubeDim::new_1d(units as u32),
                address(&[&x, &weight, &bias, &out]),
                vector,
                x.clone().into_buffer_arg(),
                weight.into_buffer_arg(),
                bias.into_buffer_arg(),
                out.clone().into_buffer_arg(),
                batch * n,
                outputs,
                depth / vector,
                x_pitch / vector,
                weight_pitch / vector,
                biased,
                units,
                element(&x),
            );
        }
        out
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn few_rows_kernel<F: Float, N: Size>(
    x: &[Vector<F, N>],
    weight: &[Vector<F, N>],
    bias: &[F],
    out: &mut [F],
    rows: usize,
    outputs: usize,
    depth: usize,
    x_pitch: usize,
    weight_pitch: usize,
    #[comptime] biased: bool,
    #[comptime] units: usize,
    #[define(F)] _type: ElemType,
) {
    // Cubes past the last output keep step with nothing to write.
    let output = min(CUBE_POS, outputs - 1);
    let mine = UNIT_POS as usize;
    for row in 0..rows {
        let mut sums = Vector::<f32, N>::new(0.0f32);
        let mut k = mine;
        while k < depth {
            let left: Vector<f32, N> = Vector::cast_from(x[row * x_pitch + k]);
            let right: Vector<f32, N> = Vector::cast_from(weight[output * weight_pitch + k]);
            sums += left * right;
            k += units;
        }
        let sum = sum_of_cube(sums.vector_sum(), units);
        if mine == 0 && CUBE_POS < outputs {
            let mut y = sum;
            if biased {
                y += f32::cast_from(bias[output]);
            }
            out[row * outputs + output] = F::cast_from(y);
        }
    }
}

/// The sum of what the threads of a cube have. All of them come here together.
#[cube]
pub(super) fn sum_of_cube(value: f32, #[comptime] units: usize) -> f32 {
    let mut parts = Shared::<[f32]>::new_slice(units);
    let mine = UNIT_POS as usize;
    parts[mine] = value;
    sync_cube();
    let mut half = comptime!(units / 2).runtime();
    while half > 0 {
        if mine < half {
            let other = parts[mine + half];
            parts[mine] += other;
        }
        sync_cube();
        half /= 2;
    }
    let sum = parts[0];
    // Nobody begins the next sum before all have read this one.
    sync_cube();
    sum
}

/// [`crate::linear`] of at most eight rows.
pub(crate) fn few_rows(
    x: &Tensor<3>,
    weight: &Tensor<2>,
    bias: Option<&Tensor<1>>,
) -> Option<Tensor<3>> {
    let dtype = x.dtype();
    let same = weight.dtype() == dtype && bias.is_none_or(|bias| bias.dtype() == dtype);
    let [batch, n, _] = x.dims();
    if !same || batch * n > MOST {
        return None;
    }
    let (x, weight) = (operand(x)?, operand(weight)?);
    let biased = bias.is_some();
    // Where there is none, something that is there already and not read.
    let bias = bias.map_or_else(|| Some(x.clone()), operand)?;
    let y = Dispatch::few_rows(x, weight, bias, biased);
    Some(Tensor::from_dispatch(y))
}
