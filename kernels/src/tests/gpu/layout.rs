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
fn channels_are_joined() {
    let Some(device) = device() else { return };
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
fn pictures_become_tokens() {
    let Some(device) = device() else { return };
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
fn pictures_are_enlarged() {
    let Some(device) = device() else { return };
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
fn channels_are_cut_out() {
    let Some(device) = device() else { return };
    let x = random([2, 24, 3, 5], 1, DType::F32);
    for (start, count) in [(0, 16), (16, 8), (5, 6)] {
        let want = x.clone().narrow(1, start, count).into_data();
        for (there, _) in forms(&x, &device) {
            let got = crate::narrow_channels(there, start, count);
            download(&got).into_data().assert_eq(&want, true);
        }
    }
}
