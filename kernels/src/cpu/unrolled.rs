//! The neighbourhoods of pictures as the right operand of a product that is summed over pixels.

use super::columns::transpose;
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

/// Rows that are turned at a time: columns are written as they lie, and turned in registers.
const TURNED: usize = 64;

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
        let mut lines = [[0f32; TURNED]; GROUP];
        for first in (0..kc).step_by(TURNED) {
            let count = TURNED.min(kc - first);
            for (j, line) in lines.iter_mut().enumerate().take(cols) {
                // SAFETY: column `col + j` and the rows are the caller's; a line has room for `count` elements.
                unsafe { self.column(col + j, (k0 + first, count), line.as_mut_ptr(), 1) };
            }
            let to = to.wrapping_add(first * stride);
            let whole = count - count % 16;
            for k in (0..whole).step_by(16) {
                let from = lines.as_ptr().cast::<f32>().wrapping_add(k);
                // SAFETY: sixteen elements of each line and sixteen of the caller's rows follow.
                unsafe {
                    transpose(
                        from.cast(),
                        size_of_val(&lines[0]),
                        to.add(k * stride),
                        stride,
                    )
                };
            }
            for k in whole..count {
                for (j, line) in lines.iter().enumerate() {
                    // SAFETY: a group of each row is in the caller's room.
                    unsafe { *to.add(k * stride + j) = line[k] };
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
        let (mut sample, pixel) = (k0 / self.plane, k0 % self.plane);
        let (mut row, mut from) = (pixel / self.out_width, pixel % self.out_width);
        let (mut to, mut left) = (to, kc);
        while left > 0 {
            let until = self.out_width.min(from + left);
            let y = (row * self.stride + down).wrapping_sub(self.padding);
            // What is above the picture wraps to below it.
            let (first, end) = if y < height {
                let first = first.clamp(from, until);
                (first, end.clamp(first, until))
            } else {
                (until, until)
            };
            // SAFETY: places `from..until` of the line are the caller's next rows; those from `first` to `end` have their
            // tap in line `y` of the picture.
            unsafe {
                for x in (from..first).chain(end..until) {
                    *to.add((x - from) * stride) = 0.0;
                }
                if first < end {
                    let line = ((sample * self.channels + channel) * height + y) * width;
                    let at = line + first * self.stride + right - self.padding;
                    let line = self.from.add(at);
                    let to = to.add((first - from) * stride);
                    if self.stride == 1 && stride == 1 {
                        to.copy_from_nonoverlapping(line, end - first);
                    } else {
                        for x in 0..end - first {
                            *to.add(x * stride) = *line.add(x * self.stride);
                        }
                    }
                }
            }
            to = to.wrapping_add((until - from) * stride);
            left -= until - from;
            (row, from) = (row + 1, 0);
            if row * self.out_width == self.plane {
                (row, sample) = (0, sample + 1);
            }
        }
    }
}
