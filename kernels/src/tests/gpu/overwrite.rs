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

#[test]
#[ignore = "needs PREPOSE_TEST_DEVICE: wgpu, vulkan, metal or cuda"]
fn the_axes_may_be_in_any_order() {
    let device = device();
    for dtype in types(&device) {
        for order in [[0, 2, 1, 3], [3, 1, 0, 2], [0, 2, 3, 1]] {
            // As keys and values are: heads before tokens, of what lies in memory the other way round.
            let view = |seed| {
                let (here, there) = pair([2, 5, 3, 4], seed, dtype, &device);
                (
                    here.permute(order.map(|axis| axis as isize)),
                    there.permute(order.map(|axis| axis as isize)) * 1.0,
                )
            };
            let ((_, mut target), (here, there)) = (view(1), view(2));
            let held = target.clone();
            crate::overwrite(&mut target, there);
            for written in [target, held] {
                download(&written)
                    .into_data()
                    .assert_eq(&here.to_data(), true);
            }
        }
    }
}
