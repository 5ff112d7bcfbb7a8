use super::*;
use crate::cube;

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn geglu_matches() {
    let device = device();
    for dtype in types(&device) {
        for [b, n, width] in [[1, 1, 3], [2, 7, 5], [3, 64, 40], [16, 9, 128]] {
            let what = format!("geglu {:?} {dtype:?}", [b, n, width]);
            let (here, there) = pair([b, n, 2 * width], 1, dtype, &device);
            poison(&device, b * n * width * dtype.size());
            let got = cube::geglu(&there).expect("a tensor on the device");
            assert_eq!((got.dims(), got.dtype()), ([b, n, width], dtype), "{what}");
            let want = reference::geglu(&values(&here), width);
            assert_close_there(&got, &want, tolerance(dtype), &what);
        }
    }
    // Tokens of a picture, whose channels are far apart.
    let (here, there) = pair([2, 12, 30], 2, DType::F32, &device);
    let got = cube::geglu(&there.swap_dims(1, 2)).expect("a tensor on the device");
    let want = reference::geglu(&values(&here.swap_dims(1, 2)), 6);
    assert_close_there(&got, &want, 5e-6, "transposed geglu");
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn geglu_input_grad_matches() {
    let device = device();
    for dtype in types(&device) {
        for [b, n, width] in [[1, 1, 3], [2, 7, 5], [2, 64, 40], [16, 9, 24]] {
            let what = format!("gradient of geglu {:?} {dtype:?}", [b, n, width]);
            let (x, x_there) = pair([b, n, 2 * width], 1, dtype, &device);
            let (grad, grad_there) = pair([b, n, width], 2, dtype, &device);
            poison(&device, b * n * width * 2 * dtype.size());
            let got = cube::geglu_input_grad(&grad_there, &x_there).expect("on the device");
            assert_eq!(got.dims(), x.dims(), "{what}");
            let want = gradients::geglu_input_grad(&values(&grad), &values(&x), width);
            assert_close_there(&got, &want, tolerance(dtype), &what);
        }
    }
}
