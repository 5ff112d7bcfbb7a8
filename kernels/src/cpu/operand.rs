//! How the operands of a matrix product lie in memory.

/// How the left operand lies in memory.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a> {
    /// Unit stride along the summed axis, `stride` elements between rows.
    Along { from: *const f32, stride: usize },
    /// A weight `[Out, In, kernel]` whose rows are the inputs, summed over outputs and `taps`: element
    /// (row, k) lies at `k / taps.len() · stride + row · kernel + taps[k % taps.len()]`.
    Across {
        from: *const f32,
        stride: usize,
        kernel: usize,
        taps: &'a [usize],
    },
}

impl Rows<'_> {
    /// The summed elements come in runs of this many that blocks do not divide.
    pub(super) fn run(&self) -> usize {
        match self {
            Self::Along { .. } => 1,
            Self::Across { taps, .. } => taps.len().max(1),
        }
    }
}

/// The right operand: a matrix of which blocks can be packed.
pub(crate) trait Columns: Sync {
    /// Writes rows `k0..k0 + kc` of the columns from `col` to `col + cols` (at most [`GROUP`](super::tile::GROUP)) to
    /// `to`, one row every `stride` elements, padded with zeros to a whole group.
    ///
    /// # Safety
    /// `to` must have room for that; rows and columns must exist.
    unsafe fn pack(
        &self,
        col: usize,
        cols: usize,
        k0: usize,
        kc: usize,
        to: *mut f32,
        stride: usize,
    );
}
