//! What a tile multiplies, and what it adds.

/// Some rows of the left operand: word (row, k) lies at `row · stride + offsets[k]`, or
/// `row · stride + k` if `offsets` is null. All that a product sums must exist; nothing need be aligned. Words of bf16 that have
/// offsets have them equally far apart, and a stride of 1.
#[derive(Clone, Copy)]
pub(crate) struct Left {
    pub at: *const f32,
    pub stride: usize,
    pub rows: usize,
    pub offsets: *const u32,
}

/// What a product is added to: a row of each group, and how far its rows are apart.
#[derive(Clone, Copy)]
pub(crate) struct Partial {
    pub at: [*const f32; 3],
    pub ld: usize,
}

impl Partial {
    pub(crate) fn at(to: [*mut f32; 3], ld: usize) -> Self {
        Self {
            at: to.map(|to| to.cast_const()),
            ld,
        }
    }
}

impl Left {
    pub(crate) fn along(at: *const f32, stride: usize, rows: usize) -> Self {
        Self {
            at,
            stride,
            rows,
            offsets: core::ptr::null(),
        }
    }
}

/// A packed panel: `kc` rows of `groups` (1 to 3) times [`GROUP`](super::GROUP) columns of words, one row after the other.
#[derive(Clone, Copy)]
pub(crate) struct Panel {
    pub at: *const f32,
    pub groups: usize,
    pub kc: usize,
}

/// Addends for the rows and columns of a tile, null for none, and whether sums below zero become
/// zero.
#[derive(Clone, Copy)]
pub(crate) struct Bias {
    pub row: *const f32,
    pub col: *const f32,
    pub relu: bool,
}

impl Bias {
    pub(crate) const NONE: Self = Self {
        row: core::ptr::null(),
        col: core::ptr::null(),
        relu: false,
    };
}
