//! Making the pictures, batch after batch, and telling of each.

use std::path::{Path, PathBuf};

use anyhow::bail;
use prepose::engine::Engine;
use prepose::make::{FinishedBatch, FinishedPicture, MakeError, PictureMaker, PictureWriter};
use prepose::memory::MemoryMeter;
use prepose::output::files::{free_name, parent};
use prepose::output::png;
use prepose::request::{Request, SearchConfig};
use prepose::sampling::denoise::{Hook, HookError, State};
use prepose_untrusted::escaped_line;
use serde_json::{Value, json};

use super::args::Args;
use crate::cli::progress::Progress;

/// What all batches of one call share.
pub struct Making<'a> {
    pub args: &'a Args,
    pub engine: &'a Engine,
    pub search: Option<&'a SearchConfig>,
    pub writer: PictureWriter,
    /// Where the pictures are made, for `--json`.
    pub device: String,
}

impl Making<'_> {
    /// Makes `requests` and writes each to its target.
    pub fn all(
        &self,
        maker: &mut PictureMaker,
        requests: &[Request],
        targets: &[PathBuf],
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        let mut done = 0;
        while done < requests.len() {
            let (rest, targets) = (&requests[done..], &targets[done..]);
            progress.message(rest[0].prompt.chars().take(20).collect::<String>());
            let meter =
                (self.args.json && done == 0).then(|| MemoryMeter::start(self.engine.device()));
            let batch = self.batch(maker, rest, targets, progress)?;
            let peak = meter.and_then(|meter| meter.extra());
            for (index, picture) in batch.pictures.iter().enumerate() {
                let path = match self.search {
                    Some(_) => ranked(&targets[0], index + 1),
                    None => targets[index].clone(),
                };
                self.writer.save(picture, &path)?;
                let line = match self.args.json {
                    true => self.line(&batch, picture, &path, peak)?.to_string(),
                    false => escaped_line(&path.to_string_lossy()),
                };
                progress.println(&line)?;
            }
            done += batch.requests;
        }
        Ok(())
    }

    /// Makes the first batch of `requests`, with previews if asked for; they are gone afterwards.
    fn batch(
        &self,
        maker: &mut PictureMaker,
        requests: &[Request],
        targets: &[PathBuf],
        progress: &mut Progress,
    ) -> anyhow::Result<FinishedBatch> {
        let previews = self.args.preview_every.map(|every| Previews {
            every,
            engine: self.engine,
            paths: (targets.iter().take(maker.batch()))
                .map(|path| path.with_extension("preview.png"))
                .collect(),
            tiling: requests[0].vae_tiling,
        });
        let mut watch = Watch { progress, previews };
        let made = maker.make(requests, self.search, &mut [&mut watch]);
        for path in watch.previews.iter().flat_map(|previews| &previews.paths) {
            // There may be none yet.
            let _ = std::fs::remove_file(path);
        }
        match made {
            Err(MakeError::Cancelled) => bail!(
                "interrupted; finished pictures are kept, and nothing was written of the others"
            ),
            made => Ok(made?),
        }
    }

    /// A picture for `--json`; `peak` is the memory that its batch took, in bytes, where it was measured.
    fn line(
        &self,
        batch: &FinishedBatch,
        picture: &FinishedPicture,
        path: &Path,
        peak: Option<u64>,
    ) -> anyhow::Result<Value> {
        let (request, seconds) = (&picture.request, &batch.seconds);
        let mut line = json!({
            "path": path,
            "prompt": request.prompt,
            "seed": request.seed,
            "device": self.device,
            "batch": batch.requests,
            "unet_calls": batch.unet_calls,
            "seconds": {"text": seconds.text, "denoise": seconds.denoise,
                        "decode": seconds.decode, "batch": seconds.total},
        });
        if let Some(peak) = peak {
            let needs = self.engine.needs(request, batch.at_once)?;
            line["memory"] = json!({
                "weights_estimate": needs.weights(),
                "work_estimate": needs.work(request.vae_tiling),
                "work_peak": peak,
                "free": self.engine.room().free,
            });
        }
        if !request.relations.is_empty() {
            line["relations"] = serde_json::json!(request.relations);
        }
        if let Some(found) = &request.found {
            line["search_seed"] = found.seed.into();
            line["candidate"] = found.candidate.into();
            line["score"] = found.score.into();
            line["rank"] = found.rank.into();
        }
        Ok(line)
    }
}

/// Where the candidate of that rank goes: the best to `path`, the others beside it.
fn ranked(path: &Path, rank: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match rank {
        1 => path.to_path_buf(),
        _ => free_name(parent(path), &format!("{stem}-rank{rank}")),
    }
}

/// Counts steps and writes previews.
struct Watch<'a> {
    progress: &'a mut Progress,
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
        Ok(())
    }
}
