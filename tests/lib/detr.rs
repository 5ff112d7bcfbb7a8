//! Grounding DINO, RT-DETRv2 and OWL-ViT from pictures to labelled boxes, as transformers' processors and networks find them.

use std::fs;

use burn::tensor::{Device, Tensor};
use prepose::check::Detection;
use prepose::detect::{DetectError, Detector, OpenDetector, OpenError, Thresholds, registry};
use prepose::picture::{Picture, PictureTensor};
use safetensors::SafeTensors;
use serde_json::Value;

use crate::support::fixture;

/// Largest deviation of scores.
const SCORE: f64 = 1e-4;
/// Largest deviation of a corner, in pixels.
const CORNER: f64 = 0.02;

/// A file of tensors.
struct Tensors(Vec<u8>);

impl Tensors {
    fn read(name: &str) -> Self {
        Self(fs::read(fixture(&format!("{name}.safetensors"))).unwrap())
    }

    /// The f32 elements of a tensor.
    fn values(&self, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let (numbers, _) = file.tensor(name).unwrap().data().as_chunks::<4>();
        numbers
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect()
    }

    /// A picture's bytes, one plane after the other.
    fn picture(&self, name: &str) -> Picture {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap();
        let (height, width) = (tensor.shape()[1], tensor.shape()[2]);
        let plane = height * width;
        let rgb = (0..3 * plane).map(|i| tensor.data()[i % 3 * plane + i / 3]);
        Picture {
            width,
            height,
            rgb: rgb.collect(),
        }
    }
}

fn pictures() -> Vec<Picture> {
    let tensors = Tensors::read("eyes/grounding-dino/pictures");
    (0..3).map(|i| tensors.picture(&i.to_string())).collect()
}

fn tensors(pictures: &[Picture]) -> Vec<Tensor<3>> {
    let device = Device::flex();
    pictures
        .iter()
        .map(|picture| picture.to_tensor(&device))
        .collect()
}

fn case(name: &str) -> Value {
    let text = fs::read(fixture(name).join("case.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn load(folder: &str, thresholds: Thresholds) -> Box<dyn Detector + Send> {
    let path = fixture(folder);
    let opened = OpenDetector::open(path.to_str().unwrap()).unwrap();
    opened.load(&Device::flex(), thresholds).unwrap()
}

/// What run `i` of a case should find, the best first.
fn wanted(expected: &Tensors, i: usize, labels: Vec<String>) -> Vec<(String, f64, Vec<f64>)> {
    let values = |name: &str| -> Vec<f64> {
        let values = expected.values(&format!("run{i}/{name}"));
        values.into_iter().map(f64::from).collect()
    };
    let (scores, boxes) = (values("scores"), values("boxes"));
    let all = labels.into_iter().zip(scores).zip(boxes.chunks(4));
    let mut all: Vec<_> = all
        .map(|((label, score), at)| (label, score, at.to_vec()))
        .collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

fn compare(found: &[Detection], wanted: &[(String, f64, Vec<f64>)], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    assert!(!wanted.is_empty(), "{what}: nothing to compare");
    // Two as good as equal scores may stand in any order.
    let mut left: Vec<&Detection> = found.iter().collect();
    for (label, score, corners) in wanted {
        let near = |found: &&Detection| {
            let b = found.bbox;
            let own = [b.x0, b.y0, b.x1, b.y1];
            let off = own.iter().zip(corners).map(|(a, b)| (a - b).abs());
            found.label == *label
                && (found.score - score).abs() <= SCORE
                && off.fold(0.0, f64::max) <= CORNER
        };
        let i = left.iter().position(near);
        let i = i.unwrap_or_else(|| panic!("{what}: no {label} {score} {corners:?} in {left:#?}"));
        left.swap_remove(i);
    }
    assert!(found.is_sorted_by(|a, b| a.score >= b.score), "{what}");
}

/// A label as SpatialBench-UC's wrapper cleans it.
fn cleaned(label: &Value) -> String {
    let label = label.as_str().unwrap().trim();
    let label = label.strip_prefix("a ").unwrap_or(label);
    label.strip_suffix('.').unwrap_or(label).to_string()
}

#[test]
fn grounding_dino_finds_what_transformers_finds() {
    let expected = Tensors::read("eyes/grounding-dino/expected");
    let (case, pictures) = (case("eyes/grounding-dino"), pictures());
    let question = vec!["Cat".to_string(), "fire hydrant".to_string()];
    for (i, run) in case["runs"].as_array().unwrap().iter().enumerate() {
        let detector = load(
            "eyes/grounding-dino/model",
            Thresholds {
                score: run["threshold"].as_f64(),
                text: run["text_threshold"].as_f64(),
                weak: false,
            },
        );
        assert_eq!((detector.name(), detector.vocabulary()), ("model", None));
        let labels = run["labels"].as_array().unwrap().iter().map(cleaned);
        let wanted = wanted(&expected, i, labels.collect());
        let one = tensors(&pictures[i..=i]);
        let found = detector
            .detect(&one, std::slice::from_ref(&question))
            .unwrap();
        compare(&found[0], &wanted, &format!("picture {i}"));
        // Among others, of other sizes and of the same, with another question and with none.
        let other = vec!["teddy bear".to_string()];
        let some = tensors(&[&pictures[..], &pictures[i..=i]].concat());
        let mut questions = vec![question.clone(); 4];
        questions[(i + 1) % 3] = other;
        questions[(i + 2) % 3] = Vec::new();
        let found = detector.detect(&some, &questions).unwrap();
        compare(&found[i], &wanted, &format!("picture {i} among others"));
        compare(&found[3], &wanted, &format!("picture {i} again"));
        assert!(found[(i + 2) % 3].is_empty());
    }
}

#[test]
fn rt_detr_finds_what_transformers_finds() {
    for variant in ["basic", "bottleneck"] {
        let name = format!("eyes/rt-detr/{variant}");
        let expected = Tensors::read(&format!("{name}/expected"));
        let pictures = pictures();
        for (i, run) in case(&name)["runs"].as_array().unwrap().iter().enumerate() {
            let threshold = Thresholds {
                score: run["threshold"].as_f64(),
                ..Thresholds::default()
            };
            let detector = load(&name, threshold);
            let labels = ["person", "couch", "tv", "cat", "fire hydrant"];
            assert_eq!(detector.vocabulary().unwrap(), labels);
            let label = |label: &Value| match label.as_str().unwrap() {
                "sofa" => "couch".to_string(),
                "tvmonitor" => "tv".to_string(),
                label => label.to_lowercase(),
            };
            let found = run["labels"].as_array().unwrap().iter().map(label);
            let wanted = wanted(&expected, i, found.collect());
            let found = detector.detect(&tensors(&pictures), &[]).unwrap();
            compare(
                &found[i],
                &wanted,
                &format!("{variant}, picture {i} of three"),
            );
            let found = detector.detect(&tensors(&pictures[i..=i]), &[]).unwrap();
            compare(&found[0], &wanted, &format!("{variant}, picture {i}"));
        }
    }
}

#[test]
fn owl_vit_finds_what_transformers_finds() {
    let expected = Tensors::read("eyes/owl-vit/found");
    let (case, pictures) = (case("eyes/owl-vit"), pictures());
    let question: Vec<String> = serde_json::from_value(case["phrases"].clone()).unwrap();
    for (i, run) in case["runs"].as_array().unwrap().iter().enumerate() {
        let threshold = Thresholds {
            score: run["threshold"].as_f64(),
            ..Thresholds::default()
        };
        let detector = load("eyes/owl-vit/model", threshold);
        assert_eq!((detector.name(), detector.vocabulary()), ("model", None));
        let labels: Vec<String> = serde_json::from_value(run["labels"].clone()).unwrap();
        let wanted = wanted(&expected, i, labels);
        let one = tensors(&pictures[i..=i]);
        let found = detector
            .detect(&one, std::slice::from_ref(&question))
            .unwrap();
        compare(&found[0], &wanted, &format!("picture {i}"));
        // Among others, and with another question and with none.
        let mut questions = vec![question.clone(); 3];
        questions[(i + 1) % 3] = vec!["fire".to_string()];
        questions[(i + 2) % 3] = Vec::new();
        let found = detector.detect(&tensors(&pictures), &questions).unwrap();
        compare(&found[i], &wanted, &format!("picture {i} among others"));
        assert!(found[(i + 2) % 3].is_empty());
        // However it is written, and asked twice.
        let shouted = vec![" CAT".to_string(), "Red  bench".into(), "cat".into()];
        let found = detector.detect(&one, &[shouted]).unwrap();
        compare(&found[0], &wanted, &format!("picture {i} in other letters"));
    }
}

#[test]
fn owl_vit_refuses_what_it_cannot_read() {
    let detector = load("eyes/owl-vit/model", Thresholds::default());
    let pictures = tensors(&pictures()[..1]);
    let look = |phrase: &str| {
        let question = [vec!["cat".to_string(), phrase.to_string()]];
        detector.detect(&pictures, &question).unwrap_err()
    };
    assert_eq!(look(" "), DetectError::EmptyPhrase(" ".into()));
    let long = look(&"cat ".repeat(300)).to_string();
    assert!(
        long.contains("tokens, but the detector reads at most 32"),
        "{long}"
    );
    let question = vec!["cat".to_string()];
    for [height, width] in [[1, 1], [20, 20_000]] {
        let picture = Tensor::<3>::ones([3, height, width], &Device::flex());
        let found = detector.detect(&[picture], std::slice::from_ref(&question));
        assert_eq!(found.unwrap().len(), 1);
    }
    // Many small pictures at once.
    let many = vec![Tensor::<3>::ones([3, 8, 8], &Device::flex()); 500];
    let found = detector.detect(&many, &vec![question; 500]).unwrap();
    assert_eq!(found.len(), 500);
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn what_cannot_be_looked_for_is_said() {
    let detector = load("eyes/grounding-dino/model", Thresholds::default());
    let pictures = tensors(&pictures()[..2]);
    let look = |phrase: &str| {
        let questions = [vec!["cat".to_string()], vec![phrase.to_string()]];
        detector.detect(&pictures, &questions).unwrap_err()
    };
    assert_eq!(look("  ."), DetectError::EmptyPhrase("  .".into()));
    let long = look(&"cat ".repeat(300));
    assert_eq!(
        long,
        DetectError::LongText {
            tokens: 304,
            most: 48
        }
    );
    assert!(long.to_string().contains("304 tokens"), "{long}");
    let question = [vec!["cat".to_string()]];
    let nan = pictures[0].clone() / 0.0;
    let error = detector.detect(&[nan], &question).unwrap_err();
    assert_eq!(error, DetectError::Values { index: 0 });
    let grey = pictures[0].clone().narrow(0, 0, 1);
    assert!(matches!(
        detector.detect(&[grey], &question),
        Err(DetectError::Picture { .. })
    ));
    // The smallest picture, and one that is far wider than high.
    for [height, width] in [[1, 1], [2, 900]] {
        let picture = Tensor::<3>::ones([3, height, width], &Device::flex());
        for detector in [
            &detector,
            &load("eyes/rt-detr/basic", Thresholds::default()),
        ] {
            assert_eq!(
                detector
                    .detect(std::slice::from_ref(&picture), &question)
                    .unwrap()
                    .len(),
                1
            );
        }
    }
    assert!(detector.detect(&[], &[]).unwrap().is_empty());
}

#[test]
fn detectors_are_opened_by_name_and_folder() {
    assert!(registry::names().any(|name| name == "grounding-dino-base"));
    let open = |given: &str| OpenDetector::open(given);
    assert!(matches!(open("toybox"), Ok(OpenDetector::Rcnn(_))));
    let rcnn = fixture("rcnn/faster-v1");
    assert!(matches!(
        open(rcnn.to_str().unwrap()),
        Ok(OpenDetector::Rcnn(_))
    ));
    assert!(matches!(
        open("/nowhere/at/all"),
        Err(OpenError::Weights(_))
    ));
    // Whoever runs the tests may have downloaded it.
    if let Err(error) = open("rtdetr-v2-r101") {
        let text = error.to_string();
        assert!(text.contains("PekingU/rtdetr_v2_r101vd"), "{text}");
    }
}

#[test]
fn pictures_are_resized_as_pillow_does() {
    // What the processor makes of them, up to the rounding of the last step.
    let expected = Tensors::read("eyes/rt-detr/basic/expected");
    for (i, picture) in pictures().iter().enumerate() {
        let small = prepose::check::perturb::bilinear(picture, 64, 64);
        let rows = expected.values(&format!("run{i}/pixels"));
        let step = 64 / (rows.len() / (3 * 64));
        for (at, value) in rows.iter().enumerate() {
            let (channel, rest) = (at * 3 / rows.len(), at % (rows.len() / 3));
            let (row, column) = (rest / 64 * step, rest % 64);
            let byte = small.rgb[(row * 64 + column) * 3 + channel];
            assert_eq!(
                (value * 255.0).round() as u8,
                byte,
                "picture {i}, {channel} {row} {column}"
            );
        }
    }
}
