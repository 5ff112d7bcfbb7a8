//! What waits to be made. Bounded, fair among callers, and compatible pictures leave it together.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::guard::Caller;
use crate::jobs::Job;
use crate::studio::{Kind, Unit};

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Pictures of all callers.
    pub pictures: usize,
    /// Pictures of one caller.
    pub per_caller: usize,
}

/// Why something cannot wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// So many pictures of all callers wait.
    All(usize),
    /// So many of this caller's.
    Caller(usize),
    /// The server is ending.
    Closed,
}

/// A unit that waits.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Whose.
    pub job: Arc<Job>,
    /// What.
    pub unit: Arc<Unit>,
    /// Since when.
    pub since: Instant,
    order: u64,
}

/// The queue.
pub struct Queue {
    bounds: Bounds,
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    waiting: Vec<Waiting>,
    /// What each caller was given so far, in pixels and steps.
    given: HashMap<Caller, u64>,
    order: u64,
    closed: bool,
}

impl Queue {
    /// An empty queue.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            inner: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pictures that wait.
    pub fn len(&self) -> usize {
        self.inner().pictures(|_| true)
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a job's units behind what waits, all or none. `queued` is told how many pictures were there before, before any of
    /// them can be taken.
    ///
    /// # Errors
    /// [`Full`].
    pub fn push(
        &self,
        job: &Arc<Job>,
        units: Vec<Unit>,
        queued: impl FnOnce(usize),
    ) -> Result<usize, Full> {
        let mut inner = self.inner();
        inner.waiting.retain(|waiting| waiting.job.is_wanted());
        if inner.closed {
            return Err(Full::Closed);
        }
        let new: usize = units.iter().map(|unit| unit.candidates).sum();
        let all = inner.pictures(|_| true);
        let mine = inner.pictures(|waiting| waiting.job.caller == job.caller);
        if all + new > self.bounds.pictures {
            return Err(Full::All(all));
        }
        if mine + new > self.bounds.per_caller {
            return Err(Full::Caller(mine));
        }
        if mine == 0 {
            // Who comes anew owes nothing, and has saved nothing up.
            let callers = inner.waiting.iter().map(|waiting| waiting.job.caller);
            let least = callers.filter_map(|caller| inner.given.get(&caller)).min();
            let least = least.copied().unwrap_or(0);
            let given = inner.given.entry(job.caller).or_default();
            *given = (*given).max(least);
        }
        for unit in units {
            inner.order += 1;
            let order = inner.order;
            inner.waiting.push(Waiting {
                job: job.clone(),
                unit: Arc::new(unit),
                since: Instant::now(),
                order,
            });
        }
        queued(all);
        self.changed.notify_one();
        Ok(all)
    }

    /// Puts units that could not be made together back to where they were.
    pub fn put_back(&self, units: Vec<Waiting>) {
        let mut inner = self.inner();
        for waiting in units {
            if let Some(given) = inner.given.get_mut(&waiting.job.caller) {
                *given = given.saturating_sub(waiting.unit.cost);
            }
            inner.waiting.push(waiting);
        }
        inner.waiting.sort_by_key(|waiting| waiting.order);
        self.changed.notify_one();
    }

    /// Takes nothing more in and forgets what waits, whose jobs are returned; [`next`](Self::next) has nothing more then.
    pub fn close(&self) -> Vec<Arc<Job>> {
        let mut inner = self.inner();
        inner.closed = true;
        let left = std::mem::take(&mut inner.waiting);
        self.changed.notify_all();
        left.into_iter().map(|waiting| waiting.job).collect()
    }

    /// Waits for the next unit in turn: of the caller that was given least, the oldest. None at the end.
    pub fn next(&self) -> Option<Waiting> {
        let mut inner = self.inner();
        loop {
            inner.waiting.retain(|waiting| waiting.job.is_wanted());
            if let Some(at) = inner.in_turn(|_| true) {
                return Some(inner.take(at));
            }
            if inner.closed {
                return None;
            }
            let wait = self.changed.wait_timeout(inner, Duration::from_secs(1));
            inner = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Up to `most` units that can be made together with one that was taken, in turn among the callers. A search is made alone,
    /// whatever the number of its candidates.
    pub fn companions(&self, lead: &Waiting, most: usize) -> Vec<Waiting> {
        let mut inner = self.inner();
        let mut taken = Vec::new();
        if lead.unit.kind == Kind::Candidate {
            return taken;
        }
        while taken.len() < most {
            let fits = |waiting: &Waiting| {
                waiting.unit.kind != Kind::Candidate
                    && waiting.unit.key == lead.unit.key
                    && waiting.job.is_wanted()
            };
            match inner.in_turn(fits) {
                Some(at) => taken.push(inner.take(at)),
                None => break,
            }
        }
        taken
    }
}

impl Inner {
    fn pictures(&self, of: impl Fn(&Waiting) -> bool) -> usize {
        let waiting = self.waiting.iter().filter(|waiting| of(waiting));
        waiting.map(|waiting| waiting.unit.candidates).sum()
    }

    fn in_turn(&self, fits: impl Fn(&Waiting) -> bool) -> Option<usize> {
        let given = |waiting: &Waiting| self.given.get(&waiting.job.caller).copied().unwrap_or(0);
        let fitting = self
            .waiting
            .iter()
            .enumerate()
            .filter(|(_, waiting)| fits(waiting));
        let first = fitting.min_by_key(|(_, waiting)| (given(waiting), waiting.order));
        first.map(|(at, _)| at)
    }

    fn take(&mut self, at: usize) -> Waiting {
        let waiting = self.waiting.remove(at);
        *self.given.entry(waiting.job.caller).or_default() += waiting.unit.cost;
        waiting
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::Value;

    use super::*;
    use crate::jobs::{Api, Jobs, Status};

    pub(crate) fn unit(key: &str, cost: u64) -> Unit {
        Unit {
            order: Value::Null,
            key: key.into(),
            seed: 0,
            kind: Kind::Plain,
            candidates: 1,
            lane: 0,
            steps: 1,
            check: false,
            previews: 0,
            maps: false,
            request: Value::Null,
            sent: Vec::new(),
            cost,
        }
    }

    fn push(queue: &Queue, caller: Caller, keys: &[&str]) -> Result<usize, Full> {
        let job = Arc::new(Job::new(caller, Api::Native, Value::Null, keys.len(), None));
        queue.push(&job, keys.iter().map(|key| unit(key, 1)).collect(), |_| ())
    }

    fn queue() -> Queue {
        Queue::new(Bounds {
            pictures: 8,
            per_caller: 5,
        })
    }

    #[test]
    fn callers_take_turns() {
        let queue = queue();
        push(&queue, 1, &["a"; 4]).unwrap();
        push(&queue, 2, &["b"; 2]).unwrap();
        let callers: Vec<Caller> = (0..6).map(|_| queue.next().unwrap().job.caller).collect();
        assert_eq!(callers, [1, 2, 1, 2, 1, 1]);
        // Who had nothing to do has saved nothing up.
        push(&queue, 1, &["a"; 2]).unwrap();
        push(&queue, 3, &["a"; 2]).unwrap();
        let callers: Vec<Caller> = (0..4).map(|_| queue.next().unwrap().job.caller).collect();
        assert_eq!(callers, [1, 3, 1, 3]);
    }

    #[test]
    fn compatible_ones_go_together() {
        let queue = queue();
        push(&queue, 1, &["a", "b", "a", "a"]).unwrap();
        push(&queue, 2, &["a"]).unwrap();
        let lead = queue.next().unwrap();
        let with: Vec<Caller> = queue
            .companions(&lead, 2)
            .iter()
            .map(|one| one.job.caller)
            .collect();
        assert_eq!(with, [2, 1]);
        assert_eq!(queue.len(), 2);
    }

    #[test]
    fn searches_are_made_alone() {
        let queue = queue();
        let job = Arc::new(Job::new(1, Api::Native, Value::Null, 4, None));
        // As `best_of: 1` asks for them.
        let search = || Unit {
            kind: Kind::Candidate,
            ..unit("a", 1)
        };
        let units = vec![search(), search(), unit("a", 1), unit("a", 1)];
        queue.push(&job, units, |_| ()).unwrap();
        let lead = queue.next().unwrap();
        assert!(queue.companions(&lead, 8).is_empty());
        queue.put_back(vec![lead]);
        assert_eq!(queue.len(), 4);
        let taken = [queue.next(), queue.next()].map(|one| one.unwrap().unit.kind);
        assert_eq!(taken, [Kind::Candidate; 2]);
        // Neither is one taken along by what is none.
        let plain = queue.next().unwrap();
        queue.push(&job, vec![search()], |_| ()).unwrap();
        let with = queue.companions(&plain, 8);
        assert_eq!((with.len(), with[0].unit.kind), (1, Kind::Plain));
    }

    #[test]
    fn it_is_bounded() {
        let queue = queue();
        assert_eq!(push(&queue, 1, &["a"; 5]), Ok(0));
        assert_eq!(push(&queue, 1, &["a"]), Err(Full::Caller(5)));
        assert_eq!(push(&queue, 2, &["a"; 4]), Err(Full::All(5)));
        assert_eq!(push(&queue, 2, &["a"; 3]), Ok(5));
        assert_eq!(queue.close().len(), 8);
        assert_eq!(push(&queue, 2, &["a"]), Err(Full::Closed));
        assert!(queue.next().is_none());
    }

    #[test]
    fn what_nobody_wants_is_dropped() {
        let queue = queue();
        let job = Arc::new(Job::new(1, Api::Native, Value::Null, 5, None));
        queue.push(&job, vec![unit("a", 1); 5], |_| ()).unwrap();
        Jobs::default().end(&job, Status::Cancelled);
        assert_eq!(push(&queue, 1, &["b"; 5]), Ok(0));
        assert_eq!(queue.next().unwrap().unit.key, "b");
    }

    #[test]
    fn what_is_put_back_keeps_its_place() {
        let queue = queue();
        push(&queue, 1, &["a", "b"]).unwrap();
        let first = queue.next().unwrap();
        queue.put_back(vec![first]);
        assert_eq!(queue.next().unwrap().unit.key, "a");
    }
}
