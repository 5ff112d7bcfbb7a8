//! Pictures that somebody else makes, for the prompts of a benchmark.
//!
//! * [`Folder`]: they are there already, under names as several benchmarks have them;
//! * [`Endpoint`]: a server makes them;
//! * [`Process`]: a program makes them, which is told what to make line by line.
//!
//! Each is a [`Source`]. What it gives are files; [`upright`] makes pictures of them.

#![warn(clippy::unwrap_used)]

mod endpoint;
mod error;
pub mod folder;
mod process;
pub mod upright;

use std::sync::Arc;

use prepose_remote::images::PictureRequest;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use endpoint::Endpoint;
pub use error::SourceError;
pub use folder::Folder;
pub use prepose_remote::images::Editing;
pub use process::{Patience, Process};

/// A picture that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The same for the same picture, and for no other: 64 hexadecimal digits.
    pub name: String,
    /// Names the prompt within its set.
    pub prompt_id: String,
    /// What it should show.
    pub prompt: String,
    /// Of its noise, where there is one.
    pub seed: u64,
    /// Which of the prompt's pictures it is, from 0.
    pub number: usize,
    /// The picture that it changes; none for one made from nothing.
    pub start: Option<Start>,
}

/// A picture that is to be changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// A PNG file.
    pub png: Arc<Vec<u8>>,
    /// Its SHA-256.
    pub sha256: String,
    /// How much of it is changed, in (0, 1], for what changes pictures by adding noise.
    pub strength: f64,
}

impl Start {
    /// A PNG file that is to be changed so much, in (0, 1].
    pub fn new(png: Vec<u8>, strength: f64) -> Self {
        Self {
            sha256: format!("{:x}", Sha256::digest(&png)),
            png: Arc::new(png),
            strength,
        }
    }
}

/// How pictures are made; what is none is left to the source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wishes {
    /// Width and height in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<[u32; 2]>,
    /// Denoising steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// Classifier-free guidance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance_scale: Option<f64>,
    /// What pictures should not show.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub negative_prompt: String,
}

impl Wishes {
    /// What a server is asked for.
    fn request<'a>(&'a self, job: &'a Job) -> PictureRequest<'a> {
        PictureRequest {
            name: &job.name,
            prompt: &job.prompt,
            negative_prompt: &self.negative_prompt,
            seed: job.seed,
            size: self.size,
            steps: self.steps,
            guidance_scale: self.guidance_scale,
            init: job.start.as_ref().map(|start| start.png.as_slice()),
            strength: job.start.as_ref().map(|start| start.strength),
        }
    }
}

/// Where a picture comes from: what is kept beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// SHA-256 of the file as it came.
    pub sha256: String,
    /// Its name in a folder of pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The seed that the source says it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// What the source made of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revised_prompt: Option<String>,
    /// What the source calls its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What a server calls the exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How often it was asked for.
    #[serde(default, skip_serializing_if = "is_once")]
    pub attempts: u32,
    /// SHA-256 of the picture that was changed; none if it was made from nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// The width and height in pixels that were asked for, if the picture has others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_size: Option<[u32; 2]>,
}

fn is_once(attempts: &u32) -> bool {
    *attempts <= 1
}

/// A picture's file.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// As it came.
    pub bytes: Vec<u8>,
    /// Where it comes from.
    pub origin: Origin,
    /// How long it took; 0 if it was there.
    pub seconds: f64,
}

impl File {
    fn new(bytes: Vec<u8>, origin: Origin, seconds: f64) -> Self {
        let sha256 = format!("{:x}", Sha256::digest(&bytes));
        Self {
            bytes,
            origin: Origin { sha256, ..origin },
            seconds,
        }
    }
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A picture.
    Picture(File),
    /// The source's rules about content forbid it.
    Refused(Refusal),
    /// It is not there.
    Missing,
}

/// A picture that a source will not make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// The source's word for it.
    pub code: String,
    /// What it says.
    pub message: String,
}

/// Takes what became of the job of an index, at once: what is not kept by it when the program ends is lost.
pub type Deliver<'a> = dyn FnMut(usize, Outcome) -> Result<(), SourceError> + 'a;

/// Where pictures come from.
pub trait Source {
    /// How many jobs it is best given at a time.
    fn at_once(&self) -> usize;

    /// Whether it changes pictures.
    fn editing(&self) -> Editing {
        Editing::Never
    }

    /// Fetches pictures, and hands each over as soon as it is there, in any order.
    ///
    /// # Errors
    /// [`SourceError`]; what was handed over before counts.
    fn fetch(&mut self, jobs: &[Job], deliver: &mut Deliver) -> Result<(), SourceError>;
}
