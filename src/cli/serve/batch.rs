//! A batch that is made: its steps, and what is told of them.

use std::path::PathBuf;
use std::time::Instant;

use burn::tensor::Tensor;
use prepose::detect::checker::Checker;
use prepose::engine::{EngineError, Session};
use prepose::output::png::{self, FirstPass, Sampled};
use prepose::picture::Picture;
use prepose::request::{PictureRegion, Request};
use prepose::search::AttentionScorer;
use prepose_serve::{Batch, Finished, Trouble, Unit, Watch};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::course::{Course, Traced};
use super::eye::Eye;
use super::maker::{Loaded, Order};
use super::plan::{Second, told};
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

impl Studio<'_> {
    /// Makes the pictures of a batch without a search, all at once.
    pub fn batch(
        &self,
        batch: &Batch,
        orders: &[Order],
        watch: &mut dyn Watch,
    ) -> Result<(), Trouble> {
        let engine = &self.loaded.engine;
        let fail = |error: EngineError| trouble(&error, orders.len());
        let firsts: Vec<Request> = orders.iter().map(|order| order.request.clone()).collect();
        if engine.batch_size(&firsts, firsts.len()).map_err(fail)? < firsts.len() {
            return Err(Trouble::Room(1));
        }
        let seconds: Option<Vec<&Second>> =
            orders.iter().map(|order| order.second.as_ref()).collect();
        let started = Instant::now();
        let maps = batch[0].maps;
        let objects = firsts
            .iter()
            .map(|request| engine.blueprint().objects(request).unwrap_or_default());
        let mut course = Course {
            batch,
            rows: (0..firsts.len()).collect(),
            objects: objects.collect(),
            eye: Eye::new(maps),
            scorer: maps
                .then(|| AttentionScorer::for_batch(engine.blueprint(), &firsts).ok())
                .flatten(),
            losses: 0,
            traced: maps,
            calls: 0,
            guided: vec![0; firsts.len()],
            tiled: false,
            watch,
        };
        let more = seconds.as_ref().map_or(0, |seconds| seconds[0].steps);
        let Some(mut latents) = self.denoise(&mut course, &firsts, more).map_err(fail)? else {
            return Ok(());
        };
        let mut requests = firsts.clone();
        if let Some(seconds) = &seconds {
            let Some((drawn, latents_drawn)) =
                self.again(&mut course, &firsts, seconds, latents)?
            else {
                return Ok(());
            };
            (requests, latents) = (drawn, latents_drawn);
        }
        let rows = course.rows.clone();
        let denoised = started.elapsed().as_secs_f64() / rows.len() as f64;
        for (row, unit) in rows.into_iter().enumerate() {
            let one = latents.clone().narrow(0, row, 1);
            let started = Instant::now();
            let (mut decoded, tiled) = engine.decode_for(&requests[unit], one).map_err(fail)?;
            let picture = decoded.remove(0);
            requests[unit].vae_tiling = tiled;
            let seconds_taken = denoised + started.elapsed().as_secs_f64();
            let cost = json!({"unet_calls": course.calls, "guided_passes": course.guided[unit], "seconds": seconds_taken});
            let second = seconds.as_ref().map(|seconds| seconds[unit]);
            let written = second.map(|second| second.as_written(&firsts[unit]));
            let first = second.zip(written.as_ref());
            let first = first.map(|(second, request)| FirstPass {
                request,
                denoising: second.denoising,
            });
            let made = &requests[unit];
            let finished = self.finished(&batch[unit], made, &picture, cost, None, first)?;
            course.watch.finished(unit, 0, finished);
        }
        Ok(())
    }

    /// Takes the rows of a course through all steps; `more` will follow. `requests` are those of all units. None if nobody wants
    /// any of them any more.
    fn denoise(
        &self,
        course: &mut Course,
        requests: &[Request],
        more: usize,
    ) -> Result<Option<Tensor<4>>, EngineError> {
        let engine = &self.loaded.engine;
        let of_rows = course.rows.iter().map(|unit| requests[*unit].clone());
        let of_rows: Vec<Request> = of_rows.collect();
        let mut session = course.with_hooks(|hooks| engine.begin(&of_rows, hooks))?;
        let of = course.calls + session.remaining() + more;
        while session.remaining() > 0 {
            course.with_hooks(|hooks| session.advance(1, hooks))?;
            course.calls += 1;
            let step = course.calls;
            self.tell(course, requests, &session, step, of)?;
            if !course.drop_unwanted(&mut session) {
                return Ok(None);
            }
        }
        for (unit, passes) in course.rows.iter().zip(session.recorded_passes()) {
            course.guided[*unit] += passes;
        }
        session.finish().map(Some)
    }

    /// The second pass over the pictures that `latents` are: the requests of all units, with their start pictures, and the new
    /// latents.
    fn again(
        &self,
        course: &mut Course,
        firsts: &[Request],
        seconds: &[&Second],
        latents: Tensor<4>,
    ) -> Result<Option<(Vec<Request>, Tensor<4>)>, Trouble> {
        let engine = &self.loaded.engine;
        let pictures = course.rows.len();
        let fail = |error: EngineError| trouble(&error, pictures);
        let no_disk = |error: std::io::Error| {
            tracing::error!("cannot keep a first picture: {error}");
            Trouble::Failed("the first picture could not be kept on the server's disk".into())
        };
        let folder = tempfile::tempdir_in(self.shared.inbox.path()).map_err(no_disk)?;
        let mut requests: Vec<Request> = (seconds.iter())
            .map(|second| second.request.clone())
            .collect();
        for (row, unit) in course.rows.clone().into_iter().enumerate() {
            let one = latents.clone().narrow(0, row, 1);
            let (picture, tiled) = engine.decode_for(&firsts[unit], one).map_err(fail)?;
            let first = Request {
                vae_tiling: tiled,
                ..firsts[unit].clone()
            };
            let png = self.png(&first, &picture[0], None)?;
            if course.batch[unit].previews > 0 && course.watch.seen(unit) {
                course.watch.preview(unit, 0, course.calls, &png);
            }
            let hash = format!("{:x}", Sha256::digest(&png));
            let path = folder.path().join(format!("{hash}.png"));
            std::fs::write(&path, &png).map_err(no_disk)?;
            if let Some(init) = &mut requests[unit].init {
                init.path = path;
                init.sha256 = Some(hash);
            }
        }
        // Maps and losses were the first pass's.
        course.traced = false;
        course.eye = Eye::new(false);
        course.scorer = None;
        let latents = self.denoise(course, &requests, 0).map_err(fail)?;
        Ok(latents.map(|latents| (requests, latents)))
    }

    /// Tells of a step; `requests` are those of all units.
    fn tell(
        &self,
        course: &mut Course,
        requests: &[Request],
        session: &Session,
        step: usize,
        of: usize,
    ) -> Result<(), EngineError> {
        course.watch.step(step, of);
        let seen: Vec<usize> = (0..course.rows.len())
            .filter(|row| course.watch.seen(course.rows[*row]))
            .collect();
        if course.traced {
            let Traced {
                losses,
                scores,
                maps,
            } = session.reading(|| Ok(course.read(session)))?;
            for (row, &unit) in course.rows.iter().enumerate() {
                let pos = scores
                    .get(row)
                    .map(|score| *score as f32)
                    .filter(|score| score.is_finite());
                let loss = losses.get(row).copied().filter(|loss| loss.is_finite());
                course.watch.trace(unit, 0, step, loss, pos);
            }
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
            let request = Request {
                vae_tiling: course.tiled,
                ..requests[unit].clone()
            };
            // Early ones may be out of range of what can be shown.
            let Ok((pictures, tiled)) = self.loaded.engine.decode_for(&request, one) else {
                continue;
            };
            course.tiled = tiled;
            if let Some(png) = (pictures.first()).and_then(|one| png::encode_plain(one).ok()) {
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
        first: Option<FirstPass>,
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
        let png = self.png(request, picture, first)?;
        Ok(Finished {
            png,
            seed: request.seed,
            verdict,
            cost,
            score,
        })
    }

    /// The picture's file; `first` is the pass before it.
    fn png(
        &self,
        request: &Request,
        picture: &Picture,
        first: Option<FirstPass>,
    ) -> Result<Vec<u8>, Trouble> {
        let scheduler = (self.loaded.engine)
            .scheduler_name(first.as_ref().map_or(request, |first| first.request))
            .map_err(|error| trouble(&error, 1))?;
        let sampled = Sampled {
            scheduler: &scheduler,
            calls: Some(self.loaded.engine.steps(request)),
        };
        let (public, device) = (self.public(request), self.shared.device.title());
        let png = match first {
            None => png::encode(picture, &public, sampled, &device),
            Some(first) => {
                let first = FirstPass {
                    request: &self.public(first.request),
                    ..first
                };
                png::encode_second(picture, &first, &public, sampled, &device)
            }
        };
        png.map_err(|error| Trouble::Failed(told(&error)))
    }

    /// The request as it goes into the file: with names for what lies on this machine.
    fn public(&self, request: &Request) -> Request {
        let mut public = request.clone();
        match &self.loaded.signature {
            Some(signature) => signature.sign(&mut public),
            None => public.model.sha256 = None,
        }
        let models = &self.shared.models;
        if let Some(model) = models
            .iter()
            .find(|model| model.request.checkpoint == request.model.checkpoint)
        {
            public.model.checkpoint.clone_from(&model.name);
        }
        let mut named: Vec<&mut PathBuf> = Vec::new();
        named.extend(public.model.loras.iter_mut().map(|lora| &mut lora.path));
        for adapter in &mut public.model.adapters {
            named.push(&mut adapter.path);
            named.extend(&mut adapter.encoder);
        }
        named.extend(public.init.as_mut().map(|init| &mut init.path));
        for shown in &mut public.pictures {
            named.push(&mut shown.path);
            if let Some(PictureRegion::Mask { path, .. }) = &mut shown.region {
                named.push(path);
            }
        }
        for path in named {
            if let Some(name) = path.file_name() {
                *path = name.into();
            }
        }
        public
    }
}

/// Why a batch of so many was not made.
pub fn trouble(error: &EngineError, pictures: usize) -> Trouble {
    match error.out_of_memory() {
        Some(_) if pictures > 1 => Trouble::Room(pictures / 2),
        _ => Trouble::Failed(told(error)),
    }
}
