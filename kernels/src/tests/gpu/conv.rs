//! Convolutions, which are Burn's own, on what is laid out for them.

use super::*;

/// Filters `[Out, In, k, k]` on the device as they are kept there: a view of `[Out, k, k, In]`.
fn filters(weight: &Tensor<4>, device: &Device) -> Tensor<4> {
    upload(&weight.clone().permute([0, 2, 3, 1]), device).permute([0, 3, 1, 2])
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn a_convolution_reads_what_is_laid_out_for_it() {
    let device = device();
    assert!(crate::prefers_channels_last(&device));
    let dtype = DType::F32;
    let x = random([2, 8, 6, 5], 1, dtype);
    let weight = random([12, 8, 3, 3], 2, dtype);
    let (bias, bias_there) = pair([12], 3, dtype, &device);
    let want = crate::conv2d(x.clone(), weight.clone(), Some(bias), 1, 1);
    let kept = filters(&weight, &device);
    for pitch in [8, 12] {
        let there = picture(&x, pitch, &device);
        let got = crate::conv2d(there, kept.clone(), Some(bias_there.clone()), 1, 1);
        let what = format!("convolution of pixels {pitch} apart");
        assert_close_there(&got, &values(&want), 1e-5, &what);
    }
    let grad = random([2, 12, 6, 5], 4, dtype);
    let want = crate::conv2d_input_grad(grad.clone(), weight, x.dims(), 1, 1);
    let there = picture(&grad, 16, &device);
    let got = crate::conv2d_input_grad(there, kept, x.dims(), 1, 1);
    assert_close_there(&got, &values(&want), 1e-5, "gradient of a convolution");
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn a_convolution_of_one_pixel_is_a_product_of_tokens() {
    let device = device();
    let dtype = DType::F32;
    let (weight, there) = pair([6, 8], 1, dtype, &device);
    let kernel = crate::pointwise_kernel(there);
    assert_eq!(kernel.dims(), [6, 8, 1, 1]);
    let plain = crate::pointwise_kernel(weight);
    let x = random([2, 8, 3, 5], 2, dtype);
    let want = crate::conv2d(x.clone(), plain.clone(), None, 1, 0);
    let got = crate::conv2d(picture(&x, 12, &device), kernel.clone(), None, 1, 0);
    assert_close_there(&got, &values(&want), 1e-5, "convolution of one pixel");
    let grad = random([2, 6, 3, 5], 3, dtype);
    let want = crate::conv2d_input_grad(grad.clone(), plain, x.dims(), 1, 0);
    let there = picture(&grad, 9, &device);
    let got = crate::conv2d_input_grad(there, kernel, x.dims(), 1, 0);
    assert_close_there(&got, &values(&want), 1e-5, "gradient to one pixel");
}
