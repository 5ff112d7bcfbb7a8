//! Scores that depend on where queries and keys are in a picture.

/// What is added to the scores of queries and keys in a square grid: a part for the distance of their rows and one for that
/// of their columns.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    /// `[B, H, N, 2 · (2 · side − 1)]`: for each query first the parts by column and then those by row, of the keys that
    /// are `side − 1` before to `side − 1` after it. Times √D.
    pub parts: *const f32,
    /// Keys along a side.
    pub side: usize,
}

impl Grid {
    /// Adds to the scores of the query `row` (counted through all heads) to `count` keys from `first`.
    ///
    /// # Safety
    /// The parts must exist for this query, and `line` must have `count` elements.
    #[inline(always)]
    pub(super) unsafe fn add(&self, row: usize, (first, count): (usize, usize), line: *mut f32) {
        let (side, distances) = (self.side, 2 * self.side - 1);
        let query = row % (side * side);
        let parts = self.parts.wrapping_add(row * 2 * distances);
        let columns = parts.wrapping_add(side - 1 - query % side);
        let rows = parts.wrapping_add(distances + side - 1 - query / side);
        let mut key = first;
        while key < first + count {
            let (y, x) = (key / side, key % side);
            let run = (side - x).min(first + count - key);
            let line = line.wrapping_add(key - first);
            for i in 0..run {
                // SAFETY: the parts of a query have `distances` elements each, of which these begin so that `side` follow;
                // `line` has the caller's elements.
                unsafe { *line.add(i) += *rows.add(y) + *columns.add(x + i) };
            }
            key += run;
        }
    }
}
