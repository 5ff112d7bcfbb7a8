//! FID's Inception-v3, block by block and from bytes to features, against pytorch-fid's.

mod support;

use burn::prelude::*;
use burn::tensor::FloatDType;
use prepose_models::inception::{Inception, InceptionConfig};
use prepose_models::params::{ParamSource, Params, outline};
use prepose_models::pixels::Rgb;
use support::{Expected, FileSource, RandomSource, config};

/// Largest deviation of what a block gives, as a share of its largest value.
const BLOCK: f32 = 1e-5;

fn device() -> Device {
    Device::flex()
}

fn params(source: &mut dyn ParamSource) -> Params<'_> {
    Params::new(source, &device(), FloatDType::F32)
}

fn thin() -> InceptionConfig {
    config("eyes/inception/case.json")
}

/// The picture that `scripts/reference/cases/eyes_towers.py` makes by the same formula.
fn picture([width, height]: [usize; 2]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for y in 0..height {
        for x in 0..width {
            for c in 0..3 {
                let value = x * x / 3 + y * 11 + c * 70 + (x / 7 + y / 5) % 2 * 90;
                bytes.push((value % 256) as u8);
            }
        }
    }
    bytes
}

fn prepared(which: &[usize]) -> Tensor<4> {
    let case: serde_json::Value = config("eyes/inception/case.json");
    let sizes: Vec<[usize; 2]> = serde_json::from_value(case["pictures"].clone()).unwrap();
    let bytes: Vec<_> = which
        .iter()
        .map(|i| (sizes[*i], picture(sizes[*i])))
        .collect();
    let pictures = bytes.iter();
    let pictures: Vec<Rgb> = pictures
        .map(|([width, height], bytes)| Rgb::new(*width, *height, bytes).unwrap())
        .collect();
    Inception::prepare(&pictures, &device()).unwrap()
}

/// Every `step`-th element of an axis.
fn every(x: Tensor<4>, axis: usize, step: usize) -> Tensor<4> {
    let length = x.dims()[axis] as i32;
    let places: Vec<i32> = (0..length).step_by(step).collect();
    let places = Tensor::<1, Int>::from_data(places.as_slice(), &device());
    x.select(axis, places)
}

#[test]
fn every_block_is_pytorch_fids() {
    let expected = Expected::open("eyes/inception", &device());
    let mut source = FileSource::open("eyes/inception/model.safetensors");
    source.leave_out(|name| name == "fc.bias");
    let network = Inception::load(&thin(), params(&mut source)).unwrap();
    source.finish();
    let pictures = prepared(&[1, 2]);
    let case: serde_json::Value = config("eyes/inception/case.json");
    let names: Vec<String> = serde_json::from_value(case["blocks"].clone()).unwrap();
    // How many blocks there are up to each of those that are compared, after the stem.
    const COUNTS: [usize; 8] = [1, 3, 4, 5, 8, 9, 10, 11];
    for (name, count) in names[1..].iter().zip(COUNTS) {
        let maps = network.maps(pictures.clone(), count);
        let some = every(every(every(maps, 1, 3), 2, 7), 3, 7);
        expected.compare(&format!("block/{name}"), some, BLOCK);
    }
    let output = network.forward(pictures);
    expected.compare("features", output.features.clone(), BLOCK);
    expected.compare("logits", output.logits, BLOCK);
    // Alone it is seen as among others.
    let alone = network.forward(prepared(&[2])).features;
    let among = output.features.narrow(0, 1, 1);
    let error = (alone - among).abs().max().into_scalar::<f32>();
    assert!(error < 1e-5, "{error}");
}

#[test]
fn pictures_are_stretched_as_by_pytorch() {
    let expected = Expected::open("eyes/inception", &device());
    for i in [1, 2, 3] {
        let values: Vec<f32> = prepared(&[i]).into_data().iter().collect();
        let some: Vec<f32> = values.into_iter().step_by(307).collect();
        let some = Tensor::<1>::from_data(some.as_slice(), &device());
        expected.compare(&format!("prepared/{i}"), some, BLOCK);
    }
    // The smallest picture, and one far wider than high.
    for size in [[1, 1], [20_000, 20]] {
        let bytes = picture(size);
        let picture = Rgb::new(size[0], size[1], &bytes).unwrap();
        let prepared = Inception::prepare(&[picture], &device()).unwrap();
        assert_eq!(prepared.dims(), [1, 3, 299, 299]);
    }
}

#[test]
fn the_published_network_has_its_sizes() {
    let config = InceptionConfig::default();
    let wanted = outline(|params| Inception::load(&config, params)).unwrap();
    let count = |name: &str| {
        let all = wanted.iter().filter(|one| one.name.ends_with(name));
        all.map(|one| one.shape.iter().product::<usize>())
            .sum::<usize>()
    };
    // torchvision's 23,834,568 without the classes that help training, with eight classes more and without their bias.
    assert_eq!(
        count("conv.weight") + count("bn.weight") + count("bn.bias") + count("fc.weight"),
        23_834_568 + 8 * 2049 - 1008
    );
    assert_eq!(config.features(), 2048);
    for (thinner, classes) in [(0, 10), (3, 10), (1, 0)] {
        let wrong = InceptionConfig { thinner, classes };
        assert!(Inception::load(&wrong, params(&mut RandomSource)).is_err());
    }
}
