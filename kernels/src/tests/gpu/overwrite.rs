//! A captured graph reads what is written into its buffers.

use std::cell::RefCell;

use burn::tensor::capture;

use super::*;

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn a_replay_sees_what_was_overwritten() {
    let device = device();
    for dtype in types(&device) {
        let shape = [2, 8, 6, 5];
        let (first, there) = pair(shape, 1, dtype, &device);
        let norm = crate::GroupNorm {
            groups: 2,
            weight: upload(&random([8], 2, DType::F32), &device),
            bias: upload(&random([8], 3, DType::F32), &device),
            eps: 1e-5,
            silu: true,
        };
        // Held by the closure and here, as the inputs of a network are.
        let input = RefCell::new(there);
        let call = || {
            let x = input.borrow().clone();
            crate::group_norm(x, &norm)
        };
        let mut graph = capture(&device, call);
        println!("{dtype:?}: a graph {}", graph.is_hardware());
        let plain = |x: &Tensor<4>| {
            let x = upload(x, &device);
            download(&crate::group_norm(x, &norm)).into_data()
        };
        let mut last = first;
        for seed in 4..8 {
            let (here, there) = pair(shape, seed, dtype, &device);
            // Another holder, as an aliased handle would be.
            let held = input.borrow().clone();
            crate::overwrite(&mut input.borrow_mut(), there);
            // SAFETY: the input, weight and bias outlive the graph, on this thread.
            let output = download(unsafe { graph.replay() }).into_data();
            output.assert_eq(&plain(&here), true);
            if graph.is_hardware() {
                // The buffer is the same for whoever holds it.
                download(&held).into_data().assert_eq(&here.to_data(), true);
            }
            assert_ne!(plain(&last), output);
            last = here;
        }
    }
}
