//! A batch that is made: its steps, and what is told of them.

use std::time::Instant;

use prepose::detect::checker::Checker;
use prepose::engine::{EngineError, Session};
use prepose::output::png;
use prepose::picture::Picture;
use prepose::request::Request;
use prepose::sampling::denoise::Hook;
use prepose::search::{AttentionScorer, Scorer};
use prepose_serve::{Batch, Finished, Trouble, Unit, Watch};
use serde_json::{Value, json};

use super::eye::Eye;
use super::maker::Loaded;
use super::plan::told;
use super::studio::Shared;
use super::verdict;

/// What makes one batch.
pub struct Studio<'a> {
    /// What the server has.
    pub shared: &'a Shared,
    /// The checkpoint of the batch.
    pub loaded: &'a Loaded,
    /// Who looks at finished pictures.
    pub checker: Option<&'a Checker>,
}

/// A batch on its way: which of its units is in which row.
struct Course<'a, 'b> {
    batch: &'a Batch,
    rows: Vec<usize>,
    objects: Vec<Vec<(String, Vec<usize>)>>,
    eye: Eye,
    scorer: Option<AttentionScorer>,
    losses: usize,
    watch: &'b mut dyn Watch,
}

impl Studio<'_> {
    /// Makes the pictures of a batch without a search, all at once.
    pub fn batch(
        &self,
        batch: &Batch,
        requests: &[Request],
        watch: &mut dyn Watch,
    ) -> Result<(), Trouble> {
        let engine = &self.loaded.engine;
        let fail = |error: EngineError| trouble(&error, requests.len());
        if engine.batch_size(requests, requests.len()).map_err(fail)? < requests.len() {
            return Err(Trouble::Room(1));
        }
        let started = Instant::now();
        let maps = batch[0].maps;
        let objects = requests
            .iter()
            .map(|request| engine.blueprint().objects(request).unwrap_or_default());
        let mut course = Course {
            batch,
            rows: (0..requests.len()).collect(),
            objects: objects.collect(),
            eye: Eye::new(maps),
            scorer: maps
                .then(|| AttentionScorer::for_batch(engine.blueprint(), requests).ok())
                .flatten(),
            losses: 0,
            watch,
        };
        let mut session = course
            .with_hooks(|hooks| engine.begin(requests, hooks))
            .map_err(fail)?;
        let of = session.remaining();
        let mut calls = 0;
        while session.remaining() > 0 {
            course
                .with_hooks(|hooks| session.advance(1, hooks))
                .map_err(fail)?;
            calls += 1;
            self.tell(&mut course, &session, calls, of).map_err(fail)?;
            if !course.drop_unwanted(&mut session) {
                return Ok(());
            }
        }
        let guided = session.recorded_passes();
        let latents = session.finish().map_err(fail)?;
        let rows = course.rows.clone();
        let denoised = started.elapsed().as_secs_f64() / rows.len() as f64;
        for (row, unit) in rows.into_iter().enumerate() {
            let one = latents.clone().narrow(0, row, 1);
            let started = Instant::now();
            let picture = engine
                .decode(one, requests[unit].vae_tiling)
                .map_err(fail)?
                .remove(0);
            let seconds = denoised + started.elapsed().as_secs_f64();
            let cost = json!({"unet_calls": calls, "guided_passes": guided, "seconds": seconds});
            let finished = self.finished(&batch[unit], &requests[unit], &picture, cost, None)?;
            course.watch.finished(unit, 0, finished);
        }
        Ok(())
    }

    /// Tells of a step.
    fn tell(
        &self,
        course: &mut Course,
        session: &Session,
        step: usize,
        of: usize,
    ) -> Result<(), EngineError> {
        course.watch.step(step, of);
        let seen: Vec<usize> = (0..course.rows.len())
            .filter(|row| course.watch.seen(course.rows[*row]))
            .collect();
        let traced = course.batch[0].maps;
        if traced {
            let newest: Vec<f32> = match session.losses().skip(course.losses).last() {
                Some((_, losses)) => losses.to_data().iter::<f32>().collect(),
                None => Vec::new(),
            };
            course.losses = session.losses().count();
            let scores = course
                .scorer
                .as_mut()
                .and_then(|scorer| scorer.scores().ok())
                .unwrap_or_default();
            for (row, &unit) in course.rows.iter().enumerate() {
                let pos = scores
                    .get(row)
                    .map(|score| *score as f32)
                    .filter(|score| score.is_finite());
                let loss = newest.get(row).copied().filter(|loss| loss.is_finite());
                course.watch.trace(unit, 0, step, loss, pos);
            }
            let objects: Vec<_> = course
                .rows
                .iter()
                .map(|unit| course.objects[*unit].clone())
                .collect();
            let maps = course.eye.maps(&objects);
            for &row in &seen {
                if let Some(maps) = maps.get(row).filter(|maps| !maps.is_empty()) {
                    course.watch.maps(course.rows[row], 0, step, maps);
                }
            }
        }
        for row in seen {
            let unit = course.rows[row];
            let every = course.batch[unit].previews;
            if every == 0 || !step.is_multiple_of(every) || step == of {
                continue;
            }
            let Some(denoised) = &course.eye.denoised else {
                continue;
            };
            let one = denoised.clone().narrow(0, row, 1);
            // Early ones may be out of range of what can be shown.
            let decoded = self.loaded.engine.decode(one, false);
            if let Some(png) = decoded
                .ok()
                .and_then(|pictures| png::encode_plain(pictures.first()?).ok())
            {
                course.watch.preview(unit, 0, step, &png);
            }
        }
        Ok(())
    }

    /// A finished picture, with what the checker says of it.
    pub fn finished(
        &self,
        unit: &Unit,
        request: &Request,
        picture: &Picture,
        cost: Value,
        score: Option<f64>,
    ) -> Result<Finished, Trouble> {
        let engine = &self.loaded.engine;
        let verdict = match self.checker.filter(|_| unit.check) {
            Some(checker) => match engine.blueprint().scene(request) {
                Ok(scene) => verdict::look(checker, &scene, picture).unwrap_or_else(|why| {
                    tracing::warn!("a picture was not checked: {why}");
                    Value::Null
                }),
                Err(_) => Value::Null,
            },
            None => Value::Null,
        };
        let scheduler = engine
            .scheduler_name(request)
            .map_err(|error| trouble(&error, 1))?;
        let public = self.public(request);
        let png = png::encode(picture, &public, &scheduler, &self.shared.device.title());
        let png = png.map_err(|error| Trouble::Failed(told(&error)))?;
        Ok(Finished {
            png,
            seed: request.seed,
            verdict,
            cost,
            score,
        })
    }

    /// The request as it goes into the file: with names for what lies on this machine.
    fn public(&self, request: &Request) -> Request {
        let mut public = request.clone();
        public.model.sha256.clone_from(&self.loaded.hash);
        let models = &self.shared.models;
        if let Some(model) = models
            .iter()
            .find(|model| model.request.checkpoint == request.model.checkpoint)
        {
            public.model.checkpoint.clone_from(&model.name);
        }
        let named = public.model.loras.iter_mut().map(|lora| &mut lora.path);
        for path in named.chain(public.init.as_mut().map(|init| &mut init.path)) {
            if let Some(name) = path.file_name() {
                *path = name.into();
            }
        }
        public
    }
}

impl Course<'_, '_> {
    fn with_hooks<T>(&mut self, act: impl FnOnce(&mut [&mut dyn Hook]) -> T) -> T {
        let mut hooks: Vec<&mut dyn Hook> = Vec::new();
        hooks.extend(self.scorer.as_mut().map(|scorer| scorer as &mut dyn Hook));
        hooks.push(&mut self.eye);
        act(&mut hooks)
    }

    /// Goes on without the rows that nobody wants any more; false if there are no others.
    fn drop_unwanted(&mut self, session: &mut Session) -> bool {
        let keep: Vec<usize> = (0..self.rows.len())
            .filter(|row| self.watch.wanted(self.rows[*row]))
            .collect();
        if keep.is_empty() {
            return false;
        }
        if keep.len() < self.rows.len() {
            self.with_hooks(|hooks| session.retain(&keep, hooks));
            self.rows = keep.iter().map(|row| self.rows[*row]).collect();
        }
        true
    }
}

/// Why a batch of so many was not made.
pub fn trouble(error: &EngineError, pictures: usize) -> Trouble {
    match error.out_of_memory() {
        Some(_) if pictures > 1 => Trouble::Room(pictures / 2),
        _ => Trouble::Failed(told(error)),
    }
}
