//! Where a matrix product goes, and how its tiles get there.

use super::simd::{Element, Vector, Words};
use super::tile::{Bias, GROUP, Left, MOST_ROWS, Panel, Partial, tile};
use core::mem::MaybeUninit;

/// Where the product goes.
#[derive(Clone, Copy)]
pub(crate) enum Target<E> {
    /// Element (row, col) lies at `row · ld + (col / plane) · sample + col % plane`: a row-major
    /// matrix when `plane` is the number of columns, a batch of pictures otherwise.
    Planes {
        to: *mut E,
        ld: usize,
        plane: usize,
        sample: usize,
    },
    /// As `Planes` with `width` pixels in each row of a plane, of which the neighbours are written
    /// `step` pixels apart along both axes: one phase of a picture with `line` pixels in
    /// each row.
    Phase {
        to: *mut E,
        ld: usize,
        plane: usize,
        sample: usize,
        width: usize,
        step: usize,
        line: usize,
    },
    /// Element (row, col) lies at `col · ld + row`.
    Transposed { to: *mut E, ld: usize },
}

impl<E: Element> Target<E> {
    /// A row-major matrix.
    pub(crate) fn rows(to: *mut E, columns: usize) -> Self {
        Self::Planes {
            to,
            ld: columns,
            plane: columns,
            sample: 0,
        }
    }

    /// Where element (`row`, `col`) lies, and how many elements after it the one of the next row.
    #[inline(always)]
    fn column(&self, row: usize, col: usize) -> (*mut E, usize) {
        match *self {
            Self::Planes {
                to,
                ld,
                plane,
                sample,
            } => {
                let (index, pixel) = split(col, plane);
                (to.wrapping_add(index * sample + pixel + row * ld), ld)
            }
            Self::Phase {
                to,
                ld,
                plane,
                sample,
                width,
                step,
                line,
            } => {
                let (index, pixel) = split(col, plane);
                let (y, x) = (pixel / width, pixel % width);
                let at = index * sample + (y * line + x) * step + row * ld;
                (to.wrapping_add(at), ld)
            }
            Self::Transposed { to, ld } => (to.wrapping_add(col * ld + row), 1),
        }
    }
}

/// The plane that a column lies in, and where in it. Where there is one plane, no time goes into a division.
#[inline(always)]
fn split(col: usize, plane: usize) -> (usize, usize) {
    if col < plane {
        (0, col)
    } else {
        (col / plane, col % plane)
    }
}

/// Three groups that follow each other.
#[inline(always)]
pub(super) fn groups_from(to: *mut f32) -> [*mut f32; 3] {
    [0, 1, 2].map(|i| to.wrapping_add(i * GROUP))
}

/// Where a tile goes, and whether it is added to the f32 that are there.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub row: usize,
    pub col: usize,
    pub cols: usize,
    pub plus: bool,
}

/// Multiplies one tile, adds `sums` and writes it to the target.
///
/// # Safety
/// Operands, sums and biases as for [`tile`], with at most [`strip_rows`](super::tile::strip_rows) rows; the place must lie in the
/// target, for `left.rows` rows, and hold numbers, which must be f32, if it says `plus`. Not both sums and `plus`.
#[inline(always)]
pub(super) unsafe fn write<V: Vector, W: Words, E: Element>(
    target: &Target<E>,
    left: Left,
    panel: Panel,
    place: Place,
    sums: Option<Partial>,
    bias: Bias,
) {
    let Place {
        row,
        col,
        cols,
        plus,
    } = place;
    if let Target::Planes {
        to,
        ld,
        plane,
        sample,
    } = *target
    {
        let mut groups = [core::ptr::null_mut(); 3];
        let mut direct = cols == panel.groups * GROUP;
        for (i, group) in groups.iter_mut().enumerate().take(panel.groups) {
            let (index, pixel) = split(col + i * GROUP, plane);
            direct &= pixel + GROUP <= plane;
            *group = to.wrapping_add(index * sample + pixel + row * ld);
        }
        if direct {
            let there = plus.then(|| Partial::at(groups.map(|group| group.cast()), ld));
            // SAFETY: every group is whole and lies in one plane, so that its columns follow each other in the place.
            return unsafe { tile::<V, W, E>(left, panel, groups, ld, sums.or(there), bias) };
        }
    }
    let mut out = MaybeUninit::<[f32; MOST_ROWS * 3 * GROUP]>::uninit();
    let width = 3 * GROUP;
    let turned = matches!(target, Target::Transposed { .. });
    if plus || turned {
        let at = out.as_mut_ptr().cast::<f32>();
        let of_sums = Bias {
            relu: bias.relu && !plus,
            ..bias
        };
        // SAFETY: `out` has room for three groups of the most rows that a tile has.
        unsafe { tile::<V, W, f32>(left, panel, groups_from(at), width, sums, of_sums) };
        if let Target::Transposed { to, ld } = *target {
            let to = to.wrapping_add(col * ld + row);
            // SAFETY: the tile has written these rows and columns of `out`, and the target has them.
            unsafe { turn::<V, E>((at, width), (left.rows, cols), (to, ld), plus, bias.relu) };
            return;
        }
        for j in 0..cols {
            let (to, ld) = target.column(row, col + j);
            for i in 0..left.rows {
                // SAFETY: as above.
                unsafe { put(to.add(i * ld), *at.add(i * width + j), bias.relu) };
            }
        }
        return;
    }
    let at = out.as_mut_ptr().cast::<E>();
    let groups = [0, 1, 2].map(|i| at.wrapping_add(i * GROUP));
    // SAFETY: as above; elements are no larger than f32.
    unsafe { tile::<V, W, E>(left, panel, groups, width, sums, bias) };
    for j in 0..cols {
        let (to, ld) = target.column(row, col + j);
        for i in 0..left.rows {
            // SAFETY: as above.
            unsafe { *to.add(i * ld) = *at.add(i * width + j) };
        }
    }
}

/// Writes rows that lie `width` numbers apart as columns, `ld` elements apart; they are added to what is there if `plus`, and what is
/// below zero then becomes zero if `relu`.
///
/// # Safety
/// `from` must have the rows, in whole groups, and `to` room for them; it must hold numbers if `plus`.
#[inline(always)]
unsafe fn turn<V: Vector, E: Element>(
    (from, width): (*const f32, usize),
    (rows, cols): (usize, usize),
    (to, ld): (*mut E, usize),
    plus: bool,
    relu: bool,
) {
    for first in (0..rows).step_by(V::LANES) {
        let count = V::LANES.min(rows - first);
        for col in (0..cols).step_by(GROUP) {
            let of: [_; 16] =
                core::array::from_fn(|i| from.wrapping_add((first + i) * width + col));
            // SAFETY: there are `count` rows from `first`, and sixteen numbers of each from `col`.
            let columns = unsafe { V::columns::<f32, GROUP>(&of[..count]) };
            for (j, column) in columns.into_iter().enumerate().take(cols - col) {
                let to = to.wrapping_add((col + j) * ld + first);
                // SAFETY: the caller's room.
                unsafe {
                    let mut column = column;
                    if plus {
                        column = E::load_first::<V>(to, count).add(column);
                        if relu {
                            column = V::splat(0.0).max(column);
                        }
                    }
                    E::store_first(column, to, count);
                }
            }
        }
    }
}

/// Adds `value` to the number that is there; below zero it becomes zero if `relu`.
#[inline(always)]
unsafe fn put<E: Element>(to: *mut E, value: f32, relu: bool) {
    // SAFETY: the caller's element, which holds a number.
    unsafe {
        let value = (*to).widen() + value;
        // NaN stays NaN.
        *to = E::narrow(if relu && value < 0.0 { 0.0 } else { value });
    }
}
