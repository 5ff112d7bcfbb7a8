//! Working memory that threads keep between calls.

use core::mem::MaybeUninit;
use std::cell::RefCell;

/// A cache line, so that packed operands start on one.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code)] [f32; 16]);

/// Larger buffers go back to the system.
const KEPT_LINES: usize = (16 << 20) / size_of::<Line>();

thread_local! {
    static SPARE: RefCell<Vec<Vec<MaybeUninit<Line>>>> = const { RefCell::new(Vec::new()) };
}

/// Some of this thread's scratch, given back when dropped. Several may be held at a time.
pub(crate) struct Scratch(Vec<MaybeUninit<Line>>);

impl Scratch {
    /// At least `len` f32, aligned to 64 bytes, holding arbitrary values.
    pub(crate) fn take(len: usize) -> Self {
        let mut lines = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        let needed = len.div_ceil(16);
        if lines.len() < needed {
            lines.clear();
            lines.reserve_exact(needed);
            // SAFETY: there is capacity for them, and they may be uninitialised.
            unsafe { lines.set_len(needed) };
        }
        Self(lines)
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut f32 {
        self.0.as_mut_ptr().cast()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let lines = core::mem::take(&mut self.0);
        if lines.len() <= KEPT_LINES {
            SPARE.with_borrow_mut(|spare| spare.push(lines));
        }
    }
}
