use super::*;
use crate::{narrow_columns, split_heads};

#[test]
fn heads_are_parts_of_each_token() {
    let numbers = (0..2 * 3 * 12).map(|i| i as f32).collect::<Vec<_>>();
    let x = Tensor::<3>::from_data(TensorData::new(numbers, [2, 3, 12]), &Device::flex());
    // Two heads of two elements from the third on: elements 4 to 8 of each token.
    let heads = values(&split_heads(x.clone(), 2, 2..4));
    let want = (0..2).flat_map(|sample| {
        (0..2).flat_map(move |head| {
            (0..3).flat_map(move |token| {
                (0..2).map(move |i| ((sample * 3 + token) * 12 + 4 + head * 2 + i) as f64)
            })
        })
    });
    assert_eq!(heads, want.collect::<Vec<_>>());

    let columns = values(&narrow_columns(x, 4, 4));
    let want = (0..6).flat_map(|row| (4..8).map(move |i| (row * 12 + i) as f64));
    assert_eq!(columns, want.collect::<Vec<_>>());
}

#[test]
fn heads_carry_gradients() {
    let device = Device::flex().autodiff();
    let x = Tensor::<3>::from_data(random([2, 3, 12], 1, DType::F32).into_data(), &device);
    let x = x.require_grad();
    let weights = Tensor::<4>::from_data(random([2, 2, 3, 2], 2, DType::F32).into_data(), &device);
    let loss = (split_heads(x.clone(), 2, 2..4) * weights.clone()).sum();
    let grad = x.grad(&loss.backward()).expect("a gradient");
    let inside = weights.inner().swap_dims(1, 2).reshape([2, 3, 4]);
    let want = inside.pad((4, 4, 0, 0), 0.0);
    assert_close(&grad, &values(&want), 0.0, "gradient of heads");
}

#[test]
#[should_panic(expected = "split_heads: 4..7 of 12 / 2")]
fn heads_that_are_not_there_are_refused() {
    split_heads(random([1, 3, 12], 1, DType::F32), 2, 4..7);
}
