//! Matrix product for the shapes of these networks.
//!
//! The left operand is read where it lies, row by row, when it is a weight or an activation with unit
//! stride along the summed axis; a weight read across is copied run by run, eight rows at a time. The
//! right operand is packed, block by block, into panels of up to
//! 48 columns by whoever knows how it lies in memory ([`Columns`]), so that a convolution unrolls
//! its input straight into the panels and nothing is copied twice. The scheme of blocks and register
//! tiles follows Goto & van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).

use super::scratch::Scratch;
use super::simd::{Level, Vector, level, multiversion};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use rayon::prelude::*;

/// Columns are packed in groups of this many.
pub(crate) const GROUP: usize = 16;
/// Summed elements per block: eight rows of the left operand then stay in a 32 KiB cache.
const BLOCK_K: usize = 512;
/// Column groups per block: with [`BLOCK_K`] at most 576 KiB of packed columns.
const BLOCK_GROUPS: usize = 18;
/// Multiply-adds (about 30 µs of one core) below which waking a second thread costs more than it brings.
const SERIAL: usize = 1 << 21;

/// The right operand: a matrix of which blocks can be packed.
pub(crate) trait Columns: Sync {
    /// Writes rows `k0..k0 + kc` of the columns from `col` to `col + cols` (at most [`GROUP`]) to
    /// `to`, one row every `stride` elements, padded with zeros to [`GROUP`] columns.
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

/// Where the product goes.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// Element (row, col) lies at `row · ld + (col / plane) · sample + col % plane`: a row-major
    /// matrix when `plane` is the number of columns, a batch of pictures otherwise.
    Planes {
        to: *mut f32,
        ld: usize,
        plane: usize,
        sample: usize,
    },
    /// As `Planes` with `width` pixels in each row of a plane, of which the neighbours are written
    /// `step` pixels apart along both axes: one phase of a picture with `line` pixels in
    /// each row.
    Phase {
        to: *mut f32,
        ld: usize,
        plane: usize,
        sample: usize,
        width: usize,
        step: usize,
        line: usize,
    },
    /// Element (row, col) lies at `col · ld + row`.
    Transposed { to: *mut f32, ld: usize },
}

impl Target {
    /// A row-major matrix.
    pub(crate) fn rows(to: *mut f32, columns: usize) -> Self {
        Self::Planes {
            to,
            ld: columns,
            plane: columns,
            sample: 0,
        }
    }
}

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
    fn run(&self) -> usize {
        match self {
            Self::Along { .. } => 1,
            Self::Across { taps, .. } => taps.len().max(1),
        }
    }
}

/// `left · right + bias` with `left` `[m, k]`, `right` `[k, n]`.
pub(crate) struct Gemm<'a> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub left: Rows<'a>,
    pub right: &'a dyn Columns,
    pub target: Target,
    /// One addend for each row.
    pub row_bias: Option<&'a [f32]>,
    /// One addend for each column.
    pub col_bias: Option<&'a [f32]>,
}

// SAFETY: the pointers are only read, or written at places that no two tasks share.
unsafe impl Sync for Gemm<'_> {}

impl Gemm<'_> {
    /// Computes the product on Rayon's threads.
    ///
    /// # Safety
    /// `left` and `target` must cover `m × k` and `m × n` elements and not overlap; biases must
    /// have one element for each row or column.
    pub(crate) unsafe fn run(&self) {
        let (row_parts, col_parts) = self.parts();
        let groups = self.n.div_ceil(GROUP);
        let rows = self.m.div_ceil(row_parts).next_multiple_of(8);
        let task = |index: usize| {
            let (part, row) = (index / row_parts, index % row_parts * rows);
            let first = groups * part / col_parts * GROUP;
            let last = (groups * (part + 1) / col_parts * GROUP).min(self.n);
            let range = Range {
                rows: (row.min(self.m), (row + rows).min(self.m)),
                cols: (first, last),
            };
            // SAFETY: the ranges of the tasks are disjoint and inside the matrices.
            unsafe { multiply(self, range) };
        };
        match row_parts * col_parts {
            1 => task(0),
            tasks => (0..tasks).into_par_iter().with_max_len(1).for_each(task),
        }
    }

    /// Into how many row and column ranges the work is cut. Columns come first, because every row
    /// range packs all columns again.
    fn parts(&self) -> (usize, usize) {
        let work = self.m * self.n * self.k;
        let threads = rayon::current_num_threads();
        if work < SERIAL || threads == 1 {
            return (1, 1);
        }
        // Several tasks for each thread once they are large, so that uneven threads level out.
        let tasks = threads * (work >> 23).clamp(1, 4);
        let groups = self.n.div_ceil(GROUP);
        let cols = (groups / 6).clamp(1, tasks);
        let rows = tasks.div_ceil(cols).min(self.m.div_ceil(16));
        (rows, cols.max(groups.div_ceil(BLOCK_GROUPS)))
    }
}

#[derive(Clone, Copy)]
struct Range {
    rows: (usize, usize),
    cols: (usize, usize),
}

/// Groups in each panel when `groups` are dealt out evenly over the fewest panels.
fn panels(groups: usize) -> impl Iterator<Item = usize> {
    let widest = if level() == Level::Avx512 { 3 } else { 1 };
    let count = groups.div_ceil(widest);
    (0..count).map(move |i| groups * (i + 1) / count - groups * i / count)
}

/// Packs `cols` columns from `col` into panels that follow each other in `to`, each row by row.
///
/// # Safety
/// `to` must have room for `kc` rows of the columns rounded up to whole groups.
pub(crate) unsafe fn pack(
    right: &dyn Columns,
    (col, cols): (usize, usize),
    (k0, kc): (usize, usize),
    to: *mut f32,
) {
    let mut group = 0;
    for width in panels(cols.div_ceil(GROUP)) {
        // SAFETY: the panel of `width` groups starts after `group` whole ones.
        let panel = unsafe { to.add(group * GROUP * kc) };
        for i in 0..width {
            let done = (group + i) * GROUP;
            // SAFETY: as above, and the columns are in range.
            unsafe {
                let to = panel.add(i * GROUP);
                right.pack(
                    col + done,
                    GROUP.min(cols - done),
                    k0,
                    kc,
                    to,
                    width * GROUP,
                );
            }
        }
        group += width;
    }
}

multiversion! {
    /// The part of the product in `range`, on this thread.
    unsafe fn multiply(gemm: &Gemm<'_>, range: Range) = multiply_body
}

#[inline(always)]
unsafe fn multiply_body<V: Vector>(gemm: &Gemm<'_>, range: Range) {
    let run = gemm.left.run();
    let runs = gemm.k / run;
    let k_blocks = gemm.k.div_ceil(BLOCK_K).max(1);
    let (first_col, last_col) = range.cols;
    let widest = (last_col - first_col)
        .next_multiple_of(GROUP)
        .min(BLOCK_GROUPS * GROUP);
    let kc_max = runs.div_ceil(k_blocks) * run;
    let mut scratch = Scratch::take(widest * (kc_max + 1));
    let packed = scratch.as_mut_ptr();
    let mut across = Across::<V>::new(&gemm.left, kc_max);
    {
        // SAFETY: the scratch holds a packed block and one more row for the bias.
        let bias = unsafe { packed.add(widest * kc_max) };
        let mut col = first_col;
        while col < last_col {
            let cols = (last_col - col).min(BLOCK_GROUPS * GROUP);
            if let Some(all) = gemm.col_bias {
                for i in 0..cols.next_multiple_of(GROUP) {
                    unsafe { *bias.add(i) = if i < cols { all[col + i] } else { 0.0 } };
                }
            }
            for block in 0..k_blocks {
                let k0 = runs * block / k_blocks * run;
                let kc = runs * (block + 1) / k_blocks * run - k0;
                unsafe { pack(gemm.right, (col, cols), (k0, kc), packed) };
                let mut row = range.rows.0;
                while row < range.rows.1 {
                    let rows = (range.rows.1 - row).min(V::TILE_ROWS);
                    let left = match gemm.left {
                        Rows::Along { from, stride } => {
                            Left::along(from.wrapping_add(row * stride + k0), stride, rows)
                        }
                        Rows::Across { .. } => unsafe { across.rows((row, rows), (k0, kc)) },
                    };
                    let row_bias = match gemm.row_bias {
                        Some(bias) if block == 0 => bias[row..row + rows].as_ptr(),
                        _ => core::ptr::null(),
                    };
                    let mut group = 0;
                    for width in panels(cols.div_ceil(GROUP)) {
                        let at = group * GROUP;
                        let col_bias = match gemm.col_bias {
                            Some(_) if block == 0 => unsafe { bias.add(at) },
                            _ => core::ptr::null(),
                        };
                        let panel = Panel {
                            at: unsafe { packed.add(at * kc) },
                            groups: width,
                            kc,
                        };
                        let place = Place {
                            row,
                            col: col + at,
                            cols: (cols - at).min(width * GROUP),
                            plus: block > 0,
                        };
                        let bias = Bias {
                            row: row_bias,
                            col: col_bias,
                        };
                        unsafe { write::<V>(&gemm.target, left, panel, place, bias) };
                        group += width;
                    }
                    row += rows;
                }
            }
            col += cols;
        }
    }
}

/// A block of rows of a left operand that is read across, copied so that they lie together.
struct Across<'a, V> {
    operand: Rows<'a>,
    scratch: Scratch,
    kc: usize,
    vector: PhantomData<V>,
}

impl<'a, V: Vector> Across<'a, V> {
    /// For blocks of up to `kc` summed elements. Nothing is needed for rows with unit stride.
    #[inline(always)]
    fn new(operand: &Rows<'a>, kc: usize) -> Self {
        let Rows::Across { kernel, taps, .. } = *operand else {
            return Self {
                operand: *operand,
                scratch: Scratch::take(0),
                kc: 0,
                vector: PhantomData,
            };
        };
        let mut scratch = Scratch::take((V::TILE_ROWS + 1) * kc);
        let offsets = scratch
            .as_mut_ptr()
            .wrapping_add(V::TILE_ROWS * kc)
            .cast::<u32>();
        let run = taps.len();
        for k in 0..kc {
            let tap = if run == kernel {
                taps[k % run]
            } else {
                k % run
            };
            let offset = k / run * V::TILE_ROWS * run + tap;
            // SAFETY: after the rows there is room for as many offsets.
            unsafe { *offsets.add(k) = offset as u32 };
        }
        Self {
            operand: *operand,
            scratch,
            kc,
            vector: PhantomData,
        }
    }

    /// Copies `kc` elements from `k0` of `rows` rows from `row`: whole runs, of which the kernel reads
    /// the taps in their order, or just the taps.
    #[inline(always)]
    unsafe fn rows(&mut self, (row, rows): (usize, usize), (k0, kc): (usize, usize)) -> Left {
        let Rows::Across {
            from,
            stride,
            kernel,
            taps,
        } = self.operand
        else {
            unreachable!("rows with unit stride are read where they lie");
        };
        let run = taps.len().max(1);
        let packed = self.scratch.as_mut_ptr();
        let offsets = packed.wrapping_add(V::TILE_ROWS * self.kc).cast::<u32>();
        for i in 0..kc / run {
            // SAFETY: rows and summed elements exist, and the scratch holds a block of them.
            unsafe {
                let from = from.add((k0 / run + i) * stride + row * kernel);
                let to = packed.add(i * V::TILE_ROWS * run);
                if run < kernel {
                    for (j, to) in (0..rows).map(|j| (j, to.add(j * run))) {
                        for (t, tap) in taps.iter().enumerate() {
                            *to.add(t) = *from.add(j * kernel + tap);
                        }
                    }
                } else if rows < V::TILE_ROWS {
                    core::ptr::copy_nonoverlapping(from, to, rows * run);
                } else {
                    // In pieces of a known size: the runs are too short for calls of memcpy.
                    for j in 0..run {
                        let at = j * V::TILE_ROWS;
                        match V::TILE_ROWS {
                            8 => copy::<8>(from.add(at), to.add(at)),
                            6 => copy::<6>(from.add(at), to.add(at)),
                            _ => copy::<4>(from.add(at), to.add(at)),
                        }
                    }
                }
            }
        }
        Left {
            at: packed,
            stride: run,
            rows,
            offsets,
        }
    }
}

#[inline(always)]
unsafe fn copy<const N: usize>(from: *const f32, to: *mut f32) {
    unsafe {
        let piece = from.cast::<[f32; N]>().read_unaligned();
        to.cast::<[f32; N]>().write_unaligned(piece);
    }
}

/// Some rows of the left operand: element (row, k) lies at `row · stride + offsets[k]`, or
/// `row · stride + k` if `offsets` is null.
#[derive(Clone, Copy)]
pub(crate) struct Left {
    pub at: *const f32,
    pub stride: usize,
    pub rows: usize,
    pub offsets: *const u32,
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

/// A packed panel.
#[derive(Clone, Copy)]
struct Panel {
    pub at: *const f32,
    pub groups: usize,
    pub kc: usize,
}

/// Addends for the rows and columns of a tile; null for none.
#[derive(Clone, Copy)]
struct Bias {
    pub row: *const f32,
    pub col: *const f32,
}

impl Bias {
    const NONE: Self = Self {
        row: core::ptr::null(),
        col: core::ptr::null(),
    };
}

/// Where a tile goes, and whether it is added to what is there.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    col: usize,
    cols: usize,
    plus: bool,
}

/// Multiplies one tile and writes it to the target.
#[inline(always)]
unsafe fn write<V: Vector>(target: &Target, left: Left, panel: Panel, place: Place, bias: Bias) {
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
            let col = col + i * GROUP;
            let (sample_index, pixel) = if plane > col {
                (0, col)
            } else {
                (col / plane, col % plane)
            };
            direct &= pixel + GROUP <= plane;
            // SAFETY: only used when the whole group lies inside the plane.
            *group = to.wrapping_add(sample_index * sample + pixel + row * ld);
        }
        if direct {
            return unsafe { tile::<V>(left, panel, groups, ld, plus, bias) };
        }
    }
    let mut out = MaybeUninit::<[f32; 8 * 3 * GROUP]>::uninit();
    let width = 3 * GROUP;
    let at = out.as_mut_ptr().cast::<f32>();
    unsafe {
        let groups = [at, at.add(GROUP), at.add(2 * GROUP)];
        tile::<V>(left, panel, groups, width, false, bias);
        match *target {
            Target::Planes {
                to,
                ld,
                plane,
                sample,
            } => {
                for j in 0..cols {
                    let col = col + j;
                    let to = to.add(col / plane * sample + col % plane + row * ld);
                    for i in 0..left.rows {
                        put(to.add(i * ld), *at.add(i * width + j), plus);
                    }
                }
            }
            Target::Phase {
                to,
                ld,
                plane,
                sample,
                width: phase_width,
                step,
                line,
            } => {
                for j in 0..cols {
                    let (index, pixel) = ((col + j) / plane, (col + j) % plane);
                    let (y, x) = (pixel / phase_width, pixel % phase_width);
                    let to = to.add(index * sample + (y * line + x) * step + row * ld);
                    for i in 0..left.rows {
                        put(to.add(i * ld), *at.add(i * width + j), plus);
                    }
                }
            }
            Target::Transposed { to, ld } => {
                for j in 0..cols {
                    let to = to.add((col + j) * ld + row);
                    for i in 0..left.rows {
                        put(to.add(i), *at.add(i * width + j), plus);
                    }
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn put(to: *mut f32, value: f32, plus: bool) {
    unsafe { *to = if plus { *to + value } else { value } };
}

/// `left` times `columns` columns in panels that follow each other, each with `kc` rows, written or
/// added to the rows from `to`, which have room for the columns rounded up to whole groups.
#[inline(always)]
pub(crate) unsafe fn product<V: Vector>(
    left: Left,
    packed: *const f32,
    columns: usize,
    kc: usize,
    to: *mut f32,
    ld: usize,
    plus: bool,
) {
    let mut row = 0;
    while row < left.rows {
        let part = Left {
            at: left.at.wrapping_add(row * left.stride),
            rows: V::TILE_ROWS.min(left.rows - row),
            ..left
        };
        let mut group = 0;
        for groups in panels(columns.div_ceil(GROUP)) {
            let panel = Panel {
                at: packed.wrapping_add(group * GROUP * kc),
                groups,
                kc,
            };
            let to = to.wrapping_add(row * ld + group * GROUP);
            let to = [to, to.wrapping_add(GROUP), to.wrapping_add(2 * GROUP)];
            // SAFETY: the caller's rows and columns exist.
            unsafe { tile::<V>(part, panel, to, ld, plus, Bias::NONE) };
            group += groups;
        }
        row += part.rows;
    }
}

/// `left · panel + bias`, written or added to the rows from each of `to` (one pointer for each
/// group of columns) with `ld` elements between rows.
#[inline(always)]
unsafe fn tile<V: Vector>(
    left: Left,
    panel: Panel,
    to: [*mut f32; 3],
    ld: usize,
    plus: bool,
    bias: Bias,
) {
    unsafe {
        if left.offsets.is_null() {
            tile_of::<V, false>(left, panel, to, ld, plus, bias);
        } else {
            tile_of::<V, true>(left, panel, to, ld, plus, bias);
        }
    }
}

#[inline(always)]
unsafe fn tile_of<V: Vector, const ACROSS: bool>(
    left: Left,
    panel: Panel,
    to: [*mut f32; 3],
    ld: usize,
    plus: bool,
    bias: Bias,
) {
    // The widths are constants of V, so one arm remains.
    unsafe {
        match (V::LANES, panel.groups) {
            (16, 3) => rows::<V, ACROSS, 8, 3>(left, panel, to, ld, plus, bias),
            (16, 2) => rows::<V, ACROSS, 8, 2>(left, panel, to, ld, plus, bias),
            (16, _) => rows::<V, ACROSS, 8, 1>(left, panel, to, ld, plus, bias),
            (8, _) => rows::<V, ACROSS, 6, 2>(left, panel, to, ld, plus, bias),
            _ => rows::<V, ACROSS, 4, 4>(left, panel, to, ld, plus, bias),
        }
    }
}

#[inline(always)]
unsafe fn rows<V: Vector, const ACROSS: bool, const ROWS: usize, const VECTORS: usize>(
    mut left: Left,
    panel: Panel,
    mut to: [*mut f32; 3],
    ld: usize,
    plus: bool,
    mut bias: Bias,
) {
    let mut remaining = left.rows;
    while remaining > 0 {
        let done = unsafe {
            if remaining >= ROWS {
                kernel::<V, ACROSS, ROWS, VECTORS>(left, panel, to, ld, plus, bias)
            } else if remaining >= 4 {
                kernel::<V, ACROSS, 4, VECTORS>(left, panel, to, ld, plus, bias)
            } else if remaining >= 2 {
                kernel::<V, ACROSS, 2, VECTORS>(left, panel, to, ld, plus, bias)
            } else {
                kernel::<V, ACROSS, 1, VECTORS>(left, panel, to, ld, plus, bias)
            }
        };
        remaining -= done;
        left.at = left.at.wrapping_add(done * left.stride);
        to = to.map(|to| to.wrapping_add(done * ld));
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

/// The register tile: `ROWS` × `VECTORS` accumulators, at most 8 × 4. Returns `ROWS`.
#[inline(always)]
unsafe fn kernel<V: Vector, const ACROSS: bool, const ROWS: usize, const VECTORS: usize>(
    left: Left,
    panel: Panel,
    to: [*mut f32; 3],
    ld: usize,
    plus: bool,
    bias: Bias,
) -> usize {
    let width = VECTORS * V::LANES;
    let mut sums = [[V::splat(0.0); VECTORS]; ROWS];
    let mut right = panel.at;
    for k in 0..panel.kc {
        unsafe {
            let mut columns = [V::splat(0.0); VECTORS];
            unroll!(J < VECTORS, {
                columns[J] = V::load(right.add(J * V::LANES))
            });
            let offset = if ACROSS {
                *left.offsets.add(k) as usize
            } else {
                k
            };
            let at = left.at.add(offset);
            unroll!(I < ROWS, {
                let factor = V::splat(*at.add(I * left.stride));
                unroll!(J < VECTORS, {
                    sums[I][J] = factor.mul_add(columns[J], sums[I][J])
                });
            });
            right = right.add(width);
        }
    }
    unroll!(I < ROWS, {
        unroll!(J < VECTORS, {
            unsafe {
                let lane = J * V::LANES;
                let to = to[lane / GROUP].add(I * ld + lane % GROUP);
                let mut sum = sums[I][J];
                if plus {
                    sum = sum.add(V::load(to));
                }
                if !bias.row.is_null() {
                    sum = sum.add(V::splat(*bias.row.add(I)));
                }
                if !bias.col.is_null() {
                    sum = sum.add(V::load(bias.col.add(lane)));
                }
                sum.store(to);
            }
        });
    });
    ROWS
}
