//! Who makes pictures: what the server needs of them, and what it tells them.

use std::any::Any;
use std::sync::Arc;

use serde_json::Value;

use crate::problem::Refusal;
use crate::wire::Wanted;

/// What makes pictures, as seen from the threads that answer requests.
pub trait Studio: Send + Sync + 'static {
    /// What it can do, as `GET api/about` says it.
    fn about(&self) -> Value;

    /// How a prompt is read, as `POST api/read` says it.
    fn read(&self, prompt: &str) -> Value;

    /// Checks what is wanted, and says what is to be made.
    ///
    /// # Errors
    /// What is wrong with it, and in which field.
    fn plan(&self, wanted: &Wanted) -> Result<Plan, Refusal>;

    /// What is wanted as a command line and as Python.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    fn spell(&self, wanted: &Wanted) -> Result<[String; 2], Refusal>;

    /// Takes a picture in; afterwards [`Init::image`](crate::Init::image) is [`Taken::image`].
    ///
    /// # Errors
    /// It cannot be kept.
    fn take_in(&self, png: &[u8]) -> Result<Taken, Refusal>;

    /// Looks again which LoRAs there are.
    ///
    /// # Errors
    /// That cannot be seen; those that were there are kept.
    fn refresh_loras(&self) -> Result<(), Refusal>;

    /// The one that makes the pictures; called once, on its own thread.
    fn maker(&self) -> Box<dyn Maker>;
}

/// A picture that was taken in.
#[derive(Clone, Debug)]
pub struct Taken {
    /// What stands for it in requests.
    pub image: String,
    /// The studio has it for as long as this lives.
    pub kept: Kept,
}

/// Keeps a picture that was taken in, and says nothing.
pub type Kept = Arc<dyn Any + Send + Sync>;

/// Makes pictures, on a thread of its own.
pub trait Maker {
    /// How many pictures as that of `unit` are best made at a time.
    ///
    /// # Errors
    /// The networks cannot be loaded.
    fn most(&mut self, unit: &Unit) -> Result<usize, String>;

    /// Makes a batch whose units all have the same [`key`](Unit::key). Pictures go to `watch` as they are done.
    ///
    /// # Errors
    /// Nothing came of it.
    fn make(&mut self, batch: &Batch, watch: &mut dyn Watch) -> Result<(), Trouble>;
}

/// Units that are made together.
pub type Batch = [Arc<Unit>];

/// Why a batch was not made.
#[derive(Debug)]
pub enum Trouble {
    /// There is memory for so many at a time.
    Room(usize),
    /// Whatever else, in words for those who asked.
    Failed(String),
}

/// What kind of picture it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Without guidance.
    Plain,
    /// With guidance.
    Guided,
    /// The best of several.
    Candidate,
}

impl Kind {
    /// In JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Guided => "guided",
            Self::Candidate => "candidate",
        }
    }
}

/// What waits in the queue: a picture, or a search for one.
#[derive(Clone, Debug)]
pub struct Unit {
    /// What the maker makes it from; nobody else reads it.
    pub order: Value,
    /// Units with the same one may be made together; a search is made alone.
    pub key: String,
    /// The seed it begins with.
    pub seed: u64,
    /// Its kind.
    pub kind: Kind,
    /// Candidates of a search; 1 without one.
    pub candidates: usize,
    /// Its first lane in its job; a search has one for each candidate.
    pub lane: usize,
    /// Steps that it takes.
    pub steps: usize,
    /// Whether it is checked.
    pub check: bool,
    /// A preview every so many steps; 0 for none.
    pub previews: usize,
    /// Whether maps and losses are sent.
    pub maps: bool,
    /// The request in the words of the wire, with this seed, and with the size and steps that were left to the checkpoint.
    pub request: Value,
    /// The pictures that were sent with it, which [`App`](crate::App) puts here.
    pub sent: Vec<Kept>,
    /// What it costs, in pixels and steps, for fairness.
    pub cost: u64,
}

/// What a job comes to.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is to be made.
    pub units: Vec<Unit>,
    /// Steps of each picture.
    pub steps: usize,
    /// Of each picture, in pixels.
    pub size: [usize; 2],
}

/// Where the network looks for an object, from 0 to 255.
#[derive(Clone, Debug)]
pub struct MapImage {
    /// The object, as the prompt names it.
    pub name: String,
    /// Rows and columns.
    pub size: [usize; 2],
    /// Row by row.
    pub cells: Vec<u8>,
}

/// A picture that is done.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The file, with its request inside.
    pub png: Vec<u8>,
    /// The seed it was made from.
    pub seed: u64,
    /// What the checker says, as the page reads it; null where nothing was asked.
    pub verdict: Value,
    /// What it took: `{unet_calls, guided_passes, seconds}`.
    pub cost: Value,
    /// Of a search.
    pub score: Option<f64>,
}

/// Told what happens to a batch. `unit` counts the units that the batch had at its start.
pub trait Watch {
    /// A step was taken, from 1.
    fn step(&mut self, step: usize, of: usize);
    /// Whether somebody still wants it; asked after each step, and what nobody wants is dropped.
    fn wanted(&self, unit: usize) -> bool;
    /// Whether previews and maps are looked at.
    fn seen(&self, unit: usize) -> bool;
    /// What the picture is expected to become, as a PNG.
    fn preview(&mut self, unit: usize, candidate: usize, step: usize, png: &[u8]);
    /// Where the network looks.
    fn maps(&mut self, unit: usize, candidate: usize, step: usize, maps: &[MapImage]);
    /// The guidance's loss, and how well the maps obey the relations.
    fn trace(
        &mut self,
        unit: usize,
        candidate: usize,
        step: usize,
        loss: Option<f32>,
        pos: Option<f32>,
    );
    /// Scores of candidates, and which were dropped.
    fn candidates(&mut self, unit: usize, step: usize, scores: &[(usize, f64)], dropped: &[usize]);
    /// It is done.
    fn finished(&mut self, unit: usize, candidate: usize, picture: Finished);
}
