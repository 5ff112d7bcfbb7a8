//! The neighbourhoods of pictures as the right operand of a product that is summed over pixels.

use super::operand::Columns;
use super::tile::GROUP;

/// The unrolled neighbourhoods of a batch of contiguous pictures, pixel after pixel: row `k` is the output pixel `k % plane` of
/// the sample `k / plane`, column `j` the input channel `j / kernel²` at the kernel's position `j % kernel²`.
pub(crate) struct Unrolled {
    pub from: *const f32,
    /// Height and width of a picture.
    pub size: [usize; 2],
    pub channels: usize,
    pub out_width: usize,
    /// Output pixels of a sample.
    pub plane: usize,
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
}

// SAFETY: only read.
unsafe impl Sync for Unrolled {}

impl Columns<f32> for Unrolled {
    unsafe fn pack(
        &self,
        col: usize,
        cols: usize,
        k0: usize,
        kc: usize,
        to: *mut f32,
        stride: usize,
    ) {
        for j in 0..GROUP {
            let to = to.wrapping_add(j);
            if j < cols {
                // SAFETY: column `col + j` and the rows are the caller's, and lane `j` of each row is in its room.
                unsafe { self.column(col + j, (k0, kc), to, stride) };
            } else {
                for k in 0..kc {
                    // SAFETY: a group of each row is in the caller's room.
                    unsafe { *to.add(k * stride) = 0.0 };
                }
            }
        }
    }
}

impl Unrolled {
    /// Writes rows `k0..k0 + kc` of column `j` to `to`, one every `stride` elements.
    ///
    /// # Safety
    /// `to` must have room for that; rows and column must exist.
    unsafe fn column(&self, j: usize, (k0, kc): (usize, usize), to: *mut f32, stride: usize) {
        let taps = self.kernel * self.kernel;
        let (channel, tap) = (j / taps, j % taps);
        let (down, right) = (tap / self.kernel, tap % self.kernel);
        let [height, width] = self.size;
        // Of a line of the output: the first place whose tap is inside, and the first after those.
        let first = self.padding.saturating_sub(right).div_ceil(self.stride);
        let end = (width + self.padding).saturating_sub(right);
        let end = end.div_ceil(self.stride);
        let mut k = k0;
        while k < k0 + kc {
            let (sample, pixel) = (k / self.plane, k % self.plane);
            let (row, from) = (pixel / self.out_width, pixel % self.out_width);
            let until = self.out_width.min(from + k0 + kc - k);
            let y = (row * self.stride + down).wrapping_sub(self.padding);
            // What is above the picture wraps to below it.
            let (first, end) = if y < height {
                let first = first.clamp(from, until);
                (first, end.clamp(first, until))
            } else {
                (until, until)
            };
            let to = to.wrapping_add((k - k0) * stride);
            // SAFETY: places `from..until` of the line are rows from `k` on, which are the caller's; those from `first` to
            // `end` have their tap in line `y` of the picture.
            unsafe {
                for x in (from..first).chain(end..until) {
                    *to.add((x - from) * stride) = 0.0;
                }
                if first < end {
                    let line = ((sample * self.channels + channel) * height + y) * width;
                    let at = line + first * self.stride + right - self.padding;
                    let mut line = self.from.add(at);
                    let mut to = to.add((first - from) * stride);
                    for _ in first..end {
                        *to = *line;
                        to = to.wrapping_add(stride);
                        line = line.wrapping_add(self.stride);
                    }
                }
            }
            k += until - from;
        }
    }
}
