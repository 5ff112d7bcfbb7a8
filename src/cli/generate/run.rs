//! Making the pictures, batch after batch, and writing them down.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::anyhow;
use prepose::check::detect::reward::{PictureReward, PictureRewardKind, RewardError};
use prepose::check::detect::{Detector, RcnnDetector};
use prepose::engine::Engine;
use prepose::memory::MemoryMeter;
use prepose::output::files::{free_name, parent, slug};
use prepose::output::manifest::{self, Place};
use prepose::output::{files, png};
use prepose::picture::Picture;
use prepose::prompt::scene::Scene;
use prepose::request::{FoundBy, Request};
use prepose::sampling::denoise::{Hook, HookError, State};
use prepose::search::{AttentionScorer, PictureScorer, Search, SearchConfig};
use prepose_weights::WeightsError;

use super::Args;
use super::maps::MapFiles;
use crate::cli::memory::out_of_memory;
use crate::cli::progress::Progress;

/// The end of the run, asked for by Ctrl-C.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; finished pictures are kept, and nothing was written of the others")]
struct Interrupted;

/// Counts steps, stops on Ctrl-C and writes previews.
struct Watch<'a> {
    progress: &'a mut Progress,
    stop: &'a AtomicBool,
    previews: Option<Previews<'a>>,
}

struct Previews<'a> {
    every: usize,
    engine: &'a Engine,
    paths: Vec<PathBuf>,
    tiling: bool,
}

impl Hook for Watch<'_> {
    fn after_step(
        &mut self,
        state: &mut State,
        denoised: &burn::tensor::Tensor<4>,
    ) -> Result<(), HookError> {
        let [pictures, ..] = denoised.dims();
        self.progress.advance(pictures as u64);
        if let Some(previews) = &self.previews
            && (state.step + 1).is_multiple_of(previews.every)
            && state.step + 1 < state.steps
        {
            let pictures = previews.engine.decode(denoised.clone(), previews.tiling)?;
            for (path, picture) in previews.paths.iter().zip(&pictures) {
                png::save_plain(path, picture)?;
            }
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(Interrupted.into());
        }
        Ok(())
    }
}

/// The checkpoint's SHA-256, computed beside the first pictures.
pub(super) enum Provenance {
    Computing(JoinHandle<Result<String, WeightsError>>),
    Known(String),
}

impl Provenance {
    /// Notes the hash in `request`, and says so if the picture was first made from other weights.
    fn note(&mut self, request: &mut Request) -> anyhow::Result<()> {
        if let Provenance::Computing(_) = self {
            let computing = std::mem::replace(self, Provenance::Known(String::new()));
            if let Provenance::Computing(thread) = computing {
                let hash = thread
                    .join()
                    .map_err(|_| anyhow!("hashing the checkpoint failed"))??;
                *self = Provenance::Known(hash);
            }
        }
        if let Provenance::Known(hash) = self {
            let before = request.model.sha256.replace(hash.clone());
            if before.is_some_and(|before| before != *hash) {
                tracing::warn!(
                    "{} is not what the picture was first made with (another SHA-256); \
                     the new picture will differ",
                    request.model.checkpoint
                );
            }
        }
        Ok(())
    }
}

/// Pictures that were made together.
struct Batch {
    each: Vec<(Request, PathBuf, Picture)>,
    /// Rows through the UNet, one a picture and step whether or not with classifier-free guidance; those of guidance
    /// not counted.
    unet_calls: usize,
    text_seconds: f64,
    denoise_seconds: f64,
    decode_seconds: f64,
    seconds: f64,
}

/// The detector that looks at the candidates of a search, and what is good about what it sees.
pub(super) struct Judge {
    pub detector: RcnnDetector,
    pub kind: PictureRewardKind,
}

impl Judge {
    fn reward(&self, scene: &Scene) -> Result<PictureReward, RewardError> {
        PictureReward::new(self.kind, scene, self.detector.vocabulary())
    }
}

/// One run of the command.
pub(super) struct Run<'a> {
    pub args: &'a Args,
    pub engine: &'a Engine,
    /// Pictures at a time, at most; fewer once memory ran out.
    pub batch: Cell<usize>,
    pub search: Option<SearchConfig>,
    pub judge: Option<Judge>,
    pub maps: Option<MapFiles>,
    pub device: String,
    pub stop: &'a AtomicBool,
}

impl Run<'_> {
    pub fn all(
        &self,
        requests: &[Request],
        targets: &[PathBuf],
        provenance: &mut Provenance,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
        let run_id = format!("prepose-{now}");
        let mut done = 0;
        while done < requests.len() {
            let most = self.batch.get();
            let size = match self.search {
                Some(_) => 1,
                None => self.engine.batch_size(&requests[done..], most)?,
            };
            let batch = &requests[done..done + size];
            let paths = &targets[done..done + size];
            progress.message(batch[0].prompt.chars().take(20).collect::<String>());
            let meter =
                (self.args.json && done == 0).then(|| MemoryMeter::start(self.engine.device()));
            let made = match &self.search {
                Some(search) => self.search(search, &batch[0], &paths[0], progress),
                None => self.batch(batch, paths, progress),
            };
            let together = if self.search.is_some() { most } else { size };
            let made = match made {
                Err(error) if together > 1 && out_of_memory(&error).is_some() => {
                    self.batch.set(together / 2);
                    tracing::warn!("{error:#}; going on with {} at a time", together / 2);
                    continue;
                }
                made => made?,
            };
            let peak = meter.and_then(|meter| meter.extra());
            for (mut request, path, picture) in made.each {
                provenance.note(&mut request)?;
                self.save(&request, &path, &picture, &run_id)?;
                let line = match self.args.json {
                    true => {
                        let mut line = serde_json::json!({
                            "path": path,
                            "prompt": request.prompt,
                            "seed": request.seed,
                            "device": self.device,
                            "batch": size,
                            "unet_calls": made.unet_calls,
                            "seconds": {"text": made.text_seconds, "denoise": made.denoise_seconds,
                                        "decode": made.decode_seconds, "batch": made.seconds},
                        });
                        if let Some(peak) = peak {
                            let needs = self.engine.needs(&request, together)?;
                            line["memory"] = serde_json::json!({
                                "weights_estimate": needs.weights(),
                                "work_estimate": needs.work(request.vae_tiling),
                                "work_peak": peak,
                                "free": self.engine.room().free,
                            });
                        }
                        if !request.relations.is_empty() {
                            line["relations"] = request.relations.clone().into();
                        }
                        if let Some(found) = &request.found {
                            line["search_seed"] = found.seed.into();
                            line["candidate"] = found.candidate.into();
                            line["score"] = found.score.into();
                            line["rank"] = found.rank.into();
                        }
                        line.to_string()
                    }
                    false => path.display().to_string(),
                };
                progress.println(&line)?;
            }
            done += size;
        }
        Ok(())
    }

    /// Makes a batch, with previews if asked for; the previews are gone afterwards.
    fn batch(
        &self,
        batch: &[Request],
        paths: &[PathBuf],
        progress: &mut Progress,
    ) -> anyhow::Result<Batch> {
        let started = Instant::now();
        let previews = self.args.preview_every.map(|every| Previews {
            every,
            engine: self.engine,
            paths: paths
                .iter()
                .map(|path| path.with_extension("preview.png"))
                .collect(),
            tiling: batch[0].vae_tiling,
        });
        let mut watch = Watch {
            progress,
            stop: self.stop,
            previews,
        };
        let mut maps = self.maps.as_ref().map(MapFiles::hook);
        let mut hooks: Vec<&mut dyn Hook> = vec![&mut watch];
        if let Some(maps) = &mut maps {
            hooks.push(maps);
        }
        let made = self.engine.generate(batch, &mut hooks);
        for path in watch.previews.iter().flat_map(|previews| &previews.paths) {
            // There may be none yet.
            let _ = std::fs::remove_file(path);
        }
        let made = made?;
        if let (Some(files), Some(maps)) = (&self.maps, maps) {
            let stems: Vec<String> = paths.iter().map(|path| stem(path)).collect();
            let blueprint = self.engine.blueprint();
            files.write(maps, blueprint, batch, &stems, &made.pictures)?;
        }
        let each = batch.iter().cloned().zip(paths.iter().cloned());
        let steps = batch.iter().map(|request| self.engine.steps(request));
        Ok(Batch {
            each: each
                .zip(made.pictures)
                .map(|((mut request, path), picture)| {
                    request.vae_tiling = made.tiled;
                    (request, path, picture)
                })
                .collect(),
            unet_calls: steps.sum(),
            text_seconds: made.text_seconds,
            denoise_seconds: made.denoise_seconds,
            decode_seconds: made.decode_seconds,
            seconds: started.elapsed().as_secs_f64(),
        })
    }

    /// Searches for the best noise of `request`; the best picture goes to `path`, the others, if they are kept, beside it.
    fn search(
        &self,
        search: &SearchConfig,
        request: &Request,
        path: &Path,
        progress: &mut Progress,
    ) -> anyhow::Result<Batch> {
        let started = Instant::now();
        let mut watch = Watch {
            progress,
            stop: self.stop,
            previews: None,
        };
        let run = Search {
            engine: self.engine,
            request,
            config: search,
            batch: self.batch.get(),
        };
        let blueprint = self.engine.blueprint();
        let found = match &self.judge {
            None => run.run(
                |requests| AttentionScorer::for_batch(blueprint, requests),
                &mut [&mut watch],
            )?,
            Some(judge) => {
                let reward = judge.reward(&blueprint.scene(request)?)?;
                let score = |pictures: &[_]| Ok(reward.scores(&judge.detector, pictures)?);
                let meter =
                    |_: &[_]| Ok(PictureScorer::new(self.engine, request.vae_tiling, score));
                run.run(meter, &mut [&mut watch])?
            }
        };
        let denoise_seconds = started.elapsed().as_secs_f64();

        let kept = match self.args.search.keep_all {
            true => found.finished.len(),
            false => 1,
        };
        let decoding = Instant::now();
        let latents = found.latents.narrow(0, 0, kept);
        let pictures = self.engine.decode(latents, request.vae_tiling)?;
        let mut each = Vec::with_capacity(kept);
        for ((index, picture), rank) in found.finished.iter().zip(pictures).zip(1..) {
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
                ..request.clone()
            };
            let path = match rank {
                1 => path.to_path_buf(),
                _ => free_name(parent(path), &format!("{}-rank{rank}", stem(path))),
            };
            each.push((request, path, picture));
        }
        if let (Some(files), Some((best, path, picture))) = (&self.maps, each.first()) {
            // The best once more, now with its maps.
            let mut maps = files.hook();
            self.engine
                .latents(std::slice::from_ref(best), &mut [&mut maps])?;
            let (blueprint, stems) = (self.engine.blueprint(), [stem(path)]);
            let (best, picture) = (std::slice::from_ref(best), std::slice::from_ref(picture));
            files.write(maps, blueprint, best, &stems, picture)?;
        }
        Ok(Batch {
            each,
            unet_calls: found.unet_calls,
            text_seconds: 0.0,
            denoise_seconds,
            decode_seconds: decoding.elapsed().as_secs_f64(),
            seconds: started.elapsed().as_secs_f64(),
        })
    }

    /// Writes the picture, then its line in the manifest.
    fn save(
        &self,
        request: &Request,
        path: &Path,
        picture: &Picture,
        run_id: &str,
    ) -> anyhow::Result<()> {
        let scheduler = self.engine.scheduler_name(request)?;
        png::save(path, picture, request, &scheduler, &self.device)?;
        let manifest = match &self.args.manifest {
            Some(path) => path.clone(),
            None => parent(path).join("manifest.jsonl"),
        };
        let place = Place {
            run_id,
            prompt_id: &slug(&request.prompt),
            image_path: &relative(path, parent(&manifest)),
        };
        let line = manifest::line(request, &scheduler, &self.device, &place);
        files::append_line(&manifest, &serde_json::to_string(&line)?)?;
        Ok(())
    }
}

/// The file's name without its ending.
fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// `path` as seen from `folder` if it lies below it.
fn relative(path: &Path, folder: &Path) -> String {
    path.strip_prefix(folder)
        .unwrap_or(path)
        .display()
        .to_string()
}
