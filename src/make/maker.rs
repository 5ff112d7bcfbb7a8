//! Requests in, finished pictures out.

use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Instant;

use burn::tensor::Tensor;
use prepose_weights::WeightsError;

use super::cancel::{Cancel, join};
use super::error::MakeError;
use super::fingerprint::Fingerprint;
use super::finished::{FinishedBatch, FinishedPicture, Seconds};
use super::halving::by_halves;
use super::judge::{CandidateJudge, picture_reward, reward_kind};
use super::maps::MapOptions;
use crate::attention_maps::AttentionMaps;
use crate::check::sample::Cost;
use crate::detect::Detector;
use crate::engine::Engine;
use crate::output::attention::ObjectMaps;
use crate::picture::{Picture, PictureTensor};
use crate::request::{FoundBy, Request, RewardKind, SearchConfig};
use crate::sampling::denoise::{Hook, UnetRows};
use crate::search::{AttentionScorer, Found, PictureScorer, Search};

/// Makes pictures with an engine: plain ones in batches, or the best of several candidates. When memory runs out, it
/// goes on with half the batch.
pub struct PictureMaker<'a> {
    engine: &'a Engine,
    batch: usize,
    halves: bool,
    judge: Option<&'a dyn Detector>,
    candidate_judge: Option<&'a dyn CandidateJudge>,
    maps: Option<MapOptions>,
    keeps_all: bool,
    cancel: Option<&'a AtomicBool>,
    fingerprint: Option<Fingerprint>,
}

impl<'a> PictureMaker<'a> {
    /// Makes at most `batch` pictures at a time, at least 1.
    pub fn new(engine: &'a Engine, batch: usize) -> Self {
        Self {
            engine,
            batch: batch.max(1),
            halves: true,
            judge: None,
            candidate_judge: None,
            maps: None,
            keeps_all: false,
            cancel: None,
            fingerprint: None,
        }
    }

    /// Scores the candidates of searches by what `judge` sees, where their reward asks for a detector.
    pub fn with_judge(self, judge: Option<&'a dyn Detector>) -> Self {
        Self { judge, ..self }
    }

    /// Scores the candidates of searches by what `judge` answers, where their reward is a judge.
    pub fn with_candidate_judge(self, judge: Option<&'a dyn CandidateJudge>) -> Self {
        Self {
            candidate_judge: judge,
            ..self
        }
    }

    /// Reads attention maps.
    pub fn with_maps(self, maps: Option<MapOptions>) -> Self {
        Self { maps, ..self }
    }

    /// Keeps all finished candidates of a search, or only the best.
    pub fn keeping_all(self, keeps_all: bool) -> Self {
        Self { keeps_all, ..self }
    }

    /// Ends with [`MakeError::Cancelled`] after the step in which `cancel` becomes true.
    pub fn with_cancel(self, cancel: &'a AtomicBool) -> Self {
        Self {
            cancel: Some(cancel),
            ..self
        }
    }

    /// Records the hash that `thread` ([`Blueprint::fingerprint`](crate::engine::Blueprint::fingerprint)) computes in
    /// each picture's request. Without it requests keep the hash that they have.
    pub fn with_fingerprint(self, thread: JoinHandle<Result<String, WeightsError>>) -> Self {
        Self {
            fingerprint: Some(Fingerprint::new(thread)),
            ..self
        }
    }

    /// Fails when memory runs out, instead of going on with smaller batches.
    pub fn without_halving(self) -> Self {
        Self {
            halves: false,
            ..self
        }
    }

    /// Pictures at a time, at most; fewer than at the start once memory ran out.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Makes the first of `requests`: as many as fit into one batch, or with `search` the first alone. Call it again
    /// with the rest. `hooks` are the caller's, a progress bar for example; they see each attempt from its start.
    ///
    /// # Errors
    /// As [`Engine::generate`]; a search without the judge that its reward needs.
    pub fn make(
        &mut self,
        requests: &[Request],
        search: Option<&SearchConfig>,
        hooks: &mut [&mut dyn Hook],
    ) -> Result<FinishedBatch, MakeError> {
        let Some(first) = requests.first() else {
            return Ok(FinishedBatch::default());
        };
        let mut batch = self.batch;
        let made = by_halves(&mut batch, self.halves, |batch| match search {
            Some(search) => {
                let made = self.search(first, search, batch, hooks);
                Ok((search.best_of.min(batch), made))
            }
            None => {
                let size = self.engine.batch_size(requests, batch)?;
                Ok((size, self.batch_of(&requests[..size], hooks)))
            }
        });
        self.batch = batch;
        let mut made = made?;
        if let Some(fingerprint) = &mut self.fingerprint {
            for picture in &mut made.pictures {
                fingerprint.record(&mut picture.request)?;
            }
        }
        Ok(made)
    }

    /// Makes a batch.
    fn batch_of(
        &self,
        requests: &[Request],
        hooks: &mut [&mut dyn Hook],
    ) -> Result<FinishedBatch, MakeError> {
        let started = Instant::now();
        let mut cancel = Cancel(self.cancel);
        let mut maps = self.maps.as_ref().map(MapOptions::hook);
        let made = {
            let mut all = join(&mut cancel, hooks);
            all.extend(maps.as_mut().map(|maps| maps as &mut dyn Hook));
            self.engine.generate(requests, &mut all)?
        };
        let maps = self.read_maps(maps, requests)?;
        let total = started.elapsed().as_secs_f64();
        let mut pictures = Vec::with_capacity(requests.len());
        let each = requests.iter().zip(made.pictures).zip(maps);
        for (((request, picture), maps), passes) in each.zip(made.recorded_passes) {
            pictures.push(FinishedPicture {
                scheduler: self.engine.scheduler_name(request)?,
                calls: self.engine.steps(request),
                request: Request {
                    vae_tiling: made.tiled,
                    ..request.clone()
                },
                picture,
                maps,
                cost: Cost {
                    unet_calls: self.engine.steps(request),
                    guided_calls: passes,
                    rows: rows(request, made.unet_rows),
                    candidates: 1,
                    seconds: total / requests.len() as f64,
                },
            });
        }
        Ok(FinishedBatch {
            unet_calls: pictures.iter().map(|one| one.cost.unet_calls).sum(),
            pictures,
            candidates: Vec::new(),
            requests: requests.len(),
            at_once: requests.len(),
            seconds: Seconds {
                text: made.text_seconds,
                denoise: made.denoise_seconds,
                decode: made.decode_seconds,
                total,
            },
        })
    }

    /// Searches for the best noise of `request`.
    fn search(
        &self,
        request: &Request,
        search: &SearchConfig,
        batch: usize,
        hooks: &mut [&mut dyn Hook],
    ) -> Result<FinishedBatch, MakeError> {
        let started = Instant::now();
        let mut cancel = Cancel(self.cancel);
        let found = self.candidates(request, search, batch, &mut join(&mut cancel, hooks))?;
        let denoise = started.elapsed().as_secs_f64();

        let decoding = Instant::now();
        let kept = match self.keeps_all {
            true => found.finished.len(),
            false => 1,
        };
        let latents = found.latents.narrow(0, 0, kept);
        let (decoded, tiled) = self.engine.decode_for(request, latents)?;
        let decode = decoding.elapsed().as_secs_f64();

        let cost = Cost {
            unet_calls: found.unet_calls,
            guided_calls: found.recorded_passes,
            rows: rows(request, found.unet_rows),
            candidates: search.best_of,
            seconds: started.elapsed().as_secs_f64(),
        };
        let mut pictures = Vec::with_capacity(kept);
        for ((index, picture), rank) in found.finished.iter().zip(decoded).zip(1..) {
            let candidate = &found.candidates[*index];
            let request = Request {
                seed: candidate.seed,
                found: Some(FoundBy {
                    search: search.clone(),
                    seed: request.seed,
                    candidate: candidate.index,
                    score: candidate.score,
                    rank,
                }),
                vae_tiling: tiled,
                ..request.clone()
            };
            pictures.push(FinishedPicture {
                scheduler: self.engine.scheduler_name(&request)?,
                calls: self.engine.steps(&request),
                request,
                picture,
                maps: Vec::new(),
                cost,
            });
        }
        if let (Some(options), Some(best)) = (&self.maps, pictures.first_mut()) {
            // The best once more, now with its maps.
            let mut maps = options.hook();
            let one = std::slice::from_ref(&best.request);
            self.engine.latents(one, &mut [&mut cancel, &mut maps])?;
            best.maps = self.read_maps(Some(maps), one)?.remove(0);
        }
        Ok(FinishedBatch {
            pictures,
            candidates: found.candidates,
            requests: 1,
            at_once: batch,
            unet_calls: found.unet_calls,
            seconds: Seconds {
                text: 0.0,
                denoise,
                decode,
                total: started.elapsed().as_secs_f64(),
            },
        })
    }

    /// The candidates of a search, scored as it asks.
    fn candidates(
        &self,
        request: &Request,
        search: &SearchConfig,
        batch: usize,
        hooks: &mut [&mut dyn Hook],
    ) -> Result<Found, MakeError> {
        let (engine, blueprint) = (self.engine, self.engine.blueprint());
        let run = Search {
            engine,
            request,
            config: search,
            batch,
        };
        if search.reward == RewardKind::Judge {
            let judge = self.candidate_judge.ok_or(MakeError::NoCandidateJudge)?;
            let scene = blueprint.scene(request)?;
            let score = |pictures: &[Tensor<3>]| {
                let pictures = pictures.iter().cloned().map(Picture::from_tensor);
                let pictures: Option<Vec<Picture>> = pictures.collect();
                let pictures = pictures.ok_or("a picture has values that are not numbers")?;
                judge.scores(&request.prompt, &scene, &pictures)
            };
            let scorer = |_: &[_]| Ok(PictureScorer::new(engine, request, score));
            return Ok(run.run(scorer, hooks)?);
        }
        let Some(kind) = reward_kind(search.reward) else {
            let scorer = |requests: &[_]| AttentionScorer::for_batch(blueprint, requests);
            return Ok(run.run(scorer, hooks)?);
        };
        let judge = self.judge.ok_or(MakeError::NoJudge)?;
        let reward = picture_reward(blueprint, request, kind, judge.vocabulary())?;
        let score = |pictures: &[_]| Ok(reward.scores(judge, pictures)?);
        let scorer = |_: &[_]| Ok(PictureScorer::new(engine, request, score));
        Ok(run.run(scorer, hooks)?)
    }

    /// What `maps` has read of each of `requests`; nothing if there are none.
    fn read_maps(
        &self,
        maps: Option<AttentionMaps>,
        requests: &[Request],
    ) -> Result<Vec<Vec<ObjectMaps>>, MakeError> {
        match (&self.maps, maps) {
            (Some(options), Some(maps)) => options.read(maps, self.engine.blueprint(), requests),
            _ => Ok(vec![Vec::new(); requests.len()]),
        }
    }
}

/// The rows that `request` took through the network, told where they are not two a step, or one.
fn rows(request: &Request, UnetRows { whole, shallow }: UnetRows) -> Option<[usize; 2]> {
    (!request.savings.is_none()).then_some([whole, shallow])
}

#[cfg(test)]
#[cfg(feature = "toybox")]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::device;
    use crate::engine::Blueprint;
    use crate::prompt::scene::Scene;
    use crate::request::{Dtype, ModelRequest};

    /// Likes bright pictures.
    struct Bright;

    impl CandidateJudge for Bright {
        fn scores(
            &self,
            _: &str,
            _: &Scene,
            pictures: &[Picture],
        ) -> Result<Vec<f64>, Box<dyn Error + Send + Sync>> {
            let bright = |picture: &Picture| {
                let bytes = picture.rgb.iter().map(|byte| f64::from(*byte));
                bytes.sum::<f64>()
            };
            Ok(pictures.iter().map(bright).collect())
        }
    }

    /// An engine whose device has no room to decode a whole picture.
    fn short_of_memory(tiles: bool) -> Engine {
        crate::memory::silence_panics();
        let model = ModelRequest::new("toybox", Dtype::F32);
        let device = device::open("flex".parse().unwrap()).unwrap();
        let blueprint = Blueprint::open(&model).unwrap();
        let engine = blueprint.load(&model, &device).unwrap();
        let mut engine = engine.tiling_when_short(tiles);
        engine.short_of_memory = true;
        engine
    }

    #[test]
    fn what_has_no_room_whole_is_decoded_in_tiles() {
        let search = SearchConfig {
            best_of: 2,
            reward: RewardKind::Judge,
            pruning: None,
        };
        let make = |engine: &Engine, search: Option<&SearchConfig>| {
            let one = Request {
                steps: 2,
                width: 64,
                height: 64,
                ..engine.request("a dog to the left of a cat")
            };
            let mut maker = PictureMaker::new(engine, 2).with_candidate_judge(Some(&Bright));
            maker.make(&[one], search, &mut [])
        };
        let (tiling, failing) = (short_of_memory(true), short_of_memory(false));
        for search in [None, Some(&search)] {
            // The file says so, so that it can be made again.
            let made = make(&tiling, search).unwrap();
            assert!(made.pictures[0].request.vae_tiling);
            let error = make(&failing, search).err().unwrap();
            assert!(matches!(&error, MakeError::Engine(short) if short.out_of_memory().is_some()));
        }
        // Each time that an engine is used it may be said anew.
        failing.tile_when_short(true);
        let made = make(&failing, None).unwrap();
        assert!(made.pictures[0].request.vae_tiling);
    }
}
