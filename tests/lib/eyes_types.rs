//! How far networks that look at pictures go astray in half types, by the bounds in docs/eyes.md.

use std::fs;

use burn::tensor::{Device, FloatDType};
use prepose::eyes::features::FeatureExtractor;
use prepose::eyes::{DepthEstimator, RewardScorer};
use prepose::picture::Picture;
use prepose_models::pixels::Rgb;
use prepose_models::sam::Prompt;
use prepose_weights::EyeWeights;

use crate::support::{fixture, root};

fn pictures() -> Vec<Picture> {
    let picture = |width: usize, height: usize| {
        let value = |i: usize| ((i / 3 * i / 97 + i % 3 * 70 + i / 60 % 2 * 90) % 256) as u8;
        Picture {
            width,
            height,
            rgb: (0..width * height * 3).map(value).collect(),
        }
    };
    vec![picture(53, 37), picture(30, 91)]
}

fn weights(name: &str) -> EyeWeights {
    EyeWeights::open(fixture(&format!("eyes/{name}"))).unwrap()
}

/// What a network gives for the pictures.
fn given(network: &str, dtype: FloatDType) -> Vec<f32> {
    let device = Device::flex();
    let pictures = pictures();
    let refs: Vec<&Picture> = pictures.iter().collect();
    let features = |name: &str| {
        let path = fixture(&format!("eyes/{name}"));
        let extractor = FeatureExtractor::load(path.to_str().unwrap(), &device, dtype).unwrap();
        extractor.look(&refs).unwrap().features
    };
    match network {
        "CLIP" => {
            let network = weights("clip").load_clip(&device, dtype).unwrap();
            let rgb = refs
                .iter()
                .map(|one| Rgb::new(one.width, one.height, &one.rgb).unwrap());
            let prepared = network.vision().prepare(&rgb.collect::<Vec<_>>(), &device);
            let embedded = network.embed_pictures(prepared.unwrap());
            embedded.into_data().iter().collect()
        }
        "CLIP's picture tower" => features("clip-vision"),
        "DINOv2" => features("dinov2"),
        "Inception-v3" => features("inception/inception.pth"),
        "Depth Anything" => {
            let depth = DepthEstimator::load(&weights("depth"), &device, dtype).unwrap();
            let maps = depth.estimate(&refs).unwrap();
            let rows = maps
                .iter()
                .flat_map(|map| map.rows().flatten().copied().collect::<Vec<_>>());
            rows.map(|depth| depth as f32).collect()
        }
        "SAM" => {
            let network = weights("sam").load_sam(&device, dtype).unwrap();
            let Picture { width, height, rgb } = &pictures[0];
            let batch = network.prepare(&[Rgb::new(*width, *height, rgb).unwrap()], &device);
            let batch = batch.unwrap();
            let prompt = Prompt::of_box([3.0, 4.0, 40.0, 30.0]).scaled([37, 53], batch.resized[0]);
            let seen = network.encode(batch.pictures);
            network
                .segment(&seen, &[prompt], true)
                .logits
                .into_data()
                .iter()
                .collect()
        }
        "ImageReward" => {
            let scorer = RewardScorer::load(&weights("image-reward"), &device, dtype).unwrap();
            let pairs: Vec<_> = refs.iter().map(|one| (*one, "a dog and a cat")).collect();
            let rewards = scorer.rewards(&pairs).unwrap();
            rewards.into_iter().map(|reward| reward as f32).collect()
        }
        other => panic!("docs/eyes.md has {other}, which is not measured here"),
    }
}

/// The largest deviation as a share of the largest value.
fn deviation(own: &[f32], exact: &[f32]) -> f32 {
    assert_eq!(own.len(), exact.len());
    let largest = exact.iter().fold(0f32, |most, x| most.max(x.abs()));
    let off = own.iter().zip(exact).map(|(a, b)| (a - b).abs());
    // A NaN is no small deviation.
    off.fold(0f32, |most, off| if off <= most { most } else { off }) / largest
}

#[test]
fn half_types_stay_within_the_bounds_of_the_docs() {
    let docs = fs::read_to_string(root().join("docs/eyes.md")).unwrap();
    let (_, table) = docs.split_once("| network | bf16 | f16 |\n").unwrap();
    let rows = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    let (mut networks, mut beyond) = (0, Vec::new());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [network, bf16, f16] = cells[..] else {
            panic!("{row}");
        };
        networks += 1;
        let exact = given(network, FloatDType::F32);
        for (dtype, bound) in [(FloatDType::BF16, bf16), (FloatDType::F16, f16)] {
            let bound: f32 = bound.parse().unwrap();
            let off = deviation(&given(network, dtype), &exact);
            println!("{network} {dtype:?}: {off:.1e} of {bound}");
            // A half type that changes nothing is not in use.
            let within = off > 1e-6 && off <= bound;
            if !within {
                beyond.push(format!(
                    "{network} in {dtype:?}: {off:.1e}, and {bound} is allowed"
                ));
            }
        }
    }
    assert_eq!(networks, 7);
    assert!(beyond.is_empty(), "{beyond:#?}");
}
