//! Making the pictures, batch after batch, and telling of each.

use std::path::{Path, PathBuf};

use anyhow::bail;
use burn::tensor::Tensor;
use prepose::engine::{Engine, EngineError};
use prepose::make::{FinishedBatch, FinishedPicture, MakeError, PictureMaker, PictureWriter};
use prepose::memory::MemoryMeter;
use prepose::output::files::{free_name, parent};
use prepose::output::png;
use prepose::request::{Request, SearchConfig};
use prepose::sampling::denoise::{Hook, HookError, State};
use prepose_untrusted::escaped_line;
use serde_json::{Value, json};

use super::args::Args;
use super::outcome;
use super::sheet::Sheet;
use crate::cli::interrupt;
use crate::cli::progress::Progress;

/// What all batches of one call share.
pub struct Making<'a> {
    pub args: &'a Args,
    pub quiet: bool,
    pub engine: &'a Engine,
    pub search: Option<&'a SearchConfig>,
    pub writer: PictureWriter,
    /// Where the pictures are made, for `--json`.
    pub device: String,
    /// What all of them together are drawn on.
    pub sheet: Option<Sheet>,
}

impl Making<'_> {
    /// Makes `requests`, writes each to its target, and at last the sheet of all.
    pub fn all(
        &mut self,
        maker: &mut PictureMaker,
        requests: &[Request],
        targets: &[PathBuf],
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        let mut done = 0;
        while done < requests.len() {
            let (rest, targets) = (&requests[done..], &targets[done..]);
            progress.prompt(&rest[0].prompt);
            let meter =
                (self.args.json && done == 0).then(|| MemoryMeter::start(self.engine.device()));
            let batch = self.batch(maker, rest, targets, progress)?;
            let peak = meter.and_then(|meter| meter.extra());
            for (index, picture) in batch.pictures.iter().enumerate() {
                let path = match self.search {
                    Some(_) => ranked(&targets[0], index + 1),
                    None => targets[index].clone(),
                };
                {
                    let _whole = interrupt::whole();
                    self.writer.save(picture, &path)?;
                }
                let line = match self.args.json {
                    true => self.line(&batch, picture, &path, peak)?.to_string(),
                    false => escaped_line(&path.to_string_lossy()),
                };
                progress.println(&line)?;
                // Of a search the first is the best, and has the sheet's only cell.
                if index < batch.requests
                    && let Some(sheet) = &mut self.sheet
                {
                    sheet.put(done + index, &picture.request, &picture.picture);
                }
            }
            if let (Some(search), false) = (self.search, self.args.json || self.quiet) {
                progress.note(&outcome::told(search, &batch));
            }
            done += batch.requests;
        }
        if let Some(sheet) = self.sheet.take() {
            let path = sheet.save()?;
            if !self.args.json {
                progress.println(&escaped_line(&path.display().to_string()))?;
            }
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
            pictures: targets.iter().take(maker.batch()).cloned().collect(),
            kept: self.args.keep_previews,
            request: requests[0].clone(),
        });
        let mut watch = Watch { progress, previews };
        let made = maker.make(requests, self.search, &mut [&mut watch]);
        for path in watch.previews.iter().flat_map(Previews::passing) {
            // There may be none yet.
            let _ = std::fs::remove_file(path);
        }
        match made {
            Err(MakeError::Cancelled) => bail!(
                "interrupted; finished pictures are kept, and nothing was written for the others"
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
            "path": path.to_string_lossy(),
            "prompt": request.prompt,
            "seed": request.seed,
            "steps": request.steps,
            "width": request.width,
            "height": request.height,
            "checkpoint": request.model.checkpoint,
            "request": request,
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
            line["candidates"] = outcome::candidates(&batch.candidates);
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
    /// Where the pictures will be.
    pictures: Vec<PathBuf>,
    kept: bool,
    /// What they are decoded for; it comes to ask for tiles when memory runs out without.
    request: Request,
}

impl Previews<'_> {
    /// Where they are after so many steps.
    fn paths(&self, steps: usize) -> impl Iterator<Item = PathBuf> {
        let extension = match self.kept {
            true => format!("step-{steps:03}.png"),
            false => "preview.png".to_string(),
        };
        let path = move |path: &PathBuf| path.with_extension(&extension);
        self.pictures.iter().map(path)
    }

    /// Those that go when the pictures are there.
    fn passing(&self) -> Vec<PathBuf> {
        match self.kept {
            true => Vec::new(),
            false => self.paths(0).collect(),
        }
    }

    /// Writes what the pictures are expected to be after so many steps; `denoised` are their latents.
    fn write(&mut self, steps: usize, denoised: &Tensor<4>) -> Result<(), HookError> {
        let [pictures, ..] = denoised.dims();
        let paths: Vec<PathBuf> = self.paths(steps).take(pictures).collect();
        for (row, path) in paths.iter().enumerate() {
            let one = denoised.clone().narrow(0, row, 1);
            let (decoded, tiled) = match self.engine.decode_for(&self.request, one) {
                // Early ones may be out of range of what can be shown.
                Err(EngineError::NonFinitePicture { .. }) => continue,
                decoded => decoded?,
            };
            self.request.vae_tiling = tiled;
            if let Some(picture) = decoded.first() {
                png::save_plain(path, picture)?;
            }
        }
        Ok(())
    }
}

impl Hook for Watch<'_> {
    fn after_step(&mut self, state: &mut State, denoised: &Tensor<4>) -> Result<(), HookError> {
        let [pictures, ..] = denoised.dims();
        self.progress.advance(pictures as u64);
        if let Some(previews) = &mut self.previews
            && (state.step + 1).is_multiple_of(previews.every)
            && state.step + 1 < state.steps
        {
            previews.write(state.step + 1, denoised)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(feature = "toybox")]
mod tests {
    use prepose::device;
    use prepose::request::{Dtype, ModelRequest};

    use super::*;

    #[test]
    fn previews_that_cannot_be_shown_end_no_run() {
        prepose::memory::silence_panics();
        let model = ModelRequest::new("toybox", Dtype::F32);
        let device = device::open("flex".parse().unwrap()).unwrap();
        let mut engine = Engine::open(&model, &device)
            .unwrap()
            .tiling_when_short(true);
        // There is no room to decode a whole picture.
        engine.short_of_memory = true;
        let request = Request {
            steps: 2,
            width: 64,
            height: 64,
            ..engine.request("a dog")
        };
        let shown = engine.latents(std::slice::from_ref(&request), &mut []);
        let shown = shown.unwrap();
        let overflown = shown.clone() * f32::NAN;
        let folder = tempfile::tempdir().unwrap();
        let mut previews = Previews {
            every: 1,
            engine: &engine,
            pictures: ["a.png", "b.png", "c.png"]
                .map(|name| folder.path().join(name))
                .to_vec(),
            kept: false,
            request,
        };
        let batch = Tensor::cat(vec![overflown, shown], 0);
        previews.write(1, &batch).unwrap();
        assert!(previews.request.vae_tiling);
        let written: Vec<bool> = previews.paths(1).map(|path| path.exists()).collect();
        assert_eq!(written, [false, true, false]);
    }
}
