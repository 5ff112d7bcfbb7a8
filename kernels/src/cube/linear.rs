//! Affine layers as products and sums that Burn's fusion makes one kernel of: its own operation for both is a product and a
//! kernel for the bias, which reads and writes all of the result again.

use super::*;
use crate::plain;

/// Views of a backend's tensors.
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(crate) trait Rows: Backend {
    /// `[B, N, C]` to `[B · N, C]`.
    #[fusion(dtype = x, shape = merged(x))]
    fn merge_rows(x: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl Rows for CubeBackend {
    fn merge_rows(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let shape = merged(x.meta.shape());
        // Rows with gaps between them, where a change of shape would copy.
        let (mut x, pitch) = match layout::pitch(x.meta.shape().as_slice(), x.meta.strides()) {
            Some(pitch) => (x, pitch),
            None => (into_contiguous(x), shape[1]),
        };
        *x.meta = Metadata::new(shape, Strides::new(&[pitch, 1]));
        x
    }
}

fn merged(shape: &Shape) -> Shape {
    Shape::from([shape[0] * shape[1], shape[2]])
}

fn merge_rows(x: &Tensor<3>) -> Option<Tensor<2>> {
    Some(Tensor::from_dispatch(Dispatch::merge_rows(operand(x)?)))
}

/// [`crate::linear`] with a bias, [`crate::linear_onto`], or both. `None` where there is nothing to add, which is left to
/// Burn's own operation.
pub(crate) fn linear(
    x: &Tensor<3>,
    weight: &Tensor<2>,
    bias: Option<&Tensor<1>>,
    onto: Option<&Tensor<3>>,
) -> Option<Tensor<3>> {
    if let Some(y) = affine(x, weight, bias, onto) {
        return Some(y);
    }
    if let Some(y) = few_rows(x, weight, bias) {
        return Some(match onto {
            Some(onto) => y + onto.clone(),
            None => y,
        });
    }
    if bias.is_none() && onto.is_none() {
        return None;
    }
    let [batch, n, _] = x.dims();
    let [outputs, _] = weight.dims();
    let rows = merge_rows(x)?;
    // Before the product, so that nothing stands between it and the sums.
    let onto = match onto {
        Some(onto) => Some(merge_rows(onto)?),
        None => None,
    };
    let bias = bias.map(|bias| bias.clone().reshape([1, outputs]));
    let mut y = rows.matmul(weight.clone().transpose());
    if let Some(bias) = bias {
        y = y + bias;
    }
    if let Some(onto) = onto {
        y = y + onto;
    }
    Some(y.reshape([batch, n, outputs]))
}

/// The weight of a convolution of one pixel as that of an affine layer, if it is one.
fn of_one_pixel(weight: &Tensor<4>, [stride, padding]: [usize; 2]) -> Option<Tensor<2>> {
    let [outputs, inputs, height, width] = weight.dims();
    let pointwise = [height, width, stride, padding] == [1, 1, 1, 0];
    pointwise.then(|| weight.clone().reshape([outputs, inputs]))
}

/// [`crate::conv2d`] of single pixels, or [`crate::pointwise_onto`].
pub(crate) fn pointwise(
    x: &Tensor<4>,
    weight: &Tensor<4>,
    bias: Option<&Tensor<1>>,
    stride_and_padding: [usize; 2],
    onto: Option<&Tensor<4>>,
) -> Option<Tensor<4>> {
    let weight = of_one_pixel(weight, stride_and_padding)?;
    let [_, _, height, width] = x.dims();
    let tokens = picture_to_tokens(x)?;
    let onto = match onto {
        Some(onto) => Some(picture_to_tokens(onto)?),
        None => None,
    };
    let y = linear(&tokens, &weight, bias, onto.as_ref())
        .unwrap_or_else(|| plain::linear(tokens, weight, None));
    Some(plain::tokens_to_picture(y, [height, width]))
}

/// [`crate::conv2d_input_grad`] of a convolution of single pixels.
pub(crate) fn pointwise_input_grad(
    grad: &Tensor<4>,
    weight: &Tensor<4>,
    stride_and_padding: [usize; 2],
) -> Option<Tensor<4>> {
    let weight = of_one_pixel(weight, stride_and_padding)?;
    let [_, _, height, width] = grad.dims();
    let grad = picture_to_tokens(grad)?;
    let of_x =
        affine_input_grad(&grad, &weight).unwrap_or_else(|| plain::linear_input_grad(grad, weight));
    Some(plain::tokens_to_picture(of_x, [height, width]))
}
