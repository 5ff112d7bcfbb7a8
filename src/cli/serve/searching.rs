//! Best-of-N, told while it goes on.

use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::Tensor;
use prepose::detect::Detector;
use prepose::engine::Engine;
use prepose::make::{MakeError, PictureMaker};
use prepose::output::png;
use prepose::request::{Request, SearchConfig};
use prepose::sampling::denoise::{Hook, HookError, State};
use prepose_serve::{Trouble, Unit, Watch};
use serde_json::json;

use super::batch::{Studio, trouble};
use super::plan::told;

/// Candidates at a time, at most.
const AT_ONCE: usize = 16;

/// Tells of the candidates; they are in one batch where that has room for all.
struct Candidates<'a> {
    engine: &'a Engine,
    watch: &'a mut dyn Watch,
    cancel: &'a AtomicBool,
    previews: usize,
    /// Which candidate is in which row; empty once there are several batches at a time.
    rows: Vec<usize>,
    begun: usize,
    step: usize,
}

impl Hook for Candidates<'_> {
    fn before_loop(&mut self, state: &mut State) -> Result<(), HookError> {
        let pictures = state.latents().dims()[0];
        self.rows = match self.begun {
            0 => (0..pictures).collect(),
            _ => Vec::new(),
        };
        self.begun += pictures;
        Ok(())
    }

    fn after_step(&mut self, state: &mut State, denoised: &Tensor<4>) -> Result<(), HookError> {
        self.step = state.step + 1;
        self.watch.step(self.step, state.steps);
        if !self.watch.wanted(0) {
            self.cancel.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let due =
            self.previews > 0 && self.step.is_multiple_of(self.previews) && self.step < state.steps;
        if !due || !self.watch.seen(0) {
            return Ok(());
        }
        for (row, &candidate) in self.rows.iter().enumerate() {
            let decoded = self
                .engine
                .decode(denoised.clone().narrow(0, row, 1), false);
            if let Some(png) = decoded
                .ok()
                .and_then(|pictures| png::encode_plain(pictures.first()?).ok())
            {
                self.watch.preview(0, candidate, self.step, &png);
            }
        }
        Ok(())
    }

    fn retain(&mut self, keep: &[usize]) {
        if self.rows.is_empty() {
            return;
        }
        let kept: Vec<usize> = keep.iter().map(|row| self.rows[*row]).collect();
        let dropped: Vec<usize> = self
            .rows
            .iter()
            .copied()
            .filter(|one| !kept.contains(one))
            .collect();
        self.watch.candidates(0, self.step, &[], &dropped);
        self.rows = kept;
    }
}

/// Searches for the best noise of a request.
pub fn search(
    studio: &Studio,
    unit: &Unit,
    request: &Request,
    search: &SearchConfig,
    watch: &mut dyn Watch,
) -> Result<(), Trouble> {
    let engine = &studio.loaded.engine;
    let judge = studio
        .checker
        .map(|checker| &*checker.primary as &dyn Detector);
    let cancel = AtomicBool::new(false);
    let made = {
        let mut candidates = Candidates {
            engine,
            watch: &mut *watch,
            cancel: &cancel,
            previews: unit.previews,
            rows: Vec::new(),
            begun: 0,
            step: 0,
        };
        let mut maker = PictureMaker::new(engine, search.best_of.min(AT_ONCE))
            .with_judge(judge)
            .with_cancel(&cancel);
        maker.make(
            std::slice::from_ref(request),
            Some(search),
            &mut [&mut candidates],
        )
    };
    let made = match made {
        Ok(made) => made,
        Err(MakeError::Cancelled) => return Ok(()),
        Err(MakeError::Engine(error)) => return Err(trouble(&error, 1)),
        Err(error) => return Err(Trouble::Failed(told(&error))),
    };
    let scores: Vec<(usize, f64)> = (made.candidates.iter())
        .filter(|candidate| candidate.score.is_finite())
        .map(|candidate| (candidate.index, candidate.score))
        .collect();
    watch.candidates(0, unit.steps, &scores, &[]);
    for picture in made.pictures {
        let found = picture.request.found.as_ref();
        let (candidate, score) =
            found.map_or((0, None), |found| (found.candidate, Some(found.score)));
        let cost = json!({
            "unet_calls": picture.cost.unet_calls, "guided_passes": picture.cost.guided_calls, "seconds": picture.cost.seconds,
        });
        let finished =
            studio.finished(unit, &picture.request, &picture.picture, cost, score, None)?;
        watch.finished(0, candidate, finished);
    }
    Ok(())
}
