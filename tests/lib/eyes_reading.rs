//! How often looking at pictures waits for the device.

use std::fs;

use burn::tensor::{Device, FloatDType};
use prepose::detect::seeing::SeeingDetector;
use prepose::detect::{Detector, OpenDetector, Thresholds};
use prepose::eyes::reading::times;
use prepose::eyes::{DepthEstimator, MaskChoice, Segmenter};
use prepose::picture::{Picture, PictureTensor};
use prepose_weights::EyeWeights;

use crate::support::{fixture, root};

/// Stripes of a size and colour of its own.
fn picture(number: usize) -> Picture {
    let (width, height) = ([53, 40, 30][number % 3], [37, 40, 61][number % 3]);
    let value = |i: usize| ((i / 3 * (number + 3) / 5 + i % 3 * 70) % 256) as u8;
    Picture {
        width,
        height,
        rgb: (0..width * height * 3).map(value).collect(),
    }
}

/// Grounding DINO, SAM and Depth Anything.
fn grounded() -> SeeingDetector {
    let device = Device::flex();
    let path = fixture("eyes/grounding-dino/model");
    let opened = OpenDetector::open(path.to_str().unwrap()).unwrap();
    let thresholds = Thresholds {
        score: Some(0.0),
        ..Thresholds::default()
    };
    let detector = opened.load(&device, thresholds).unwrap();
    let open = |name: &str| EyeWeights::open(fixture(&format!("eyes/{name}"))).unwrap();
    let f32 = FloatDType::F32;
    let segmenter = Segmenter::load(&open("sam"), &device, f32, MaskChoice::Best).unwrap();
    let depth = DepthEstimator::load(&open("depth"), &device, f32).unwrap();
    SeeingDetector::new(detector, Some(segmenter), Some(depth))
}

#[test]
fn a_batch_waits_for_the_device_once_a_network() {
    let detector = grounded();
    let device = Device::flex();
    // Pictures of several sizes that are asked different things, with more boxes than go into one pass of the decoder.
    let pictures: Vec<Picture> = (0..5).map(picture).collect();
    let refs: Vec<&Picture> = pictures.iter().collect();
    let words = ["dog", "cat", "red cube"];
    let queries: Vec<Vec<String>> = (0..5).map(|i| vec![words[i % 3].to_string()]).collect();
    let start = times();
    let found = detector
        .detect_on_host(&refs, &queries, true, &device)
        .unwrap();
    assert!(found.iter().any(|found| found.len() > 8));
    assert!(found.iter().flatten().all(|one| one.mask.is_some()));
    assert_eq!(times() - start, 2, "the boxes and the masks");
    let depths = detector.depths_on_host(&refs, &device).unwrap().unwrap();
    assert_eq!(depths.len(), 5);
    assert_eq!(times() - start, 3, "and the depths");

    // Pictures on the device are read as well, those of a batch together; what is seen in them is the same.
    let tensors: Vec<_> = pictures.iter().map(|one| one.to_tensor(&device)).collect();
    let start = times();
    assert_eq!(detector.detect(&tensors, &queries).unwrap(), found);
    assert_eq!(times() - start, 4);
    assert_eq!(detector.depths(&tensors).unwrap().unwrap(), depths);
    assert_eq!(times() - start, 6);
}

/// The count above is of what goes through `Reading`: nothing else in these rooms reads.
#[test]
fn nothing_reads_past_the_one_place() {
    let waits = [".into_data()", ".to_data()", ".into_scalar()", ".execute()"];
    for room in ["src/eyes", "src/detect"] {
        for entry in fs::read_dir(root().join(room)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() || path.ends_with("reading.rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for wait in waits {
                assert!(!text.contains(wait), "{wait} in {}", path.display());
            }
        }
    }
}
