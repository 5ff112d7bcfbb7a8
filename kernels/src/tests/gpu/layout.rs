use super::*;
use crate::cube;

/// Every shape once without gaps and with several, as planes, and transposed, which is neither order.
fn forms(x: &Tensor<4>, device: &Device) -> Vec<(Tensor<4>, String)> {
    let channels = x.dims()[1];
    let mut forms = vec![
        (upload(x, device), "planes".to_string()),
        (
            upload(&x.clone().swap_dims(2, 3), device).swap_dims(2, 3),
            "transposed".to_string(),
        ),
    ];
    for pitch in [channels, channels + 3, (channels + 1).next_multiple_of(8)] {
        forms.push((picture(x, pitch, device), format!("{pitch} apart")));
    }
    forms
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn channels_are_joined() {
    let device = device();
    for dtype in types(&device) {
        for ([b, c, h, w], d) in [
            ([1, 3, 5, 7], 2),
            ([2, 8, 4, 4], 16),
            ([3, 12, 3, 5], 4),
            ([2, 40, 1, 1], 8),
        ] {
            let first = random([b, c, h, w], 1, dtype);
            let second = random([b, d, h, w], 2, dtype);
            let want = Tensor::cat(vec![first.clone(), second.clone()], 1).into_data();
            for (one, of_one) in forms(&first, &device) {
                for (two, of_two) in forms(&second, &device) {
                    poison(&device, b * (c + d) * h * w * dtype.size());
                    let got = cube::cat_channels(&one, &two).expect("there");
                    println!("{:?} {d} {dtype:?}: {of_one}, {of_two}", first.dims());
                    download(&got).into_data().assert_eq(&want, true);
                }
            }
        }
    }
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn pictures_become_tokens() {
    let device = device();
    for dtype in types(&device) {
        for shape @ [b, c, h, w] in [[1, 3, 5, 7], [2, 8, 4, 4], [3, 20, 1, 6]] {
            let x = random(shape, 1, dtype);
            let want = crate::picture_to_tokens(x.clone());
            assert_eq!(want.dims(), [b, h * w, c]);
            for (there, form) in forms(&x, &device) {
                println!("{shape:?} {dtype:?}: {form}");
                let got = cube::picture_to_tokens(&there).expect("there");
                download(&got).into_data().assert_eq(&want.to_data(), true);
                let back = crate::tokens_to_picture(got, [h, w]);
                download(&back).into_data().assert_eq(&x.to_data(), true);
            }
        }
    }
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn pictures_are_enlarged() {
    let device = device();
    for dtype in types(&device) {
        for shape @ [b, c, h, w] in [[1, 3, 5, 7], [2, 8, 4, 3], [2, 12, 1, 1]] {
            let x = random(shape, 1, dtype);
            let want = crate::upsample_nearest2x(x.clone()).into_data();
            for (there, form) in forms(&x, &device) {
                println!("{shape:?} {dtype:?}: {form}");
                poison(&device, 4 * b * c * h * w * dtype.size());
                let got = cube::upsample_nearest2x(&there).expect("there");
                download(&got).into_data().assert_eq(&want, true);
            }
            let grad = random([b, c, 2 * h, 2 * w], 2, dtype);
            let want = values(&crate::upsample_nearest2x_input_grad(grad.clone()));
            for (there, form) in forms(&grad, &device) {
                poison(&device, b * c * h * w * dtype.size());
                let got = cube::upsample_nearest2x_input_grad(&there).expect("there");
                let what = format!("{shape:?} {dtype:?}: {form}");
                assert_close_there(&got, &want, tolerance(dtype), &what);
            }
        }
    }
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn channels_are_cut_out() {
    let device = device();
    let x = random([2, 24, 3, 5], 1, DType::F32);
    for (start, count) in [(0, 16), (16, 8), (5, 6)] {
        let want = x.clone().narrow(1, start, count).into_data();
        for (there, _) in forms(&x, &device) {
            let got = crate::narrow_channels(there, start, count);
            download(&got).into_data().assert_eq(&want, true);
        }
    }
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn rows_are_cut_across_and_heads_taken_out() {
    let device = device();
    for dtype in types(&device) {
        // Where memory must begin at multiples of 32 or 256 bytes some of these are views and some copies.
        for (heads, width, part) in [(2, 3, 1), (8, 40, 2), (4, 64, 1), (2, 128, 2)] {
            let all = 3 * heads * width;
            let x = random([2, 7, all], 1, dtype);
            let start = part * heads * width;
            let cut = x.clone().narrow(2, start, heads * width);
            let split = (cut.clone().reshape([2, 7, heads, width])).swap_dims(1, 2);
            // Not an odd distance, with which CubeCL's copy of the result onto the host is wrong (NOTES.md).
            for pitch in [all, all + 8, (all + 1).next_multiple_of(128)] {
                println!("{heads} heads of {width} {dtype:?}: {pitch} apart");
                let there = gaps::rows(&x, pitch, &device);
                let got = crate::narrow_columns(there.clone(), start, heads * width);
                download(&got).into_data().assert_eq(&cut.to_data(), true);
                let got = crate::split_heads(there, width, part * heads..(part + 1) * heads);
                download(&got).into_data().assert_eq(&split.to_data(), true);
            }
        }
    }
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn attention_reads_heads_where_they_are() {
    let device = device();
    for dtype in types(&device) {
        for (heads, width, n) in [(2, 40, 64), (3, 12, 17), (2, 64, 33)] {
            let x = random([2, n, 3 * heads * width], 1, dtype);
            let parts = |x: &Tensor<3>| {
                [0, 1, 2].map(|part| {
                    crate::split_heads(x.clone(), width, part * heads..(part + 1) * heads)
                })
            };
            let [q, k, v] = parts(&x);
            let want = values(&crate::attention(q, k, v));
            let pitch = (3 * heads * width + 1).next_multiple_of(64);
            let [q, k, v] = parts(&gaps::rows(&x, pitch, &device));
            let got = cube::attention([&q, &k, &v], false).expect("there");
            let what = format!("{heads} heads of {width}, {n} tokens, {dtype:?}");
            assert_close_there(&got, &want, 2.0 * tolerance(dtype), &what);
        }
    }
}
