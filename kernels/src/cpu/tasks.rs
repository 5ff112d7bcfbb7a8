//! Work on independent parts of tensors, on as many threads as it is worth.

use rayon::prelude::*;

/// Elements below which one thread does it all.
const SERIAL: usize = 1 << 16;

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
pub(super) struct From(pub *const f32);
/// A destination of which every task writes its own part.
#[derive(Clone, Copy)]
pub(super) struct To(pub *mut f32);
// SAFETY: what it points to is only read while tasks have it, and is no thread's own.
unsafe impl Send for From {}
// SAFETY: as for `Send`.
unsafe impl Sync for From {}
// SAFETY: no two tasks write to the same elements, which are no thread's own.
unsafe impl Send for To {}
// SAFETY: as for `Send`.
unsafe impl Sync for To {}

impl From {
    pub(super) fn at(self, i: usize) -> *const f32 {
        self.0.wrapping_add(i)
    }
}
impl To {
    pub(super) fn at(self, i: usize) -> *mut f32 {
        self.0.wrapping_add(i)
    }
}
