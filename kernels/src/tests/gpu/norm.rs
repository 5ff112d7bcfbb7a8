use super::*;
use crate::cube;

/// The type as the tests' inputs have it, and the tolerance of what the normalisation magnifies.
fn allowed(dtype: DType) -> f64 {
    tolerance(dtype).max(2e-5)
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn group_norm_matches() {
    let device = device();
    for dtype in types(&device) {
        for (index, ([b, c, h, w], groups)) in [
            ([1, 21, 5, 7], 7),
            ([3, 6, 1, 1], 2),
            ([2, 32, 8, 8], 32),
            ([1, 64, 33, 40], 32),
            ([16, 40, 4, 4], 4),
        ]
        .into_iter()
        .enumerate()
        {
            if dtype != DType::F32 && index % 2 == 1 {
                continue;
            }
            let silu = index % 2 == 0;
            let seed = 10 * index as u64;
            // A mean far from zero, which naive sums of squares would not survive.
            let x = random([b, c, h, w], seed, dtype) + 30.0;
            let (weight, weight_there) = pair([c], seed + 1, dtype, &device);
            let (bias, bias_there) = pair([c], seed + 2, dtype, &device);
            let [weight, bias] = [weight, bias].map(|x| values(&x));
            let check = |x: &Tensor<4>, there: Tensor<4>, what: &str| {
                let what = format!("{what} group norm {:?} {groups} {dtype:?}", x.dims());
                poison(&device, x.shape().num_elements() * dtype.size());
                let affine = [&weight_there, &bias_there];
                let got = cube::group_norm(&there, groups, affine, 1e-5, silu).expect("there");
                assert_eq!((got.dims(), got.dtype()), (x.dims(), dtype), "{what}");
                let sizes = (c, x.dims()[2] * x.dims()[3], groups);
                let want = reference::group_norm(&values(x), sizes, &weight, &bias, 1e-5, silu);
                assert_close_there(&got, &want, allowed(dtype), &what);
            };
            check(&x, upload(&x, &device), "");
            // As convolutions leave it.
            for pitch in [c, c + 3, (c + 1).next_multiple_of(8)] {
                let there = picture(&x, pitch, &device);
                check(&x, there, &format!("channels-last, {pitch} apart,"));
            }
            // Neither.
            check(
                &x.clone().swap_dims(2, 3),
                upload(&x, &device).swap_dims(2, 3),
                "transposed",
            );
        }
    }
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn group_norm_in_pieces_matches() {
    let device = device();
    for [b, c, h, w] in [[1, 2, 256, 512], [1, 3, 181, 191]] {
        let x = random([b, c, h, w], 1, DType::F32) + 30.0;
        let (weight, weight_there) = pair([c], 2, DType::F32, &device);
        let (bias, bias_there) = pair([c], 3, DType::F32, &device);
        poison(&device, b * c * h * w * 4);
        let affine = [&weight_there, &bias_there];
        let got = cube::group_norm(&upload(&x, &device), c, affine, 1e-5, true).expect("there");
        let [weight, bias] = [weight, bias].map(|x| values(&x));
        let want = reference::group_norm(&values(&x), (c, h * w, c), &weight, &bias, 1e-5, true);
        assert_close_there(&got, &want, 2e-5, &format!("group norm {h}×{w}"));
    }
    let [b, c, h, w] = [1, 8, 181, 191];
    let x = random([b, c, h, w], 1, DType::F32) + 30.0;
    let (weight, weight_there) = pair([c], 2, DType::F32, &device);
    let (bias, bias_there) = pair([c], 3, DType::F32, &device);
    let there = picture(&x, 12, &device);
    poison(&device, b * c * h * w * 4);
    let got = cube::group_norm(&there, 2, [&weight_there, &bias_there], 1e-5, true).expect("there");
    let [weight, bias] = [weight, bias].map(|x| values(&x));
    let want = reference::group_norm(&values(&x), (c, h * w, 2), &weight, &bias, 1e-5, true);
    assert_close_there(&got, &want, 2e-5, "group norm of pixels in pieces");
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn group_norm_between_fused_operations() {
    let device = device();
    let (x, there) = pair([2, 12, 6, 5], 1, DType::F32, &device);
    let (weight, weight_there) = pair([12], 2, DType::F32, &device);
    let (bias, bias_there) = pair([12], 3, DType::F32, &device);
    let norm = crate::GroupNorm {
        groups: 4,
        weight: weight_there,
        bias: bias_there,
        eps: 1e-5,
        silu: true,
    };
    let y = crate::group_norm(there * 3.0 + 1.0, &norm);
    let got = y * 0.5 - 2.0;
    let x = values(&(x * 3.0 + 1.0));
    let [weight, bias] = [weight, bias].map(|x| values(&x));
    let want = reference::group_norm(&x, (12, 30, 4), &weight, &bias, 1e-5, true);
    let want: Vec<f64> = want.iter().map(|y| y * 0.5 - 2.0).collect();
    assert_close_there(&got, &want, 2e-5, "fused group norm");
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn layer_norm_matches() {
    let device = device();
    for dtype in types(&device) {
        for [b, n, c] in [[1, 1, 5], [2, 77, 40], [16, 9, 320], [1, 3, 1031]] {
            let what = format!("layer norm {:?} {dtype:?}", [b, n, c]);
            let x = random([b, n, c], 1, dtype) + 3.0;
            let (weight, weight_there) = pair([c], 2, dtype, &device);
            let (bias, bias_there) = pair([c], 3, dtype, &device);
            let [weight, bias] = [weight, bias].map(|x| values(&x));
            let want = reference::layer_norm(&values(&x), &weight, &bias, 1e-5);
            for pitch in [c, (c + 1).next_multiple_of(8)] {
                let there = rows(&x, pitch, &device);
                poison(&device, b * n * c * dtype.size());
                let got = cube::layer_norm(&there, &weight_there, &bias_there, 1e-5);
                let got = got.expect("there");
                assert_eq!((got.dims(), got.dtype()), (x.dims(), dtype), "{what}");
                assert_close_there(&got, &want, tolerance(dtype), &what);
            }
        }
    }
    let (x, there) = pair([2, 40, 9], 4, DType::F32, &device);
    let (weight, weight_there) = pair([40], 5, DType::F32, &device);
    let (bias, bias_there) = pair([40], 6, DType::F32, &device);
    let there = there.swap_dims(1, 2);
    let got = cube::layer_norm(&there, &weight_there, &bias_there, 1e-5).expect("there");
    let x = values(&x.swap_dims(1, 2));
    let want = reference::layer_norm(&x, &values(&weight), &values(&bias), 1e-5);
    assert_close_there(&got, &want, 5e-6, "transposed layer norm");
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn norm_input_grads_match() {
    let device = device();
    for dtype in types(&device) {
        for ([b, c, h, w], groups, silu) in [
            ([1, 21, 5, 7], 7, true),
            ([2, 32, 8, 8], 8, true),
            ([16, 8, 3, 4], 2, false),
        ] {
            let what = format!(
                "gradient of group norm {:?} {groups} {dtype:?}",
                [b, c, h, w]
            );
            let x = random([b, c, h, w], 1, dtype) + 3.0;
            let (weight, weight_there) = pair([c], 2, dtype, &device);
            let (bias, bias_there) = pair([c], 3, dtype, &device);
            let (grad, grad_there) = pair([b, c, h, w], 4, dtype, &device);
            let want = gradients::group_norm_input_grad(
                &values(&grad),
                &values(&x),
                (c, h * w, groups),
                &values(&weight),
                &values(&bias),
                1e-5,
                silu,
            );
            let run = |grad: &Tensor<4>, x: &Tensor<4>, what: &str| {
                poison(&device, b * c * h * w * dtype.size());
                let affine = [&weight_there, &bias_there];
                let got = cube::group_norm_input_grad(grad, x, groups, affine, 1e-5, silu);
                assert_close_there(&got.expect("there"), &want, allowed(dtype), what);
            };
            run(&grad_there, &upload(&x, &device), &what);
            for (pitch, of_grad) in [(c, c), (c + 3, c), (c + 8, c + 5), (c, 2 * c)] {
                let last = picture(&x, pitch, &device);
                let what = format!("channels-last, {pitch} and {of_grad} apart, {what}");
                run(&picture(&grad, of_grad, &device), &last, &what);
            }
            let last = picture(&x, c, &device);
            run(&grad_there, &last, &format!("channels-last {what}"));
            let grad_last = picture(&grad, c + 3, &device);
            let planes = upload(&x, &device);
            run(&grad_last, &planes, &format!("planes {what}"));
        }
        for [b, n, c] in [[1, 1, 5], [2, 77, 40], [16, 9, 64], [1, 3, 1031]] {
            let what = format!("gradient of layer norm {:?} {dtype:?}", [b, n, c]);
            let x = random([b, n, c], 1, dtype) + 3.0;
            let (weight, weight_there) = pair([c], 2, dtype, &device);
            let grad = random([b, n, c], 4, dtype);
            // A layer norm is a group norm of one group over pictures of one pixel.
            let want = gradients::group_norm_input_grad(
                &values(&grad),
                &values(&x),
                (c, 1, 1),
                &values(&weight),
                &vec![0.0; c],
                1e-5,
                false,
            );
            for (pitch, of_grad) in [(c, c), (c + 3, c + 8)] {
                let there = rows(&x, pitch, &device);
                let grad_there = rows(&grad, of_grad, &device);
                poison(&device, b * n * c * dtype.size());
                let got = cube::layer_norm_input_grad(&grad_there, &there, &weight_there, 1e-5);
                assert_close_there(&got.expect("there"), &want, allowed(dtype), &what);
            }
        }
    }
}
