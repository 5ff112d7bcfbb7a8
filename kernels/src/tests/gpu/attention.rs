use super::*;
use crate::cube;

/// Batch, heads, queries, keys and width: rows of one, two and four threads, with and without elements
/// left over; rows that fill no cube and no tile; one key. Few, for compiling each width for a
/// software device takes seconds; `prepose selftest` tries those of Stable Diffusion.
fn sizes(dtype: DType) -> Vec<[usize; 5]> {
    let common = [[16, 1, 7, 12, 16], [1, 2, 140, 77, 16]];
    let mut sizes = common.to_vec();
    if dtype == DType::F32 {
        sizes.extend([[2, 3, 9, 1, 5], [1, 1, 35, 40, 88]]);
    }
    sizes
}

/// Queries, keys and values here and there. The heads of those there lie inside the rows, as the
/// projections leave them.
fn operands(
    [b, h, n, m, d]: [usize; 5],
    dtype: DType,
    device: &Device,
) -> ([Tensor<4>; 3], [Tensor<4>; 3]) {
    let here = [(n, 1), (m, 2), (m, 3)].map(|(rows, seed)| random([b, rows, h, d], seed, dtype));
    let there = here.clone().map(|x| upload(&x, device).swap_dims(1, 2));
    (here.map(|x| x.swap_dims(1, 2)), there)
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn attention_matches() {
    let device = device();
    for dtype in types(&device) {
        for sizes @ [b, h, n, m, d] in sizes(dtype) {
            let what = format!("attention {sizes:?} {dtype:?}");
            let (here, [q, k, v]) = operands(sizes, dtype, &device);
            let [q64, k64, v64] = here.map(|x| values(&x));
            let (want, probs) = reference::attention(&q64, &k64, &v64, [n, m, d], false);
            poison(&device, b * h * n * d * dtype.size());
            let got = cube::attention([&q, &k, &v], false).expect("there");
            assert_eq!((got.dims(), got.dtype()), ([b, h, n, d], dtype), "{what}");
            assert_close_there(&got, &want, tolerance(dtype), &what);

            if d > 16 {
                continue;
            }
            poison(&device, b * h * n * m * dtype.size());
            let (got, got_probs) = cube::attention_with_probs([&q, &k, &v]).expect("there");
            assert_close_there(&got, &want, tolerance(dtype), &what);
            assert_eq!(got_probs.dims(), [b, h, n, m], "{what}");
            assert_close_there(&got_probs, &probs, tolerance(dtype), &what);
        }
    }
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn causal_attention_matches() {
    let device = device();
    for sizes @ [_, _, n, m, d] in [[2, 3, 77, 77, 16], [1, 1, 200, 200, 16]] {
        let (here, [q, k, v]) = operands(sizes, DType::F32, &device);
        let [q64, k64, v64] = here.map(|x| values(&x));
        let (want, _) = reference::attention(&q64, &k64, &v64, [n, m, d], true);
        let got = cube::attention([&q, &k, &v], true).expect("there");
        assert_close_there(&got, &want, 5e-6, &format!("causal attention {sizes:?}"));
    }
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn attention_survives_large_scores_between_fused_operations() {
    let device = device();
    let sizes @ [_, _, n, m, d] = [1, 2, 33, 50, 16];
    let (here, [q, k, v]) = operands(sizes, DType::F32, &device);
    let [q64, k64, v64] = here.map(|x| values(&x));
    for factor in [300.0, -300.0] {
        let scaled: Vec<f64> = q64.iter().map(|x| x * factor + 1.0).collect();
        let (want, _) = reference::attention(&scaled, &k64, &v64, [n, m, d], false);
        let want: Vec<f64> = want.iter().map(|x| x * 2.0).collect();
        let got = crate::attention(q.clone() * factor + 1.0, k.clone(), v.clone()) * 2.0;
        // Scores of some hundreds are exact to some 1e-5, and so are the weights.
        assert_close_there(&got, &want, 2e-4, &format!("queries times {factor}"));
    }
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn attention_of_slices() {
    let device = device();
    let (here, there) = pair([3, 2, 16, 24], 1, DType::F32, &device);
    let parts = |x: &Tensor<4>| {
        let part = |first| x.clone().narrow(0, 1, 2).narrow(3, first, 5);
        [part(0), part(8), part(17)]
    };
    let [q64, k64, v64] = parts(&here).map(|x| values(&x));
    let (want, _) = reference::attention(&q64, &k64, &v64, [16, 16, 5], false);
    let [q, k, v] = parts(&there);
    let got = cube::attention([&q, &k, &v], false).expect("there");
    assert_close_there(&got, &want, 5e-6, "attention of slices");
    // Rows that are columns.
    let [q, k, v] = [q, k, v].map(|x| x.swap_dims(2, 3));
    let [q64, k64, v64] = parts(&here).map(|x| values(&x.swap_dims(2, 3)));
    let (want, _) = reference::attention(&q64, &k64, &v64, [5, 5, 16], false);
    let got = cube::attention([&q, &k, &v], false).expect("there");
    assert_close_there(&got, &want, 5e-6, "attention of columns");
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn attention_input_grads_match() {
    let device = device();
    for dtype in types(&device) {
        for sizes @ [b, h, n, m, d] in sizes(dtype) {
            if m == 1 {
                // Of one key, two of the gradients are zero.
                continue;
            }
            let what = format!("gradients of attention {sizes:?} {dtype:?}");
            let (here, [q, k, v]) = operands(sizes, dtype, &device);
            let (grad, grad_there) = pair([b, h, n, d], 4, dtype, &device);
            let [q64, k64, v64] = here.map(|x| values(&x));
            let (out, _) = reference::attention(&q64, &k64, &v64, [n, m, d], false);
            let out = TensorData::new(out, [b, h, n, d]).convert_dtype(dtype);
            let out = Tensor::from_data(out, (&device, dtype));
            let nothing = vec![0.0; b * h * n * m];
            let want =
                gradients::attention_grads([&q64, &k64, &v64], &values(&grad), &nothing, [n, m, d]);
            poison(&device, b * h * n.max(m) * d * dtype.size());
            let got = cube::attention_input_grads(&grad_there, [&q, &k, &v], &out);
            let (of_q, of_k, of_v) = got.expect("there");
            // The result, given in its type, is subtracted from something of its size.
            let allowed = 4.0 * tolerance(dtype);
            for ((got, want), of) in [of_q, of_k, of_v].iter().zip(&want).zip(["q", "k", "v"]) {
                assert_eq!(got.dtype(), dtype, "{what}");
                assert_close_there(got, want, allowed, &format!("{what} to {of}"));
            }
        }
    }
}

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn attention_query_grad_matches() {
    let device = device();
    for dtype in types(&device) {
        for sizes @ [b, h, n, m, d] in [[1, 2, 140, 77, 16], [2, 3, 20, 9, 16], [16, 1, 7, 12, 16]]
        {
            let (here, [q, k, v]) = operands(sizes, dtype, &device);
            let (grad, grad_there) = pair([b, h, n, d], 4, dtype, &device);
            let (probs, probs_there) = pair([b, h, n, m], 5, dtype, &device);
            let (shared, shared_there) = pair([b, 1, n, m], 6, dtype, &device);
            let [q64, k64, v64] = here.map(|x| values(&x));
            let shared = values(&shared.expand([b, h, n, m]));
            let (grad, probs) = (values(&grad), values(&probs));
            let zero = |like: &[f64]| vec![0.0; like.len()];
            for (given, grad, to_probs) in [
                ([true, true], &grad, &probs),
                ([true, false], &grad, &zero(&probs)),
                ([false, true], &zero(&grad), &probs),
                ([true, true], &grad, &shared),
            ] {
                if dtype != DType::F32 && given != [true, true] {
                    continue;
                }
                let what =
                    format!("gradient of attention to queries {sizes:?} {dtype:?} {given:?}");
                let there = if core::ptr::eq(to_probs, &shared) {
                    &shared_there
                } else {
                    &probs_there
                };
                let of = [&q64[..], &k64, &v64];
                let [want, ..] = gradients::attention_grads(of, grad, to_probs, [n, m, d]);
                poison(&device, b * h * n * d * dtype.size());
                let grad = given[0].then_some(&grad_there);
                let to_probs = given[1].then_some(there);
                let got = cube::attention_query_grad(grad, to_probs, [&q, &k, &v]);
                assert_close_there(&got.expect("there"), &want, tolerance(dtype), &what);
            }
        }
    }
}

/// The bytes of a matrix of scores, of which attention and its gradients may not take a third.
#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn attention_holds_no_scores() {
    let device = device();
    if !alone("tests::gpu::attention::attention_holds_no_scores") {
        return;
    }
    let n = 4096;
    let scores = (n * n * 4) as u64;
    let x = |seed| upload(&random([1, 1, n, 4], seed, DType::F32), &device);
    let held = || {
        device.sync().expect("a device that works");
        let usage = device.memory_pool_usage().expect("a device with a pool");
        usage.bytes_reserved
    };
    let (q, k, v) = (x(1), x(2), x(3));
    device.memory_cleanup();
    let before = held();
    assert!(
        before < scores / 3,
        "{before} bytes that could hide the scores"
    );
    let out = cube::attention([&q, &k, &v], false).expect("there");
    let of = cube::attention_input_grads(&out, [&q, &k, &v], &out).expect("there");
    // Only what is read has run.
    let read = [out, of.0, of.1, of.2].map(|x| values(&download(&x)));
    assert!(read.iter().flatten().all(|x| x.is_finite()));
    let more = held().saturating_sub(before);
    println!("attention over {n} keys and its gradients: {more} bytes more, scores {scores}");
    assert!(
        more < scores / 3,
        "{more} bytes for {scores} bytes of scores"
    );
}
