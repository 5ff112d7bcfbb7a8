//! Between pictures and the numbers of tiles: sixteen tiles at a time, a lane for each, whose pixels lie in lines.

use super::super::simd::Element;
use super::{GROUP, Numbers, Pixels, SEEN, TILE, Winograd};

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

impl<E: Element> Winograd<'_, E> {
    /// Of a group of tiles, which are counted row by row and sample by sample.
    pub(super) fn runs(&self, group: usize) -> Vec<Run> {
        let (across, of_sample) = (self.across(), self.of_sample());
        let end = self.tiles().min((group + 1) * GROUP);
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

    /// The input of a group's tiles in a channel, number by number, a lane for each tile. Lanes without a tile are left alone.
    ///
    /// # Safety
    /// As for [`Self::run`].
    #[inline(always)]
    pub(super) unsafe fn gather(&self, channel: usize, runs: &[Run], to: &mut Numbers) {
        let [height, width] = self.size;
        let [up, left] = self.padding;
        for run in runs {
            let plane = run.sample * self.sample + channel * self.channel;
            let mut line = [0.0f32; LINE];
            let pixels = run.count * TILE + 2;
            // Of these, the ones that the picture has.
            let before = left.saturating_sub(run.x).min(pixels);
            let first = (run.x + before).saturating_sub(left);
            let there = width.saturating_sub(first).min(pixels - before);
            for (row, numbers) in to.chunks_exact_mut(SEEN).enumerate() {
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
