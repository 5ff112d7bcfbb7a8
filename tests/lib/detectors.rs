//! What detectors promise, on the fixtures' random networks.

use std::collections::BTreeSet;

use burn::tensor::{Device, Distribution, Tensor};
use prepose::check::detect::{DetectError, Detector, RcnnDetector};
use prepose_weights::DetectorWeights;

use crate::support::fixture;

fn detector(case: &str, threshold: f64) -> RcnnDetector {
    let path = fixture("rcnn").join(case);
    let weights = DetectorWeights::open(path).unwrap();
    RcnnDetector::load(&weights, &Device::flex(), threshold).unwrap()
}

fn picture(channels: usize, height: usize, width: usize) -> Tensor<3> {
    let uniform = Distribution::Uniform(0.0, 1.0);
    Tensor::random([channels, height, width], uniform, &Device::flex())
}

#[test]
fn detections_are_named_sorted_and_inside_the_picture() {
    let pictures = [picture(3, 50, 90), picture(3, 120, 70)];
    let mut seen = BTreeSet::new();
    for case in ["faster-v1", "faster-v2", "mask-v1", "mask-v2"] {
        let detector = detector(case, 0.05);
        assert_eq!(detector.name(), case);
        // Neither the background nor a class without a name.
        assert_eq!(
            detector.vocabulary().unwrap(),
            ["ball", "box", "cone", "ring"]
        );
        let found = detector.detect(&pictures, &[]).unwrap();
        assert_eq!(found.len(), pictures.len());
        for (found, picture) in found.iter().zip(&pictures) {
            let [_, height, width] = picture.dims();
            assert!(!found.is_empty() && found.is_sorted_by(|a, b| a.score >= b.score));
            for object in found {
                seen.insert(object.label.clone());
                assert!(detector.vocabulary().unwrap().contains(&object.label));
                let b = object.bbox;
                assert!(0.0 <= b.x0 && b.x0 < b.x1 && b.x1 <= width as f64 + 1e-3);
                assert!(0.0 <= b.y0 && b.y0 < b.y1 && b.y1 <= height as f64 + 1e-3);
                assert_eq!(object.mask.is_some(), case.starts_with("mask"));
                if let Some(mask) = &object.mask {
                    assert_eq!((mask.width(), mask.height()), (width, height));
                }
            }
        }
    }
    assert!(seen.len() > 1, "only {seen:?}");
}

/// As torchvision pads a batch to its largest picture, the others would be seen otherwise than alone.
#[test]
fn what_is_seen_does_not_depend_on_the_other_pictures() {
    // Their padded sizes differ, and are in another order.
    let pictures = [picture(3, 120, 70), picture(3, 50, 90), picture(3, 64, 64)];
    for case in ["faster-v1", "mask-v2"] {
        let detector = detector(case, 0.05);
        let alone = |one| detector.detect(std::slice::from_ref(one), &[]).unwrap();
        let alone: Vec<_> = pictures.iter().flat_map(alone).collect();
        assert!(alone.iter().all(|found| !found.is_empty()));
        assert_eq!(detector.detect(&pictures, &[]).unwrap(), alone, "{case}");
        let mut boxes = alone;
        boxes.iter_mut().flatten().for_each(|one| one.mask = None);
        let bare = detector.detect_boxes(&pictures, &[]).unwrap();
        assert_eq!(bare, boxes, "{case}");
    }
}

#[test]
fn the_threshold_leaves_out_what_is_below() {
    let pictures = [picture(3, 64, 64)];
    let all = detector("faster-v1", 0.05).detect(&pictures, &[]).unwrap();
    let few = detector("faster-v1", 0.8).detect(&pictures, &[]).unwrap();
    let expected: Vec<_> = all[0].iter().filter(|object| object.score >= 0.8).collect();
    assert_eq!(few[0].iter().collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_no_picture_is_refused() {
    let detector = detector("faster-v1", 0.5);
    let error = detector.detect(&[picture(3, 9, 9), picture(1, 8, 9)], &[]);
    assert!(matches!(
        error,
        Err(DetectError::Picture {
            index: 1,
            channels: 1,
            ..
        })
    ));
    assert_eq!(detector.detect(&[], &[]).unwrap().len(), 0);
}
