//! What all handlers share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::StatusCode;
use serde_json::json;
use tokio::sync::{mpsc, watch};

use crate::gallery::Gallery;
use crate::guard::{Caller, Guard};
use crate::jobs::{Api, Job, Jobs, Note, Status};
use crate::metrics::Metrics;
use crate::picture;
use crate::problem::{Problem, Refusal};
use crate::queue::{Bounds, Full, Queue};
use crate::runs::Runs;
use crate::studio::{Plan, Studio};
use crate::wire::Wanted;

/// What one request may ask for, and how much may wait.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Pictures of one request, those of all candidates included.
    pub pictures: usize,
    /// Denoising steps.
    pub steps: usize,
    /// Of a picture that is made.
    pub pixels: usize,
    /// Of a picture that is sent.
    pub pixels_sent: u64,
    /// Of a body.
    pub bytes: usize,
    /// Pictures that wait.
    pub waiting: usize,
    /// Pictures of one caller that wait.
    pub waiting_per_caller: usize,
    /// Connections at a time.
    pub connections: usize,
    /// Seconds in which a request's head and body must arrive, and in which a client must read some of its answer.
    pub patience: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pictures: 64,
            steps: 150,
            pixels: 2048 * 2048,
            pixels_sent: 4096 * 4096,
            bytes: 20 << 20,
            waiting: 1024,
            waiting_per_caller: 256,
            connections: 256,
            patience: 30,
        }
    }
}

impl Limits {
    /// Refuses a picture of a size in the field `param` that is too large.
    pub(crate) fn check_pixels(
        &self,
        param: &'static str,
        [width, height]: [usize; 2],
    ) -> Result<(), Refusal> {
        match width.saturating_mul(height) > self.pixels {
            true => {
                let message = format!("a picture may have {} pixels", self.pixels);
                Err(Refusal::new(param, message))
            }
            false => Ok(()),
        }
    }

    /// Refuses more steps in the field `param` than a picture may take.
    fn check_steps(&self, param: &'static str, steps: usize) -> Result<(), Refusal> {
        match steps > self.steps {
            true => {
                let message = format!("a picture may take {} steps", self.steps);
                Err(Refusal::new(param, message))
            }
            false => Ok(()),
        }
    }

    /// Refuses a plan in which something that was left to the checkpoint comes to more than there may be.
    fn check_plan(&self, plan: &Plan) -> Result<(), Refusal> {
        for unit in &plan.units {
            let of = |name: &str| {
                let number = unit.request[name].as_u64().unwrap_or(0);
                usize::try_from(number).unwrap_or(usize::MAX)
            };
            let own = |refused: Refusal, found: String| Refusal {
                message: format!(
                    "{}, and with what is the checkpoint's own it has {found}",
                    refused.message
                ),
                ..refused
            };
            let size = [of("width"), of("height")];
            let [width, height] = size;
            self.check_pixels("request.width", size)
                .map_err(|refused| own(refused, format!("{width}x{height}")))?;
            let steps = of("steps");
            self.check_steps("request.steps", steps)
                .map_err(|refused| own(refused, steps.to_string()))?;
        }
        Ok(())
    }
}

/// The most pictures that one request shows to the network.
const MOST_SHOWN: usize = 16;

/// What a server is made of.
pub struct Setup {
    /// Who makes pictures.
    pub studio: Box<dyn Studio>,
    /// Who may ask.
    pub guard: Guard,
    /// How much.
    pub limits: Limits,
    /// Where pictures are kept; those of the native interface need it.
    pub gallery: Option<Gallery>,
    /// Runs whose reports can be read.
    pub runs: Option<Runs>,
    /// Where the page is read from instead of the program, while it is worked on.
    pub page: Option<PathBuf>,
    /// Whether names of models that are not here mean the default one.
    pub any_model: bool,
}

/// What all handlers share.
pub struct App {
    pub(crate) studio: Box<dyn Studio>,
    pub(crate) guard: Guard,
    pub(crate) limits: Limits,
    pub(crate) gallery: Option<Gallery>,
    pub(crate) runs: Option<Runs>,
    pub(crate) page: Option<PathBuf>,
    pub(crate) any_model: bool,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) queue: Queue,
    pub(crate) metrics: Metrics,
    pub(crate) ready: AtomicBool,
    /// Becomes true when the server is to end.
    pub(crate) closing: watch::Sender<bool>,
}

/// A job, and what its waiter hears.
pub(crate) struct Awaited {
    pub job: Arc<Job>,
    pub notes: mpsc::UnboundedReceiver<Note>,
    pub size: [usize; 2],
    app: Arc<App>,
}

impl Drop for Awaited {
    /// The handler is gone, and with it the client.
    fn drop(&mut self) {
        self.app.jobs.end(&self.job, Status::Cancelled);
    }
}

impl App {
    /// Puts everything together.
    pub fn new(setup: Setup) -> Arc<Self> {
        let Setup {
            studio,
            guard,
            limits,
            gallery,
            runs,
            page,
            any_model,
        } = setup;
        Arc::new(Self {
            queue: Queue::new(Bounds {
                pictures: limits.waiting,
                per_caller: limits.waiting_per_caller,
            }),
            studio,
            guard,
            limits,
            gallery,
            runs,
            page,
            any_model,
            jobs: Arc::default(),
            metrics: Metrics::default(),
            ready: AtomicBool::new(false),
            closing: watch::channel(false).0,
        })
    }

    /// Finishes what is being made, and refuses the rest.
    pub fn close(&self) {
        self.ready.store(false, Ordering::Relaxed);
        for job in self.queue.close() {
            if job.state().status == Status::Queued {
                self.jobs
                    .end(&job, Status::Failed("the server is ending".into()));
            }
        }
        // Nobody may be there to hear it.
        let _ = self.closing.send_replace(true);
    }

    /// Tells those whose pictures will not be made any more.
    pub(crate) fn finish(&self) {
        for job in self.jobs.all() {
            self.jobs
                .end(&job, Status::Failed("the server is ending".into()));
        }
    }

    /// Checks what is wanted against the limits and the studio.
    pub(crate) fn plan(&self, wanted: &mut Wanted) -> Result<Plan, Problem> {
        let limits = &self.limits;
        let seeds = wanted.seeds().len();
        let each = wanted.search.as_ref().map_or(1, |search| search.best_of);
        let all = seeds
            .saturating_mul(each)
            .saturating_mul(1 + usize::from(wanted.plain));
        if all > limits.pictures {
            let param = if each > 1 { "search.best_of" } else { "seeds" };
            let message = format!(
                "that is {all} pictures; one request may ask for {}",
                limits.pictures
            );
            return Err(Problem::from(Refusal::new(param, message)));
        }
        // Before anything is allocated for them.
        let request = &wanted.request;
        let said = [request.width, request.height].map(|side| side.unwrap_or(1));
        limits.check_pixels("request.width", said)?;
        limits.check_steps("request.steps", request.steps.unwrap_or(1))?;
        if let Some(second) = &wanted.second_pass {
            limits.check_pixels("second_pass.width", [second.width, second.height])?;
            limits.check_steps("second_pass.steps", second.steps.unwrap_or(1))?;
        }
        let shown = wanted.request.pictures.len();
        if shown > MOST_SHOWN {
            let message = format!("that shows {shown} pictures; one request may show {MOST_SHOWN}");
            return Err(Problem::from(Refusal::new("request.pictures", message)));
        }
        let mut sent = Vec::new();
        for (param, image) in wanted.images() {
            let bytes = picture::from_base64(image, param)?;
            let png = picture::clean(&bytes, limits.pixels_sent, param)?;
            let taken = self.studio.take_in(&png)?;
            *image = taken.image;
            sent.push(taken.kept);
        }
        let mut plan = self.studio.plan(wanted)?;
        limits.check_plan(&plan)?;
        for unit in &mut plan.units {
            unit.sent.clone_from(&sent);
        }
        Ok(plan)
    }

    /// Queues a job that the page watches.
    pub(crate) fn submit(
        &self,
        caller: Caller,
        mut wanted: Wanted,
    ) -> Result<(Arc<Job>, usize), Problem> {
        let body = json!(wanted);
        let plan = self.plan(&mut wanted)?;
        let body = match wanted.images().is_empty() {
            true => body,
            // The pictures themselves are not kept in the job.
            false => json!(wanted),
        };
        let job = Arc::new(Job::new(caller, Api::Native, body, plan.units.len(), None));
        let position = self.enqueue(&job, plan)?;
        Ok((job, position))
    }

    /// Queues a job that a handler waits for.
    pub(crate) fn await_job(
        self: &Arc<Self>,
        caller: Caller,
        api: Api,
        mut wanted: Wanted,
        task: Option<String>,
    ) -> Result<Awaited, Problem> {
        let plan = self.plan(&mut wanted)?;
        let (sender, notes) = mpsc::unbounded_channel();
        let mut job = Job::new(caller, api, json!(null), plan.units.len(), Some(sender));
        job.task = task;
        let job = Arc::new(job);
        let size = plan.size;
        self.enqueue(&job, plan)?;
        Ok(Awaited {
            job,
            notes,
            size,
            app: self.clone(),
        })
    }

    fn enqueue(&self, job: &Arc<Job>, plan: Plan) -> Result<usize, Problem> {
        let steps = plan.steps;
        let pushed = self.queue.push(job, plan.units, |position| {
            self.jobs.add(job.clone());
            (self.jobs).emit(job, "queued", json!({"position": position}));
        });
        pushed.map_err(|full| self.full(full, steps))
    }

    fn full(&self, full: Full, steps: usize) -> Problem {
        let (reason, message) = match full {
            Full::Closed => {
                let message = "the server is ending";
                return Problem::new(StatusCode::SERVICE_UNAVAILABLE, message);
            }
            Full::All(waiting) => (
                "queue",
                format!("{waiting} pictures wait already; ask again later"),
            ),
            Full::Caller(waiting) => (
                "caller",
                format!("{waiting} pictures of yours wait already; ask again later"),
            ),
        };
        self.metrics
            .count("prepose_rejected_total", format!("reason=\"{reason}\""));
        let step = self.metrics.mean("prepose_step_seconds").unwrap_or(0.1);
        // When a picture's place will be free; clients do not wait longer than two minutes.
        let seconds = (step * steps as f64).ceil().clamp(1.0, 120.0);
        Problem {
            retry_after: Some(seconds as u64),
            ..Problem::new(StatusCode::TOO_MANY_REQUESTS, message).code("rate_limit_exceeded")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::queue::tests::unit;
    use crate::studio::{Maker, Taken, Unit};

    /// Has a checkpoint of 512 × 512 pixels and 50 steps.
    struct Own;

    impl Studio for Own {
        fn about(&self) -> Value {
            Value::Null
        }

        fn read(&self, _: &str) -> Value {
            Value::Null
        }

        fn plan(&self, wanted: &Wanted) -> Result<Plan, Refusal> {
            let request = &wanted.request;
            let [width, height] = [request.width, request.height].map(|side| side.unwrap_or(512));
            let steps = request.steps.unwrap_or(50);
            let request = json!({"width": width, "height": height, "steps": steps});
            Ok(Plan {
                units: vec![Unit {
                    request,
                    ..unit("a", 1)
                }],
                steps,
                size: [width, height],
            })
        }

        fn spell(&self, _: &Wanted) -> Result<[String; 2], Refusal> {
            Err(Refusal::new(None, "not here"))
        }

        fn take_in(&self, _: &[u8]) -> Result<Taken, Refusal> {
            Err(Refusal::new(None, "not here"))
        }

        fn refresh_loras(&self) -> Result<(), Refusal> {
            Err(Refusal::new(None, "not here"))
        }

        fn maker(&self) -> Box<dyn Maker> {
            panic!("there is no device");
        }
    }

    #[test]
    fn what_is_left_to_the_checkpoint_is_limited_too() {
        let app = App::new(Setup {
            studio: Box::new(Own),
            guard: Guard::new(&[], Vec::new(), Vec::new()),
            limits: Limits {
                pixels: 512 * 1024,
                steps: 50,
                ..Limits::default()
            },
            gallery: None,
            runs: None,
            page: None,
            any_model: false,
        });
        let planned = |request: Value| {
            let mut wanted: Wanted = serde_json::from_value(json!({"request": request})).unwrap();
            app.plan(&mut wanted).map(|_| ())
        };
        assert!(planned(json!({"prompt": "a cat", "height": 1024})).is_ok());
        assert!(planned(json!({"prompt": "a cat", "steps": 50})).is_ok());
        for (request, param, why) in [
            (json!({"height": 8192}), "request.width", "512x8192"),
            (json!({"width": 1032}), "request.width", "1032x512"),
            (json!({"steps": 51}), "request.steps", "50 steps"),
        ] {
            let mut asked = json!({"prompt": "a cat"});
            for (name, value) in request.as_object().unwrap() {
                asked[name] = value.clone();
            }
            let refused = planned(asked).unwrap_err();
            assert_eq!(refused.param.as_deref(), Some(param));
            assert!(refused.message.contains(why), "{}", refused.message);
        }
        // Where nothing is said of the steps, the checkpoint's are counted.
        let few = Limits {
            steps: 20,
            ..app.limits
        };
        let wanted = Wanted::of(crate::wire::RequestWanted::default());
        let plan = Own.plan(&wanted).unwrap();
        let refused = few.check_plan(&plan).unwrap_err();
        assert_eq!(refused.param, Some("request.steps"));
        assert!(refused.message.contains("it has 50"), "{refused}");
    }
}
