//! Work on independent parts of tensors, on as many threads as it is worth.

use super::simd::Element;
use rayon::prelude::*;

/// Elements below which one thread does it all.
pub(super) const SERIAL: usize = 1 << 16;

/// Calls `f(i)` for `i` in `0..count`, on Rayon's threads if there are `elements` enough.
pub(super) fn each(count: usize, elements: usize, f: impl Fn(usize) + Sync + Send) {
    if elements < SERIAL || rayon::current_num_threads() == 1 {
        (0..count).for_each(f);
    } else {
        (0..count).into_par_iter().for_each(f);
    }
}

/// A source shared by tasks.
#[derive(Clone, Copy)]
pub(super) struct From<E>(pub *const E);
/// A destination of which every task writes its own part.
#[derive(Clone, Copy)]
pub(super) struct To<E>(pub *mut E);
// SAFETY: what it points to is only read while tasks have it, and is no thread's own.
unsafe impl<E: Element> Send for From<E> {}
// SAFETY: as for `Send`.
unsafe impl<E: Element> Sync for From<E> {}
// SAFETY: no two tasks write to the same elements, which are no thread's own.
unsafe impl<E: Element> Send for To<E> {}
// SAFETY: as for `Send`.
unsafe impl<E: Element> Sync for To<E> {}

impl<E: Element> From<E> {
    pub(super) fn at(self, i: usize) -> *const E {
        self.0.wrapping_add(i)
    }
}
impl<E: Element> To<E> {
    pub(super) fn at(self, i: usize) -> *mut E {
        self.0.wrapping_add(i)
    }
}
