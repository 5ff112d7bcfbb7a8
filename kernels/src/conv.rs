//! Two-dimensional convolution.

use crate::cpu::columns::{MAX_TAPS, Patches, Transposed};
use crate::cpu::gemm::{GROUP, Gemm, Target};
use crate::flex::{Operand, filled};
use burn::tensor::Tensor;

/// Cross-correlation of `x` `[B, Cin, H, W]` with `weight` `[Cout, Cin, k, k]` (PyTorch's layout)
/// plus `bias` `[Cout]`, with `padding` zeros on every side, giving `[B, Cout, H', W']` where
/// `H' = (H + 2·padding − k) / stride + 1`.
pub fn conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    fast_conv2d(&x, &weight, bias.as_ref(), stride, padding)
        .unwrap_or_else(|| plain::conv2d(x, weight, bias, stride, padding))
}

fn fast_conv2d(
    x: &Tensor<4>,
    weight: &Tensor<4>,
    bias: Option<&Tensor<1>>,
    stride: usize,
    padding: usize,
) -> Option<Tensor<4>> {
    let [batch, channels, height, width] = x.dims();
    let [out_channels, in_channels, kernel, kernel_width] = weight.dims();
    let too_small = height.min(width) + 2 * padding < kernel;
    if kernel != kernel_width
        || kernel * kernel > MAX_TAPS
        || x.shape().num_elements() == 0
        || too_small
    {
        return None;
    }
    assert_eq!(
        channels, in_channels,
        "conv2d: channels of the input and of the weight"
    );
    let mut from = Operand::new(x)?;
    let weight = Operand::new(weight)?.contiguous();
    let bias = match bias {
        Some(bias) => Some(Operand::new(bias)?.contiguous()),
        None => None,
    };
    let whole_planes = |[b, c, h, w]: [isize; 4]| {
        b >= 0 && c >= 0 && (h == width as isize || height == 1) && (w == 1 || width == 1)
    };
    let pointwise = kernel == 1 && stride == 1 && padding == 0;
    // Tokens seen as a picture, as between a transformer block and a convolution.
    let tokens = |[b, c, h, w]: [isize; 4]| {
        let (row, plane) = (w * width as isize, w * (height * width) as isize);
        pointwise && c == 1 && w > 0 && (h == row || height == 1) && (b == plane || batch == 1)
    };
    let channels_last = tokens(from.strides());
    if !channels_last && !whole_planes(from.strides()) {
        from = from.contiguous();
    }
    let [sample_stride, channel_stride, _, pixel_stride] = from.strides::<4>().map(|s| s as usize);
    let out_height = (height + 2 * padding - kernel) / stride + 1;
    let out_width = (width + 2 * padding - kernel) / stride + 1;
    let plane = out_height * out_width;
    // Offsets inside a plane, and to the samples of one group of columns, are kept in 32 bits.
    if (GROUP / plane + 1) * sample_stride + height * width > i32::MAX as usize {
        return None;
    }
    let transposed = Transposed {
        from: from.as_ptr(),
        stride: pixel_stride,
    };
    // A pointwise convolution has no rows, so that its columns are one run.
    let patches = Patches {
        from: from.as_ptr(),
        height: if pointwise { 1 } else { height },
        width: if pointwise { plane } else { width },
        channel_stride,
        sample_stride,
        out_width: if pointwise { plane } else { out_width },
        plane,
        kernel,
        stride,
        padding,
    };
    let depth = channels * kernel * kernel;
    // SAFETY: the sizes are those of the tensors, and all of the result is written.
    Some(unsafe {
        filled(
            [batch, out_channels, out_height, out_width],
            x.dtype(),
            |to| {
                Gemm {
                    m: out_channels,
                    n: batch * plane,
                    k: depth,
                    left: weight.as_ptr(),
                    left_stride: depth,
                    right: if channels_last { &transposed } else { &patches },
                    target: Target::Planes {
                        to,
                        ld: plane,
                        plane,
                        sample: out_channels * plane,
                    },
                    row_bias: bias.as_ref().map(Operand::as_slice),
                    col_bias: None,
                }
                .run();
            },
        )
    })
}

/// Gradient of [`conv2d`] with respect to its input of shape `input` `[B, Cin, H, W]`, from the
/// gradient with respect to its result, `grad` `[B, Cout, H', W']`: the convolution's transpose.
pub fn conv2d_input_grad(
    grad: Tensor<4>,
    weight: Tensor<4>,
    input: [usize; 4],
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    plain::conv2d_input_grad(grad, weight, input, stride, padding)
}

pub(crate) mod plain {
    use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
    use burn::tensor::{Tensor, module};

    /// Reference of [`crate::conv2d`].
    pub fn conv2d(
        x: Tensor<4>,
        weight: Tensor<4>,
        bias: Option<Tensor<1>>,
        stride: usize,
        padding: usize,
    ) -> Tensor<4> {
        let options = ConvOptions::new([stride; 2], [padding; 2], [1, 1], 1);
        module::conv2d(x, weight, bias, options)
    }

    /// Reference of [`crate::conv2d_input_grad`].
    pub fn conv2d_input_grad(
        grad: Tensor<4>,
        weight: Tensor<4>,
        input: [usize; 4],
        stride: usize,
        padding: usize,
    ) -> Tensor<4> {
        let [_, _, out_height, out_width] = grad.dims();
        let [_, _, kernel_height, kernel_width] = weight.dims();
        // Pixels at the lower and right border that no output of a strided convolution reaches.
        let rest = |input, out, kernel| input + 2 * padding - ((out - 1) * stride + kernel);
        let unreached = [
            rest(input[2], out_height, kernel_height),
            rest(input[3], out_width, kernel_width),
        ];
        let options = ConvTransposeOptions::new([stride; 2], [padding; 2], unreached, [1, 1], 1);
        module::conv_transpose2d(grad, weight, None, options)
    }
}
