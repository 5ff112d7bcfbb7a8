//! Between pictures and tiles: sixteen tiles at a time, a lane for each, whose pixels lie in lines.

use super::super::prefetch;
use super::super::simd::{Element, Vector};
use super::{GROUP, Numbers, SEEN, TILE, Winograd};
use core::ops::Range;

/// Tiles of a group that are beside each other in one picture.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// The first one's lane, and their number.
    lane: usize,
    count: usize,
    sample: usize,
    /// The first one's first pixel in the result.
    y: usize,
    x: usize,
}

/// The tiles of pictures of the size `out`, counted row by row and picture by picture.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    pub batch: usize,
    pub out: [usize; 2],
}

impl Tiles {
    fn across(&self) -> usize {
        self.out[1].div_ceil(TILE)
    }

    fn of_sample(&self) -> usize {
        self.out[0].div_ceil(TILE) * self.across()
    }

    pub(super) fn count(&self) -> usize {
        self.batch * self.of_sample()
    }

    pub(super) fn groups(&self) -> usize {
        self.count().div_ceil(GROUP)
    }

    pub(super) fn tile(&self, index: usize) -> Option<Tile> {
        let (sample, within) = (index / self.of_sample(), index % self.of_sample());
        (sample < self.batch).then(|| Tile {
            sample,
            y: within / self.across() * TILE,
            x: within % self.across() * TILE,
        })
    }

    /// Those of a group.
    pub(super) fn runs(&self, group: usize) -> Vec<Run> {
        let (across, of_sample) = (self.across(), self.of_sample());
        let end = self.count().min((group + 1) * GROUP);
        let (mut tile, mut runs) = (group * GROUP, Vec::new());
        while tile < end {
            let (sample, within) = (tile / of_sample, tile % of_sample);
            let column = within % across;
            let count = (across - column).min(end - tile);
            runs.push(Run {
                lane: tile % GROUP,
                count,
                sample,
                y: within / across * TILE,
                x: column * TILE,
            });
            tile += count;
        }
        runs
    }
}

/// Where a tile is: its sample and its first pixel.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    sample: usize,
    y: usize,
    x: usize,
}

/// Pictures whose planes have no gaps: `sample` and `channel` elements from one sample and channel to the next.
#[derive(Clone, Copy)]
pub(crate) struct Planes<E> {
    pub from: *const E,
    pub sample: usize,
    pub channel: usize,
    /// Height and width.
    pub size: [usize; 2],
}

impl<E: Element> Planes<E> {
    /// What a group's tiles see in a channel with so many zeros above and before: squares of `SIDE` pixels that begin where the tiles do,
    /// pixel by pixel, a lane for each tile. Lanes without a tile are zero.
    ///
    /// # Safety
    /// The pictures must have the channel, and the samples of the runs; `to` has `SIDE`² pixels.
    #[inline(always)]
    pub(super) unsafe fn gather<V: Vector, const SIDE: usize>(
        &self,
        channel: usize,
        padding: [usize; 2],
        runs: &[Run],
        to: &mut [[f32; GROUP]],
    ) {
        let [height, width] = self.size;
        for (row, numbers) in to.chunks_exact_mut(SIDE).enumerate() {
            // The pixels of all tiles, and as many that begin one tile further on, of which what is beside the tiles is seen.
            let mut lines = [[0.0f32; LINE]; 2];
            for run in runs {
                let y = (run.y + row).wrapping_sub(padding[0]);
                if y >= height {
                    continue;
                }
                let plane = run.sample * self.sample + channel * self.channel;
                let at = self.from.wrapping_add(plane + y * width);
                // SAFETY: row `y` of the plane.
                let from = unsafe { core::slice::from_raw_parts(at, width) };
                let pixels = run.lane * TILE..(run.lane + run.count) * TILE;
                // The next channel's, which lie in pieces too short for the processor to foresee.
                prefetch::far(at.wrapping_add(self.channel + run.x), pixels.len());
                for (i, line) in lines.iter_mut().enumerate().take(SIDE.div_ceil(TILE)) {
                    copy_inside::<V, E>(
                        from,
                        run.x + i * TILE,
                        padding[1],
                        &mut line[pixels.clone()],
                    );
                }
            }
            for lane in (0..GROUP).step_by(V::LANES) {
                for (line, numbers) in lines.iter().zip(numbers.chunks_mut(TILE)) {
                    // SAFETY: four pixels of each lane of a vector; sixteen lanes are whole vectors.
                    unsafe {
                        let columns = V::load_fours(line.as_ptr().wrapping_add(lane * TILE));
                        for (column, to) in columns.into_iter().zip(numbers) {
                            column.store(to.as_mut_ptr().wrapping_add(lane));
                        }
                    }
                }
            }
        }
    }
}

/// The pixels from `first` on of a row with `padding` zeros before it. Those outside are left alone.
#[inline(always)]
fn copy_inside<V: Vector, E: Element>(row: &[E], first: usize, padding: usize, to: &mut [f32]) {
    let before = padding.saturating_sub(first).min(to.len());
    let start = (first + before).saturating_sub(padding).min(row.len());
    let to = &mut to[before..];
    let there = to.len().min(row.len() - start);
    // SAFETY: both have so many elements from these places on.
    unsafe { copy::<V, E, f32>(row[start..].as_ptr(), to.as_mut_ptr(), there) };
}

/// # Safety
/// `from` must point to `count` elements, and `to` have room for as many.
#[inline(always)]
unsafe fn copy<V: Vector, E: Element, T: Element>(from: *const E, to: *mut T, count: usize) {
    let whole = count - count % V::LANES;
    // SAFETY: the caller's elements.
    unsafe {
        for i in (0..whole).step_by(V::LANES) {
            T::store::<V>(E::load(from.add(i)), to.add(i));
        }
        if whole < count {
            let rest = count - whole;
            T::store_first::<V>(E::load_first(from.add(whole), rest), to.add(whole), rest);
        }
    }
}

impl Planes<f32> {
    /// What a tile sees in up to sixteen channels, pixel by pixel, a lane for each channel. Lanes without a channel, and what is outside,
    /// are left alone.
    ///
    /// # Safety
    /// The pictures must have the channels and the tile's sample.
    #[inline(always)]
    pub(super) unsafe fn see(
        &self,
        channels: Range<usize>,
        padding: [usize; 2],
        tile: Tile,
        to: &mut Numbers,
    ) {
        let inside = |first: usize, padding: usize, size: usize| {
            let start = padding.saturating_sub(first).min(SEEN);
            start..(size + padding).saturating_sub(first).clamp(start, SEEN)
        };
        let rows = inside(tile.y, padding[0], self.size[0]);
        let columns = inside(tile.x, padding[1], self.size[1]);
        let width = self.size[1];
        for (lane, channel) in channels.enumerate() {
            let plane = tile.sample * self.sample + channel * self.channel;
            let line = |row: usize| {
                let at = plane + (tile.y + row - padding[0]) * width + tile.x + columns.start;
                // SAFETY: these pixels are in a row of the plane.
                unsafe {
                    let at = self.from.add(at - padding[1]);
                    core::slice::from_raw_parts(at, columns.len())
                }
            };
            for row in rows.clone() {
                let numbers = &mut to[row * SEEN..(row + 1) * SEEN];
                match <&[f32; SEEN]>::try_from(line(row)) {
                    // So that the compiler knows the number.
                    Ok(line) => {
                        for (to, from) in numbers.iter_mut().zip(line) {
                            to[lane] = *from;
                        }
                    }
                    Err(_) => {
                        for (to, from) in numbers[columns.clone()].iter_mut().zip(line(row)) {
                            to[lane] = *from;
                        }
                    }
                }
            }
        }
    }
}

impl<E: Element> Winograd<'_, E> {
    /// Writes a group's tiles of an output, whose pixels lie line by line.
    ///
    /// # Safety
    /// As for [`Self::run`].
    #[inline(always)]
    pub(super) unsafe fn scatter<V: Vector>(
        &self,
        output: usize,
        runs: &[Run],
        lines: &[[f32; LINE]; TILE],
    ) {
        let [height, width] = self.out;
        for run in runs {
            let plane = (run.sample * self.outputs + output) * height;
            let there = (run.count * TILE).min(width - run.x);
            for (row, line) in lines.iter().enumerate().take(height - run.y) {
                let at = (plane + run.y + row) * width + run.x;
                // The next output's.
                prefetch::far(self.to.wrapping_add(at + height * width), there);
                // SAFETY: these pixels are in a row of the plane, and a line has those of all lanes.
                unsafe {
                    let from = line.as_ptr().add(run.lane * TILE);
                    copy::<V, f32, E>(from, self.to.add(at), there);
                }
            }
        }
    }
}

/// Pixels of a line of a group.
pub(super) const LINE: usize = GROUP * TILE;
