//! Best-of-N, told while it goes on.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::Tensor;
use prepose::detect::Detector;
use prepose::engine::Engine;
use prepose::make::{MakeError, PictureMaker};
use prepose::output::png;
use prepose::request::{Request, RewardKind, SearchConfig};
use prepose::sampling::denoise::{Hook, HookError, Rows, State};
use prepose::search::{AttentionScorer, Scorer};
use prepose_models::attention::AttentionProbe;
use prepose_serve::{Trouble, Unit, Watch};
use serde_json::json;

use super::batch::{Studio, trouble};
use super::eye::Eye;
use super::plan::told;

/// Candidates at a time, at most.
const AT_ONCE: usize = 16;

/// How well the maps obey the relations of each candidate in the batch at hand, after each step.
type Scores = Rc<RefCell<Vec<f64>>>;

/// Scores all candidates by their maps, while they are in one batch: scores go by the last few steps, and of several batches each
/// would need its own.
struct Scoring<'a> {
    engine: &'a Engine,
    request: &'a Request,
    all: usize,
    rows: usize,
    scorer: Option<AttentionScorer>,
    scores: Scores,
}

impl Hook for Scoring<'_> {
    fn candidates(&mut self, rows: &[usize]) {
        self.rows = rows.len();
    }

    fn before_loop(&mut self, state: &mut State) -> Result<(), HookError> {
        let whole = self.rows == self.all;
        let of_rows = whole.then(|| vec![self.request.clone(); self.all]);
        let blueprint = self.engine.blueprint();
        self.scores.borrow_mut().clear();
        // Without relations there is nothing to score.
        self.scorer = of_rows.and_then(|rows| AttentionScorer::for_batch(blueprint, &rows).ok());
        match &mut self.scorer {
            Some(scorer) => scorer.before_loop(state),
            None => Ok(()),
        }
    }

    fn probe(&mut self, state: &State, rows: Rows) -> Option<&mut dyn AttentionProbe> {
        self.scorer.as_mut()?.probe(state, rows)
    }

    fn after_step(&mut self, state: &mut State, denoised: &Tensor<4>) -> Result<(), HookError> {
        let Some(scorer) = &mut self.scorer else {
            return Ok(());
        };
        scorer.after_step(state, denoised)?;
        *self.scores.borrow_mut() = scorer.scores()?;
        Ok(())
    }

    fn retain(&mut self, keep: &[usize]) {
        if let Some(scorer) = &mut self.scorer {
            scorer.retain(keep);
        }
    }
}

/// Tells of the candidates.
struct Candidates<'a> {
    engine: &'a Engine,
    /// What previews are made for; it comes to ask for tiles when memory runs out without.
    request: Request,
    watch: &'a mut dyn Watch,
    cancel: &'a AtomicBool,
    previews: usize,
    /// Which candidate is in which row.
    rows: Vec<usize>,
    step: usize,
    eye: Eye,
    objects: Vec<(String, Vec<usize>)>,
    scores: Scores,
    /// Whether the search goes by the maps.
    by_maps: bool,
    /// Those of which it was told.
    dropped: Vec<usize>,
}

impl Candidates<'_> {
    /// The newest scores of the candidates in the batch, where there are any.
    fn scores(&self) -> Vec<(usize, f64)> {
        let scores = self.scores.borrow();
        let scores = self.rows.iter().copied().zip(scores.iter().copied());
        scores.filter(|(_, score)| score.is_finite()).collect()
    }

    /// Tells of the maps of a step, and what comes of them.
    fn trace(&mut self) {
        for (candidate, pos) in self.scores() {
            (self.watch).trace(0, candidate, self.step, None, Some(pos as f32));
        }
        if !self.watch.seen(0) {
            return;
        }
        let maps = (self.eye).maps(&vec![self.objects.clone(); self.rows.len()]);
        for (&candidate, maps) in self.rows.iter().zip(&maps) {
            if !maps.is_empty() {
                self.watch.maps(0, candidate, self.step, maps);
            }
        }
    }

    /// Tells what the candidates are expected to become.
    fn preview(&mut self, denoised: &Tensor<4>) {
        for (row, &candidate) in self.rows.iter().enumerate() {
            let one = denoised.clone().narrow(0, row, 1);
            // Early ones may be out of range of what can be shown.
            let Ok((pictures, tiled)) = self.engine.decode_for(&self.request, one) else {
                continue;
            };
            self.request.vae_tiling = tiled;
            if let Some(png) = (pictures.first()).and_then(|one| png::encode_plain(one).ok()) {
                self.watch.preview(0, candidate, self.step, &png);
            }
        }
    }
}

impl Hook for Candidates<'_> {
    fn candidates(&mut self, rows: &[usize]) {
        self.rows = rows.to_vec();
    }

    fn before_loop(&mut self, state: &mut State) -> Result<(), HookError> {
        self.eye.before_loop(state)
    }

    fn probe(&mut self, state: &State, rows: Rows) -> Option<&mut dyn AttentionProbe> {
        self.eye.probe(state, rows)
    }

    fn after_step(&mut self, state: &mut State, denoised: &Tensor<4>) -> Result<(), HookError> {
        self.eye.after_step(state, denoised)?;
        self.step = state.step + 1;
        self.watch.step(self.step, state.steps);
        if !self.watch.wanted(0) {
            self.cancel.store(true, Ordering::Relaxed);
            return Ok(());
        }
        self.trace();
        let due =
            self.previews > 0 && self.step.is_multiple_of(self.previews) && self.step < state.steps;
        if due && self.watch.seen(0) {
            self.preview(denoised);
        }
        Ok(())
    }

    fn retain(&mut self, keep: &[usize]) {
        let kept: Vec<usize> = keep.iter().map(|row| self.rows[*row]).collect();
        let all = self.rows.iter().copied();
        let dropped: Vec<usize> = all.filter(|one| !kept.contains(one)).collect();
        let scores = match self.by_maps {
            true => self.scores(),
            false => Vec::new(),
        };
        (self.watch).candidates(0, self.step, &scores, &dropped);
        self.dropped.extend(dropped);
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
    let scores = Scores::default();
    let mut scoring = unit.maps.then(|| Scoring {
        engine,
        request,
        all: search.best_of,
        rows: 0,
        scorer: None,
        scores: scores.clone(),
    });
    let (made, told_of) = {
        let mut candidates = Candidates {
            engine,
            request: request.clone(),
            watch: &mut *watch,
            cancel: &cancel,
            previews: unit.previews,
            rows: Vec::new(),
            step: 0,
            eye: Eye::new(unit.maps),
            objects: engine.blueprint().objects(request).unwrap_or_default(),
            scores,
            by_maps: search.reward == RewardKind::Attention,
            dropped: Vec::new(),
        };
        let mut maker = PictureMaker::new(engine, search.best_of.min(AT_ONCE))
            .with_judge(judge)
            .with_cancel(&cancel);
        let mut hooks: Vec<&mut dyn Hook> = Vec::new();
        // Its scores are there when the others ask.
        hooks.extend(scoring.as_mut().map(|scoring| scoring as &mut dyn Hook));
        hooks.push(&mut candidates);
        let made = maker.make(std::slice::from_ref(request), Some(search), &mut hooks);
        (made, candidates.dropped)
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
    // Of a batch that was dropped whole nobody was told.
    for candidate in &made.candidates {
        if candidate.steps < unit.steps && !told_of.contains(&candidate.index) {
            watch.candidates(0, candidate.steps, &[], &[candidate.index]);
        }
    }
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
