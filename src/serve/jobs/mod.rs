//! What became of each request: its events, and who is told of them.

mod job;

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::guard::Caller;
use crate::studio::Finished;
use job::is_heavy;
pub use job::{Api, Job, Note, State, Status, now};

/// Events that can be caught up with by `Last-Event-ID`.
const RING: usize = 2000;
/// Jobs that are remembered after they have ended.
const ENDED: usize = 32;

/// One event of a job.
#[derive(Clone, Debug)]
pub struct Event {
    /// Ascends over all jobs.
    pub seq: u64,
    /// Whose job it is.
    pub caller: Caller,
    /// Its name.
    pub kind: &'static str,
    /// JSON, with `job`.
    pub data: Arc<str>,
}

/// All jobs.
pub struct Jobs {
    inner: Mutex<Inner>,
    stream: broadcast::Sender<Event>,
    /// Who listens to the stream, by caller.
    listeners: Mutex<BTreeMap<Caller, usize>>,
    /// Streams that are open.
    pub open: AtomicUsize,
}

#[derive(Default)]
struct Inner {
    seq: u64,
    ring: VecDeque<Event>,
    /// In the order in which they came.
    jobs: Vec<Arc<Job>>,
    /// Those of them that have ended, in the order in which they did.
    ended: Vec<Arc<Job>>,
}

impl Inner {
    /// Keeps a job that has just ended, unless somebody waited for it, who has the answer; too many are kept no longer: of the
    /// callers with the most, the one that ended longest ago goes.
    fn end(&mut self, job: &Job) {
        let Some(at) = self.jobs.iter().position(|known| known.id == job.id) else {
            return;
        };
        if job.waiter.is_some() {
            self.jobs.remove(at);
            return;
        }
        self.ended.push(self.jobs[at].clone());
        if self.ended.len() <= ENDED {
            return;
        }
        let of = |caller: Caller| (self.ended.iter().filter(|job| job.caller == caller)).count();
        let first = (0..self.ended.len()).min_by_key(|at| Reverse(of(self.ended[*at].caller)));
        if let Some(first) = first {
            let old = self.ended.remove(first);
            self.jobs.retain(|known| known.id != old.id);
        }
    }
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            inner: Mutex::default(),
            stream: broadcast::channel(1024).0,
            listeners: Mutex::default(),
            open: AtomicUsize::new(0),
        }
    }
}

impl Jobs {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a job.
    pub fn add(&self, job: Arc<Job>) {
        self.inner().jobs.push(job);
    }

    /// The caller's job of that name.
    pub fn find(&self, caller: Caller, id: &str) -> Option<Arc<Job>> {
        let inner = self.inner();
        let mut mine = inner.jobs.iter().filter(|job| job.caller == caller);
        mine.find(|job| job.id == id).cloned()
    }

    /// The caller's jobs by that interface, oldest first.
    pub fn of(&self, caller: Caller, api: Api) -> Vec<Arc<Job>> {
        let inner = self.inner();
        let mine = inner
            .jobs
            .iter()
            .filter(|job| job.caller == caller && job.api == api);
        mine.cloned().collect()
    }

    /// Every job that is remembered.
    pub fn all(&self) -> Vec<Arc<Job>> {
        self.inner().jobs.clone()
    }

    /// The events after `seq` that the ring still has, and all that come; a reader that falls behind is told so.
    pub fn listen(&self, after: Option<u64>) -> (Vec<Event>, broadcast::Receiver<Event>) {
        let inner = self.inner();
        let missed = inner
            .ring
            .iter()
            .filter(|event| after.is_some_and(|after| event.seq > after));
        (missed.cloned().collect(), self.stream.subscribe())
    }

    /// Counts a listener of the caller.
    pub fn count(self: &Arc<Self>, caller: Caller) -> Listening {
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *listeners.entry(caller).or_default() += 1;
        self.open.fetch_add(1, Ordering::Relaxed);
        Listening {
            jobs: self.clone(),
            caller,
        }
    }

    /// Whether anybody looks at a job's previews.
    pub fn is_seen(&self, job: &Job) -> bool {
        let listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        job.waiter.is_some() || listeners.get(&job.caller).is_some_and(|count| *count > 0)
    }

    /// Something happened to a job.
    pub fn emit(&self, job: &Job, kind: &'static str, mut data: Value) {
        data["job"] = json!(job.id);
        let data: Arc<str> = data.to_string().into();
        job.state().remember(kind, data.clone());
        if job.waiter.is_some() {
            return;
        }
        let mut inner = self.inner();
        inner.seq += 1;
        let event = Event {
            seq: inner.seq,
            caller: job.caller,
            kind,
            data,
        };
        if inner.ring.len() == RING {
            inner.ring.pop_front();
        }
        // Heavy ones are for those who are here; others read the job.
        if !is_heavy(kind) {
            inner.ring.push_back(event.clone());
        }
        // Nobody may listen.
        let _ = self.stream.send(event);
    }

    /// A step of its batch was taken.
    pub fn step(&self, job: &Job, step: usize, of: usize) {
        {
            let mut state = job.state();
            (state.step, state.of) = (step, of);
        }
        self.emit(job, "step", json!({"i": step, "of": of}));
    }

    /// There is a newer preview.
    pub fn preview(&self, job: &Job, lane: usize, step: usize, png: &[u8]) {
        use base64::Engine as _;
        let bytes: Arc<[u8]> = png.into();
        job.state().preview = Some(bytes.clone());
        job.tell(Note::Preview(bytes));
        if job.waiter.is_none() {
            let png = base64::engine::general_purpose::STANDARD.encode(png);
            self.emit(
                job,
                "preview",
                json!({"lane": lane, "step": step, "png": png}),
            );
        }
    }

    /// A picture is done; the job, too, if it was its last one.
    pub fn picture(
        &self,
        job: &Job,
        lane: usize,
        last: bool,
        picture: Arc<Finished>,
        id: Option<&str>,
        kind: &str,
    ) {
        let facts = json!({
            "lane": lane, "id": id, "seed": crate::wire::Seed(picture.seed), "kind": kind, "cost": picture.cost,
            "verdict": picture.verdict, "score": picture.score,
        });
        self.emit(job, "picture", facts);
        job.tell(Note::Picture(lane, picture));
        if last {
            let left = {
                let mut state = job.state();
                state.left = state.left.saturating_sub(1);
                state.left
            };
            if left == 0 {
                self.end(job, Status::Done);
            }
        }
    }

    /// A job has ended; later ends change nothing.
    pub fn end(&self, job: &Job, status: Status) {
        {
            let mut state = job.state();
            if state.status.is_final() {
                return;
            }
            state.status = status.clone();
        }
        job.cancelled.store(true, Ordering::Relaxed);
        match status {
            Status::Failed(message) => {
                self.emit(job, "failed", json!({"message": message}));
                job.tell(Note::Failed(message));
            }
            Status::Cancelled => {
                self.emit(job, "cancelled", json!({}));
                job.tell(Note::Cancelled);
            }
            _ => {
                self.emit(job, "done", json!({}));
                job.tell(Note::Done);
            }
        }
        self.inner().end(job);
    }
}

/// Somebody who listens, for as long as it lives.
pub struct Listening {
    jobs: Arc<Jobs>,
    caller: Caller,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut listeners = self
            .jobs
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = listeners.get_mut(&self.caller) {
            *count = count.saturating_sub(1);
        }
        self.jobs.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(jobs: &Jobs, caller: Caller) -> Arc<Job> {
        let job = Arc::new(Job::new(caller, Api::Native, Value::Null, 1, None));
        jobs.add(job.clone());
        job
    }

    #[test]
    fn those_that_ended_longest_ago_are_forgotten() {
        let jobs = Jobs::default();
        let long = add(&jobs, 1);
        let other = add(&jobs, 2);
        jobs.end(&other, Status::Done);
        let short: Vec<Arc<Job>> = (0..=ENDED).map(|_| add(&jobs, 1)).collect();
        for job in &short[..ENDED] {
            jobs.end(job, Status::Done);
        }
        jobs.end(&long, Status::Done);
        jobs.end(&short[ENDED], Status::Done);
        assert!(jobs.find(1, &long.id).is_some());
        // Of the 32 that are remembered one is another caller's, and one the long one.
        let known = |job: &&Arc<Job>| jobs.find(job.caller, &job.id).is_some();
        assert_eq!(short.iter().filter(known).count(), ENDED - 2);
        assert!(!known(&&short[0]) && known(&&short[ENDED]));
        assert!(known(&&other));
    }

    #[test]
    fn what_has_not_ended_is_not_forgotten() {
        let jobs = Jobs::default();
        let waiting: Vec<Arc<Job>> = (0..2 * ENDED).map(|_| add(&jobs, 1)).collect();
        jobs.end(&waiting[0], Status::Cancelled);
        jobs.end(&waiting[0], Status::Done);
        assert_eq!(jobs.all().len(), waiting.len());
        assert_eq!(waiting[0].state().status, Status::Cancelled);
    }
}
