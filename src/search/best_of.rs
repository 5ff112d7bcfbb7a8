//! The search itself: candidates in batches, scored and dropped while they are made.

use burn::tensor::Tensor;

use super::attention::AttentionScorer;
use super::scorer::Scorer;
use crate::engine::{Blueprint, Engine, EngineError, Session};
use crate::request::{Request, RewardKind, SearchConfig};
use crate::sampling::denoise::{DenoiseError, Hook, UnetRows};

/// Checks a search for `request` as far as possible without weights and without a detector.
///
/// # Errors
/// No candidate, impossible steps of pruning, also those before attention has seen the final prompt, no relation in the prompt
/// to search by attention.
pub fn check(
    blueprint: &Blueprint,
    request: &Request,
    search: &SearchConfig,
) -> Result<(), EngineError> {
    search.check(
        blueprint.steps(request)?,
        scored(blueprint, request, search)?,
    )?;
    match search.reward {
        RewardKind::Attention => {
            AttentionScorer::for_batch(blueprint, std::slice::from_ref(request)).map(|_| ())
        }
        RewardKind::Checker | RewardKind::Pse | RewardKind::Relations | RewardKind::Judge => {
            blueprint.scene(request).map(|_| ())
        }
    }
}

/// Steps that all candidates of a search for `request` take together through the UNet.
///
/// # Errors
/// A request that fails [`Blueprint::check`].
pub fn unet_calls(
    blueprint: &Blueprint,
    request: &Request,
    search: &SearchConfig,
) -> Result<usize, EngineError> {
    let scored = scored(blueprint, request, search)?;
    Ok(search.unet_calls(blueprint.steps(request)?, scored))
}

/// After how many steps the candidates of a search for `request` have scores.
fn scored(
    blueprint: &Blueprint,
    request: &Request,
    search: &SearchConfig,
) -> Result<usize, EngineError> {
    if search.reward != RewardKind::Attention {
        return Ok(1);
    }
    // Maps are read under the final prompt alone.
    let is_final = blueprint.has_final_prompt(request)?;
    let first = is_final.iter().position(|is_final| *is_final);
    Ok(first.map_or(1, |first| first + 1))
}

/// One noise of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Which one, from 0.
    pub index: usize,
    /// Its seed: a plain run with it makes the same picture.
    pub seed: u64,
    /// Its score when it was last looked at; higher is better.
    pub score: f64,
    /// Steps that it was taken through.
    pub steps: usize,
}

/// What a search came to.
pub struct Found {
    /// All candidates, in order.
    pub candidates: Vec<Candidate>,
    /// Those that were finished, best first, as indices into `candidates`.
    pub finished: Vec<usize>,
    /// The final latents of `finished`, f32 [F, C, h, w], in the UNet's scaling.
    pub latents: Tensor<4>,
    /// Steps taken through the UNet by all candidates together.
    pub unet_calls: usize,
    /// Recorded passes of guidance of all candidates together.
    pub recorded_passes: usize,
    /// Rows through the network of all candidates together; guidance's own passes are not counted.
    pub unet_rows: UnetRows,
}

/// The seed of candidate `index` of a search that began with `seed`. The first is `seed` itself, so the search
/// never does worse than the plain picture by its own measure. The others lie far from small seeds, so searches
/// with neighbouring seeds share nothing; they differ in the lower 32 bits, which are all that PyTorch's generator reads.
pub fn candidate_seed(seed: u64, index: usize) -> u64 {
    // 2³² divided by the golden ratio, odd: no two of 2³² candidates are the same (Knuth's multiplicative hashing).
    let step = (index as u32).wrapping_mul(0x9E37_79B1);
    (seed >> 32 << 32) | u64::from((seed as u32).wrapping_add(step))
}

/// A search for the best noise of one request.
pub struct Search<'a> {
    /// The networks.
    pub engine: &'a Engine,
    /// What to make; its seed is the first candidate's.
    pub request: &'a Request,
    /// How many candidates, and when they are dropped.
    pub config: &'a SearchConfig,
    /// Pictures at a time, at least 1.
    pub batch: usize,
}

/// Some candidates on their way.
struct Group<'a, M> {
    session: Session<'a>,
    scorer: M,
    /// Index of the candidate of each row.
    rows: Vec<usize>,
}

/// How far a search has come.
struct Progress {
    candidates: Vec<Candidate>,
    /// As in [`Found`].
    recorded_passes: usize,
    unet_rows: UnetRows,
    /// The candidates that went through all steps, in no order, and the final latents of each batch of them.
    finished: Vec<usize>,
    latents: Vec<Tensor<4>>,
}

impl Search<'_> {
    /// Runs the search. `scorer` makes a fresh scorer for each batch; `hooks` are the caller's, such as a progress bar:
    /// they see one batch after another.
    ///
    /// # Errors
    /// As [`Engine::generate`].
    pub fn run<M: Scorer>(
        &self,
        scorer: impl Fn(&[Request]) -> Result<M, EngineError>,
        hooks: &mut [&mut dyn Hook],
    ) -> Result<Found, EngineError> {
        let mut progress = Progress::new(self.request.seed, self.config.best_of);
        let steps = self.engine.steps(self.request);
        let scored = scored(self.engine.blueprint(), self.request, self.config)?;
        let rounds = self.config.rounds(steps, scored);

        let mut groups = Vec::new();
        let all: Vec<usize> = (0..self.config.best_of).collect();
        // Without pruning each batch is finished before the next begins, so only results are kept.
        for rows in all.chunks(self.batch) {
            let requests: Vec<Request> = (rows.iter())
                .map(|&row| Request {
                    seed: progress.candidates[row].seed,
                    ..self.request.clone()
                })
                .collect();
            let mut scorer = scorer(&requests)?;
            tell(hooks, rows);
            let session = (self.engine).begin(&requests, &mut join(&mut scorer, hooks))?;
            let mut group = Group {
                session,
                scorer,
                rows: rows.to_vec(),
            };
            let until = rounds.first().map_or(steps, |round| round.after);
            group.advance(until, &mut progress, hooks)?;
            match rounds.is_empty() {
                true => group.finish(&mut progress)?,
                false => groups.push(group),
            }
        }
        for (round, next) in rounds.iter().zip(1..) {
            let mut alive: Vec<usize> =
                groups.iter().flat_map(|group| group.rows.clone()).collect();
            best_first(&mut alive, &progress.candidates);
            alive.truncate(round.keep);
            groups.retain_mut(|group| group.retain(&alive, hooks));
            let until = rounds.get(next).map_or(steps, |round| round.after);
            for group in &mut groups {
                group.advance(until - round.after, &mut progress, hooks)?;
            }
        }
        for group in groups {
            group.finish(&mut progress)?;
        }
        Ok(progress.found())
    }
}

impl Progress {
    fn new(seed: u64, candidates: usize) -> Self {
        let candidate = |index| Candidate {
            index,
            seed: candidate_seed(seed, index),
            score: f64::NEG_INFINITY,
            steps: 0,
        };
        Self {
            candidates: (0..candidates).map(candidate).collect(),
            recorded_passes: 0,
            unet_rows: UnetRows::default(),
            finished: Vec::new(),
            latents: Vec::new(),
        }
    }

    fn found(self) -> Found {
        let Self {
            candidates,
            recorded_passes,
            unet_rows,
            finished,
            latents,
        } = self;
        let latents = Tensor::cat(latents, 0);
        let mut order: Vec<usize> = (0..finished.len()).collect();
        order.sort_by(|&a, &b| compare(&candidates[finished[a]], &candidates[finished[b]]));
        let rows = order.iter().map(|&row| latents.clone().narrow(0, row, 1));
        Found {
            latents: Tensor::cat(rows.collect(), 0),
            finished: order.iter().map(|&row| finished[row]).collect(),
            unet_calls: candidates.iter().map(|candidate| candidate.steps).sum(),
            recorded_passes,
            unet_rows,
            candidates,
        }
    }
}

impl<M: Scorer> Group<'_, M> {
    /// Takes `steps` more steps and writes down the scores.
    fn advance(
        &mut self,
        steps: usize,
        progress: &mut Progress,
        hooks: &mut [&mut dyn Hook],
    ) -> Result<(), EngineError> {
        let (passes, rows) = self.taken();
        tell(hooks, &self.rows);
        (self.session).advance(steps, &mut join(&mut self.scorer, hooks))?;
        let (passes_now, rows_now) = self.taken();
        progress.recorded_passes += passes_now - passes;
        progress.unet_rows.whole += (rows_now.whole - rows.whole) * self.rows.len();
        progress.unet_rows.shallow += (rows_now.shallow - rows.shallow) * self.rows.len();
        let scorer = &mut self.scorer;
        let scores =
            (self.session).reading(|| Ok(scorer.scores().map_err(DenoiseError::Hook)?))?;
        for (&row, score) in self.rows.iter().zip(scores) {
            progress.candidates[row].score = score;
            progress.candidates[row].steps += steps;
        }
        Ok(())
    }

    /// Recorded passes so far of the rows that are left, together, and rows through the network of each.
    fn taken(&self) -> (usize, UnetRows) {
        let passes = self.session.recorded_passes().iter().sum();
        (passes, self.session.unet_rows())
    }

    /// Keeps of a batch whose steps are all taken only what comes of it.
    fn finish(self, progress: &mut Progress) -> Result<(), EngineError> {
        progress.latents.push(self.session.finish()?);
        progress.finished.extend(self.rows);
        Ok(())
    }

    /// Keeps the rows that are `alive`; false if there are none.
    fn retain(&mut self, alive: &[usize], hooks: &mut [&mut dyn Hook]) -> bool {
        let keep: Vec<usize> = (0..self.rows.len())
            .filter(|&row| alive.contains(&self.rows[row]))
            .collect();
        if !keep.is_empty() && keep.len() < self.rows.len() {
            tell(hooks, &self.rows);
            (self.session).retain(&keep, &mut join(&mut self.scorer, hooks));
            self.rows = keep.iter().map(|&row| self.rows[row]).collect();
        }
        !keep.is_empty()
    }
}

/// The better candidate first; of equals the earlier. A score that is not a number is the worst.
fn compare(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    let worth = |candidate: &Candidate| match candidate.score.is_nan() {
        true => f64::NEG_INFINITY,
        false => candidate.score,
    };
    (worth(b).total_cmp(&worth(a))).then(a.index.cmp(&b.index))
}

fn best_first(rows: &mut [usize], candidates: &[Candidate]) {
    rows.sort_by(|&a, &b| compare(&candidates[a], &candidates[b]));
}

/// Tells the caller's hooks whose turn it is.
fn tell(hooks: &mut [&mut dyn Hook], rows: &[usize]) {
    for hook in hooks {
        hook.candidates(rows);
    }
}

/// The scorer, then the caller's hooks.
fn join<'a>(scorer: &'a mut impl Scorer, hooks: &'a mut [&mut dyn Hook]) -> Vec<&'a mut dyn Hook> {
    let scorer = std::iter::once(scorer as &mut dyn Hook);
    let hooks = hooks.iter_mut().map(|hook| &mut **hook as &mut dyn Hook);
    scorer.chain(hooks).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn candidates_have_noises_of_their_own() {
        let noises: HashSet<u32> = (0..8)
            .flat_map(|seed| (0..1000).map(move |index| candidate_seed(seed, index) as u32))
            .collect();
        assert_eq!(noises.len(), 8000);
        assert_eq!(candidate_seed(7 << 40, 0), 7 << 40);
    }
}
