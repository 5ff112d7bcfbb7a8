//! # prepose
//!
//! A Stable Diffusion engine on [Burn](https://burn.dev) that puts things where the prompt says.
//!
//! This page is a short tutorial; the rooms that it passes through are listed at its end. Whole programs are in the folder
//! `examples`: `generate`, `guide`, `search`, `check`, `custom_hook` and `custom_detector`. To use it, name the
//! repository's folder as a dependency:
//!
//! ```toml
//! [dependencies]
//! prepose = { path = "../prepose" }   # default-features = false, features = ["toybox"] for the CPU alone
//! ```
//!
//! # A picture
//!
//! A device, the networks of a checkpoint on it, a request, and a maker that turns requests into pictures:
//!
//! ```
//! use prepose::device;
//! use prepose::engine::Engine;
//! use prepose::make::PictureMaker;
//! use prepose::request::ModelRequest;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("dog-cat.png");
//! let device = device::open("flex".parse()?)?; // the CPU; "auto" takes the best device that works
//! let model = ModelRequest::new("toybox", device.default_dtype()); // or the path of your checkpoint
//! let engine = Engine::open(&model, &device)?;
//!
//! let mut request = engine.request("a dog to the left of a cat");
//! request.seed = 9;
//! request.steps = 4;
//! let batch = PictureMaker::new(&engine, 1).make(&[request.clone()], None, &mut [])?;
//! batch.pictures[0].save(&path, &device.title())?;
//!
//! // The PNG carries the request that made it.
//! let again = prepose::output::png::read_request(&path)?;
//! assert_eq!((again.prompt, again.seed), (request.prompt, 9));
//! # Ok(())
//! # }
//! ```
//!
//! A [`Request`](request::Request) is plain data: everything that decides what the picture looks like, and nothing else.
//! The same request gives the same picture on every device and at every batch size.
//!
//! # Where things are
//!
//! Guidance is part of the request. [`make::check`] finds out what is wrong with one before anything is computed:
//!
//! ```
//! use prepose::engine::Blueprint;
//! use prepose::guidance::GuidanceConfig;
//! use prepose::guidance::pos::Pos;
//! use prepose::make::check;
//! use prepose::request::{Dtype, ModelRequest};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = ModelRequest::new("toybox", Dtype::F32);
//! let blueprint = Blueprint::open(&model)?; // the checkpoint, without its weights
//! let mut request = blueprint.request("a dog to the left of a cat", &model);
//! request.guide = Some(GuidanceConfig::new(&Pos));
//! check(&blueprint, &mut request, None, None)?;
//!
//! request.prompt = "a dog and a cat".into();
//! let error = check(&blueprint, &mut request, None, None).unwrap_err();
//! assert!(error.to_string().contains("states no relation"));
//! # Ok(())
//! # }
//! ```
//!
//! What acts inside the denoising loop is a [`Hook`](sampling::denoise::Hook): guidance, attention maps, previews, progress
//! bars, and whatever you write (`examples/custom_hook.rs`).
//!
//! # Whether they are there
//!
//! A [`Detector`](detect::Detector) finds objects, a rule decides. The rule needs no network:
//!
//! ```
//! use prepose::check::spatialbench::{Question, Rule, Secondary};
//! use prepose::check::{BoundingBox, Detection};
//! use prepose::prompt::scene::Scene;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scene = Scene::parse("a dog to the left of a cat")?;
//! let question = &Question::of_scene(&scene, None)?[0];
//! let found = [("dog", 10.0), ("cat", 80.0)].map(|(label, x)| Detection {
//!     label: label.into(),
//!     score: 0.9,
//!     bbox: BoundingBox::new(x, 40.0, x + 30.0, 70.0), // pixels of the picture
//!     mask: None,
//! });
//! let rule = Rule::default(); // SpatialBench-UC's, with its calibrated thresholds
//! let look = rule.look(question, [128, 128], &found)?;
//! let decision = rule.conclude(question, [128, 128], look, None, Secondary::None)?;
//! assert_eq!(decision.verdict.as_str(), "PASS");
//! # Ok(())
//! # }
//! ```
//!
//! [`detect::checker::Checker`] joins detectors and the rule (`examples/check.rs`), [`suite`] runs whole benchmarks.
//!
//! # Rooms
//!
//! In the order in which data flows:
//!
//! * [`request`]: everything that decides what one picture looks like;
//! * [`prompt`]: what the text says: weights, chunks, token spans;
//! * [`sampling`]: seeded noise, schedulers, and the one denoising loop with its hook points;
//! * [`guidance`]: what acts inside the loop to put things where they belong;
//! * [`engine`]: text → conditioning → denoise → decode, on the networks of a checkpoint;
//! * [`attention_maps`]: where the network looks for each word;
//! * [`device`]: choosing where it runs;
//! * [`dtype`]: the type of the weights;
//! * [`memory`]: what runs take, and what there is;
//! * [`search`]: best-of-N noise search;
//! * [`make`]: the one way from requests to finished pictures;
//! * [`selftest`]: whether a device computes what it should;
//! * [`check`]: what a picture shows, and whether that is what was asked for;
//! * [`audit`]: how far the checker can be trusted, by the word of people;
//! * [`mod@bench`]: speed and memory, measured;
//! * [`detect`]: detectors, from pictures to labelled boxes;
//! * [`eyes`]: what else looks at pictures: depth, masks, CLIPScore, features;
//! * [`quality`]: how good sets of pictures are, by their features;
//! * [`plot`]: plots as SVG and PNG; [`table`]: tables as CSV and Markdown;
//! * [`picture`]: pictures as bytes;
//! * [`output`]: pictures that carry their request, and the manifest;
//! * [`report`]: tables, plots and a page of what runs came to;
//! * [`judge`]: questions about pictures to vision-language models;
//! * [`remote`]: servers of pictures and language models;
//! * [`sources`]: pictures from elsewhere;
//! * [`store`]: where the files of a run are;
//! * [`suite`]: whole benchmarks, and the runner;
//! * [`train`]: LoRA and the UNet, trained on the same device.

#![warn(clippy::unwrap_used)]

// The command line calls the library as any other program does.
extern crate self as prepose;

/// What a picture shows, and whether that is what was asked for: the rules of `prepose-check`, and detectors.
pub mod check {
    pub use prepose_check::*;

    pub use crate::detect;
}

pub use prepose_check::audit;
pub use prepose_corpus as corpus;
pub use prepose_draw::{plot, table};
pub use prepose_judge as judge;
pub use prepose_quality as quality;
pub use prepose_remote as remote;
pub use prepose_report as report;
pub use prepose_sources as sources;
pub use prepose_store as store;

pub mod attention_maps;
pub mod bench;
#[doc(hidden)]
pub mod cli;
pub mod detect;
pub mod device;
pub mod dtype;
pub mod engine;
pub mod eyes;
pub mod guidance;
pub mod make;
pub mod memory;
pub mod output;
pub mod picture;
pub mod prompt;
pub mod request;
pub mod sampling;
pub mod search;
pub mod selftest;
pub mod suite;
pub mod train;
