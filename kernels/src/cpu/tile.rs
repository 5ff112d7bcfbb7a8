//! The register tile of the matrix products: some rows times a panel of up to 48 columns. Operands are words of 32 bits: an
//! f32, or two bf16 that follow each other along the summed axis ([`Element`]).

#[cfg(target_arch = "x86_64")]
mod amx;
mod operands;

use super::prefetch;
use super::simd::{Element, Level, Vector, Words, level};

#[cfg(target_arch = "x86_64")]
pub(crate) use amx::{Parts, available as has_amx, columns_in_parts, row_in_parts, turn};

pub(crate) use operands::{Bias, Left, Panel, Partial};

/// Columns are packed in groups of this many.
pub(crate) const GROUP: usize = 16;
/// Rows of the left operand that AMX multiplies together.
pub(crate) const AMX_ROWS: usize = 32;
/// [`strip_rows`] are no more than this.
pub(crate) const MOST_ROWS: usize = 48;

/// Whether products of words of `W` are computed in the processor's own tiles.
pub(crate) fn in_amx<W: Words>() -> bool {
    W::PER_WORD > 1 && level() == Level::Amx
}

/// Rows of the left operand that should be copied together.
pub(crate) fn tile_rows<V: Vector, W: Words>() -> usize {
    if in_amx::<W>() {
        AMX_ROWS
    } else {
        V::TILE_ROWS
    }
}

/// Rows of the left operand that should be multiplied with a panel before the next one is, where rows are read `in_place` or not.
pub(crate) fn strip_rows<V: Vector, W: Words>(in_place: bool) -> usize {
    if in_place && !in_amx::<W>() {
        V::STRIP_ROWS
    } else {
        tile_rows::<V, W>()
    }
}

/// What an operation holds while it multiplies words of `W`.
#[cfg(target_arch = "x86_64")]
pub(crate) fn engaged<W: Words>() -> Option<amx::Engaged> {
    in_amx::<W>().then(amx::Engaged::new)
}

/// What an operation holds while it multiplies words of `W`: nothing here.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn engaged<W: Words>() -> Option<()> {
    None
}

/// Groups in each panel of words of `W` when `groups` are dealt out evenly over the fewest panels.
pub(crate) fn panels<W: Words>(groups: usize) -> impl Iterator<Item = usize> {
    let widest = match level() {
        Level::Amx if W::PER_WORD > 1 => 2,
        Level::Portable | Level::Avx2 => 1,
        _ => 3,
    };
    let count = groups.div_ceil(widest);
    (0..count).map(move |i| groups * (i + 1) / count - groups * i / count)
}

/// `left` times `columns` columns in panels that follow each other, each with `kc` rows of words of `W`, written or
/// added to the rows from `to`, which have room for the columns rounded up to whole groups.
///
/// # Safety
/// `packed` must be what [`super::gemm::pack`] made of `kc` rows of words of the columns, `left` must have `kc`
/// words in each row, and `to` `left.rows` rows, `ld` elements apart, that hold numbers if `plus`.
#[inline(always)]
pub(crate) unsafe fn product<V: Vector, W: Words>(
    left: Left,
    packed: *const f32,
    columns: usize,
    kc: usize,
    to: *mut f32,
    ld: usize,
    plus: bool,
) {
    let product = Product {
        left,
        packed,
        columns,
        kc,
        to,
        ld,
        plus,
    };
    // SAFETY: this function's contract.
    unsafe { V::product::<W>(&product) }
}

/// The operands of [`product`].
#[derive(Clone, Copy)]
pub(crate) struct Product {
    left: Left,
    packed: *const f32,
    columns: usize,
    kc: usize,
    to: *mut f32,
    ld: usize,
    plus: bool,
}

/// [`product`], to be compiled for the vectors.
///
/// # Safety
/// As for that.
#[inline(always)]
pub(crate) unsafe fn product_body<V: Vector, W: Words>(product: &Product) {
    #[cfg(target_arch = "x86_64")]
    if in_amx::<W>() {
        // SAFETY: this function's own contract; the level says that there is AMX.
        return unsafe { amx::product_body::<W>(product) };
    }
    let Product {
        left,
        packed,
        columns,
        kc,
        to,
        ld,
        plus,
    } = *product;
    let mut group = 0;
    for groups in panels::<W>(columns.div_ceil(GROUP)) {
        let panel = Panel {
            at: packed.wrapping_add(group * GROUP * kc),
            groups,
            kc,
        };
        let mut row = 0;
        while row < left.rows {
            let part = Left {
                at: left.at.wrapping_add(row * left.stride),
                rows: V::TILE_ROWS.min(left.rows - row),
                ..left
            };
            let to = to.wrapping_add(row * ld + group * GROUP);
            let to = [to, to.wrapping_add(GROUP), to.wrapping_add(2 * GROUP)];
            let plus = plus.then(|| Partial::at(to, ld));
            // SAFETY: the caller's operands, from row `row` and group `group` on; `to` has room for whole groups.
            unsafe {
                tile_body::<V, W, f32>(&Tile {
                    left: part,
                    panel,
                    to,
                    ld,
                    plus,
                    bias: Bias::NONE,
                });
            }
            row += part.rows;
        }
        group += groups;
    }
}

/// `left · panel + plus + bias` of words of `W`, written as `T` to the rows from each of `to` (one pointer for each
/// group of columns) with `ld` elements between rows.
///
/// # Safety
/// `left` must have `panel.kc` words in each row; `to` room for `left.rows` rows of `panel.groups`
/// groups, and `plus`, which may lie there, as many numbers; biases that are not null one element for each row or column.
/// `panel` must come from [`panels`] at the level that `V` is for.
#[inline(always)]
pub(crate) unsafe fn tile<V: Vector, W: Words, T: Element>(
    left: Left,
    panel: Panel,
    to: [*mut T; 3],
    ld: usize,
    plus: Option<Partial>,
    bias: Bias,
) {
    let tile = Tile {
        left,
        panel,
        to,
        ld,
        plus,
        bias,
    };
    // SAFETY: this function's contract.
    unsafe { V::tile::<W, T>(&tile) }
}

/// The operands of [`tile`].
#[derive(Clone, Copy)]
pub(crate) struct Tile<T> {
    left: Left,
    panel: Panel,
    to: [*mut T; 3],
    ld: usize,
    plus: Option<Partial>,
    bias: Bias,
}

/// [`tile`], to be compiled for the vectors.
///
/// # Safety
/// As for that.
#[inline(always)]
pub(crate) unsafe fn tile_body<V: Vector, W: Words, T: Element>(tile: &Tile<T>) {
    #[cfg(target_arch = "x86_64")]
    if in_amx::<W>() {
        // SAFETY: this function's own contract; the level says that there is AMX, and panels have two groups there.
        return unsafe { amx::tile_body::<V, W, T>(tile) };
    }
    let Tile {
        left,
        panel,
        to,
        ld,
        plus,
        bias,
    } = *tile;
    // SAFETY: this function's own contract; offsets are only read if there are some.
    unsafe {
        if left.offsets.is_null() {
            tile_of::<V, W, T, false>(left, panel, to, ld, plus, bias);
        } else {
            tile_of::<V, W, T, true>(left, panel, to, ld, plus, bias);
        }
    }
}

/// [`tile`], with its contract, for left operands with (`ACROSS`) or without offsets.
#[inline(always)]
unsafe fn tile_of<V: Vector, W: Words, T: Element, const ACROSS: bool>(
    left: Left,
    panel: Panel,
    to: [*mut T; 3],
    ld: usize,
    plus: Option<Partial>,
    bias: Bias,
) {
    // The widths are constants of V, so one arm remains.
    // SAFETY: the contract of `tile`; each arm's vectors are as wide as the panel's groups.
    unsafe {
        match (V::LANES, panel.groups) {
            (16, 3) => rows::<V, W, T, ACROSS, 8, 3>(left, panel, to, ld, plus, bias),
            (16, 2) => rows::<V, W, T, ACROSS, 8, 2>(left, panel, to, ld, plus, bias),
            (16, _) => rows::<V, W, T, ACROSS, 8, 1>(left, panel, to, ld, plus, bias),
            (8, _) => rows::<V, W, T, ACROSS, 6, 2>(left, panel, to, ld, plus, bias),
            _ => rows::<V, W, T, ACROSS, 4, 4>(left, panel, to, ld, plus, bias),
        }
    }
}

/// [`tile_of`] in parts of at most `ROWS` rows, for a panel of `VECTORS` vectors.
#[inline(always)]
unsafe fn rows<
    V: Vector,
    W: Words,
    T: Element,
    const ACROSS: bool,
    const ROWS: usize,
    const VECTORS: usize,
>(
    mut left: Left,
    panel: Panel,
    mut to: [*mut T; 3],
    ld: usize,
    mut plus: Option<Partial>,
    mut bias: Bias,
) {
    let mut remaining = left.rows;
    while remaining > 0 {
        // SAFETY: the contract of `tile`; at least as many rows remain as the kernel takes.
        let done = unsafe {
            if remaining >= ROWS {
                kernel::<V, W, T, ACROSS, ROWS, VECTORS>(left, panel, to, ld, plus, bias)
            } else if remaining >= 4 {
                kernel::<V, W, T, ACROSS, 4, VECTORS>(left, panel, to, ld, plus, bias)
            } else if remaining >= 2 {
                kernel::<V, W, T, ACROSS, 2, VECTORS>(left, panel, to, ld, plus, bias)
            } else {
                kernel::<V, W, T, ACROSS, 1, VECTORS>(left, panel, to, ld, plus, bias)
            }
        };
        remaining -= done;
        left.at = left.at.wrapping_add(done * left.stride);
        to = to.map(|to| to.wrapping_add(done * ld));
        if let Some(plus) = &mut plus {
            for at in &mut plus.at {
                *at = at.wrapping_add(done * plus.ld);
            }
        }
        if !bias.row.is_null() {
            bias.row = bias.row.wrapping_add(done);
        }
    }
}

/// Repeats a block with the constant `$i` from 0 to below `$n`, at most 8. Loops would do in
/// principle, but accumulators stay in registers only if the compiler unrolls every loop over them
/// before it looks for registers; when it does not, kernels take more than twice the time.
macro_rules! unroll {
    ($i:ident < $n:expr, $body:block) => {
        unroll!($i < $n, $body, 0 1 2 3 4 5 6 7)
    };
    ($i:ident < $n:expr, $body:block, $($k:literal)*) => {
        $(if $k < $n {
            const $i: usize = $k;
            $body
        })*
    };
}

/// The register tile: `ROWS` × `VECTORS` accumulators, at most 8 × 4. Returns `ROWS`, which `left` must
/// have; otherwise the contract is that of [`tile`].
#[inline(always)]
unsafe fn kernel<
    V: Vector,
    W: Words,
    T: Element,
    const ACROSS: bool,
    const ROWS: usize,
    const VECTORS: usize,
>(
    left: Left,
    panel: Panel,
    to: [*mut T; 3],
    ld: usize,
    plus: Option<Partial>,
    bias: Bias,
) -> usize {
    let width = VECTORS * V::LANES;
    let mut sums = [[V::splat(0.0); VECTORS]; ROWS];
    let mut right = panel.at;
    for k in 0..panel.kc {
        // SAFETY: the panel has `kc` rows of `width` words, and each of the `ROWS` rows on the left (and `offsets`,
        // if `ACROSS`) has `kc`.
        unsafe {
            let mut columns = [V::splat(0.0); VECTORS];
            unroll!(J < VECTORS, {
                columns[J] = V::load(right.add(J * V::LANES));
                // Wide panels come from the second cache, a little faster if asked for. Where there is one vector for as many rows,
                // reading is what takes the time, and pairs that are multiplied in halves leave no register for it.
                if V::LANES == GROUP && VECTORS > 1 && W::PER_WORD == 1 {
                    prefetch::near(right.wrapping_add(2 * width + J * GROUP));
                }
            });
            let offset = if ACROSS {
                *left.offsets.add(k) as usize
            } else {
                k
            };
            let at = left.at.add(offset);
            unroll!(I < ROWS, {
                let factor = V::splat(at.add(I * left.stride).read_unaligned());
                unroll!(J < VECTORS, {
                    sums[I][J] = W::dot(factor, columns[J], sums[I][J])
                });
            });
            right = right.add(width);
        }
    }
    unroll!(I < ROWS, {
        unroll!(J < VECTORS, {
            // SAFETY: `to` has `ROWS` rows of the group that `lane` is in; so have what is added and biases that are not
            // null.
            unsafe {
                let lane = J * V::LANES;
                let to = to[lane / GROUP].add(I * ld + lane % GROUP);
                let mut sum = sums[I][J];
                if let Some(plus) = plus {
                    let at = plus.at[lane / GROUP].add(I * plus.ld + lane % GROUP);
                    sum = sum.add(V::load(at));
                }
                if !bias.row.is_null() {
                    sum = sum.add(V::splat(*bias.row.add(I)));
                }
                if !bias.col.is_null() {
                    sum = sum.add(V::load(bias.col.add(lane)));
                }
                if bias.relu {
                    sum = V::splat(0.0).max(sum);
                }
                T::store(sum, to);
            }
        });
    });
    ROWS
}
