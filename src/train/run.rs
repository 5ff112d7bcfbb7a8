//! A training from its settings to its files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use prepose_dataset::look::{Looked, look};
use prepose_dataset::order::Flips;
use prepose_dataset::{Options, Skipped};
use prepose_models::training;
use prepose_models::unet::Memory;
use prepose_weights::{Family, NewAdapter, WeightsError};

use super::error::TrainError;
use super::folder::{Folder, Settings};
use super::page;
use super::prepare::Prepared;
use super::recipe::{Beside, Recipe};
use super::trainer::{Step, Trainer};
use crate::device::OpenDevice;
use crate::dtype::Dtype;
use crate::engine::{Blueprint, Engine};
use crate::guidance::grounding::Grounding;
use crate::make::{MakeError, PictureMaker, check};
use crate::request::{ModelRequest, PicturePrompt, Request};

/// Pictures of the same prompts and noise, made now and then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// What they show.
    pub prompts: Vec<String>,
    /// Steps between them; 0: only before the first and after the last.
    pub every: u64,
    /// Denoising steps.
    pub steps: usize,
    /// Of their noise.
    pub seed: u64,
    /// What an IP-Adapter is shown, if it is one that is trained.
    pub picture: Option<PathBuf>,
}

/// A training that is asked for.
#[derive(Clone, Debug)]
pub struct Job {
    /// How.
    pub recipe: Recipe,
    /// Of which checkpoint.
    pub model: ModelRequest,
    /// The IP-Adapter that is to be trained from nothing; one that is trained further is the model's first.
    pub new_adapter: Option<NewAdapter>,
    /// On what.
    pub data: PathBuf,
    /// What is taken of that.
    pub options: Options,
    /// Where everything goes.
    pub out: PathBuf,
    /// Where latents and states of captions are kept; none: within `out`.
    pub cache: Option<PathBuf>,
    /// Steps between states that are kept.
    pub keep_every: u64,
    /// Pictures on the way.
    pub samples: Samples,
    /// What a step keeps for its gradient, and what it computes again; nothing that comes out changes.
    pub memory: Memory,
}

/// What happens.
#[derive(Debug)]
pub enum Event<'a> {
    /// So many pictures were found and are looked at.
    Looking(usize),
    /// What is left of them.
    Looked {
        /// That can be read.
        pictures: usize,
        /// That are of no use.
        skipped: &'a [Skipped],
    },
    /// So many samples are encoded, or found in the cache.
    Encoding(usize),
    /// One of them is.
    Encoded,
    /// The first step comes.
    Begun {
        /// Steps that were done before.
        done: u64,
        /// Of how many.
        steps: u64,
        /// Numbers that are trained.
        parameters: usize,
        /// Samples in an epoch.
        samples: usize,
    },
    /// A step was taken, in so many seconds.
    Step(&'a Step, f64),
    /// The state is kept.
    Kept(u64),
    /// A classifier was tried on maps that it is not trained on.
    Tried(&'a super::steer::Tried),
    /// A picture was made.
    Sampled(&'a Path),
    /// What has come out was written here.
    Written(&'a Path),
}

/// Trains until the end, or until `stop` is set; what was done before in the same folder is taken up.
///
/// # Errors
/// [`TrainError`]; the last state that was kept stays.
pub fn run(
    job: &Job,
    device: &OpenDevice,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event),
) -> Result<(), TrainError> {
    let recipe = &job.recipe;
    let beside = recipe.kind.beside();
    let mut blueprint = Blueprint::open_with_new(&job.model, job.new_adapter.clone())?;
    if beside == Beside::Objects {
        blueprint = blueprint.to_be_grounded();
    }
    check_trainable(recipe, &blueprint)?;
    let samples = requests(job, &blueprint)?;
    let fingerprint = blueprint.fingerprint();
    let dataset = prepose_dataset::open(&job.data, &job.options)?;
    tell(Event::Looking(dataset.samples.len()));
    let chooser = recipe.sizes.chooser();
    let most_skipped = job.options.most_skipped;
    let (looked, skipped) = look(&job.data, dataset, &chooser, most_skipped, &|| {})?;
    tell(Event::Looked {
        pictures: looked.len(),
        skipped: &skipped,
    });
    let folder = Folder::new(&job.out)?;
    let fingerprint = fingerprint.join().map_err(|_| MakeError::Fingerprint)??;
    let data = prepared(job, looked, &blueprint, &fingerprint, &folder)?;
    let settings = Settings {
        recipe: recipe.clone(),
        checkpoint: job.model.checkpoint.clone(),
        checkpoint_sha256: fingerprint,
        data_sha256: data.digest(),
        pictures: data.pictures(),
        samples: data.items.len(),
    };
    folder.claim(&settings)?;
    folder.skipped(&skipped)?;

    let model = ModelRequest {
        dtype: Dtype::F32,
        ..job.model.clone()
    };
    let checkpoint = blueprint.checkpoint();
    let unet = checkpoint.load_trainable_unet(
        &device.device,
        recipe.dtype.float(),
        &recipe.kind.choice(checkpoint),
        recipe.seed.0,
    )?;
    // It makes the sample pictures as well: what is frozen is there once.
    let mut engine = blueprint.load_around(unet.network(), &model, device)?;
    tell(Event::Encoding(data.items.len()));
    let stopped = || TrainError::Stopped {
        step: 0,
        steps: recipe.steps,
    };
    data.encode(&engine, || {
        tell(Event::Encoded);
        match stop.load(Ordering::Relaxed) {
            true => Err(stopped()),
            false => Ok(()),
        }
    })?;
    engine.release_encoders();
    let mut trainer = Trainer::new(recipe, &data, &engine, unet, job.memory)?;
    if folder.state().exists() {
        trainer.resume(&folder.state())?;
    }
    let steps = folder.steps_until(trainer.place().step)?;
    let mut training = Training {
        job,
        settings: &settings,
        folder: &folder,
        samples,
        log: steps,
        device,
    };
    training.all(&mut trainer, &mut engine, stop, tell)
}

/// Pictures and captions, not yet encoded.
fn prepared(
    job: &Job,
    looked: Vec<Looked>,
    blueprint: &Blueprint,
    fingerprint: &str,
    folder: &Folder,
) -> Result<Prepared, TrainError> {
    let recipe = &job.recipe;
    let cache = job.cache.clone().unwrap_or_else(|| folder.file("cache"));
    let data = Prepared::new(
        looked,
        recipe.flips,
        cache,
        // New adapters of several kinds have the same files, and look at different things.
        match blueprint.checkpoint().adapters().first() {
            Some(adapter) => format!("{fingerprint} {:?}", adapter.config().kind),
            None => fingerprint.to_owned(),
        },
        recipe.kind.beside(),
    );
    if recipe.flips == Flips::Exchange && !data.has_exchanged() {
        let first = data.items.first().map(|item| item.caption.clone());
        return Err(TrainError::NoExchange {
            first: first.unwrap_or_default(),
        });
    }
    Ok(data)
}

/// Refuses what this checkpoint cannot be trained to, before anything is loaded.
///
/// # Errors
/// Settings out of range, layers that are not there, sizes that latents cannot have.
pub fn check_trainable(recipe: &Recipe, blueprint: &Blueprint) -> Result<(), TrainError> {
    recipe.check()?;
    let checkpoint = blueprint.checkpoint();
    let config = checkpoint.unet_config()?;
    if recipe.kind.beside() == Beside::Objects && checkpoint.family() != Family::Sd1 {
        return Err(TrainError::Grounding(checkpoint.family()));
    }
    training::parameters(&config, &recipe.kind.choice(checkpoint)).map_err(|source| {
        WeightsError::Training {
            path: checkpoint.path().to_owned(),
            source: Box::new(source),
        }
    })?;
    let factor = blueprint.vae_factor();
    let sizes = recipe.sizes;
    let step = sizes.buckets.map(|buckets| buckets.step);
    for side in sizes.resolution.into_iter().chain(step) {
        if side == 0 || !side.is_multiple_of(factor) {
            return Err(TrainError::Sizes(format!(
                "pictures for this checkpoint have sides that are multiples of {factor} pixels, and {side} is none"
            )));
        }
    }
    Ok(())
}

/// The requests of the sample pictures, checked.
fn requests(job: &Job, blueprint: &Blueprint) -> Result<Vec<Request>, TrainError> {
    let of = |prompt: &String| {
        let mut request = blueprint.request(prompt, &job.model);
        [request.width, request.height] = job.recipe.sizes.resolution;
        request.seed = job.samples.seed;
        request.steps = job.samples.steps;
        let beside = job.recipe.kind.beside();
        request.ground = (beside == Beside::Objects).then(Grounding::default);
        let shown = job.samples.picture.iter();
        request.pictures = shown.map(PicturePrompt::new).collect();
        check(blueprint, &mut request, None, None)?;
        Ok(request)
    };
    job.samples.prompts.iter().map(of).collect()
}

/// What does not change over the steps, and the log.
struct Training<'a> {
    job: &'a Job,
    settings: &'a Settings,
    folder: &'a Folder,
    samples: Vec<Request>,
    log: Vec<Step>,
    device: &'a OpenDevice,
}

impl Training<'_> {
    fn all(
        &mut self,
        trainer: &mut Trainer,
        engine: &mut Engine,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), TrainError> {
        let steps = self.job.recipe.steps;
        let lengths = trainer.trained().iter().map(|tensor| tensor.values.len());
        tell(Event::Begun {
            done: trainer.place().step,
            steps,
            parameters: lengths.sum(),
            samples: self.settings.samples,
        });
        let state = self.folder.state();
        let mut kept = trainer.place().step;
        self.sample(trainer, engine, tell)?;
        while trainer.place().step < steps {
            if stop.load(Ordering::Relaxed) {
                let step = trainer.place().step;
                trainer.save(&state)?;
                return Err(TrainError::Stopped { step, steps });
            }
            let started = Instant::now();
            let step = trainer.step(kept, &state)?;
            self.folder.log(&step)?;
            self.log.push(step);
            tell(Event::Step(&step, started.elapsed().as_secs_f64()));
            let is_last = step.step == steps;
            if is_last || step.step.is_multiple_of(self.job.keep_every.max(1)) {
                trainer.save(&state)?;
                kept = step.step;
                tell(Event::Kept(kept));
            }
            self.sample(trainer, engine, tell)?;
        }
        let checkpoint = engine.blueprint().checkpoint();
        for path in self.folder.export(trainer, self.settings, checkpoint)? {
            tell(Event::Written(&path));
        }
        let page = self.page()?;
        tell(Event::Written(&page));
        Ok(())
    }

    /// Makes the pictures that are due, but for those that are there. What is there of another request is made again.
    fn sample(
        &self,
        trainer: &Trainer,
        engine: &mut Engine,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), TrainError> {
        let (step, every) = (trainer.place().step, self.job.samples.every);
        let is_end = step == 0 || step == self.job.recipe.steps;
        let is_due = is_end || (every > 0 && step.is_multiple_of(every));
        if !is_due {
            return Ok(());
        }
        let missing = self.samples.iter().enumerate();
        let missing: Vec<(usize, &Request)> = missing
            .filter(|(prompt, request)| !self.folder.has_sample(*prompt, step, request))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        prepose_store::files::prepare_folder(&self.folder.file("samples"))?;
        match trainer.adapter() {
            Some(adapter) => engine.replace_adapter(0, adapter),
            None => engine.replace_unet(trainer.network()),
        }
        let title = self.device.title();
        for (prompt, request) in missing {
            let path = self.folder.sample(prompt, step);
            let made =
                PictureMaker::new(engine, 1).make(std::slice::from_ref(request), None, &mut [])?;
            for picture in &made.pictures {
                picture
                    .save(&path, &title)
                    .map_err(crate::make::SaveError::from)?;
            }
            tell(Event::Sampled(&path));
        }
        self.page()?;
        Ok(())
    }

    fn page(&self) -> Result<PathBuf, TrainError> {
        let path = self.folder.file("training.html");
        let page = page::page(self.settings, &self.log, &self.samples, self.folder);
        prepose_store::files::write_atomically(&path, page.as_bytes())?;
        Ok(path)
    }
}
