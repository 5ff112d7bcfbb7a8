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

/// What somebody is told where the engine panicked; what happened was logged there.
const UNEXPECTED: &str = "the engine failed unexpectedly; its log says where";

/// Makes what waits until the queue is closed and empty.
pub fn work(app: &Arc<App>) {
    let _ending = Ending(app);
    let mut maker = app.studio.maker();
    app.ready.store(true, Ordering::Relaxed);
    let mut most = usize::MAX;
    while let Some(lead) = app.queue.next() {
        turn(app, maker.as_mut(), lead, &mut most);
    }
}

/// Whatever ends the thread, nobody waits for it afterwards.
struct Ending<'a>(&'a App);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.close();
        self.0.finish();
    }
}

/// Makes a unit with those that fit, at most `most` of them: fewer from now on if there was not enough memory.
fn turn(app: &App, maker: &mut dyn Maker, lead: Waiting, most: &mut usize) {
    begin(app, &lead);
    let best = match contained(|| maker.most(&lead.unit)) {
        Ok(Ok(best)) => best.min(*most).max(1),
        Ok(Err(why)) | Err(why) => {
            app.jobs.end(&lead.job, Status::Failed(why));
            return;
        }
    };
    let mut batch = vec![lead];
    batch.extend(app.queue.companions(&batch[0], best - 1));
    batch[1..].iter().for_each(|waiting| begin(app, waiting));
    if let Some(room) = make(app, maker, &batch) {
        *most = room.max(1);
    }
}

/// What `act` returns, or [`UNEXPECTED`] if it panics.
fn contained<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
    done.map_err(|_| UNEXPECTED.to_owned())
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

/// Makes a batch, and ends the jobs of which that failed. Of several units, those that were not handed out are made again one
/// by one, so that only those fail that fail alone; if there was not enough memory they wait again, and what is returned is for
/// how many pictures there is some.
fn make(app: &App, maker: &mut dyn Maker, batch: &[Waiting]) -> Option<usize> {
    let (left, made) = attempt(app, maker, batch);
    let why = match made {
        Ok(()) => "the engine made no picture of this request".to_owned(),
        Err(Trouble::Room(room)) if room < batch.len() => {
            app.queue.put_back(left);
            return Some(room);
        }
        Err(Trouble::Room(_)) => "there is not enough memory for one such picture".to_owned(),
        Err(Trouble::Failed(why)) => why,
    };
    if batch.len() > 1 && !left.is_empty() {
        tracing::warn!(
            "of a batch, {} pictures are made one by one: {why}",
            left.len()
        );
    }
    for waiting in left {
        if batch.len() == 1 {
            app.jobs.end(&waiting.job, Status::Failed(why.clone()));
        } else if waiting.job.is_wanted() {
            // One by itself is never put back.
            make(app, maker, &[waiting]);
        }
    }
    None
}

/// Makes a batch once; returns which of its units are wanted and were not handed out, and what the maker said.
fn attempt(
    app: &App,
    maker: &mut dyn Maker,
    batch: &[Waiting],
) -> (Vec<Waiting>, Result<(), Trouble>) {
    app.metrics
        .batch(batch.iter().map(|waiting| waiting.unit.candidates).sum());
    let units: Vec<Arc<Unit>> = batch.iter().map(|waiting| waiting.unit.clone()).collect();
    let mut told = Told {
        app,
        batch,
        handed: vec![false; batch.len()],
        last: Instant::now(),
    };
    let made =
        contained(|| maker.make(&units, &mut told)).unwrap_or_else(|why| Err(Trouble::Failed(why)));
    let units = batch.iter().zip(told.handed);
    let left = units.filter(|(waiting, handed)| !handed && waiting.job.is_wanted());
    (left.map(|(waiting, _)| waiting.clone()).collect(), made)
}

/// Tells the jobs of a batch.
struct Told<'a> {
    app: &'a App,
    batch: &'a [Waiting],
    /// Which units' pictures were handed out, or need not be.
    handed: Vec<bool>,
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
        self.handed[unit] = true;
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
        };
        let kept = self
            .app
            .gallery
            .as_ref()
            .map(|gallery| gallery.keep(job.caller, &picture.png, facts));
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::app::{Limits, Setup};
    use crate::guard::Guard;
    use crate::jobs::Job;
    use crate::problem::Refusal;
    use crate::queue::{Full, tests::unit};
    use crate::studio::{Batch, Plan, Studio, Taken};
    use crate::wire::Wanted;

    /// Has no networks: its maker panics.
    struct Nowhere;

    impl Studio for Nowhere {
        fn about(&self) -> Value {
            Value::Null
        }

        fn read(&self, _: &str) -> Value {
            Value::Null
        }

        fn plan(&self, _: &Wanted) -> Result<Plan, Refusal> {
            Err(Refusal::new(None, "not here"))
        }

        fn spell(&self, _: &Wanted) -> Result<[String; 2], Refusal> {
            Err(Refusal::new(None, "not here"))
        }

        fn take_in(&self, _: &[u8]) -> Result<Taken, Refusal> {
            Err(Refusal::new(None, "not here"))
        }

        fn refresh_loras(&self) -> Result<(), Refusal> {
            Err(Refusal::new(None, "the folder is gone"))
        }

        fn maker(&self) -> Box<dyn Maker> {
            panic!("there is no device");
        }
    }

    /// Makes each unit in turn as its order says, and keeps the orders of each batch.
    #[derive(Default)]
    struct Scripted {
        batches: Vec<Vec<String>>,
    }

    impl Maker for Scripted {
        fn most(&mut self, unit: &Unit) -> Result<usize, String> {
            assert!(unit.order != "unloadable", "the file is gone");
            Ok(8)
        }

        fn make(&mut self, batch: &Batch, watch: &mut dyn Watch) -> Result<(), Trouble> {
            let orders = batch.iter().filter_map(|unit| unit.order.as_str());
            self.batches.push(orders.map(str::to_owned).collect());
            for (at, unit) in batch.iter().enumerate() {
                match unit.order.as_str() {
                    Some("lost") => {}
                    Some("broken") => panic!("a picture broke"),
                    Some("narrow") if batch.len() > 1 => return Err(Trouble::Room(1)),
                    _ => watch.finished(
                        at,
                        0,
                        Finished {
                            png: Vec::new(),
                            seed: 0,
                            verdict: Value::Null,
                            cost: Value::Null,
                            score: None,
                        },
                    ),
                }
            }
            Ok(())
        }
    }

    /// An app without networks.
    pub(crate) fn app() -> Arc<App> {
        App::new(Setup {
            studio: Box::new(Nowhere),
            guard: Guard::new(&[], Vec::new(), Vec::new()),
            limits: Limits::default(),
            gallery: None,
            runs: None,
            page: None,
            any_model: false,
        })
    }

    /// One job for each order.
    fn queue(app: &App, orders: &[&str]) -> Vec<Arc<Job>> {
        let jobs = orders.iter().map(|order| {
            let job = Arc::new(Job::new(0, Api::WebUi, Value::Null, 1, None));
            let unit = Unit {
                order: json!(order),
                ..unit("a", 1)
            };
            app.queue.push(&job, vec![unit], |_| ()).unwrap();
            job
        });
        jobs.collect()
    }

    /// What became of one job for each order, and the batches that were made.
    fn made(orders: &[&str]) -> (Vec<Status>, Vec<Vec<String>>) {
        let app = app();
        let jobs = queue(&app, orders);
        let (mut maker, mut most) = (Scripted::default(), usize::MAX);
        while !app.queue.is_empty() {
            let lead = app.queue.next().unwrap();
            turn(&app, &mut maker, lead, &mut most);
        }
        let became = jobs.iter().map(|job| job.state().status.clone());
        (became.collect(), maker.batches)
    }

    fn failed(why: &str) -> Status {
        Status::Failed(why.to_owned())
    }

    #[test]
    fn one_unit_that_fails_fails_alone() {
        let (became, batches) = made(&["first", "broken", "last"]);
        assert_eq!(became, [Status::Done, failed(UNEXPECTED), Status::Done]);
        // The first was handed out before the second failed.
        let expected = [&["first", "broken", "last"][..], &["broken"], &["last"]];
        assert_eq!(batches, expected);
    }

    #[test]
    fn networks_that_cannot_be_loaded_fail_one_job() {
        let (became, _) = made(&["unloadable", "other"]);
        assert_eq!(became, [failed(UNEXPECTED), Status::Done]);
    }

    #[test]
    fn what_the_maker_forgets_ends_nevertheless() {
        let (became, _) = made(&["lost"]);
        assert_eq!(
            became,
            [failed("the engine made no picture of this request")]
        );
    }

    #[test]
    fn what_was_handed_out_is_not_made_again_in_smaller_batches() {
        let (became, batches) = made(&["first", "narrow", "last"]);
        assert_eq!(became, [Status::Done, Status::Done, Status::Done]);
        let expected = [&["first", "narrow", "last"][..], &["narrow"], &["last"]];
        assert_eq!(batches, expected);
    }

    #[test]
    fn a_thread_that_ends_takes_nothing_more_in() {
        let app = app();
        let waiting = queue(&app, &["first"]);
        app.jobs.add(waiting[0].clone());
        assert!(contained(|| work(&app)).is_err());
        assert!(!app.ready.load(Ordering::Relaxed));
        assert!(waiting[0].state().status.is_final());
        let job = Arc::new(Job::new(0, Api::Native, Value::Null, 1, None));
        let refused = app.queue.push(&job, vec![unit("a", 1)], |_| ());
        assert_eq!(refused, Err(Full::Closed));
    }
}
