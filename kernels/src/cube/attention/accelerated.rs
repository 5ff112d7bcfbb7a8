//! The way to cubek's attention on tensor cores, which takes f16 and widths that are multiples of 16,
//! and is asked for by name: where Burn's own choice cannot use it, it forms all scores instead.

use super::*;
use burn_cubecl::tensor::CubeTensor;
use cubek_attention::forward::definition::{
    AccumulatorPrecision, AttentionGlobalTypes, AttentionOptions,
};
use cubek_attention::forward::launch::{BlueprintStrategy, Strategy, launch_ref};
use cubek_attention::forward::routines::blackbox_accelerated::BlackboxAcceleratedStrategy;

/// Side of a tile of the tensor cores.
const TILE: usize = 16;
/// The widest rows, whose sums still fit in a plane's registers.
const MOST: usize = 160;

/// The result as `[B, H, N, D]`, the heads of each query next to each other, or `None` where there are no tensor cores for f16 or the sizes do not
/// fit them.
pub(super) fn attention(q: &CubeTensor, k: &CubeTensor, v: &CubeTensor) -> Option<CubeTensor> {
    let f16 = ElemType::Float(FloatKind::F16);
    let cores = &q.client.properties().features.matmul.cmma;
    let halves = [q, k, v]
        .iter()
        .all(|x| matches!(x.dtype, DType::F16 | DType::BF16));
    let shape = q.meta.shape();
    let [batch, heads, queries, width] = [shape[0], shape[1], shape[2], shape[3]];
    let keys = k.meta.shape()[2];
    let fits = queries.is_multiple_of(2 * TILE) && keys.is_multiple_of(TILE) && width <= MOST;
    if !halves || !fits || !cores.iter().any(|m| m.a_type == f16 && m.b_type == f16) {
        return None;
    }
    let padded = width.next_multiple_of(TILE);
    // The kernel divides by the root of the padded width.
    let scale = (padded as f32 / width as f32).sqrt();
    let ready = |x: &CubeTensor, scale| {
        let whole = x.dtype == DType::F16 && padded == width && x.meta.strides()[3] == 1;
        if whole {
            x.clone()
        } else {
            pad(x.clone(), padded, scale)
        }
    };
    let (q16, k16, v16) = (ready(q, scale), ready(k, 1.0), ready(v, 1.0));
    // Its layout goes by the strides of each operand.
    let out = heads_inside(q, [batch, heads, queries, padded], DType::F16);
    for num_planes in [8u8, 4, 2] {
        if !queries.is_multiple_of(num_planes as usize * TILE) {
            continue;
        }
        let strategy = BlackboxAcceleratedStrategy {
            num_planes,
            seq_q: 1,
            seq_kv: 1,
        };
        let launched = launch_ref(
            Strategy::BlackboxAccelerated(BlueprintStrategy::Inferred(strategy)),
            &q.client,
            q16.clone().binding(),
            k16.clone().binding(),
            v16.clone().binding(),
            None,
            out.clone().binding(),
            &AttentionGlobalTypes::from_single_float_dtype(f16, f16),
            AttentionOptions {
                causal: false,
                accumulator_precision: AccumulatorPrecision::Strict(ElemType::Float(
                    FloatKind::F32,
                )),
            },
        );
        // What it refuses is no error here: there is a kernel for everything.
        if launched.is_ok() {
            return Some(unpad(out, width, q.dtype));
        }
    }
    None
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn pad_kernel<F: Float, G: Float>(
    x: &[F],
    to: &mut [G],
    of_x: Strides4,
    heads: usize,
    rows: usize,
    count: usize,
    scale: f32,
    #[comptime] width: usize,
    #[comptime] padded: usize,
    #[define(F, G)] _types: [ElemType; 2],
) {
    let i = ABSOLUTE_POS;
    if i < count {
        let row = i / padded;
        let column = i % padded;
        let mut value = 0.0f32;
        if column < width {
            let from = start(&of_x, row / rows, heads) + row % rows * of_x.row;
            // The range of f16, which bf16 goes beyond.
            value = clamp(
                f32::cast_from(x[from + column]) * scale,
                -65504.0f32,
                65504.0f32,
            );
        }
        to[i] = G::cast_from(value);
    }
}

/// A contiguous copy as f16 with zeros at the end of each row.
fn pad(x: CubeTensor, padded: usize, scale: f32) -> CubeTensor {
    let ([x], _) = rows_of([x]);
    let sizes = x.meta.shape();
    let [batch, heads, rows, width] = [sizes[0], sizes[1], sizes[2], sizes[3]];
    let to = empty(&x, Shape::from([batch, heads, rows, padded]), DType::F16);
    let count = batch * heads * rows * padded;
    let client = x.client.clone();
    let (cubes, dim) = elementwise(&client, count);
    // SAFETY: threads past the last element do nothing.
    unsafe {
        pad_kernel::launch_unchecked(
            &client,
            cubes,
            dim,
            address(&[&x, &to]),
            x.clone().into_buffer_arg(),
            to.clone().into_buffer_arg(),
            strides(&x, 1),
            heads,
            rows,
            count,
            scale,
            width,
            padded,
            [element(&x), element(&to)],
        );
    }
    to
}

/// The first `width` elements of each row, in type `dtype`.
fn unpad(mut x: CubeTensor, width: usize, dtype: DType) -> CubeTensor {
    let mut shape = x.meta.shape().clone();
    shape[3] = width;
    *x.meta = Metadata::new(shape, x.meta.strides().clone());
    if dtype == x.dtype {
        x
    } else {
        burn_cubecl::kernel::cast(x, dtype)
    }
}
