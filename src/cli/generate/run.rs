//! Making the pictures, batch after batch, and writing them down.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::anyhow;
use prepose::engine::{Engine, Made};
use prepose::output::files::{parent, slug};
use prepose::output::manifest::{ManifestLine, Place};
use prepose::output::{files, png};
use prepose::request::Request;
use prepose::sampling::denoise::{Hook, HookError, State};
use prepose_weights::WeightsError;

use super::Args;
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
    pictures: u64,
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
        self.progress.advance(self.pictures);
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

/// One run of the command.
pub(super) struct Run<'a> {
    pub args: &'a Args,
    pub engine: &'a Engine,
    pub device: String,
    pub stop: &'a AtomicBool,
}

impl Run<'_> {
    pub fn all(
        &self,
        requests: &mut [Request],
        targets: &[PathBuf],
        provenance: &mut Provenance,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
        let run_id = format!("prepose-{now}");
        let mut done = 0;
        while done < requests.len() {
            let size = self.engine.batch_size(&requests[done..], self.args.batch)?;
            let batch = &mut requests[done..done + size];
            let paths = &targets[done..done + size];
            progress.message(batch[0].prompt.chars().take(20).collect::<String>());
            let (made, seconds) = self.batch(batch, paths, progress)?;
            for ((request, path), picture) in batch.iter_mut().zip(paths).zip(&made.pictures) {
                provenance.note(request)?;
                self.save(request, path, picture, &run_id)?;
                let line = match self.args.json {
                    true => serde_json::json!({
                        "path": path,
                        "prompt": request.prompt,
                        "seed": request.seed,
                        "device": self.device,
                        "batch": size,
                        "seconds": {"text": made.text_seconds, "denoise": made.denoise_seconds,
                                    "decode": made.decode_seconds, "batch": seconds},
                    })
                    .to_string(),
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
    ) -> anyhow::Result<(Made, f64)> {
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
            pictures: batch.len() as u64,
        };
        let made = self.engine.generate(batch, &mut [&mut watch]);
        for path in watch.previews.iter().flat_map(|previews| &previews.paths) {
            // There may be none yet.
            let _ = std::fs::remove_file(path);
        }
        Ok((made?, started.elapsed().as_secs_f64()))
    }

    /// Writes the picture, then its line in the manifest.
    fn save(
        &self,
        request: &Request,
        path: &Path,
        picture: &png::Picture,
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
        let line = ManifestLine::new(request, &scheduler, &self.device, &place);
        files::append_line(&manifest, &serde_json::to_string(&line)?)?;
        Ok(())
    }
}

/// `path` as seen from `folder` if it lies below it.
fn relative(path: &Path, folder: &Path) -> String {
    path.strip_prefix(folder)
        .unwrap_or(path)
        .display()
        .to_string()
}
