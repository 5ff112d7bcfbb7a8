//! Asks whether pictures show what their prompt says: `cargo run --release --example check -- PICTURE...`.

use std::error::Error;
use std::path::Path;

use prepose::check::spatialbench::Question;
use prepose::detect::checker::{Asked, Checker};
use prepose::detect::{Detector, RcnnDetector};
use prepose::device;
use prepose::output::png;
use prepose::picture::Picture;
use prepose::prompt::scene::Scene;
use prepose_weights::DetectorWeights;

fn main() -> Result<(), Box<dyn Error>> {
    let device = device::open("auto".parse()?)?;
    let weights = DetectorWeights::open(Path::new("toybox"))?;
    let detector = RcnnDetector::load(&weights, &device.device, RcnnDetector::SCORE_THRESHOLD)?;
    let vocabulary = detector.vocabulary().map(<[String]>::to_vec);
    let checker = Checker::new(detector, &device.device);

    for path in std::env::args().skip(1) {
        let prompt = png::read_request(path.as_ref())?.prompt;
        let scene = Scene::parse(&prompt)?;
        let questions = Question::of_scene(&scene, vocabulary.as_deref())?;
        let picture = Picture::decode(&std::fs::read(&path)?)?;
        let asked = Asked {
            picture,
            questions,
            others: Vec::new(),
            depth: false,
        };
        for decision in &checker.check(&[asked])?[0].decisions {
            println!(
                "{path}: {} with confidence {:.2} ({prompt})",
                decision.verdict.as_str(),
                decision.confidence
            );
        }
    }
    Ok(())
}
