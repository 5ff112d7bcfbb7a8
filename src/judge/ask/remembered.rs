//! The pictures that were read last, so that several questions about one read and encode it once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::picture::{PictureError, Pictures, Seen};

/// So much is remembered at most, besides what is in use.
const MOST_BYTES: usize = 64 << 20;

/// A few pictures.
pub(super) struct Remembered<'a, P: ?Sized> {
    pictures: &'a P,
    last: Mutex<VecDeque<(usize, Arc<Seen>)>>,
    most: usize,
    reads: AtomicUsize,
}

impl<'a, P: Pictures + ?Sized> Remembered<'a, P> {
    /// Remembers at most so many.
    pub fn new(pictures: &'a P, most: usize) -> Self {
        Self {
            pictures,
            last: Mutex::default(),
            most,
            reads: AtomicUsize::new(0),
        }
    }

    /// A picture, from memory or from its file.
    pub fn get(&self, at: usize) -> Result<Arc<Seen>, PictureError> {
        let known = |last: &VecDeque<(usize, Arc<Seen>)>| {
            let mut found = last.iter().filter(|(number, _)| *number == at);
            found.next().map(|(_, seen)| Arc::clone(seen))
        };
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = known(&last()) {
            return Ok(seen);
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        let seen = Arc::new(self.pictures.read(at)?);
        let mut last = last();
        last.push_back((at, Arc::clone(&seen)));
        let mut bytes: usize = last.iter().map(|(_, seen)| seen.size()).sum();
        while last.len() > 1 && (last.len() > self.most || bytes > MOST_BYTES) {
            if let Some((_, gone)) = last.pop_front() {
                bytes = bytes.saturating_sub(gone.size());
            }
        }
        Ok(seen)
    }

    /// How often a file was read.
    pub fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }
}
