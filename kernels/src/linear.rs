//! The affine layer.

use crate::cpu::columns::{Patches, Transposed};
use crate::cpu::gemm::Gemm;
use crate::cpu::operand::{Columns, Rows};
use crate::cpu::simd::Element;
use crate::cpu::sums;
use crate::cpu::target::Target;
use crate::flex::{Operand, by_type, filled};
use crate::plain;
use crate::profile::{self, Family, linear_flops};
use crate::recorded;
use burn::tensor::Tensor;

/// `x Wᵀ + b` for `x` `[B, N, In]`, `weight` `[Out, In]` as PyTorch stores it, and `bias` `[Out]`,
/// giving `[B, N, Out]`.
pub fn linear(x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<3> {
    affine(x, weight, bias, None)
}

/// [`linear`] plus `onto` `[B, N, Out]`: a layer that ends a residual branch. On GPUs with fusion this is one kernel.
pub fn linear_onto(
    x: Tensor<3>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    onto: Tensor<3>,
) -> Tensor<3> {
    affine(x, weight, bias, Some(onto))
}

fn affine(
    x: Tensor<3>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    onto: Option<Tensor<3>>,
) -> Tensor<3> {
    if let Some(y) = recorded::linear(&x, &weight, bias.as_ref()) {
        return match onto {
            Some(onto) => crate::add(y, onto),
            None => y,
        };
    }
    let [batch, tokens, _] = x.dims();
    let [outputs, inputs] = weight.dims();
    let _span = profile::span(Family::Matmul, &x, || {
        linear_flops(batch * tokens, inputs, outputs)
    });
    #[cfg(feature = "gpu")]
    if let Some(y) = crate::cube::linear(&x, &weight, bias.as_ref(), onto.as_ref()) {
        return y;
    }
    let y = by_type!([x, weight], fast_linear(&x, &weight, bias.as_ref()))
        .unwrap_or_else(|| plain::linear(x, weight, bias));
    match onto {
        Some(onto) => crate::add(y, onto),
        None => y,
    }
}

/// Between these numbers of tokens it is cheaper to transpose the tokens than the weight.
const TRANSPOSE_TOKENS: core::ops::Range<usize> = 5..64;

/// Tokens `[B, N, C]` in one of the two ways in which they can be multiplied without a copy.
struct Tokens<E> {
    operand: Operand<E>,
    count: usize,
    /// Elements from one sample, token and channel to the next.
    strides: [usize; 3],
    /// Channel-first activations seen as tokens: each channel is a run. Otherwise each token is one,
    /// with the same stride between all of them.
    channels_first: bool,
}

impl<E: Element> Tokens<E> {
    fn new(x: &Tensor<3>) -> Option<Self> {
        let [batch, count, channels] = x.dims();
        let mut operand = Operand::<E>::new(x)?;
        let [sample, token, channel] = operand.strides();
        let channels_first = token == 1 && channel > 1 && sample >= 0;
        let channels_first =
            channels_first && Patches::<E>::offsets_fit(count, sample as usize, count);
        let one_stride = channel == 1 && token >= 0;
        let one_stride = one_stride && (batch == 1 || sample == count as isize * token);
        let strides = if channels_first || one_stride {
            [sample, token, channel].map(|stride| stride as usize)
        } else {
            operand = operand.contiguous();
            // Not the operand's own: where an axis has length one, those of a contiguous tensor may be anything.
            [count * channels, channels, 1]
        };
        Some(Self {
            operand,
            count,
            strides,
            channels_first,
        })
    }

    /// One row for each channel, one column for each token.
    fn columns(&self) -> Box<dyn Columns<E>> {
        let from = self.operand.as_ptr();
        let [sample, token, channel] = self.strides;
        if self.channels_first {
            Box::new(Patches {
                channel_stride: channel,
                sample_stride: sample,
                ..Patches::rows(from, channel, self.count)
            })
        } else {
            Box::new(Transposed {
                from,
                stride: token,
            })
        }
    }

    /// One row for each token. Not for channels first.
    fn rows(&self) -> Rows<'_, E> {
        Rows::Along {
            from: self.operand.as_ptr(),
            stride: self.strides[1],
        }
    }
}

fn fast_linear<E: Element>(
    x: &Tensor<3>,
    weight: &Tensor<2>,
    bias: Option<&Tensor<1>>,
) -> Option<Tensor<3>> {
    let [batch, tokens, inputs] = x.dims();
    let [outputs, columns] = weight.dims();
    assert_eq!(
        inputs, columns,
        "linear: width of the input and of the weight"
    );
    let from = Tokens::<E>::new(x)?;
    let weight = Operand::<E>::new(weight)?.contiguous();
    let bias = match bias {
        Some(bias) => Some(Operand::<f32>::new(bias)?.contiguous()),
        None => None,
    };
    let bias = bias.as_ref().map(Operand::as_slice);
    let rows = batch * tokens;
    // SAFETY: the operands are `[rows, inputs]` and `[outputs, inputs]`, as was asserted, and lie as `Tokens` and
    // `contiguous` say; the product writes all of `[rows, outputs]`.
    Some(unsafe {
        filled([batch, tokens, outputs], x.dtype(), |to| {
            if from.channels_first || TRANSPOSE_TOKENS.contains(&rows) {
                Gemm {
                    m: outputs,
                    n: rows,
                    k: inputs,
                    left: Rows::Along {
                        from: weight.as_ptr(),
                        stride: inputs,
                    },
                    right: &*from.columns(),
                    target: Target::Transposed { to, ld: outputs },
                    row_bias: bias,
                    col_bias: None,
                    relu: false,
                    sample: tokens,
                }
                .run();
            } else {
                Gemm {
                    m: rows,
                    n: outputs,
                    k: inputs,
                    left: from.rows(),
                    right: &Transposed {
                        from: weight.as_ptr(),
                        stride: inputs,
                    },
                    target: Target::rows(to, outputs),
                    row_bias: None,
                    col_bias: bias,
                    relu: false,
                    sample: tokens,
                }
                .run();
            }
        })
    })
}

/// Gradient of [`linear`] with respect to its input: `grad W` for `grad` `[B, N, Out]` and `weight`
/// `[Out, In]`, giving `[B, N, In]`.
pub fn linear_input_grad(grad: Tensor<3>, weight: Tensor<2>) -> Tensor<3> {
    let _span = profile::span(Family::Matmul, &grad, || {
        linear_flops(
            grad.dims()[0] * grad.dims()[1],
            weight.dims()[1],
            weight.dims()[0],
        )
    });
    fast!(
        by_type!([grad, weight], fast_linear_input_grad(&grad, &weight)),
        crate::cube::affine_input_grad(&grad, &weight)
    )
    .unwrap_or_else(|| plain::linear_input_grad(grad, weight))
}

fn fast_linear_input_grad<E: Element>(grad: &Tensor<3>, weight: &Tensor<2>) -> Option<Tensor<3>> {
    let [batch, tokens, outputs] = grad.dims();
    let [rows, inputs] = weight.dims();
    assert_eq!(
        outputs, rows,
        "linear_input_grad: width of the gradient and rows of the weight"
    );
    let from = Tokens::<E>::new(grad)?;
    let weight = Operand::<E>::new(weight)?.contiguous();
    // SAFETY: the operands are `[batch · tokens, outputs]` and `[outputs, inputs]`, as was asserted, and lie as `Tokens`
    // and `contiguous` say; the product writes all of `[batch · tokens, inputs]`.
    Some(unsafe {
        filled([batch, tokens, inputs], grad.dtype(), |to| {
            if from.channels_first {
                Gemm {
                    m: inputs,
                    n: batch * tokens,
                    k: outputs,
                    left: Rows::Across {
                        from: weight.as_ptr(),
                        stride: inputs,
                        kernel: 1,
                        taps: &[0],
                    },
                    right: &*from.columns(),
                    target: Target::Transposed { to, ld: inputs },
                    row_bias: None,
                    col_bias: None,
                    relu: false,
                    sample: tokens,
                }
                .run();
            } else {
                Gemm {
                    m: batch * tokens,
                    n: inputs,
                    k: outputs,
                    left: from.rows(),
                    right: &Patches::rows(weight.as_ptr(), inputs, inputs),
                    target: Target::rows(to, inputs),
                    row_bias: None,
                    col_bias: None,
                    relu: false,
                    sample: tokens,
                }
                .run();
            }
        })
    })
}

/// Gradient of [`linear`] with respect to its weight: `gradᵀ x` for `grad` `[B, N, Out]` and `x` `[B, N, In]`, giving
/// `[Out, In]`.
pub fn linear_weight_grad(grad: Tensor<3>, x: Tensor<3>) -> Tensor<2> {
    let [batch, tokens, outputs] = grad.dims();
    let inputs = x.dims()[2];
    assert_eq!(
        x.dims(),
        [batch, tokens, inputs],
        "linear_weight_grad: input"
    );
    let _span = profile::span(Family::Matmul, &grad, || {
        linear_flops(batch * tokens, inputs, outputs)
    });
    fast_linear_weight_grad(&grad, &x).unwrap_or_else(|| plain::linear_weight_grad(grad, x))
}

fn fast_linear_weight_grad(grad: &Tensor<3>, x: &Tensor<3>) -> Option<Tensor<2>> {
    let [batch, tokens, outputs] = grad.dims();
    let inputs = x.dims()[2];
    if batch * tokens * outputs * inputs == 0 {
        return None;
    }
    let (from, x) = (
        Operand::<f32>::new(grad)?.contiguous(),
        Operand::<f32>::new(x)?.contiguous(),
    );
    // SAFETY: the operands have `batch · tokens` rows of `outputs` and of `inputs` elements; the product writes all of
    // `[outputs, inputs]`.
    Some(unsafe {
        filled([outputs, inputs], grad.dtype(), |to| {
            Gemm {
                m: outputs,
                n: inputs,
                k: batch * tokens,
                left: Rows::Across {
                    from: from.as_ptr(),
                    stride: outputs,
                    kernel: 1,
                    taps: &[0],
                },
                right: &Patches::rows(x.as_ptr(), inputs, inputs),
                target: Target::rows(to, inputs),
                row_bias: None,
                col_bias: None,
                relu: false,
                sample: outputs.min(inputs),
            }
            .run();
        })
    })
}

/// Gradient of [`linear`] with respect to its bias: the sums of `grad` `[B, N, Out]` over all tokens, `[Out]`.
pub fn linear_bias_grad(grad: Tensor<3>) -> Tensor<1> {
    let _span = profile::span(Family::Other, &grad, || 0);
    let [batch, tokens, outputs] = grad.dims();
    let fast = Operand::<f32>::new(&grad).map(|from| {
        let from = from.contiguous();
        let sums = sums::of_columns(from.as_slice(), batch * tokens, outputs);
        // SAFETY: there is a sum for each output.
        unsafe {
            filled([outputs], grad.dtype(), |to| {
                core::ptr::copy_nonoverlapping(sums.as_ptr(), to, outputs);
            })
        }
    });
    fast.unwrap_or_else(|| plain::linear_bias_grad(grad))
}
