//! From bytes to depths, masks and cosines, against the pipelines of transformers.

use std::fs;

use burn::tensor::{Device, FloatDType};
use prepose::check::{BoundingBox, Mask};
use prepose::detect::seeing::SeeingDetector;
use prepose::detect::{Detector, RcnnDetector};
use prepose::eyes::{ClipScorer, DepthEstimator, EyeError, MaskChoice, RewardScorer, Segmenter};
use prepose::picture::{Picture, PictureTensor};
use prepose_models::pixels::Rgb;
use prepose_weights::{DetectorWeights, EyeKind, EyeWeights};
use safetensors::SafeTensors;
use serde_json::Value;

use crate::support::fixture;

const F32: FloatDType = FloatDType::F32;

/// The picture that `scripts/reference/cases/eyes_towers.py` makes by the same formula.
fn picture([width, height]: [usize; 2]) -> Picture {
    let mut rgb = Vec::new();
    for y in 0..height {
        for x in 0..width {
            for c in 0..3 {
                let value = x * x / 3 + y * 11 + c * 70 + (x / 7 + y / 5) % 2 * 90;
                rgb.push((value % 256) as u8);
            }
        }
    }
    Picture { width, height, rgb }
}

fn pictures() -> Vec<Picture> {
    [[53, 37], [30, 91], [17, 5]].map(picture).into()
}

fn expected(case: &str, name: &str) -> Vec<f32> {
    let bytes = fs::read(fixture(&format!("eyes/{case}/expected.safetensors"))).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let (numbers, _) = file.tensor(name).unwrap().data().as_chunks::<4>();
    numbers
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect()
}

fn case(name: &str) -> Value {
    let text = fs::read_to_string(fixture(&format!("eyes/{name}/case.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn depths_of_a_picture_alone_and_among_others() {
    let weights = EyeWeights::open(fixture("eyes/depth")).unwrap();
    let depth = DepthEstimator::load(&weights, &Device::flex(), F32).unwrap();
    assert_eq!(depth.name(), "depth");
    let pictures = pictures();
    let alone = depth.estimate(&[&pictures[0]]).unwrap().remove(0);
    assert_eq!(alone.size(), (53, 37));
    let expected = expected("depth", "picture/1");
    let most = expected.iter().fold(0f32, |most, x| most.max(*x));
    assert!(most > 0.0);
    for (own, other) in alone.rows().flatten().zip(&expected) {
        // Interpolation goes a little below 0 there.
        assert!(
            (*own as f32 - other.max(0.0)).abs() <= 3e-5 * most,
            "{own} {other}"
        );
    }
    let all: Vec<&Picture> = [&pictures[1], &pictures[0], &pictures[0], &pictures[2]].into();
    let together = depth.estimate(&all).unwrap();
    assert_eq!(together.len(), 4);
    for i in [1, 2] {
        for (a, b) in together[i].rows().flatten().zip(alone.rows().flatten()) {
            assert!((a - b).abs() <= 1e-5 * f64::from(most));
        }
    }
    assert!(depth.estimate(&[]).unwrap().is_empty());
}

fn boxes() -> Vec<BoundingBox> {
    let own: Vec<[f64; 4]> = serde_json::from_value(case("sam")["own"].clone()).unwrap();
    own.into_iter().map(BoundingBox::from).collect()
}

fn segmenter(choice: MaskChoice) -> Segmenter {
    let weights = EyeWeights::open(fixture("eyes/sam")).unwrap();
    Segmenter::load(&weights, &Device::flex(), F32, choice).unwrap()
}

#[test]
fn masks_of_boxes() {
    let picture = picture([53, 37]);
    let plane = 53 * 37;
    let logits = expected("sam", "picture/1/masks");
    let quality = expected("sam", "picture/1/quality");
    let masks_of = |choice| segmenter(choice).masks(&picture, &boxes()).unwrap();
    // Where a logit is as good as 0, rounding decides.
    let same = |mask: &Mask, logits: &dyn Fn(usize) -> f32| {
        let mut covered = 0;
        for (i, own) in mask.pixels().into_iter().enumerate() {
            let logit = logits(i);
            assert!(
                own == (logit > 0.0) || logit.abs() < 1e-4,
                "pixel {i}: {logit}"
            );
            covered += usize::from(own);
        }
        assert!(covered > 0 && covered < plane, "{covered} pixels");
    };
    let (best, union) = (masks_of(MaskChoice::Best), masks_of(MaskChoice::Union));
    assert_eq!((best.len(), union.len()), (2, 2));
    for prompt in 0..2 {
        let of = |mask: usize, i: usize| logits[(prompt * 3 + mask) * plane + i];
        let choices = &quality[prompt * 3..][..3];
        let chosen = (0..3)
            .max_by(|a, b| choices[*a].total_cmp(&choices[*b]))
            .unwrap();
        same(&best[prompt], &|i| of(chosen, i));
        same(&union[prompt], &|i| {
            (0..3).map(|mask| of(mask, i)).fold(f32::MIN, f32::max)
        });
    }
    assert_eq!(masks_of(MaskChoice::Only).len(), 2);
    let many = [boxes(), boxes(), boxes(), boxes(), boxes()].concat();
    let masks = segmenter(MaskChoice::Best).masks(&picture, &many).unwrap();
    assert_eq!(masks.len(), 10);
    assert_eq!(masks[9].pixels(), best[1].pixels());
    assert!(
        segmenter(MaskChoice::Best)
            .masks(&picture, &[])
            .unwrap()
            .is_empty()
    );
}

#[test]
fn boxes_that_are_none_are_refused() {
    let segmenter = segmenter(MaskChoice::Best);
    for corners in [
        [5.0, 5.0, 1.0, 9.0],
        [0.0, 0.0, f64::NAN, 9.0],
        [0.0, 0.0, f64::INFINITY, 9.0],
    ] {
        let boxes = [BoundingBox::from(corners)];
        let error = segmenter.masks(&picture([20, 20]), &boxes).unwrap_err();
        assert!(matches!(error, EyeError::Box { .. }), "{error}");
    }
    // Beyond the picture, and without extent: prompts all the same.
    let odd = [[-50.0, -5.0, 300.0, 90.0], [4.0, 4.0, 4.0, 4.0]].map(BoundingBox::from);
    assert_eq!(segmenter.masks(&picture([20, 20]), &odd).unwrap().len(), 2);
}

#[test]
fn a_detectors_boxes_are_filled() {
    let weights = DetectorWeights::open("toybox").unwrap();
    let device = Device::flex();
    let detector = RcnnDetector::load(&weights, &device, 0.05).unwrap();
    // A red square on grey, which the toybox's detector takes for something.
    let mut picture = Picture {
        width: 64,
        height: 64,
        rgb: vec![128; 64 * 64 * 3],
    };
    for (i, pixel) in picture.rgb.chunks_exact_mut(3).enumerate() {
        if (16..48).contains(&(i % 64)) && (16..48).contains(&(i / 64)) {
            pixel.copy_from_slice(&[220, 30, 30]);
        }
    }
    let pictures = [picture.to_tensor(&device), picture.to_tensor(&device)];
    let bare = detector.detect_boxes(&pictures, &[]).unwrap();
    assert!(!bare[0].is_empty());
    let weights = EyeWeights::open(fixture("eyes/depth")).unwrap();
    let depth = DepthEstimator::load(&weights, &device, FloatDType::F32).unwrap();
    let masked = SeeingDetector::new(
        Box::new(detector),
        Some(segmenter(MaskChoice::Best)),
        Some(depth),
    );
    assert_eq!(masked.name(), "toybox+sam");
    let depths = masked.depths(&pictures).unwrap().unwrap();
    assert_eq!(depths.len(), 2);
    assert_eq!(depths[0].size(), (64, 64));
    let found = masked.detect(&pictures, &[]).unwrap();
    assert_eq!(found[0], found[1]);
    let boxes: Vec<_> = found[0].iter().map(|one| one.bbox).collect();
    assert_eq!(
        boxes,
        bare[0].iter().map(|one| one.bbox).collect::<Vec<_>>()
    );
    let own = segmenter(MaskChoice::Best).masks(&picture, &boxes).unwrap();
    for (found, mask) in found[0].iter().zip(own) {
        assert_eq!(found.mask.as_deref(), Some(&mask));
    }
}

/// A folder with the tiny CLIP and the tokenizer whose tokens it knows.
fn clip() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let copy = |from: &str| {
        let from = fixture(from);
        fs::copy(&from, folder.path().join(from.file_name().unwrap())).unwrap();
    };
    for file in ["config.json", "model.safetensors"] {
        copy(&format!("eyes/clip/{file}"));
    }
    for file in ["vocab.json", "merges.txt", "tokenizer_config.json"] {
        copy(&format!("sd1-tiny/tokenizer/{file}"));
    }
    folder
}

#[test]
fn cosines_of_pictures_and_texts() {
    let folder = clip();
    let weights = EyeWeights::open(folder.path()).unwrap();
    let scorer = ClipScorer::load(&weights, &Device::flex(), F32).unwrap();
    assert_eq!(scorer.most_tokens(), 18);
    let texts: Vec<String> = serde_json::from_value(case("clip")["texts"].clone()).unwrap();
    let pictures = pictures();
    let pairs: Vec<(&Picture, &str)> = pictures
        .iter()
        .zip(&texts)
        .map(|(picture, text)| (picture, text.as_str()))
        .collect();
    let cosines = scorer.cosines(&pairs).unwrap();
    for (own, other) in cosines.iter().zip(expected("clip", "cosines")) {
        assert!((*own as f32 - other).abs() < 2e-6, "{own} {other}");
    }
    let alone = scorer.cosines(&pairs[1..2]).unwrap();
    assert!((alone[0] - cosines[1]).abs() < 1e-6);
    let many: Vec<_> = pairs.iter().cycle().take(50).copied().collect();
    assert_eq!(scorer.cosines(&many).unwrap().len(), 50);
    assert!(scorer.cosines(&[]).unwrap().is_empty());
}

#[test]
fn a_tokenizer_with_more_tokens_than_the_network_is_refused() {
    // Without files of its own it is that of all published networks.
    let weights = EyeWeights::open(fixture("eyes/clip")).unwrap();
    let error = ClipScorer::load(&weights, &Device::flex(), F32).unwrap_err();
    assert!(error.to_string().contains("49408 tokens"), "{error}");
}

/// Pictures of three shapes with texts of three lengths, the last of which is cut, against the authors' own code.
#[test]
fn rewards_are_those_of_the_authors() {
    let weights = EyeWeights::open(fixture("eyes/image-reward")).unwrap();
    assert_eq!(weights.kind(), EyeKind::ImageReward);
    let case = case("image-reward");
    let sizes: Vec<[usize; 2]> = serde_json::from_value(case["pictures"].clone()).unwrap();
    let prompts: Vec<String> = serde_json::from_value(case["prompts"].clone()).unwrap();
    let pictures: Vec<Picture> = sizes.into_iter().map(picture).collect();
    let worst = |of: Vec<f32>, name: &str, most: f32| {
        let expected = expected("image-reward", name);
        assert_eq!(of.len(), expected.len());
        let largest = expected.iter().fold(0f32, |most, x| most.max(x.abs()));
        for (own, other) in of.iter().zip(&expected) {
            let off = (own - other).abs() / largest;
            assert!(off <= most, "{name}: {own}, {other}");
        }
    };

    let network = weights.load_image_reward(&Device::flex(), F32).unwrap();
    let rgb = (pictures.iter())
        .map(|Picture { width, height, rgb }| Rgb::new(*width, *height, rgb).unwrap());
    let prepared = network.prepare(&rgb.collect::<Vec<_>>(), &Device::flex());
    let prepared = prepared.unwrap();
    worst(
        prepared.clone().into_data().iter().collect(),
        "prepared",
        1e-6,
    );
    let states = network.states(prepared).into_data();
    worst(states.iter().collect(), "states", 2e-5);

    let tokenizer = weights.bert_tokenizer().unwrap();
    let tokens: Vec<Vec<u32>> = serde_json::from_value(case["tokens"].clone()).unwrap();
    for (prompt, tokens) in prompts.iter().zip(&tokens) {
        let own = tokenizer.encode(prompt).unwrap();
        assert_eq!(own[..tokens.len() - 1], tokens[..tokens.len() - 1]);
    }
    let scorer = RewardScorer::load(&weights, &Device::flex(), F32).unwrap();
    assert_eq!(scorer.name(), "image-reward");
    let each = pictures
        .iter()
        .map(|one| prompts.iter().map(move |text| (one, &**text)));
    let pairs: Vec<(&Picture, &str)> = each.flatten().collect();
    let rewards = scorer.rewards(&pairs).unwrap();
    let rewards = rewards.into_iter().map(|reward| reward as f32);
    worst(rewards.collect(), "rewards", 2e-5);
}
