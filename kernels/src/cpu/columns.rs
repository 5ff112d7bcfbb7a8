//! The two ways in which right operands lie in memory.

use super::operand::Columns;
#[cfg(target_arch = "x86_64")]
use super::simd::{Level, level};
use super::tile::GROUP;

/// The transpose of a row-major matrix: column `j` lies at `j · stride` with unit stride along the
/// summed axis. A weight `[Out, In]`, or the keys of attention. All columns that are packed must exist.
pub(crate) struct Transposed {
    pub from: *const f32,
    pub stride: usize,
}

// SAFETY: only read.
unsafe impl Sync for Transposed {}

impl Columns for Transposed {
    unsafe fn pack(
        &self,
        col: usize,
        cols: usize,
        k0: usize,
        kc: usize,
        to: *mut f32,
        stride: usize,
    ) {
        let from = self.from.wrapping_add(col * self.stride + k0);
        let mut k = 0;
        #[cfg(target_arch = "x86_64")]
        if cols == GROUP && level() == Level::Avx512 {
            while k + 16 <= kc {
                // SAFETY: the level says that AVX-512F is there; sixteen of the caller's columns and rows remain, and
                // `to` has room for them.
                unsafe { transpose16(from.add(k), self.stride, to.add(k * stride), stride) };
                k += 16;
            }
        }
        for j in 0..GROUP {
            for k in k..kc {
                // SAFETY: column `j` and row `k` are among the caller's where they are read, and `to` has room for a group.
                unsafe {
                    *to.add(k * stride + j) = if j < cols {
                        *from.add(j * self.stride + k)
                    } else {
                        0.0
                    };
                }
            }
        }
    }
}

/// Transposes a 16 × 16 block in registers: 4 × 4 blocks inside 128-bit lanes, then the lanes.
///
/// # Safety
/// The processor must have AVX-512F; `from` must have, and `to` have room for, 16 rows of 16 elements.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn transpose16(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
    use core::arch::x86_64::*;
    // SAFETY: row `i` of the caller's sixteen.
    let load = |i: usize| unsafe { _mm512_loadu_ps(from.add(i * from_stride)) };
    let mut rows: [__m512; 16] = core::array::from_fn(load);
    for i in (0..16).step_by(4) {
        let [a, b, c, d] = [rows[i], rows[i + 1], rows[i + 2], rows[i + 3]];
        let low_ab = _mm512_castps_pd(_mm512_unpacklo_ps(a, b));
        let high_ab = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
        let low_cd = _mm512_castps_pd(_mm512_unpacklo_ps(c, d));
        let high_cd = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
        rows[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(low_ab, low_cd));
        rows[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low_ab, low_cd));
        rows[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high_ab, high_cd));
        rows[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high_ab, high_cd));
    }
    // Now rows[4q + r], lane l, holds column 4l + r of rows 4q..4q + 4.
    for r in 0..4 {
        let [a, b, c, d] = [rows[r], rows[4 + r], rows[8 + r], rows[12 + r]];
        let low_ab = _mm512_shuffle_f32x4::<0x88>(a, b);
        let high_ab = _mm512_shuffle_f32x4::<0xdd>(a, b);
        let low_cd = _mm512_shuffle_f32x4::<0x88>(c, d);
        let high_cd = _mm512_shuffle_f32x4::<0xdd>(c, d);
        let columns = [
            _mm512_shuffle_f32x4::<0x88>(low_ab, low_cd),
            _mm512_shuffle_f32x4::<0x88>(high_ab, high_cd),
            _mm512_shuffle_f32x4::<0xdd>(low_ab, low_cd),
            _mm512_shuffle_f32x4::<0xdd>(high_ab, high_cd),
        ];
        for (l, column) in columns.into_iter().enumerate() {
            // SAFETY: row `4l + r` of the caller's sixteen.
            unsafe { _mm512_storeu_ps(to.add((4 * l + r) * to_stride), column) };
        }
    }
}

/// The unrolled neighbourhoods of a batch of pictures ("im2col"): column `j` is the output pixel
/// `j % plane` of the sample `j / plane`, row `k` the input channel `k / taps` at the kernel
/// position `k % taps`. Kernel size 1 makes it a plain batch of row-major matrices, for values of
/// attention and channel-first activations in a linear layer.
#[derive(Clone, Copy)]
pub(crate) struct Patches {
    pub from: *const f32,
    pub height: usize,
    pub width: usize,
    /// Elements from one channel to the next, and from one sample to the next.
    pub channel_stride: usize,
    pub sample_stride: usize,
    pub out_width: usize,
    /// Output pixels of a sample.
    pub plane: usize,
    /// Rows and columns of the neighbourhood.
    pub kernel: [usize; 2],
    pub stride: usize,
    /// How far the neighbourhood starts above and to the left of its pixel.
    pub padding: [isize; 2],
}

// SAFETY: only read.
unsafe impl Sync for Patches {}

/// Largest kernel, in taps.
pub(crate) const MAX_TAPS: usize = 49;

/// What one tap reads for a group of columns, relative to the channel: lane `i` is read at
/// `offsets[i]` if bit `i` of `mask` is set and is zero otherwise.
#[derive(Clone, Copy)]
struct Tap {
    mask: u16,
    /// The offsets are `offsets[0] + i`, and only the first is set.
    contiguous: bool,
    offsets: [i32; GROUP],
}

impl Patches {
    /// The rows of a row-major matrix with `cols` columns and `stride` elements between rows.
    pub(crate) fn rows(from: *const f32, stride: usize, cols: usize) -> Self {
        Self {
            from,
            height: 1,
            width: cols,
            channel_stride: stride,
            sample_stride: 0,
            out_width: cols,
            plane: cols,
            kernel: [1, 1],
            stride: 1,
            padding: [0, 0],
        }
    }

    /// Offsets inside a channel of `size` elements, and to the samples that one group of columns meets, are
    /// kept in 32 bits: whether that is enough with `plane` columns for each sample.
    pub(crate) fn offsets_fit(plane: usize, sample_stride: usize, size: usize) -> bool {
        let samples = GROUP / plane.max(1) + 1;
        let furthest = samples.checked_mul(sample_stride);
        furthest
            .and_then(|at| at.checked_add(size))
            .is_some_and(|at| at <= i32::MAX as usize)
    }

    fn taps(&self, col: usize, cols: usize, taps: &mut [Tap]) {
        let (pixel, [above, before]) = (col % self.plane, self.padding);
        let (height, width) = (self.height as isize, self.width as isize);
        let (row, column) = (pixel / self.out_width, pixel % self.out_width);
        let [rows, columns] = self.kernel.map(|n| n as isize);
        let positions = (0..rows).flat_map(|down| (0..columns).map(move |right| (down, right)));
        if self.stride == 1 && column + cols <= self.out_width {
            // All in one output row: a run of neighbours, cut off at the borders.
            let (y, x) = (row as isize - above, column as isize - before);
            let run = |from: isize, to: isize| {
                let bits = |n: isize| ((1u32 << n.clamp(0, cols as isize)) - 1) as u16;
                bits(to) & !bits(from)
            };
            for (tap, (down, right)) in taps.iter_mut().zip(positions) {
                let (y, x) = (y + down, x + right);
                let inside = (0..height).contains(&y);
                tap.mask = if inside { run(-x, width - x) } else { 0 };
                tap.contiguous = true;
                tap.offsets[0] = (y * width + x) as i32;
            }
            return;
        }
        // Top left corner of the neighbourhood, and start of the sample, for every lane.
        let mut places = [(0isize, 0isize, 0isize); GROUP];
        let (mut row, mut column, mut sample) = (row, column, 0);
        for place in places.iter_mut().take(cols) {
            *place = (
                (row * self.stride) as isize - above,
                (column * self.stride) as isize - before,
                sample,
            );
            column += 1;
            if column == self.out_width {
                (row, column) = (row + 1, 0);
            }
            if row * self.out_width == self.plane {
                (row, sample) = (0, sample + self.sample_stride as isize);
            }
        }
        for (tap, (down, right)) in taps.iter_mut().zip(positions) {
            let (mut mask, mut contiguous) = (0, true);
            for (i, (y, x, sample)) in places.iter().enumerate().take(cols) {
                let (y, x) = (y + down, x + right);
                if (0..height).contains(&y) && (0..width).contains(&x) {
                    mask |= 1 << i;
                }
                tap.offsets[i] = (sample + y * width + x) as i32;
                contiguous &= tap.offsets[i] == tap.offsets[0] + i as i32;
            }
            (tap.mask, tap.contiguous) = (mask, contiguous);
        }
    }
}

impl Columns for Patches {
    unsafe fn pack(
        &self,
        col: usize,
        cols: usize,
        k0: usize,
        kc: usize,
        to: *mut f32,
        stride: usize,
    ) {
        let count = self.kernel[0] * self.kernel[1];
        if count == 0 {
            return;
        }
        let mut taps = [Tap {
            mask: 0,
            contiguous: true,
            offsets: [0; GROUP],
        }; MAX_TAPS];
        let taps = &mut taps[..count];
        self.taps(col, cols, taps);
        let from = self
            .from
            .wrapping_add(col / self.plane * self.sample_stride);
        #[cfg(target_arch = "x86_64")]
        if level() == Level::Avx512 {
            // SAFETY: the level says that AVX-512F is there; the taps were made for these columns, and the rest is the
            // caller's contract.
            return unsafe {
                pack_taps_avx512(from, self.channel_stride, taps, k0, kc, to, stride)
            };
        }
        // SAFETY: the taps were made for these columns; the rest is the caller's contract.
        unsafe { pack_taps(from, self.channel_stride, taps, k0, kc, to, stride) }
    }
}

/// Copies what the taps say for rows `k0..k0 + kc`.
///
/// # Safety
/// `from` must have the channels of these rows, in which all offsets lie that a mask has; `to` must have
/// room for `kc` rows of a group, `stride` elements apart.
unsafe fn pack_taps(
    from: *const f32,
    channel_stride: usize,
    taps: &[Tap],
    k0: usize,
    kc: usize,
    to: *mut f32,
    stride: usize,
) {
    let (mut channel, mut index) = (k0 / taps.len(), k0 % taps.len());
    for k in 0..kc {
        let tap = &taps[index];
        let from = from.wrapping_add(channel * channel_stride);
        // SAFETY: row `k` is one of the caller's; only lanes in the mask are read, and those lie inside the channel.
        unsafe {
            let to = to.add(k * stride);
            if tap.contiguous && tap.mask == u16::MAX {
                let from = from.offset(tap.offsets[0] as isize);
                core::ptr::copy_nonoverlapping(from, to, GROUP);
            } else {
                for i in 0..GROUP {
                    let offset = match tap.contiguous {
                        true => tap.offsets[0] as isize + i as isize,
                        false => tap.offsets[i] as isize,
                    };
                    let inside = (tap.mask >> i) & 1 == 1;
                    *to.add(i) = if inside { *from.offset(offset) } else { 0.0 };
                }
            }
        }
        index += 1;
        if index == taps.len() {
            (channel, index) = (channel + 1, 0);
        }
    }
}

/// As [`pack_taps`], with masked loads and gathers.
///
/// # Safety
/// As for [`pack_taps`], on a processor with AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn pack_taps_avx512(
    from: *const f32,
    channel_stride: usize,
    taps: &[Tap],
    k0: usize,
    kc: usize,
    to: *mut f32,
    stride: usize,
) {
    use core::arch::x86_64::*;
    let (mut channel, mut index) = (k0 / taps.len(), k0 % taps.len());
    for k in 0..kc {
        let tap = &taps[index];
        let from = from.wrapping_add(channel * channel_stride);
        // SAFETY: row `k` is one of the caller's; lanes outside the mask are not read, and those in it lie inside the
        // channel.
        unsafe {
            let row = if tap.contiguous {
                _mm512_maskz_loadu_ps(tap.mask, from.wrapping_offset(tap.offsets[0] as isize))
            } else {
                let offsets = _mm512_loadu_si512(tap.offsets.as_ptr().cast());
                _mm512_mask_i32gather_ps::<4>(_mm512_setzero_ps(), tap.mask, offsets, from.cast())
            };
            _mm512_storeu_ps(to.add(k * stride), row);
        }
        index += 1;
        if index == taps.len() {
            (channel, index) = (channel + 1, 0);
        }
    }
}
