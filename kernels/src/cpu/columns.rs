//! The two ways in which right operands lie in memory.

use super::operand::Columns;
use super::simd::Element;
#[cfg(target_arch = "x86_64")]
use super::simd::{Level, level};
use super::tile::GROUP;

/// The transpose of a row-major matrix: column `j` lies at `j · stride` with unit stride along the
/// summed axis. A weight `[Out, In]`, or the keys of attention. All columns that are packed must exist.
pub(crate) struct Transposed<E> {
    pub from: *const E,
    pub stride: usize,
}

// SAFETY: only read.
unsafe impl<E: Element> Sync for Transposed<E> {}

impl<E: Element> Columns<E> for Transposed<E> {
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
        // The next word of each column.
        let mut word = 0;
        #[cfg(target_arch = "x86_64")]
        if cols == GROUP && level() >= Level::Avx512 {
            let bytes = self.stride * size_of::<E>();
            while (word + 16) * E::PER_WORD <= kc {
                let from = from.wrapping_add(word * E::PER_WORD);
                // SAFETY: the level says that AVX-512F is there; sixteen of the caller's columns and sixteen words of each
                // remain, and `to` has room for them.
                unsafe { transpose16(from.cast(), bytes, to.add(word * stride), stride) };
                word += 16;
            }
        }
        for j in 0..GROUP {
            for word in word..kc.div_ceil(E::PER_WORD) {
                let k = word * E::PER_WORD;
                let element = |k: usize| match j < cols && k < kc {
                    // SAFETY: column `j` and row `k` are among the caller's.
                    true => unsafe { *from.add(j * self.stride + k) },
                    false => E::narrow(0.0),
                };
                // SAFETY: `to` has room for a group of each row.
                unsafe { *to.add(word * stride + j) = E::word(element(k), element(k + 1)) };
            }
        }
    }
}

/// Transposes a 16 × 16 block of words in registers: 4 × 4 blocks inside 128-bit lanes, then the lanes.
///
/// # Safety
/// The processor must have AVX-512F; `from` must have 16 rows of 16 words, `from_bytes` apart, and `to` room for as many,
/// `to_stride` words apart. Words need no alignment.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn transpose16(from: *const u8, from_bytes: usize, to: *mut f32, to_stride: usize) {
    use core::arch::x86_64::*;
    // SAFETY: row `i` of the caller's sixteen.
    let load = |i: usize| unsafe { _mm512_loadu_ps(from.add(i * from_bytes).cast()) };
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
pub(crate) struct Patches<E> {
    pub from: *const E,
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
unsafe impl<E: Element> Sync for Patches<E> {}

/// Largest kernel, in taps.
pub(crate) const MAX_TAPS: usize = 49;

/// What one tap reads for a group of columns, relative to the channel: lane `i` is read at
/// `offsets[i]` if bit `i` of `mask` is set and is zero otherwise.
#[derive(Clone, Copy)]
struct Tap {
    mask: u16,
    /// The offsets are `offsets[0] + i · step`, and only the first is set; 0 if they are not.
    step: u8,
    offsets: [i32; GROUP],
}

impl Tap {
    fn offset(&self, lane: usize) -> isize {
        match self.step {
            0 => self.offsets[lane] as isize,
            step => self.offsets[0] as isize + lane as isize * step as isize,
        }
    }
}

impl<E: Element> Patches<E> {
    /// The rows of a row-major matrix with `cols` columns and `stride` elements between rows.
    pub(crate) fn rows(from: *const E, stride: usize, cols: usize) -> Self {
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
        if self.stride <= 2 && column + cols <= self.out_width {
            // All in one output row: a run of neighbours, cut off at the borders.
            let step = self.stride as isize;
            let (y, x) = (row as isize * step - above, column as isize * step - before);
            let run = |from: isize, to: isize| {
                // The first lane that is not before `n`.
                let lane = |n: isize| (n + step - 1).div_euclid(step).clamp(0, cols as isize);
                let bits = |n: isize| ((1u32 << lane(n)) - 1) as u16;
                bits(to) & !bits(from)
            };
            for (tap, (down, right)) in taps.iter_mut().zip(positions) {
                let (y, x) = (y + down, x + right);
                let inside = (0..height).contains(&y);
                tap.mask = if inside { run(-x, width - x) } else { 0 };
                tap.step = self.stride as u8;
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
            (tap.mask, tap.step) = (mask, u8::from(contiguous));
        }
    }
}

impl<E: Element> Columns<E> for Patches<E> {
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
            step: 1,
            offsets: [0; GROUP],
        }; MAX_TAPS];
        let taps = &mut taps[..count];
        self.taps(col, cols, taps);
        let from = self
            .from
            .wrapping_add(col / self.plane * self.sample_stride);
        let rows = TapRows {
            from,
            channel_stride: self.channel_stride,
            taps,
            channel: k0 / count,
            index: k0 % count,
        };
        #[cfg(target_arch = "x86_64")]
        if level() >= Level::Avx512 {
            // SAFETY: the level says that AVX-512 is there; the taps were made for these columns, and the rest is the
            // caller's contract.
            return unsafe {
                match E::PER_WORD {
                    1 => pack_taps_avx512(rows.cast(), kc, to, stride),
                    _ => pack_pairs_avx512(rows.cast(), kc, to, stride),
                }
            };
        }
        // SAFETY: the taps were made for these columns; the rest is the caller's contract.
        unsafe { pack_taps(rows, kc, to, stride) }
    }
}

/// What the taps say, row after row.
struct TapRows<'a, E> {
    from: *const E,
    channel_stride: usize,
    taps: &'a [Tap],
    channel: usize,
    index: usize,
}

impl<'a, E> TapRows<'a, E> {
    #[cfg(target_arch = "x86_64")]
    fn cast<T>(self) -> TapRows<'a, T> {
        let Self {
            from,
            channel_stride,
            taps,
            channel,
            index,
        } = self;
        TapRows {
            from: from.cast(),
            channel_stride,
            taps,
            channel,
            index,
        }
    }

    /// The next row: its tap, and the channel it is in.
    #[inline(always)]
    fn next(&mut self) -> (&'a Tap, *const E) {
        let tap = &self.taps[self.index];
        let from = self.from.wrapping_add(self.channel * self.channel_stride);
        self.index += 1;
        if self.index == self.taps.len() {
            (self.channel, self.index) = (self.channel + 1, 0);
        }
        (tap, from)
    }
}

/// Copies the next `kc` rows.
///
/// # Safety
/// `rows` must have the channels of these rows, in which all offsets lie that a mask has; `to` must have
/// room for their words in a group, `stride` words apart.
unsafe fn pack_taps<E: Element>(mut rows: TapRows<'_, E>, kc: usize, to: *mut f32, stride: usize) {
    let zeros = [E::narrow(0.0); GROUP];
    for k in (0..kc).step_by(E::PER_WORD) {
        let mut both = [zeros; 2];
        for (row, _) in both.iter_mut().zip(k..kc.min(k + E::PER_WORD)) {
            let (tap, from) = rows.next();
            // SAFETY: only lanes in the mask are read, and those lie inside the channel.
            unsafe { read_row(tap, from, row) };
        }
        let to = to.wrapping_add(k / E::PER_WORD * stride);
        for (i, (first, second)) in both[0].into_iter().zip(both[1]).enumerate() {
            // SAFETY: `to` has room for a group of each row.
            unsafe { *to.add(i) = E::word(first, second) };
        }
    }
}

/// The lanes of a row that are in the tap's mask.
///
/// # Safety
/// Those must lie in the channel that is at `from`.
#[inline(always)]
unsafe fn read_row<E: Copy>(tap: &Tap, from: *const E, to: &mut [E; GROUP]) {
    // SAFETY: the caller's elements.
    unsafe {
        if tap.step == 1 && tap.mask == u16::MAX {
            *to = from
                .offset(tap.offset(0))
                .cast::<[E; GROUP]>()
                .read_unaligned();
            return;
        }
        for (i, to) in to.iter_mut().enumerate() {
            if (tap.mask >> i) & 1 == 1 {
                *to = *from.offset(tap.offset(i));
            }
        }
    }
}

/// As [`pack_taps`] of f32, with masked loads and gathers.
///
/// # Safety
/// As for [`pack_taps`], on a processor with AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn pack_taps_avx512(mut rows: TapRows<'_, f32>, kc: usize, to: *mut f32, stride: usize) {
    use core::arch::x86_64::*;
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for k in 0..kc {
        let (tap, from) = rows.next();
        // SAFETY: lanes outside the mask are not read, and those in it lie inside the channel; the row is the caller's.
        unsafe {
            let row = if tap.step == 1 {
                _mm512_maskz_loadu_ps(tap.mask, from.wrapping_offset(tap.offset(0)))
            } else {
                let offsets = match tap.step {
                    0 => _mm512_loadu_si512(tap.offsets.as_ptr().cast()),
                    step => {
                        let steps = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(step.into()));
                        _mm512_add_epi32(steps, _mm512_set1_epi32(tap.offsets[0]))
                    }
                };
                _mm512_mask_i32gather_ps::<4>(_mm512_setzero_ps(), tap.mask, offsets, from.cast())
            };
            _mm512_storeu_ps(to.add(k * stride), row);
        }
    }
}

/// As [`pack_taps`] of elements of 16 bits, of which two rows are interleaved.
///
/// # Safety
/// As for [`pack_taps`], on a processor with AVX-512F, BW and VL.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn pack_pairs_avx512(mut rows: TapRows<'_, u16>, kc: usize, to: *mut f32, stride: usize) {
    use core::arch::x86_64::*;
    for k in 0..kc / 2 {
        let (tap, from) = rows.next();
        // SAFETY: the rows are the caller's.
        let first = unsafe { row_of_halves(tap, from) };
        let (tap, from) = rows.next();
        // SAFETY: as above; `to` has room for a group of each row of words.
        unsafe {
            let second = _mm512_slli_epi32::<16>(row_of_halves(tap, from));
            let both = _mm512_or_si512(first, second);
            _mm512_storeu_si512(to.add(k * stride).cast(), both);
        }
    }
    if kc % 2 == 1 {
        let (tap, from) = rows.next();
        // SAFETY: as above.
        unsafe {
            let row = row_of_halves(tap, from);
            _mm512_storeu_si512(to.add(kc / 2 * stride).cast(), row);
        }
    }
}

/// A row of elements of 16 bits, each in the lower half of a lane.
///
/// # Safety
/// As for [`pack_pairs_avx512`].
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn row_of_halves(tap: &Tap, from: *const u16) -> core::arch::x86_64::__m512i {
    use core::arch::x86_64::*;
    // SAFETY: lanes outside the mask are not read, and those in it lie inside the channel.
    unsafe {
        let at = from.wrapping_offset(tap.offset(0));
        match tap.step {
            1 => _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(tap.mask, at.cast())),
            2 => {
                // Every second element: the lower halves of words, of which only these are read.
                let mask = every_second_bit(tap.mask);
                _mm512_maskz_loadu_epi16(mask, at.cast())
            }
            _ => {
                let mut row = [0u16; GROUP];
                read_row(tap, from, &mut row);
                _mm512_cvtepu16_epi32(_mm256_loadu_si256(row.as_ptr().cast()))
            }
        }
    }
}

/// Each bit of `mask` as the first of two.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn every_second_bit(mask: u16) -> u32 {
    let mut x = u32::from(mask);
    x = (x | x << 8) & 0x00ff_00ff;
    x = (x | x << 4) & 0x0f0f_0f0f;
    x = (x | x << 2) & 0x3333_3333;
    (x | x << 1) & 0x5555_5555
}
