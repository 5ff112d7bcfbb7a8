//! The detector in the binary against torchvision, on the toybox's pictures.

#![cfg(feature = "toybox")]

use crate::support::{device, fixture};
use burn::tensor::{Tensor, TensorData};
use prepose_models::rcnn::Instance;
use prepose_weights::{DetectorWeights, TOYBOX};
use safetensors::SafeTensors;

/// A detection of torchvision's.
struct Expected {
    label: usize,
    score: f32,
    corners: Vec<f32>,
    /// Whether each pixel is covered.
    mask: Vec<bool>,
}

/// The pictures with what torchvision finds in each.
fn cases() -> Vec<(Tensor<3>, Vec<Expected>)> {
    let bytes = std::fs::read(fixture("toybox-detector.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let data = |name: &str| file.tensor(name).unwrap().data().to_vec();
    let whole = |name: &str| -> Vec<usize> {
        let (values, _) = file.tensor(name).unwrap().data().as_chunks::<8>();
        values
            .iter()
            .map(|b| i64::from_le_bytes(*b) as usize)
            .collect()
    };
    let real = |name: &str| -> Vec<f32> {
        let (values, _) = file.tensor(name).unwrap().data().as_chunks::<4>();
        values.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    let [count, _, height, width] = file.tensor("pictures").unwrap().shape()[..] else {
        panic!("pictures");
    };
    let (pictures, masks) = (data("pictures"), data("masks"));
    let (labels, scores, boxes) = (whole("labels"), real("scores"), real("boxes"));
    let mut cases: Vec<_> = pictures
        .chunks(3 * height * width)
        .map(|bytes| {
            let values: Vec<f32> = bytes.iter().map(|b| f32::from(*b) / 255.0).collect();
            let data = TensorData::new(values, [3, height, width]);
            (Tensor::from_data(data, &device()), Vec::new())
        })
        .collect();
    assert_eq!(cases.len(), count);
    for (i, picture) in whole("picture").into_iter().enumerate() {
        let bits = &masks[i * height * width / 8..(i + 1) * height * width / 8];
        let bit = |j: usize| bits[j / 8] >> (7 - j % 8) & 1 == 1;
        cases[picture].1.push(Expected {
            label: labels[i],
            score: scores[i],
            corners: boxes[4 * i..4 * i + 4].to_vec(),
            mask: (0..height * width).map(bit).collect(),
        });
    }
    cases
}

/// The largest deviations of scores and corners, and the most pixels in which a mask differs.
fn compare(found: &[Instance], expected: &[Expected], size: [usize; 2]) -> (f32, f32, usize) {
    assert_eq!(found.len(), expected.len(), "number of objects");
    let mut left: Vec<&Instance> = found.iter().collect();
    let mut worst = (0.0f32, 0.0f32, 0);
    for expected in expected {
        let score = |own: &Instance| (own.score - expected.score).abs();
        let corner = |own: &Instance| {
            let corners = own.corners.iter().zip(&expected.corners);
            corners.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
        };
        let near = |own: &Instance| {
            own.label == expected.label && score(own) <= 1e-3 && corner(own) <= 0.1
        };
        let place = left.iter().position(|own| near(own));
        let what = || {
            format!(
                "{} with {} at {:?}",
                expected.label, expected.score, expected.corners
            )
        };
        let own = left.remove(place.unwrap_or_else(|| panic!("no partner of {}", what())));
        let mask = own.mask.as_ref().unwrap().paste(own.corners, size);
        let other = mask.iter().zip(&expected.mask);
        let differ = other
            .filter(|(own, other)| (**own >= 0.5) != **other)
            .count();
        worst = (
            worst.0.max(score(own)),
            worst.1.max(corner(own)),
            worst.2.max(differ),
        );
    }
    worst
}

#[test]
fn it_finds_what_torchvision_finds() {
    let weights = DetectorWeights::open(TOYBOX).unwrap();
    assert_eq!(weights.name(), TOYBOX);
    let network = weights.load(&device()).unwrap();
    let cases = cases();
    let pictures: Vec<_> = cases.iter().map(|(picture, _)| picture.clone()).collect();
    let together = network.detect(&pictures);
    let mut objects = 0;
    for (i, ((picture, expected), found)) in cases.iter().zip(&together).enumerate() {
        let [_, height, width] = picture.dims();
        let alone = network.detect(std::slice::from_ref(picture)).remove(0);
        for found in [found, &alone] {
            let (score, corner, pixels) = compare(found, expected, [height, width]);
            println!(
                "{i}: {} objects, off by {score:.1e}, {corner:.1e}, {pixels} pixels",
                found.len()
            );
            // Pixels whose probability is one half to rounding.
            assert!(pixels <= 4, "{i}: a mask differs in {pixels} pixels");
        }
        objects += expected.len();
    }
    assert!(objects > 5, "only {objects} objects to compare");
}
