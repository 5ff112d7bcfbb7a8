//! The detectors against torchvision, on fixtures with random weights: their parts, and from pictures to
//! objects, for one picture and for a batch of different sizes. `--no-capture` prints the deviations.

mod support;

use burn::prelude::*;
use burn::tensor::{DType, FloatDType};
use prepose_models::params::Params;
use prepose_models::rcnn::{Instance, Proposals, Rcnn};
use support::{Expected, FileSource, config, read};

const VARIANTS: [&str; 4] = ["faster-v1", "faster-v2", "mask-v1", "mask-v2"];

/// The pictures whose masks are compared.
const MASKED: [&str; 2] = ["one/0", "batch/1"];

/// Largest deviation of scores, and of the probabilities in masks.
const SCORE: f32 = 1e-3;
/// Largest deviation of a corner in pixels.
const CORNER: f32 = 0.1;

fn load(variant: &str) -> Rcnn {
    let config = config(&format!("rcnn/{variant}/config.json"));
    let mut source = FileSource::open(&format!("rcnn/{variant}/model.safetensors"));
    let params = Params::new(&mut source, &Device::flex(), FloatDType::F32);
    let network = Rcnn::load(&config, params).unwrap();
    source.finish();
    network
}

fn pictures() -> Vec<Tensor<3>> {
    let all = read("rcnn/pictures.safetensors");
    let picture = |i: usize| {
        let data = all[&i.to_string()].clone();
        Tensor::from_data(data, (&Device::flex(), DType::F32))
    };
    (0..all.len()).map(picture).collect()
}

fn expected(variant: &str) -> Expected {
    Expected::open(&format!("rcnn/{variant}"), &Device::flex())
}

#[test]
fn parts_match() {
    for variant in VARIANTS {
        let (network, expected) = (load(variant), expected(variant));
        println!("{variant}");
        let batch = network.batch(&pictures()[..1]);
        // The four prepare pictures alike, so only the first has some rows of what comes of it.
        if variant == VARIANTS[0] {
            let height = batch.pictures.dims()[2];
            let rows = (0..height)
                .step_by(16)
                .map(|row| batch.pictures.clone().narrow(2, row, 1));
            expected.compare("one/batch_rows", Tensor::cat(rows.collect(), 2), 2e-6);
        }
        let levels = network.features(&batch);
        for (i, level) in levels.iter().enumerate() {
            expected.compare(&format!("one/level{i}"), level.clone(), 1e-5);
        }
        let proposals = network.propose(&levels, &batch);
        same_boxes(&proposals, &expected.values("one/proposals"));
        let proposals = Proposals {
            boxes: expected.tensor::<2>("one/proposals").unsqueeze_dim(0),
            scores: proposals.scores,
        };
        let (probabilities, changes) = network.classify(&levels, &proposals);
        expected.compare("one/probabilities", probabilities.narrow(0, 0, 40), 1e-4);
        expected.compare("one/changes", changes.narrow(0, 0, 40), 1e-4);
    }
}

/// Checks the proposals of one picture in any order: their scores may be as good as equal.
fn same_boxes(proposals: &Proposals, expected: &[f32]) {
    let own: Vec<f32> = proposals.boxes.to_data().iter().collect();
    assert_eq!(own.len(), expected.len(), "number of proposals");
    let mut left: Vec<&[f32]> = own.chunks(4).collect();
    let mut worst = 0.0f32;
    for expected in expected.chunks(4) {
        let off = |own: &[f32]| {
            let each = own.iter().zip(expected).map(|(a, b)| (a - b).abs());
            each.fold(0.0, f32::max)
        };
        let (i, off) = left
            .iter()
            .map(|own| off(own))
            .enumerate()
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap();
        left.swap_remove(i);
        worst = worst.max(off);
    }
    println!("proposals: {worst:.1e} pixels");
    assert!(worst < 2e-2, "proposals: {worst} pixels");
}

/// The largest deviations of scores and corners.
fn compare(expected: &Expected, prefix: &str, found: &[Instance], size: [usize; 2]) -> [f32; 3] {
    let values = |name: &str| expected.values(&format!("{prefix}/{name}"));
    let (scores, boxes) = (values("scores"), values("boxes"));
    let labels: Vec<usize> = values("labels").iter().map(|x| *x as usize).collect();
    let own: Vec<usize> = found.iter().map(|object| object.label).collect();
    assert_eq!(own, labels, "{prefix}: labels, best score first");
    assert!(!labels.is_empty(), "{prefix}: nothing to compare");
    let mut worst = [0.0f32; 3];
    for (i, object) in found.iter().enumerate() {
        worst[0] = worst[0].max((object.score - scores[i]).abs());
        for (own, other) in object.corners.iter().zip(&boxes[4 * i..]) {
            worst[1] = worst[1].max((own - other).abs());
        }
    }
    // The fixture has the masks of one picture alone and of one in the middle of a batch.
    if let Some(object) = found.first()
        && object.mask.is_some()
        && MASKED.contains(&prefix)
    {
        let all = values("masks");
        let masks = found.iter().zip(all.chunks_exact(size[0] * size[1]));
        for (object, other) in masks {
            let own = object.mask.as_ref().unwrap().paste(object.corners, size);
            for (own, other) in own.iter().zip(other) {
                worst[2] = worst[2].max((own - other).abs());
            }
            assert!(other.iter().any(|x| *x > 0.1), "{prefix}: an empty mask");
        }
    }
    worst
}

#[test]
fn objects_match() {
    for variant in VARIANTS {
        let (network, expected) = (load(variant), expected(variant));
        let pictures = pictures();
        for (run, some) in [("one", &pictures[..1]), ("batch", &pictures[..])] {
            let found = network.detect(some);
            assert_eq!(found.len(), some.len());
            let mut bare = found.clone();
            bare.iter_mut()
                .flatten()
                .for_each(|object| object.mask = None);
            assert_eq!(network.detect_boxes(some), bare, "without masks");
            for (i, (found, picture)) in found.iter().zip(some).enumerate() {
                let [_, height, width] = picture.dims();
                let prefix = format!("{run}/{i}");
                let worst = compare(&expected, &prefix, found, [height, width]);
                println!("{variant} {prefix}: scores, corners, masks off by up to {worst:?}");
                assert!(worst[0] <= SCORE && worst[1] <= CORNER && worst[2] <= SCORE);
                let masks = found.iter().filter(|object| object.mask.is_some());
                assert!([0, found.len()].contains(&masks.count()), "{prefix}: masks");
                assert_eq!(variant.starts_with("mask"), found[0].mask.is_some());
            }
        }
    }
}

#[test]
fn an_empty_batch_and_a_blank_picture_have_an_answer() {
    let network = load("mask-v2");
    assert!(network.detect(&[]).is_empty());
    let blank = Tensor::<3>::zeros([3, 1, 40], &Device::flex());
    assert_eq!(network.detect(&[blank]).len(), 1);
}
