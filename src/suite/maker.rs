//! A run's pictures, by the engine.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use super::plan::{Job, Plan};
use super::requests::request;
use super::run::{Made, Maker, RunError};
use crate::detect::Detector;
use crate::engine::Engine;
use crate::make::{CandidateJudge, MapOptions, PictureMaker};
use crate::request::Request;

/// Makes a run's pictures with an engine.
pub struct EngineMaker<'a> {
    engine: &'a Engine,
    plan: &'a Plan,
    maker: PictureMaker<'a>,
    /// Requests that are checked but did not fit into the last batch, by the index of their job.
    waiting: HashMap<usize, Request>,
}

impl<'a> EngineMaker<'a> {
    /// Makes at most `batch` pictures at a time. `judge` scores the candidates of searches that go by the picture, and
    /// `candidate_judge` those of searches that go by a judge; `stop` asks to stop at once.
    pub fn new(
        engine: &'a Engine,
        plan: &'a Plan,
        batch: usize,
        judge: Option<&'a dyn Detector>,
        candidate_judge: Option<&'a dyn CandidateJudge>,
        stop: &'a AtomicBool,
    ) -> Self {
        let maps = plan.config.attention_maps.then(MapOptions::default);
        let maker = PictureMaker::new(engine, batch)
            .with_judge(judge)
            .with_candidate_judge(candidate_judge)
            .with_maps(maps)
            .with_cancel(stop);
        Self {
            engine,
            plan,
            maker,
            waiting: HashMap::new(),
        }
    }
}

impl Maker for EngineMaker<'_> {
    fn make(&mut self, jobs: &[Job]) -> Result<Vec<Made>, RunError> {
        let [first, ..] = jobs else {
            return Ok(Vec::new());
        };
        let search = self.plan.config.methods[first.method].search.as_ref();
        let most = match search {
            Some(_) => 1,
            None => self.maker.batch(),
        };
        let jobs = &jobs[..jobs.len().min(most)];
        let mut requests = Vec::with_capacity(jobs.len());
        for job in jobs {
            requests.push(match self.waiting.remove(&job.index) {
                Some(request) => request,
                None => request(self.plan, self.engine.blueprint(), *job)?,
            });
        }
        let made = self.maker.make(&requests, search, &mut [])?;
        let left = jobs.iter().zip(requests).skip(made.requests);
        self.waiting = left.map(|(job, request)| (job.index, request)).collect();
        let pictures = made.pictures.into_iter().map(Box::new);
        Ok(pictures.map(Made::Here).collect())
    }
}
