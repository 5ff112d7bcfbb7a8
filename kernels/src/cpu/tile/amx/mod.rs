//! The tiles of AMX: one instruction multiplies 16 rows of 16 words by 16 rows of a group, words of two bf16, and adds that to
//! 16 rows of 16 sums. Rows of the left operand and of panels lie in memory as these tiles want them, so that operands are
//! those of the other processors.
//!
//! Intel, "Intel 64 and IA-32 Architectures Optimization Reference Manual", its chapter on AMX.

mod parts;
mod shapes;

use super::{GROUP, Left, Panel, Partial, Product, Tile, panels};
use crate::cpu::columns::transpose;
use crate::cpu::scratch::Scratch;
use crate::cpu::simd::{Element, Vector, Words};
use core::arch::asm;
use core::mem::MaybeUninit;
use shapes::shape;

pub(crate) use parts::{Parts, columns_in_parts, row_in_parts};
pub(crate) use shapes::{Engaged, available};

/// Rows and words of a tile.
const SIDE: usize = 16;
/// Rows whose sums are in tiles at a time, as are those of two groups: each tile that is read then serves two products.
const ROWS: usize = 2 * SIDE;
/// Sums of two by two tiles, row by row.
const SUMS: usize = ROWS * 2 * GROUP;

/// Two rows of tiles on the left, or one if there are no more than [`SIDE`] rows, and a panel of one group or two.
#[derive(Clone, Copy)]
struct Operands {
    left: Left,
    panel: Panel,
}

/// Where sums go, a place for each group, and whether they are added to what is there.
#[derive(Clone, Copy)]
struct Sums {
    at: [*mut f32; 2],
    /// Numbers between rows.
    ld: usize,
    plus: bool,
}

/// How often how many words are multiplied, and how many words are left then.
fn steps(words: usize) -> (usize, usize, usize) {
    let fewest = words.div_ceil(SIDE);
    if fewest == 0 {
        return (0, 0, 0);
    }
    // Steps take the same time however few words they have; what is left over takes tiles of another shape.
    let even = (fewest..=fewest + fewest / 2).find(|count| words.is_multiple_of(*count));
    match even {
        Some(count) => (count, words / count, 0),
        None => (words / SIDE, SIDE, words % SIDE),
    }
}

/// The product of the operands, of words of `W`.
///
/// # Safety
/// The processor must have AMX. `left` must have `panel.kc` words in each of up to [`ROWS`] rows, without offsets, and the
/// panel one group or two; sums must have room for whole groups of these rows.
#[inline(always)]
unsafe fn multiply<W: Words>(of: Operands, sums: Sums) {
    if of.panel.kc == 0 {
        if sums.plus {
            return;
        }
        for row in 0..of.left.rows {
            for at in sums.at.iter().take(of.panel.groups) {
                // SAFETY: the caller's room.
                unsafe { at.add(row * sums.ld).write_bytes(0, GROUP) };
            }
        }
        return;
    }
    if W::PARTS > 1 {
        // SAFETY: this function's contract; there is a step, and rows of parts are whole steps.
        return unsafe { parts::multiply(of, sums) };
    }
    let (count, words, left_over) = steps(of.panel.kc);
    // SAFETY: this function's contract; steps are no longer than a tile and together the panel's words.
    unsafe {
        if count > 0 {
            shape(of.left.rows, words);
            sweep(of, (0, count, words), sums);
        }
        if left_over > 0 {
            shape(of.left.rows, left_over);
            let plus = sums.plus || count > 0;
            sweep(of, (count * words, 1, left_over), Sums { plus, ..sums });
        }
    }
}

/// Sums the products of steps of words: the first word, and how many steps of how many words. Tiles keep their values from one of
/// these instructions to the next, since no compiler uses them.
macro_rules! sums_of {
    ($a:ident, $b:ident, $steps:ident, $sums:ident, [$($line:literal),*], [$(($tile:literal, $lower:literal, $second:literal)),*]) => {{
        let bytes = 4 * $sums.ld;
        let at = |lower: usize, second: usize| $sums.at[second].wrapping_add(lower * SIDE * $sums.ld);
        $(
            match $sums.plus {
                true => asm!(concat!("tileloadd tmm", $tile, ", [{at} + {bytes}]"), at = in(reg) at($lower, $second), bytes = in(reg) bytes, options(nostack)),
                false => asm!(concat!("tilezero tmm", $tile), options(nomem, nostack)),
            }
        )*
        asm!(
            "2:",
            $($line,)*
            "add {upper}, {left_step}",
            "add {lower}, {left_step}",
            "add {panel}, {panel_step}",
            "dec {steps}",
            "jnz 2b",
            upper = inout(reg) $a.0 => _,
            lower = inout(reg) $a.1 => _,
            left_bytes = in(reg) $a.2,
            left_step = in(reg) $a.3,
            panel = inout(reg) $b.0 => _,
            panel_bytes = in(reg) $b.1,
            panel_step = in(reg) $b.2,
            steps = inout(reg) $steps => _,
            options(nostack)
        );
        $(asm!(concat!("tilestored [{at} + {bytes}], tmm", $tile), at = in(reg) at($lower, $second), bytes = in(reg) bytes, options(nostack));)*
    }};
}

use sums_of;

/// [`multiply`] for `count` steps of `words` words from word `first`, for which the tiles are shaped.
///
/// # Safety
/// As for that; steps must lie in the panel, and there must be one.
#[inline(always)]
unsafe fn sweep(of: Operands, (first, count, words): (usize, usize, usize), sums: Sums) {
    let Operands { left, panel } = of;
    let width = panel.groups * GROUP;
    let upper = left.at.wrapping_add(first);
    let lower = upper.wrapping_add(SIDE * left.stride);
    let a = (upper, lower, 4 * left.stride, 4 * words);
    let b = (
        panel.at.wrapping_add(first * width),
        4 * width,
        4 * words * width,
    );
    // SAFETY: all addresses lie in the caller's operands and sums, since the tiles have as many rows and words as these.
    unsafe {
        match (left.rows > SIDE, panel.groups > 1) {
            (true, true) => sums_of!(
                a,
                b,
                count,
                sums,
                [
                    "tileloadd tmm6, [{panel} + {panel_bytes}]",
                    "tileloadd tmm4, [{upper} + {left_bytes}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{panel} + {panel_bytes} + 64]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm5, [{lower} + {left_bytes}]",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7"
                ],
                [("0", 0, 0), ("1", 0, 1), ("2", 1, 0), ("3", 1, 1)]
            ),
            (true, false) => sums_of!(
                a,
                b,
                count,
                sums,
                [
                    "tileloadd tmm6, [{panel} + {panel_bytes}]",
                    "tileloadd tmm4, [{upper} + {left_bytes}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm5, [{lower} + {left_bytes}]",
                    "tdpbf16ps tmm2, tmm5, tmm6"
                ],
                [("0", 0, 0), ("2", 1, 0)]
            ),
            (false, true) => sums_of!(
                a,
                b,
                count,
                sums,
                [
                    "tileloadd tmm4, [{upper} + {left_bytes}]",
                    "tileloadd tmm6, [{panel} + {panel_bytes}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{panel} + {panel_bytes} + 64]",
                    "tdpbf16ps tmm1, tmm4, tmm7"
                ],
                [("0", 0, 0), ("1", 0, 1)]
            ),
            (false, false) => sums_of!(
                a,
                b,
                count,
                sums,
                [
                    "tileloadd tmm4, [{upper} + {left_bytes}]",
                    "tileloadd tmm6, [{panel} + {panel_bytes}]",
                    "tdpbf16ps tmm0, tmm4, tmm6"
                ],
                [("0", 0, 0)]
            ),
        }
    }
}

/// [`super::tile_body`] of words of `W`.
///
/// # Safety
/// As for that; the processor must have AMX, and the panel one group or two.
#[inline(always)]
pub(super) unsafe fn tile_body<V: Vector, W: Words, T: Element>(tile: &Tile<T>) {
    let mut turned = Turned::of(tile.left, tile.panel.kc);
    let mut row = 0;
    while row < tile.left.rows {
        // SAFETY: the caller's rows, of which this is one.
        unsafe {
            let left = turned.rows(tile.left, row, tile.panel.kc);
            finish::<V, W, T>(tile, row, left);
        }
        row += ROWS;
    }
}

/// The rows `left` of a tile, which are those from `row` on, written where they go.
///
/// # Safety
/// As for [`tile_body`].
#[inline(always)]
unsafe fn finish<V: Vector, W: Words, T: Element>(tile: &Tile<T>, row: usize, left: Left) {
    let Tile {
        panel,
        to,
        ld,
        plus,
        bias,
        ..
    } = *tile;
    let of = Operands { left, panel };
    let to = to.map(|to| to.wrapping_add(row * ld));
    let plain = bias.row.is_null() && bias.col.is_null() && !bias.relu;
    let in_place = plus.is_none_or(|plus| plus.ld == ld && plus.at[0] == tile.to[0].cast());
    if T::PER_WORD == 1 && plain && in_place {
        let sums = Sums {
            at: [to[0].cast(), to[1].cast()],
            ld,
            plus: plus.is_some(),
        };
        // SAFETY: elements are f32, and the caller's place has room for them, and holds numbers if they are added to.
        return unsafe { multiply::<W>(of, sums) };
    }
    #[repr(align(64))]
    struct Aligned(#[allow(dead_code)] [f32; SUMS]);
    let mut sums = MaybeUninit::<Aligned>::uninit();
    let at = sums.as_mut_ptr().cast::<f32>();
    // SAFETY: there is room for two groups of `ROWS` rows. The caller's places have these rows, and so have biases that are not
    // null.
    unsafe {
        let of_groups = Sums {
            at: [at, at.wrapping_add(GROUP)],
            ld: 2 * GROUP,
            plus: false,
        };
        multiply::<W>(of, of_groups);
        for i in 0..left.rows {
            for group in 0..panel.groups {
                let mut sum = V::load(at.add(i * 2 * GROUP + group * GROUP));
                if let Some(Partial { at, ld }) = plus {
                    sum = sum.add(V::load(at[group].add((row + i) * ld)));
                }
                if !bias.row.is_null() {
                    sum = sum.add(V::splat(*bias.row.add(row + i)));
                }
                if !bias.col.is_null() {
                    sum = sum.add(V::load(bias.col.add(group * GROUP)));
                }
                if bias.relu {
                    sum = V::splat(0.0).max(sum);
                }
                T::store(sum, to[group].add(i * ld));
            }
        }
    }
}

/// [`super::product_body`] of words of `W`.
///
/// # Safety
/// As for that; the processor must have AMX.
#[inline(always)]
pub(super) unsafe fn product_body<W: Words>(product: &Product) {
    let Product {
        left,
        packed,
        columns,
        kc,
        to,
        ld,
        plus,
    } = *product;
    let mut turned = Turned::of(left, kc);
    let mut row = 0;
    while row < left.rows {
        // SAFETY: the caller's rows, of which this is one.
        let rows = unsafe { turned.rows(left, row, kc) };
        let mut group = 0;
        for groups in panels::<W>(columns.div_ceil(GROUP)) {
            let at = to.wrapping_add(row * ld + group * GROUP);
            let panel = Panel {
                at: packed.wrapping_add(group * GROUP * kc),
                groups,
                kc,
            };
            let sums = Sums {
                at: [at, at.wrapping_add(GROUP)],
                ld,
                plus,
            };
            // SAFETY: the caller's operands, from row `row` and group `group` on; `to` has room for whole groups.
            unsafe { multiply::<W>(Operands { left: rows, panel }, sums) };
            group += groups;
        }
        row += ROWS;
    }
}

/// Left operands whose words lie apart, turned so that those of a row follow each other; takes nothing for others.
struct Turned(Option<Scratch>);

impl Turned {
    fn of(left: Left, kc: usize) -> Self {
        let apart = !left.offsets.is_null();
        Self(apart.then(|| Scratch::take(ROWS * kc.next_multiple_of(SIDE))))
    }

    /// Up to [`ROWS`] rows from `row`.
    ///
    /// # Safety
    /// `left` must be what this was made for, and have the row and `kc` words in each; if it has offsets, they must be equally far apart,
    /// and its stride 1.
    #[inline(always)]
    unsafe fn rows(&mut self, left: Left, row: usize, kc: usize) -> Left {
        let rows = ROWS.min(left.rows - row);
        let at = left.at.wrapping_add(row * left.stride);
        let Some(scratch) = &mut self.0 else {
            return Left { at, rows, ..left };
        };
        let (to, stride) = (scratch.as_mut_ptr(), kc.next_multiple_of(SIDE));
        // SAFETY: there are `kc` offsets.
        let offset = |k: usize| unsafe { *left.offsets.add(k) as usize };
        let apart = if kc > 1 { offset(1) - offset(0) } else { 0 };
        let from = at.wrapping_add(if kc > 0 { offset(0) } else { 0 });
        // SAFETY: the scratch has room for `ROWS` rows of whole steps.
        unsafe { turn((from, apart), (rows, kc), (to, stride)) };
        Left::along(to, stride, rows)
    }
}

/// Writes rows whose words lie `apart` words from each other, and one row's beside the next one's, as rows of words that follow each
/// other.
///
/// # Safety
/// There must be `kc` words of each of the `rows` rows, and room for the rows, `stride` words apart. The processor must have AVX-512F.
pub(crate) unsafe fn turn(
    (from, apart): (*const f32, usize),
    (rows, kc): (usize, usize),
    (to, stride): (*mut f32, usize),
) {
    for first in (0..kc).step_by(SIDE) {
        let from = from.wrapping_add(first * apart);
        for row in (0..rows).step_by(SIDE) {
            let (count, words) = (SIDE.min(rows - row), SIDE.min(kc - first));
            let (from, to) = (
                from.wrapping_add(row),
                to.wrapping_add(row * stride + first),
            );
            // SAFETY: `words` words from `first` of `count` rows from `row` are the caller's, and so is the room for them.
            unsafe {
                if count == SIDE && words == SIDE {
                    transpose(from.cast(), 4 * apart, to, stride);
                    continue;
                }
                for j in 0..count {
                    for k in 0..words {
                        *to.add(j * stride + k) = *from.add(k * apart + j);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_all_words() {
        for words in 0..1000 {
            let (count, long, left_over) = steps(words);
            assert!(long <= SIDE && left_over < SIDE, "{words}");
            assert_eq!(count * long + left_over, words);
            let fewest = words.div_ceil(SIDE);
            assert!(count + usize::from(left_over > 0) <= fewest + fewest / 2);
        }
        assert_eq!(steps(20), (2, 10, 0));
        assert_eq!(steps(23), (1, 16, 7));
    }
}
