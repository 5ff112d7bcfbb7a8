//! Judges a search by a detector of one's own: `cargo run --release --example custom_detector`.
//!
//! The detector knows two things by their colour: of the two halves of a picture the yellower one is where the cat is.

use std::error::Error;

use burn::tensor::Tensor;
use prepose::check::{BoundingBox, Detection};
use prepose::detect::{DetectError, Detector};
use prepose::device;
use prepose::engine::Engine;
use prepose::make::PictureMaker;
use prepose::request::{ModelRequest, RewardKind, SearchConfig};

/// Finds a cat and a dog by colour.
struct ByColour {
    vocabulary: Vec<String>,
}

impl Detector for ByColour {
    fn name(&self) -> &str {
        "by-colour"
    }

    fn vocabulary(&self) -> Option<&[String]> {
        Some(&self.vocabulary)
    }

    fn detect(
        &self,
        pictures: &[Tensor<3>],
        _queries: &[Vec<String>],
    ) -> Result<Vec<Vec<Detection>>, DetectError> {
        Ok(pictures.iter().map(by_colour).collect())
    }
}

/// What is in a picture, f32 [3, H, W] in 0..=1; boxes in its pixels.
fn by_colour(picture: &Tensor<3>) -> Vec<Detection> {
    let [_, height, width] = picture.dims();
    let half = width / 2;
    let yellow = |x: usize| -> f32 {
        let [red, green, blue] = [0, 1, 2].map(|channel| {
            let plane = picture.clone().narrow(0, channel, 1).narrow(2, x, half);
            plane.mean().into_scalar::<f32>()
        });
        red + green - 2.0 * blue
    };
    let (cat, dog) = match yellow(0) > yellow(half) {
        true => (0, half),
        false => (half, 0),
    };
    let named = |label: &str, x: usize| Detection {
        label: label.into(),
        score: 0.9,
        bbox: BoundingBox::new(x as f64, 0.0, (x + half) as f64, height as f64),
        mask: None,
    };
    vec![named("cat", cat), named("dog", dog)]
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = device::open("auto".parse()?)?;
    let model = ModelRequest::new("toybox", device.default_dtype());
    let engine = Engine::open(&model, &device)?;
    let judge = ByColour {
        vocabulary: vec!["cat".into(), "dog".into()],
    };
    let mut request = engine.request("a dog to the left of a cat");
    request.steps = 20;
    let search = SearchConfig {
        best_of: 8,
        reward: RewardKind::Checker,
        pruning: None,
    };
    let mut maker = PictureMaker::new(&engine, 4).with_judge(Some(&judge));
    let batch = maker.make(&[request], Some(&search), &mut [])?;
    batch.pictures[0].save("by-colour.png", &device.title())?;
    for candidate in &batch.candidates {
        println!("seed {:10}: {:6.3}", candidate.seed, candidate.score);
    }
    println!("by-colour.png");
    Ok(())
}
