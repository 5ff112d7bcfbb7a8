//! Into which ranges of rows and columns a matrix product is cut for its threads.

use super::gemm::{Gemm, block_groups};
use super::operand::Rows;
use super::simd::{Element, Words};
use super::tile::{AMX_ROWS, GROUP, in_amx};

/// Multiply-adds (about 30 µs of one core, a few in AMX) below which waking a second thread costs more than it brings.
const SERIAL: usize = 1 << 21;
/// Groups of columns that a range has at least, if there are as many.
const FEWEST_GROUPS: usize = 6;
/// Strips of rows that a range in AMX has at most: 4,096 rows, whose sums, kept from block to block of summed elements, take 10 MiB
/// with the widest block of columns.
const MOST_STRIPS: usize = 128;

/// How much AMX multiplies in about the time that it takes to bring operands into the order of its tiles.
#[derive(Clone, Copy)]
struct Arranging {
    /// Column groups of a block, for each of which all rows are copied.
    in_block: usize,
    /// Columns that a row is multiplied with while it is copied.
    row: usize,
    /// Rows that a column is multiplied with while it is packed.
    column: usize,
}

impl Arranging {
    /// Of `k` summed elements in words of `W`.
    fn of<W: Words>(k: usize) -> Self {
        // Six products take longer than one, and so does splitting operands into parts, but not as much longer.
        let products = if W::PARTS > 1 { 2 } else { 1 };
        Self {
            in_block: block_groups::<W>(k),
            row: 128 / products,
            column: 256 / products,
        }
    }
}

impl<E: Element> Gemm<'_, E> {
    /// Into how many row and column ranges the work is cut.
    pub(super) fn cut<W: Words>(&self) -> (usize, usize) {
        let work = self.m * self.n * self.k;
        let threads = rayon::current_num_threads();
        if work < SERIAL || threads == 1 {
            return (1, 1);
        }
        let groups = self.n.div_ceil(GROUP);
        let in_block = block_groups::<W>(self.k);
        // Several tasks for each thread once they are large, so that uneven threads level out.
        let tasks = threads * (work >> 23).clamp(1, 4);
        if in_amx::<W>() {
            return shortest(
                (self.m.div_ceil(AMX_ROWS), groups),
                Arranging::of::<W>(self.k),
                threads,
            );
        }
        if let Rows::Across { .. } = self.left {
            // Here every column range copies all rows again, so that long row ranges come first.
            let cols = (tasks * 128 / self.m)
                .min(groups / FEWEST_GROUPS)
                .clamp(1, tasks);
            return (tasks.div_ceil(cols).min(self.m.div_ceil(16)), cols);
        }
        // Columns come first, because every row range packs all columns again.
        let cols = (groups / FEWEST_GROUPS).clamp(1, tasks);
        let rows = tasks.div_ceil(cols).min(self.m.div_ceil(16));
        (rows, cols.max(groups.div_ceil(in_block)))
    }
}

/// The numbers of row and column ranges with which a product in AMX's tiles takes the shortest time: so short that it matters how
/// often rows are copied, which is for each block of columns, and how often columns are packed, which is for each range of rows. Rows
/// come in `strips` of [`AMX_ROWS`].
fn shortest(
    (strips, groups): (usize, usize),
    arranging: Arranging,
    threads: usize,
) -> (usize, usize) {
    let Arranging {
        in_block,
        row,
        column,
    } = arranging;
    let blocks = groups.div_ceil(in_block).next_multiple_of(threads);
    let most = (groups / FEWEST_GROUPS).clamp(1, threads.max(blocks));
    let ways = (1..=most).flat_map(|cols| {
        let fewest = threads.div_ceil(cols).max(strips.div_ceil(MOST_STRIPS));
        [1, 2, 4].map(|times| {
            let rows = (times * fewest).min(strips).max(1);
            // As many as have something to do.
            (strips.div_ceil(strips.div_ceil(rows)), cols)
        })
    });
    let time = |&(rows, cols): &(usize, usize)| {
        let groups = groups.div_ceil(cols);
        let (m, n) = (strips.div_ceil(rows) * AMX_ROWS, groups * GROUP);
        let task = m * n + row * groups.div_ceil(in_block) * m + column * n;
        // Threads are never equally fast: a quarter of a task is waited for in the end.
        4 * task * (rows * cols).div_ceil(threads) + task
    };
    ways.min_by_key(time).unwrap_or((1, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BF16: Arranging = Arranging {
        in_block: 40,
        row: 128,
        column: 256,
    };

    #[test]
    fn all_threads_have_something_to_do() {
        for threads in [2, 3, 4, 16, 64] {
            for strips in [1, 2, 3, 5, 64, 256, 2048] {
                for groups in [1, 5, 20, 80, 81, 640] {
                    let (rows, cols) = shortest((strips, groups), BF16, threads);
                    let case = format!("{threads} threads, {strips} × {groups}: {rows} × {cols}");
                    assert!((1..=strips).contains(&rows), "{case}");
                    assert!((1..=groups).contains(&cols), "{case}");
                    // No range of rows is empty.
                    assert!((rows - 1) * strips.div_ceil(rows) < strips, "{case}");
                    let enough = strips * (groups / FEWEST_GROUPS).max(1) >= 2 * threads;
                    assert!(!enough || rows * cols >= threads, "{case}");
                    // Sums of a range stay small.
                    assert!(strips.div_ceil(rows) <= MOST_STRIPS, "{case}");
                }
            }
        }
    }

    /// Of SDXL's and SD 1.5's layers, on two threads.
    #[test]
    fn what_is_wide_is_cut_by_columns_and_what_is_long_by_rows() {
        let of = |m: usize, n: usize| shortest((m.div_ceil(AMX_ROWS), n.div_ceil(GROUP)), BF16, 2);
        assert_eq!(of(2048, 1280).1, 2);
        assert_eq!(of(2048, 10240).1 % 2, 0);
        assert!(of(2048, 10240).1 >= 16);
        assert_eq!(of(8192, 640).1, 1);
        assert_eq!(of(8192, 320).1, 1);
        // Not three blocks for two threads.
        assert_eq!(of(2048, 1920).1 % 2, 0);
    }
}
