//! The affine layer.

use crate::cpu::columns::{Patches, Transposed};
use crate::cpu::gemm::{Gemm, Target};
use crate::flex::{Operand, filled};
use burn::tensor::Tensor;

/// `x Wᵀ + b` for `x` `[B, N, In]`, `weight` `[Out, In]` as PyTorch stores it, and `bias` `[Out]`,
/// giving `[B, N, Out]`.
pub fn linear(x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<3> {
    fast_linear(&x, &weight, bias.as_ref()).unwrap_or_else(|| plain::linear(x, weight, bias))
}

/// Between these numbers of tokens it is cheaper to transpose the tokens than the weight.
const TRANSPOSE_TOKENS: core::ops::Range<usize> = 5..64;

fn fast_linear(x: &Tensor<3>, weight: &Tensor<2>, bias: Option<&Tensor<1>>) -> Option<Tensor<3>> {
    let [batch, tokens, inputs] = x.dims();
    let [outputs, columns] = weight.dims();
    assert_eq!(
        inputs, columns,
        "linear: width of the input and of the weight"
    );
    let mut from = Operand::new(x)?;
    let weight = Operand::new(weight)?.contiguous();
    let bias = match bias {
        Some(bias) => Some(Operand::new(bias)?.contiguous()),
        None => None,
    };
    let bias = bias.as_ref().map(Operand::as_slice);
    let rows = batch * tokens;
    let count = tokens as isize;
    let [sample, token, input] = from.strides();
    // Channel-first activations seen as tokens: their columns are runs already.
    let channels_first = token == 1 && input > 1 && sample >= 0;
    let one_stride = input == 1 && token >= 0 && (batch == 1 || sample == count * token);
    if !channels_first && !one_stride {
        from = from.contiguous();
    }
    let [sample, token, input] = from.strides().map(|stride: isize| stride as usize);
    let left = weight.as_ptr();
    let transposed = Transposed {
        from: from.as_ptr(),
        stride: token,
    };
    let patches = Patches {
        channel_stride: input,
        sample_stride: sample,
        ..Patches::rows(from.as_ptr(), input, tokens)
    };
    // SAFETY: the sizes are those of the tensors, and all of the result is written.
    Some(unsafe {
        filled([batch, tokens, outputs], x.dtype(), |to| {
            if channels_first || TRANSPOSE_TOKENS.contains(&rows) {
                Gemm {
                    m: outputs,
                    n: rows,
                    k: inputs,
                    left,
                    left_stride: inputs,
                    right: if channels_first {
                        &patches
                    } else {
                        &transposed
                    },
                    target: Target::Transposed { to, ld: outputs },
                    row_bias: bias,
                    col_bias: None,
                }
                .run();
            } else {
                Gemm {
                    m: rows,
                    n: outputs,
                    k: inputs,
                    left: from.as_ptr(),
                    left_stride: token,
                    right: &Transposed {
                        from: left,
                        stride: inputs,
                    },
                    target: Target::Planes {
                        to,
                        ld: outputs,
                        plane: outputs,
                        sample: 0,
                    },
                    row_bias: None,
                    col_bias: bias,
                }
                .run();
            }
        })
    })
}

/// Gradient of [`linear`] with respect to its input: `grad W` for `grad` `[B, N, Out]` and `weight`
/// `[Out, In]`, giving `[B, N, In]`.
pub fn linear_input_grad(grad: Tensor<3>, weight: Tensor<2>) -> Tensor<3> {
    plain::linear_input_grad(grad, weight)
}

pub(crate) mod plain {
    use burn::tensor::{Tensor, module};

    /// Reference of [`crate::linear`].
    pub fn linear(x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<3> {
        module::linear(x, weight.transpose(), bias)
    }

    /// Reference of [`crate::linear_input_grad`].
    pub fn linear_input_grad(grad: Tensor<3>, weight: Tensor<2>) -> Tensor<3> {
        module::linear(grad, weight, None)
    }
}
