//! Whose turn it is: questions in their order, and those that wait for another try.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a request to stop may go unheard.
const LOOK_UP: Duration = Duration::from_millis(100);

/// A question's number, and how many tries failed.
pub(super) type Next = (usize, u32);

/// The line of questions, for any number of workers.
pub(super) struct Line {
    state: Mutex<State>,
    changed: Condvar,
    count: usize,
    /// So many may wait for another try; of a server that answers nobody not everything should be tried at once.
    most_waiting: usize,
}

#[derive(Default)]
struct State {
    next: usize,
    later: BinaryHeap<Reverse<(Instant, Next)>>,
    under_way: usize,
}

impl Line {
    /// Of so many questions.
    pub fn new(count: usize, most_waiting: usize) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            count,
            most_waiting,
        }
    }

    /// The next question, once there is one; none if all are done, or `stopped` says so. It is under way until it is
    /// [done](Self::done).
    pub fn next(&self, stopped: impl Fn() -> bool) -> Option<Next> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if stopped() {
                return None;
            }
            let now = Instant::now();
            let first = state.later.peek().map(|Reverse((at, _))| *at);
            let due = first.is_some_and(|at| at <= now);
            let next = match due {
                true => state.later.pop().map(|Reverse((_, next))| next),
                false if state.next < self.count && state.later.len() < self.most_waiting => {
                    state.next += 1;
                    Some((state.next - 1, 0))
                }
                false => None,
            };
            if let Some(next) = next {
                state.under_way += 1;
                return Some(next);
            }
            if first.is_none() && state.under_way == 0 && state.next >= self.count {
                return None;
            }
            let wait = first.map_or(LOOK_UP, |at| at.saturating_duration_since(now));
            let waited = self.changed.wait_timeout(state, wait.min(LOOK_UP));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A question is no longer under way: it is done, or comes again at this time.
    pub fn done(&self, again: Option<(Instant, Next)>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.under_way -= 1;
        state.later.extend(again.map(Reverse));
        drop(state);
        self.changed.notify_all();
    }
}
