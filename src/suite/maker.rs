//! A run's pictures, by the engine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use burn::tensor::Tensor;

use super::method::Method;
use super::plan::{Job, Plan};
use super::run::{Made, Maker, NamedFile, RunError};
use super::sample::Cost;
use crate::attention_maps::{AttentionMaps, Half, MapSelection};
use crate::check::detect::Detector;
use crate::check::detect::reward::{PictureReward, PictureRewardKind};
use crate::engine::{Blueprint, Engine, EngineError};
use crate::guidance::maps::{LayerRule, Pooling};
use crate::output::attention::ObjectMaps;
use crate::output::files::slug;
use crate::output::png;
use crate::picture::Picture;
use crate::request::{FoundBy, Request};
use crate::sampling::denoise::{Hook, HookError, State};
use crate::search::{self, AttentionScorer, PictureScorer, RewardKind, Search, SearchConfig};

/// Makes pictures with an engine.
pub struct EngineMaker<'a> {
    /// The networks.
    pub engine: &'a Engine,
    /// The run's.
    pub plan: &'a Plan,
    /// Pictures at a time, at most; fewer once memory ran out.
    pub batch: usize,
    /// Who scores the candidates of searches that go by the picture.
    pub judge: Option<&'a dyn Detector>,
    /// Asks to stop at once.
    pub stop: &'a AtomicBool,
}

/// The request for a job, as far as the networks matter: what [`EngineMaker`] makes.
///
/// # Errors
/// A prompt that the method or the networks cannot use.
pub fn request(plan: &Plan, blueprint: &Blueprint, job: Job) -> Result<Request, RunError> {
    let config = &plan.config;
    let sampling = &config.sampling;
    let prompt = &plan.prompts[job.prompt];
    let method = &config.methods[job.method];
    let plain = Request {
        negative_prompt: sampling.negative_prompt.clone(),
        width: sampling.width,
        height: sampling.height,
        steps: sampling.steps,
        guidance_scale: sampling.guidance_scale,
        scheduler: Some(sampling.scheduler.clone()),
        clip_skip: sampling.clip_skip,
        noise: sampling.noise,
        vae_tiling: sampling.vae_tiling,
        ..blueprint.request(&prompt.prompt, &config.model)
    };
    let mut request = method.request(&plain, prompt, job.seed)?;
    if needs_scene(method) && !prompt.relations.is_empty() {
        // The set knows what its prompts say, also where English leaves it open.
        let scene = blueprint.scene(&request);
        if !scene.is_ok_and(|scene| scene.relations.len() == prompt.relations.len()) {
            let object = |index: usize| prompt.objects.get(index).map_or("", String::as_str);
            request.relations = (prompt.relations.iter())
                .map(|said| {
                    format!(
                        "{} | {} | {}",
                        object(said.a),
                        said.relation,
                        object(said.b)
                    )
                })
                .collect();
        }
    }
    blueprint.check(&mut request)?;
    if let Some(search) = &method.search {
        search::check(blueprint, &request, search)?;
    }
    Ok(request)
}

/// Whether a method must know where things belong.
fn needs_scene(method: &Method) -> bool {
    method.guide.is_some() || method.search.is_some()
}

/// What a search by the picture rewards.
pub fn reward_kind(search: &SearchConfig) -> Option<PictureRewardKind> {
    match search.reward {
        RewardKind::Attention => None,
        RewardKind::Checker => Some(PictureRewardKind::Verdict),
        RewardKind::Pse => Some(PictureRewardKind::Pse),
    }
}

/// Stops a batch when it is told to.
struct Stop<'a>(&'a AtomicBool);

impl Hook for Stop<'_> {
    fn after_step(&mut self, _state: &mut State, _denoised: &Tensor<4>) -> Result<(), HookError> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(Box::new(RunError::Interrupted)),
            false => Ok(()),
        }
    }
}

impl EngineMaker<'_> {
    fn requests(&self, jobs: &[Job]) -> Result<Vec<Request>, RunError> {
        let blueprint = self.engine.blueprint();
        let request = |job: &Job| request(self.plan, blueprint, *job);
        jobs.iter().map(request).collect()
    }

    fn search_of(&self, job: Job) -> Option<&SearchConfig> {
        self.plan.config.methods[job.method].search.as_ref()
    }

    /// An engine's error; being told to stop is none of its own.
    fn told(&self, error: EngineError) -> RunError {
        match self.stop.load(Ordering::Relaxed) {
            true => RunError::Interrupted,
            false => error.into(),
        }
    }

    fn plain(&self, jobs: &[Job]) -> Result<Vec<Made>, RunError> {
        let started = Instant::now();
        let requests = self.requests(jobs)?;
        let mut maps = self.maps();
        let mut stop = Stop(self.stop);
        let mut hooks: Vec<&mut dyn Hook> = vec![&mut stop];
        if let Some(maps) = &mut maps {
            hooks.push(maps);
        }
        let made = self.engine.generate(&requests, &mut hooks);
        let made = made.map_err(|error| self.told(error))?;
        let mut files = match maps {
            Some(maps) => self.draw(maps, jobs, &requests, &made.pictures)?,
            None => vec![Vec::new(); jobs.len()],
        };
        let seconds = started.elapsed().as_secs_f64() / jobs.len() as f64;
        let each = requests.into_iter().zip(made.pictures).zip(&mut files);
        each.map(|((request, picture), files)| {
            Ok(Made {
                cost: Cost {
                    unet_calls: self.engine.steps(&request),
                    guided_calls: made.recorded_passes,
                    candidates: 1,
                    seconds,
                },
                scheduler: self.engine.scheduler_name(&request)?,
                files: std::mem::take(files),
                request,
                picture,
            })
        })
        .collect()
    }

    fn searched(&self, job: Job, search: &SearchConfig) -> Result<Made, RunError> {
        let started = Instant::now();
        let blueprint = self.engine.blueprint();
        let request = request(self.plan, blueprint, job)?;
        let run = Search {
            engine: self.engine,
            request: &request,
            config: search,
            batch: self.batch,
        };
        let mut stop = Stop(self.stop);
        let hooks: &mut [&mut dyn Hook] = &mut [&mut stop];
        let found = match (reward_kind(search), self.judge) {
            (Some(kind), Some(detector)) => {
                let scene = blueprint.scene(&request)?;
                let reward = PictureReward::new(kind, &scene, detector.vocabulary())?;
                let score = |pictures: &[_]| Ok(reward.scores(detector, pictures)?);
                let meter =
                    |_: &[_]| Ok(PictureScorer::new(self.engine, request.vae_tiling, score));
                run.run(meter, hooks)
            }
            _ => run.run(
                |requests| AttentionScorer::for_batch(blueprint, requests),
                hooks,
            ),
        };
        let found = found.map_err(|error| self.told(error))?;
        let best = found.latents.narrow(0, 0, 1);
        let picture = self.engine.decode(best, request.vae_tiling)?.remove(0);
        let candidate = &found.candidates[found.finished[0]];
        let request = Request {
            seed: candidate.seed,
            found: Some(FoundBy {
                search: search.clone(),
                seed: request.seed,
                candidate: candidate.index,
                score: candidate.score,
                rank: 1,
            }),
            ..request
        };
        let seconds = started.elapsed().as_secs_f64();
        let files = match self.maps() {
            // The best once more, now with its maps.
            Some(mut maps) => {
                let (best, picture) = (
                    std::slice::from_ref(&request),
                    std::slice::from_ref(&picture),
                );
                self.engine
                    .latents(best, &mut [&mut maps, &mut stop])
                    .map_err(|error| self.told(error))?;
                self.draw(maps, &[job], best, picture)?.remove(0)
            }
            None => Vec::new(),
        };
        Ok(Made {
            cost: Cost {
                unet_calls: found.unet_calls,
                guided_calls: found.recorded_passes,
                candidates: search.best_of,
                seconds,
            },
            scheduler: self.engine.scheduler_name(&request)?,
            request,
            picture,
            files,
        })
    }

    /// What reads attention maps, if the run draws them.
    fn maps(&self) -> Option<AttentionMaps> {
        let selection = || MapSelection {
            layers: LayerRule::Size {
                side: None,
                down_only: false,
            },
            pooling: Pooling::Mean,
            heads: None,
            every: 1,
            half: Half::default(),
        };
        let draws = self.plan.config.attention_maps;
        draws.then(|| AttentionMaps::new(selection()))
    }

    /// `maps/{sample_id}-{object}.png` for each object of each picture: the mean over the steps as a heat map.
    fn draw(
        &self,
        maps: AttentionMaps,
        jobs: &[Job],
        requests: &[Request],
        pictures: &[Picture],
    ) -> Result<Vec<Vec<NamedFile>>, RunError> {
        let blueprint = self.engine.blueprint();
        let objects = requests.iter().map(|request| blueprint.objects(request));
        let objects = objects.collect::<Result<Vec<_>, _>>()?;
        let mut drawn = vec![Vec::new(); jobs.len()];
        let read = ObjectMaps::read(&maps.into_steps(), &objects);
        // Of several sizes the first, which has the most cells.
        let of_pictures = read.into_iter().next().unwrap_or_default();
        for (((maps, job), picture), files) in
            of_pictures.iter().zip(jobs).zip(pictures).zip(&mut drawn)
        {
            let sample_id = self.plan.sample_id(*job);
            for (object, map) in maps.objects.iter().zip(maps.mean()) {
                let name = format!("maps/{sample_id}-{}.png", slug(object));
                let bytes = png::encode_plain(&map.over(picture, map.peak()));
                let sample_id = sample_id.clone();
                let bytes = bytes.map_err(|source| RunError::Encode { sample_id, source })?;
                files.push((name, bytes));
            }
        }
        Ok(drawn)
    }
}

impl Maker for EngineMaker<'_> {
    fn together(&self, jobs: &[Job]) -> Result<usize, RunError> {
        let [first, ..] = jobs else {
            return Ok(0);
        };
        if self.search_of(*first).is_some() {
            return Ok(1);
        }
        let some = &jobs[..jobs.len().min(self.batch)];
        Ok(self
            .engine
            .batch_size(&self.requests(some)?, self.batch)?
            .max(1))
    }

    fn make(&mut self, jobs: &[Job]) -> Result<Vec<Made>, RunError> {
        let search = jobs.first().and_then(|job| self.search_of(*job).cloned());
        let mut batch = self.batch;
        // A search is made alone, and its batch is one of candidates.
        let together = |jobs: usize| search.as_ref().map_or(jobs, |search| search.best_of);
        let made = by_halves(jobs, &mut batch, together, |jobs, batch| {
            self.batch = batch;
            match (&search, jobs) {
                (Some(search), [job]) => Ok(vec![self.searched(*job, search)?]),
                _ => self.plain(jobs),
            }
        });
        self.batch = batch;
        made
    }
}

/// Makes `jobs` at most `batch` at a time, with half the batch whenever memory runs out, and in the end one by one.
/// `make` makes some jobs with a batch, and `together` are the pictures that so many jobs make together if the batch lets them.
fn by_halves<J, M>(
    jobs: &[J],
    batch: &mut usize,
    together: impl Fn(usize) -> usize,
    mut make: impl FnMut(&[J], usize) -> Result<Vec<M>, RunError>,
) -> Result<Vec<M>, RunError> {
    let mut made = Vec::with_capacity(jobs.len());
    while made.len() < jobs.len() {
        let rest = &jobs[made.len()..];
        match make(&rest[..rest.len().min(*batch)], *batch) {
            Ok(more) => made.extend(more),
            Err(error) => {
                let pictures = together(rest.len()).min(*batch);
                match &error {
                    RunError::Engine(short) if pictures > 1 && short.out_of_memory().is_some() => {
                        *batch = pictures / 2;
                        tracing::warn!("{short}; going on with {batch} at a time");
                    }
                    _ => return Err(error),
                }
            }
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{OutOfMemory, Room, Shortage};

    fn short() -> RunError {
        let short = OutOfMemory {
            doing: "denoising".into(),
            device: "flex".into(),
            shortage: Shortage { bytes: None },
            needs: None,
            room: Room::default(),
            ways: Vec::new(),
        };
        EngineError::OutOfMemory(Box::new(short)).into()
    }

    #[test]
    fn a_batch_that_is_too_large_is_made_in_parts_and_nothing_twice() {
        let jobs: Vec<usize> = (0..13).collect();
        let (mut batch, mut sizes) = (8, Vec::new());
        let made = by_halves(
            &jobs,
            &mut batch,
            |jobs| jobs,
            |jobs, _| {
                sizes.push(jobs.len());
                // There is room for three, and less after a while.
                let most = if jobs[0] < 6 { 3 } else { 1 };
                if jobs.len() > most {
                    Err(short())
                } else {
                    Ok(jobs.to_vec())
                }
            },
        );
        assert_eq!(made.unwrap(), jobs);
        assert_eq!(batch, 1);
        assert_eq!(sizes, [8, 4, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn one_that_is_too_large_alone_is_an_error() {
        let mut batch = 4;
        let jobs = [0, 1, 2];
        let made = by_halves(
            &jobs,
            &mut batch,
            |jobs| jobs,
            |_, _| Err::<Vec<()>, _>(short()),
        );
        assert!(made.unwrap_err().to_string().contains("out of memory"));
        assert_eq!(batch, 1);
    }

    #[test]
    fn candidates_of_a_search_are_halved() {
        let mut batch = 16;
        let made = by_halves(
            &[0],
            &mut batch,
            |_| 12,
            |jobs, batch| {
                if batch > 4 {
                    Err(short())
                } else {
                    Ok(jobs.to_vec())
                }
            },
        );
        assert_eq!((made.unwrap(), batch), (vec![0], 3));
    }
}
