//! The thread that makes pictures: takes from the queue what fits together, and tells the jobs what becomes of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use serde_json::{Value, json};

use crate::app::App;
use crate::gallery::Facts;
use crate::jobs::{Api, Status};
use crate::queue::Waiting;
use crate::studio::{Finished, Kind, Maker, MapImage, Trouble, Unit, Watch};

/// Makes what waits until the queue is closed and empty.
pub fn work(app: &Arc<App>) {
    let mut maker = app.studio.maker();
    app.ready.store(true, Ordering::Relaxed);
    let mut most = usize::MAX;
    while let Some(lead) = app.queue.next() {
        begin(app, &lead);
        let best = match maker.most(&lead.unit) {
            Ok(best) => best.min(most).max(1),
            Err(why) => {
                app.jobs.end(&lead.job, Status::Failed(why));
                continue;
            }
        };
        let mut batch = vec![lead];
        batch.extend(app.queue.companions(&batch[0], best - 1));
        batch[1..].iter().for_each(|waiting| begin(app, waiting));
        if let Some(room) = make(app, maker.as_mut(), &batch) {
            most = room.max(1);
            app.queue.put_back(batch);
        }
    }
}

/// Tells a job that it is its turn.
fn begin(app: &App, waiting: &Waiting) {
    let Waiting {
        job, unit, since, ..
    } = waiting;
    app.metrics
        .seconds("prepose_queue_wait_seconds", since.elapsed().as_secs_f64());
    {
        let mut state = job.state();
        if state.status == Status::Queued {
            state.status = Status::Running;
        }
        state.of = unit.steps;
    }
    let lanes = (0..unit.candidates).map(|candidate| {
        let searched = unit.kind == Kind::Candidate;
        json!({
            "lane": unit.lane + candidate, "seed": crate::wire::Seed(unit.seed), "kind": unit.kind.as_str(),
            "candidate": searched.then_some(candidate),
        })
    });
    let lanes: Vec<Value> = lanes.collect();
    app.jobs
        .emit(job, "started", json!({"steps": unit.steps, "lanes": lanes}));
}

/// Makes a batch; returns for how many pictures there is memory if there was not enough.
fn make(app: &Arc<App>, maker: &mut dyn Maker, batch: &[Waiting]) -> Option<usize> {
    app.metrics
        .batch(batch.iter().map(|waiting| waiting.unit.candidates).sum());
    let units: Vec<Arc<Unit>> = batch.iter().map(|waiting| waiting.unit.clone()).collect();
    let mut told = Told {
        app,
        batch,
        last: Instant::now(),
    };
    let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        maker.make(&units, &mut told)
    }));
    let why = match made {
        Ok(Ok(())) => return None,
        Ok(Err(Trouble::Room(room))) if room < batch.len() => return Some(room),
        Ok(Err(Trouble::Room(_))) => "there is not enough memory for one such picture".to_owned(),
        Ok(Err(Trouble::Failed(why))) => why,
        // The message was logged where it happened.
        Err(_) => "the engine failed unexpectedly; its log says where".to_owned(),
    };
    for waiting in batch {
        app.jobs.end(&waiting.job, Status::Failed(why.clone()));
    }
    None
}

/// Tells the jobs of a batch.
struct Told<'a> {
    app: &'a App,
    batch: &'a [Waiting],
    last: Instant,
}

impl Watch for Told<'_> {
    fn step(&mut self, step: usize, of: usize) {
        let seconds = self.last.elapsed().as_secs_f64();
        self.last = Instant::now();
        self.app.metrics.seconds("prepose_step_seconds", seconds);
        for (at, waiting) in self.batch.iter().enumerate() {
            let first = self
                .batch
                .iter()
                .position(|other| other.job.id == waiting.job.id);
            if first == Some(at) && waiting.job.is_wanted() {
                self.app.jobs.step(&waiting.job, step, of);
            }
        }
    }

    fn wanted(&self, unit: usize) -> bool {
        self.batch[unit].job.is_wanted()
    }

    fn seen(&self, unit: usize) -> bool {
        self.app.jobs.is_seen(&self.batch[unit].job)
    }

    fn preview(&mut self, unit: usize, candidate: usize, step: usize, png: &[u8]) {
        let Waiting { job, unit, .. } = &self.batch[unit];
        self.app.jobs.preview(job, unit.lane + candidate, step, png);
    }

    fn maps(&mut self, unit: usize, candidate: usize, step: usize, maps: &[MapImage]) {
        use base64::Engine as _;
        let Waiting { job, unit, .. } = &self.batch[unit];
        let objects: Vec<Value> = (maps.iter())
            .map(|map| {
                let data = base64::engine::general_purpose::STANDARD.encode(&map.cells);
                json!({"name": map.name, "rows": map.size[0], "columns": map.size[1], "data": data})
            })
            .collect();
        let facts = json!({"lane": unit.lane + candidate, "step": step, "objects": objects});
        self.app.jobs.emit(job, "maps", facts);
    }

    fn trace(
        &mut self,
        unit: usize,
        candidate: usize,
        step: usize,
        loss: Option<f32>,
        pos: Option<f32>,
    ) {
        let Waiting { job, unit, .. } = &self.batch[unit];
        let pos: Vec<f32> = pos.into_iter().collect();
        let facts = json!({"lane": unit.lane + candidate, "step": step, "loss": loss, "pos": pos});
        self.app.jobs.emit(job, "trace", facts);
    }

    fn candidates(&mut self, unit: usize, step: usize, scores: &[(usize, f64)], dropped: &[usize]) {
        let Waiting { job, unit, .. } = &self.batch[unit];
        let scores: Vec<Value> = (scores.iter())
            .map(|(candidate, score)| json!({"lane": unit.lane + candidate, "score": score}))
            .collect();
        let dropped: Vec<usize> = dropped
            .iter()
            .map(|candidate| unit.lane + candidate)
            .collect();
        let facts = json!({"step": step, "scores": scores, "dropped": dropped});
        self.app.jobs.emit(job, "candidates", facts);
    }

    fn finished(&mut self, unit: usize, candidate: usize, picture: Finished) {
        let Waiting { job, unit, .. } = &self.batch[unit];
        if !job.is_wanted() {
            return;
        }
        let mut request = unit.request.clone();
        request["seed"] = json!(crate::wire::Seed(picture.seed));
        let facts = Facts {
            request,
            verdict: picture.verdict.clone(),
            cost: picture.cost.clone(),
            made: crate::jobs::now(),
            kind: unit.kind.as_str().into(),
            job: job.id.clone(),
            caller: job.caller,
        };
        let kept = self
            .app
            .gallery
            .as_ref()
            .map(|gallery| gallery.keep(&picture.png, facts));
        let id = match kept {
            Some(Ok(id)) => Some(id),
            // The native interface hands pictures out of the folder alone.
            Some(Err(error)) if job.api == Api::Native => {
                let why = prepose_untrusted::message(
                    std::iter::successors(Some(&error as &dyn std::error::Error), |error| {
                        error.source()
                    })
                    .map(ToString::to_string),
                );
                tracing::error!("{why}");
                let told = "the picture could not be kept on the server's disk".to_owned();
                self.app.jobs.end(job, Status::Failed(told));
                return;
            }
            Some(Err(error)) => {
                tracing::error!("{error}");
                None
            }
            None => None,
        };
        self.app.metrics.count(
            "prepose_pictures_total",
            format!("api=\"{}\"", job.api.as_str()),
        );
        let (lane, kind) = (unit.lane + candidate, unit.kind.as_str());
        self.app
            .jobs
            .picture(job, lane, true, Arc::new(picture), id.as_deref(), kind);
    }
}
