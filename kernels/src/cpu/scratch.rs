//! Working memory that threads keep between calls.

use crate::flex::use_huge_pages;
use core::mem::MaybeUninit;
use std::cell::RefCell;

/// A cache line, so that packed operands start on one.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code)] [f32; 16]);

/// Larger buffers go back to the system. Those of convolutions of 2,560 channels, the widest of SD1.5 and SDXL, are within it.
const KEPT_LINES: usize = (36 << 20) / size_of::<Line>();

thread_local! {
    static SPARE: RefCell<Vec<Vec<MaybeUninit<Line>>>> = const { RefCell::new(Vec::new()) };
}

/// The smallest of these with so many lines; if none has, the largest, to grow: so that one of them is large and not each in turn.
fn fitting(spare: &mut Vec<Vec<MaybeUninit<Line>>>, needed: usize) -> Vec<MaybeUninit<Line>> {
    let best = (0..spare.len()).min_by_key(|i| {
        let lines = spare[*i].len();
        match lines >= needed {
            true => (0, lines),
            false => (1, usize::MAX - lines),
        }
    });
    best.map(|best| spare.swap_remove(best)).unwrap_or_default()
}

/// Some of this thread's scratch, given back when dropped. Several may be held at a time.
pub(crate) struct Scratch(Vec<MaybeUninit<Line>>);

impl Scratch {
    /// At least `len` f32, aligned to 64 bytes, holding arbitrary values.
    pub(crate) fn take(len: usize) -> Self {
        let needed = len.div_ceil(16);
        let mut lines = SPARE.with_borrow_mut(|spare| fitting(spare, needed));
        if lines.len() < needed {
            lines.clear();
            lines.reserve_exact(needed);
            // SAFETY: there is capacity for them, and they may be uninitialised.
            unsafe { lines.set_len(needed) };
            // Blocks of many operands lie next to each other here, each on pages of its own.
            use_huge_pages(&mut lines);
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
