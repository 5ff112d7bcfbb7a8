//! Between pictures and tiles: sixteen tiles at a time, a lane for each, whose pixels lie in lines.

use super::super::simd::Element;
use super::{GROUP, Numbers, Pixels, SEEN, TILE, Winograd};
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
    /// pixel by pixel, a lane for each tile. Lanes without a tile are left alone.
    ///
    /// # Safety
    /// The pictures must have the channel, and the samples of the runs; `to` has `SIDE`² pixels.
    #[inline(always)]
    pub(super) unsafe fn gather<const SIDE: usize>(
        &self,
        channel: usize,
        padding: [usize; 2],
        runs: &[Run],
        to: &mut [[f32; GROUP]],
    ) {
        let [height, width] = self.size;
        let [up, left] = padding;
        for run in runs {
            let plane = run.sample * self.sample + channel * self.channel;
            let mut line = [0.0f32; LINE];
            let pixels = run.count * TILE + SIDE - TILE;
            // Of these, the ones that the picture has.
            let before = left.saturating_sub(run.x).min(pixels);
            let first = (run.x + before).saturating_sub(left);
            let there = width.saturating_sub(first).min(pixels - before);
            for (row, numbers) in to.chunks_exact_mut(SIDE).enumerate() {
                let y = (run.y + row).wrapping_sub(up);
                if y < height {
                    let at = self.from.wrapping_add(plane + y * width + first);
                    // SAFETY: these pixels are in row `y` of the plane.
                    let from = unsafe { core::slice::from_raw_parts(at, there) };
                    for (to, from) in line[before..before + there].iter_mut().zip(from) {
                        *to = from.widen();
                    }
                } else {
                    line[before..before + there].fill(0.0);
                }
                match run.count {
                    // So that the compiler knows the number.
                    GROUP => deal(&line, numbers, 0, GROUP),
                    count => deal(&line, numbers, run.lane, count),
                }
            }
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
    /// Writes a group's tiles of an output.
    ///
    /// # Safety
    /// As for [`Self::run`].
    #[inline(always)]
    pub(super) unsafe fn scatter(&self, output: usize, runs: &[Run], tile: &Pixels) {
        let [height, width] = self.out;
        for run in runs {
            let plane = (run.sample * self.outputs + output) * height;
            let there = (run.count * TILE).min(width - run.x);
            for (row, pixels) in tile.chunks_exact(TILE).enumerate().take(height - run.y) {
                let mut line = [0.0f32; LINE];
                match run.count {
                    GROUP => collect(pixels, &mut line, 0, GROUP),
                    count => collect(pixels, &mut line, run.lane, count),
                }
                let at = (plane + run.y + row) * width + run.x;
                for (i, pixel) in line.iter().enumerate().take(there) {
                    // SAFETY: these pixels are in a row of the plane.
                    unsafe { *self.to.wrapping_add(at + i) = E::narrow(*pixel) };
                }
            }
        }
    }
}

/// Pixels of a line of a group, and what is seen beside it.
const LINE: usize = GROUP * TILE + 2;

/// The numbers of a line of input for `count` tiles from `lane` on.
#[inline(always)]
fn deal(line: &[f32; LINE], to: &mut [[f32; GROUP]], lane: usize, count: usize) {
    for (column, to) in to.iter_mut().enumerate() {
        for (i, number) in to[lane..lane + count].iter_mut().enumerate() {
            *number = line[i * TILE + column];
        }
    }
}

/// The pixels of `count` tiles from `lane` on as a line.
#[inline(always)]
fn collect(from: &[[f32; GROUP]], line: &mut [f32; LINE], lane: usize, count: usize) {
    for (column, from) in from.iter().enumerate() {
        for (i, pixel) in from[lane..lane + count].iter().enumerate() {
            line[i * TILE + column] = *pixel;
        }
    }
}
