//! Classifiers that guidance goes by (Learn-to-Steer, Yiflach et al. 2025, arXiv 2509.02295), trained on the attention maps
//! of pictures whose relation is known.
//!
//! * [`absent`]: pictures under the word of an object that is not there;
//! * `maps`: the maps of a picture under the right relation word and under a wrong one, which are kept in files;
//! * `fit`: the classifier's own training;
//! * [`run`]: all of it in one call.
//!
//! What a picture shows is the label, whatever its prompt said and whatever the words are under which maps are recorded: so
//! the classifier has to read the picture, and not the word that has leaked into the maps.

mod absent;
mod fit;
mod maps;
mod written;

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use prepose_models::steer::SteerSize;
use prepose_optimizer::draws::{Draws, Purpose};
use prepose_weights::steer::{SteerConfig, SteerFile, read_layers};
use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::error::TrainError;
use super::folder::Folder;
use super::run::Event;
use super::trainer::Step;
use crate::device::OpenDevice;
use crate::dtype::Dtype;
use crate::engine::Blueprint;
use crate::guidance::classifier::classes;
use crate::make::MakeError;
use crate::request::ModelRequest;
pub use absent::{Looked, absent};
use fit::Fit;
use maps::Mapping;
use written::write;

/// The fewest pictures of a relation.
const LEAST: usize = 2;

/// One pair of objects in so many is not trained on, but tried.
const TRIED: usize = 8;

/// A picture of two objects, and how somebody has seen them stand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// Its file.
    pub file: PathBuf,
    /// The objects, in the words of the prompt.
    pub objects: [String; 2],
    /// How the first stands to the second: which of [`classes`].
    pub class: usize,
}

/// Everything that decides what comes out, but for the checkpoint and the pictures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SteerRecipe {
    /// How large the classifier is.
    pub size: SteerSize,
    /// The training timesteps at which maps are recorded, from high to low noise.
    pub timesteps: Vec<f64>,
    /// Steps of the optimiser.
    pub steps: u64,
    /// Samples in a step.
    pub batch: usize,
    /// The learning rate at the beginning; it falls as half a cosine.
    pub rate: f64,
    /// AdamW's.
    pub weight_decay: f64,
    /// The share of activations that are zeroed in training.
    pub dropout: f64,
    /// Whether maps under wrong relation words are trained on, too.
    pub wrong_words: bool,
    /// Of everything that is drawn.
    pub seed: Draws,
}

impl SteerRecipe {
    fn check(&self) -> Result<(), TrainError> {
        let refuse = |name, value: String, range| Err(TrainError::Setting { name, value, range });
        if !(1..=10_000_000).contains(&self.steps) {
            let steps = self.steps.to_string();
            return refuse("--train-steps", steps, "must be from 1 to 10000000");
        }
        if !(1..=4096).contains(&self.batch) {
            let batch = self.batch.to_string();
            return refuse("--train-batch", batch, "must be from 1 to 4096");
        }
        if !(self.rate > 0.0 && self.rate < 1.0) {
            let rate = self.rate.to_string();
            return refuse("--train-rate", rate, "must be above 0 and below 1");
        }
        let falls = self.timesteps.windows(2).all(|pair| pair[0] > pair[1]);
        let within = self.timesteps.iter().all(|t| (0.0..1000.0).contains(t));
        if self.timesteps.is_empty() || !falls || !within {
            let timesteps = format!("{:?}", self.timesteps);
            return refuse("--timesteps", timesteps, "must fall, from below 1000 to 0");
        }
        Ok(())
    }
}

/// A training that is asked for.
#[derive(Clone, Debug)]
pub struct SteerJob {
    /// How.
    pub recipe: SteerRecipe,
    /// For which checkpoint.
    pub model: ModelRequest,
    /// On which pictures.
    pub pictures: Vec<Shown>,
    /// How many pictures were looked at for that.
    pub looked: usize,
    /// Where everything goes.
    pub out: PathBuf,
    /// Where maps are kept; none: within `out`.
    pub cache: Option<PathBuf>,
    /// Steps between states that are kept, and between tries.
    pub keep_every: u64,
}

impl SteerJob {
    fn stopped(&self, step: u64) -> TrainError {
        TrainError::Stopped {
            step,
            steps: self.recipe.steps,
        }
    }
}

/// What decides what comes out, as it is written down.
#[derive(Serialize)]
struct Settings<'a> {
    recipe: &'a SteerRecipe,
    checkpoint: &'a str,
    checkpoint_sha256: &'a str,
    data_sha256: String,
    pictures: usize,
}

/// How often a classifier is right on maps of pairs that it is not trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// After this step.
    pub step: u64,
    /// The share under right relation words.
    pub right_words: f64,
    /// The share under wrong relation words.
    pub wrong_words: f64,
    /// The share under wrong relation words in which it says the word instead of what is shown.
    pub says_word: f64,
    /// Samples of each kind.
    pub samples: usize,
    /// The same by noise level, from high to low: under right words, under wrong words.
    pub by_timestep: Vec<[f64; 2]>,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        write!(
            f,
            "right on {} of held-out maps under right words, on {} under wrong ones ({} say the word)",
            percent(self.right_words),
            percent(self.wrong_words),
            percent(self.says_word)
        )
    }
}

/// Its objects, whatever their order.
fn pair(shown: &Shown) -> [String; 2] {
    let mut pair = shown.objects.clone();
    pair.sort();
    pair
}

/// Which pictures are tried and not trained on: those of one pair of objects in [`TRIED`].
fn is_tried(pictures: &[Shown], seed: Draws) -> Vec<bool> {
    let mut pairs: Vec<[String; 2]> = pictures.iter().map(pair).collect();
    pairs.sort();
    pairs.dedup();
    let order = seed.shuffled(Purpose::Batches, 0, pairs.len());
    let mut tried = vec![false; pairs.len()];
    for place in order.iter().take(pairs.len().div_ceil(TRIED)) {
        tried[*place] = true;
    }
    let of = |shown: &Shown| pairs.binary_search(&pair(shown)).is_ok_and(|at| tried[at]);
    pictures.iter().map(of).collect()
}

fn enough(job: &SteerJob) -> Result<(), TrainError> {
    let names = classes();
    let mut counts = vec![0; names.len()];
    for shown in &job.pictures {
        counts[shown.class] += 1;
    }
    // Pictures without a relation may be missing.
    if counts[..names.len() - 1]
        .iter()
        .all(|count| *count >= LEAST)
    {
        let pairs: HashSet<[String; 2]> = job.pictures.iter().map(pair).collect();
        return match pairs.len() {
            1 => Err(TrainError::OnePair),
            _ => Ok(()),
        };
    }
    let counts = names
        .iter()
        .zip(counts)
        .map(|(name, count)| format!("{name}: {count}"));
    Err(TrainError::FewPictures {
        pictures: job.looked,
        kept: job.pictures.len(),
        counts: counts.collect::<Vec<_>>().join(", "),
        least: LEAST,
    })
}

/// Trains until the end, or until `stop` is set; what was done before in the same folder is taken up.
///
/// # Errors
/// [`TrainError`]; the last state that was kept stays, and so do the maps.
pub fn run(
    job: &SteerJob,
    device: &OpenDevice,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event),
) -> Result<(), TrainError> {
    let recipe = &job.recipe;
    recipe.check()?;
    enough(job)?;
    let model = ModelRequest {
        dtype: Dtype::F32,
        ..job.model.clone()
    };
    let blueprint = Blueprint::open(&model)?;
    let unet = blueprint.checkpoint().unet_config()?;
    let layers = read_layers(&unet).map_err(|error| TrainError::Sizes(error.to_string()))?;
    let fingerprint = blueprint.fingerprint();
    let folder = Folder::new(&job.out)?;
    let fingerprint = fingerprint.join().map_err(|_| MakeError::Fingerprint)??;
    let cache = Cache::new(job.cache.clone().unwrap_or_else(|| folder.file("maps")));
    let mut mapping = Mapping::new(job, cache, &fingerprint)?;
    folder.claim(&Settings {
        recipe,
        checkpoint: &job.model.checkpoint,
        checkpoint_sha256: &fingerprint,
        data_sha256: mapping.digest(),
        pictures: job.pictures.len(),
    })?;
    tell(Event::Encoding(job.pictures.len()));
    if !mapping.is_complete() {
        let engine = blueprint.load(&model, device)?;
        mapping.record(&engine, &mut || {
            tell(Event::Encoded);
            match stop.load(Ordering::Relaxed) {
                true => Err(job.stopped(0)),
                false => Ok(()),
            }
        })?;
    }
    let config = SteerConfig {
        size: recipe.size.clone(),
        layers,
        timesteps: recipe.timesteps.clone(),
        classes: classes(),
        checkpoint: job.model.checkpoint.clone(),
        checkpoint_sha256: fingerprint.clone(),
        pictures: job.pictures.len(),
        wrong_words: recipe.wrong_words,
    };
    let tried = is_tried(&job.pictures, recipe.seed);
    let mut fit = Fit::new(recipe, &config, &mapping, &tried, &device.device);
    let (log, tries) = fit_all(job, &folder, &mut fit, stop, tell)?;
    let values = fit.values();
    for path in write(&folder, SteerFile { config, values }, &log, &tries)? {
        tell(Event::Written(&path));
    }
    Ok(())
}

/// All steps that are left; the log and what was tried, from the first step on.
fn fit_all(
    job: &SteerJob,
    folder: &Folder,
    fit: &mut Fit,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event),
) -> Result<(Vec<Step>, Vec<Tried>), TrainError> {
    let (state, steps) = (folder.state(), job.recipe.steps);
    if state.exists() {
        fit.resume(&state)?;
    }
    let mut kept = fit.place().step;
    let mut log = folder.steps_until(kept)?;
    let mut tries = folder.lines_until("tried.jsonl", |one: &Tried| one.step <= kept)?;
    tell(Event::Begun {
        done: kept,
        steps,
        parameters: fit.parameters(),
        samples: fit.samples(),
    });
    while fit.place().step < steps {
        if stop.load(Ordering::Relaxed) {
            fit.save(&state)?;
            return Err(job.stopped(fit.place().step));
        }
        let started = Instant::now();
        let step = fit.step(kept, &state)?;
        folder.log(&step)?;
        tell(Event::Step(&step, started.elapsed().as_secs_f64()));
        if step.step == steps || step.step.is_multiple_of(job.keep_every.max(1)) {
            let found = fit.tried()?;
            folder.line("tried.jsonl", &found)?;
            tell(Event::Tried(&found));
            tries.push(found);
            fit.save(&state)?;
            kept = step.step;
            tell(Event::Kept(kept));
        }
        log.push(step);
    }
    Ok((log, tries))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pair_of_objects_is_too_few() {
        let names = ["a", "b"].map(str::to_owned);
        let shown = |class| Shown {
            file: PathBuf::new(),
            objects: names.clone(),
            class,
        };
        let recipe = SteerRecipe {
            size: SteerSize::SMALL,
            timesteps: vec![1.0],
            steps: 1,
            batch: 1,
            rate: 1e-3,
            weight_decay: 0.0,
            dropout: 0.0,
            wrong_words: true,
            seed: Draws(0),
        };
        let mut job = SteerJob {
            recipe,
            model: ModelRequest::new("toybox", Dtype::F32),
            pictures: (0..8).map(|number| shown(number % 4)).collect(),
            looked: 8,
            out: PathBuf::new(),
            cache: None,
            keep_every: 1,
        };
        let error = enough(&job).unwrap_err();
        assert!(matches!(error, TrainError::OnePair), "{error}");
        job.pictures[0].objects[1] = "c".into();
        enough(&job).unwrap();
    }

    #[test]
    fn a_pair_is_trained_on_or_tried_in_whatever_order() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let mut pictures = Vec::new();
        for one in names {
            for other in names.iter().filter(|other| **other != one) {
                pictures.push(Shown {
                    file: PathBuf::new(),
                    objects: [one.to_owned(), (*other).to_owned()],
                    class: 0,
                });
            }
        }
        let tried = is_tried(&pictures, Draws(3));
        let of = |wanted: bool| -> HashSet<[String; 2]> {
            let chosen = pictures
                .iter()
                .zip(&tried)
                .filter(|(_, tried)| **tried == wanted);
            chosen.map(|(shown, _)| pair(shown)).collect()
        };
        assert!(of(true).is_disjoint(&of(false)));
        // 21 pairs in all.
        assert_eq!((of(true).len(), of(false).len()), (3, 18));
    }
}
