//! Shapes at the edge of what is allowed, where a fast path could read or write past its operands.

use super::{assert_close, random, reference, tolerance, values};
use crate::cpu::columns::Patches;
use crate::*;
use burn::tensor::{DType, Device, Tensor};

fn zeros<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::zeros(shape, &Device::flex())
}

/// A batch of single tokens that was one sample of many: what is between its tokens is anything, because
/// nothing ever steps there.
#[test]
fn linear_of_single_tokens() {
    let (batch, inputs, outputs) = (7, 24, 5);
    let weight = random([outputs, inputs], 1, DType::F32);
    let tokens = random([1, batch, inputs], 2, DType::F32);
    let x = tokens.swap_dims(0, 1);
    assert_eq!(x.dims(), [batch, 1, inputs]);
    let want = reference::linear(&values(&x), &values(&weight), None, inputs);
    let got = linear(x, weight.clone(), None);
    assert_close(&got, &want, tolerance(DType::F32), "linear");

    let grad = random([1, batch, outputs], 3, DType::F32).swap_dims(0, 1);
    let turned = values(&weight.clone().transpose());
    let want = reference::linear(&values(&grad), &turned, None, outputs);
    let got = linear_input_grad(grad, weight);
    assert_close(&got, &want, tolerance(DType::F32), "gradient");
}

#[test]
fn norms_of_nothing() {
    let (weight, bias) = (zeros([4]), zeros([4]));
    let norm = GroupNorm {
        groups: 2,
        weight: weight.clone(),
        bias: bias.clone(),
        eps: 1e-5,
        silu: true,
    };
    for shape in [[0, 4, 3, 3], [2, 4, 0, 3], [2, 4, 3, 0]] {
        let y = group_norm(zeros(shape), &norm);
        assert_eq!(y.dims(), shape);
        let x = zeros(shape);
        let y = group_norm_input_grad(x.clone(), x, &norm);
        assert_eq!(y.dims(), shape);
    }
    for shape in [[0, 3, 4], [2, 0, 4]] {
        let x = zeros(shape);
        let y = layer_norm(x.clone(), weight.clone(), bias.clone(), 1e-5);
        assert_eq!(y.dims(), shape);
        let y = layer_norm_input_grad(x.clone(), x, weight.clone(), 1e-5);
        assert_eq!(y.dims(), shape);
    }
    let y = layer_norm(zeros([2, 3, 0]), zeros([0]), zeros([0]), 1e-5);
    assert_eq!(y.dims(), [2, 3, 0]);
}

const ALIGN: RoiAlign = RoiAlign {
    size: 2,
    sampling: 1,
    finest: 2,
    canonical_scale: 224.0,
    canonical_level: 4.0,
};

#[test]
#[should_panic(expected = "roi_align: a region is a picture's number and four corners")]
fn regions_have_five_numbers() {
    roi_align(&[zeros([1, 3, 8, 8])], zeros([1, 10]), &ALIGN);
}

#[test]
#[should_panic(expected = "roi_align: a level without pixels")]
fn levels_have_pixels() {
    roi_align(&[zeros([1, 3, 0, 8])], zeros([1, 5]), &ALIGN);
}

#[test]
fn patches_are_refused_that_32_bits_cannot_address() {
    assert!(Patches::<f32>::offsets_fit(64, 1 << 29, 64));
    // A group of 16 columns meets 16 samples of one pixel.
    assert!(Patches::<f32>::offsets_fit(1, 1 << 26, 1));
    assert!(!Patches::<f32>::offsets_fit(1, 1 << 28, 1));
    assert!(!Patches::<f32>::offsets_fit(64, 0, 1 << 31));
    assert!(!Patches::<f32>::offsets_fit(64, usize::MAX, 1));
}
