//! Tries sixteen noises, drops the hopeless ones early, and keeps the best by what a detector sees:
//! `cargo run --release --example search`.

use std::error::Error;
use std::path::Path;

use prepose::detect::RcnnDetector;
use prepose::device;
use prepose::engine::Engine;
use prepose::make::PictureMaker;
use prepose::request::{ModelRequest, Pruning, RewardKind, SearchConfig};
use prepose_weights::DetectorWeights;

fn main() -> Result<(), Box<dyn Error>> {
    let device = device::open("auto".parse()?)?;
    let model = ModelRequest::new("toybox", device.default_dtype());
    let engine = Engine::open(&model, &device)?;
    // For photographs: the path of torchvision's weights.
    let weights = DetectorWeights::open(Path::new("toybox"))?;
    let judge = RcnnDetector::load(&weights, &device.device, RcnnDetector::SCORE_THRESHOLD)?;

    let mut request = engine.request("a dog to the left of a cat");
    request.steps = 20;
    let search = SearchConfig {
        best_of: 16,
        reward: RewardKind::Checker,
        pruning: Some(Pruning::Auto),
    };
    let mut maker = PictureMaker::new(&engine, 4).with_judge(Some(&judge));
    let batch = maker.make(&[request], Some(&search), &mut [])?;
    for candidate in &batch.candidates {
        println!(
            "candidate {:2}: {:6.3} after {:2} steps",
            candidate.index, candidate.score, candidate.steps
        );
    }
    let best = &batch.pictures[0];
    best.save("best.png", &device.title())?;
    println!("best.png is seed {}", best.request.seed);
    Ok(())
}
