//! Rows of unrolled neighbourhoods: each tap of a kernel reads a group of pixels, shifted.

use super::simd::Element;
#[cfg(target_arch = "x86_64")]
use super::simd::{Level, level};
use super::tile::GROUP;

/// What one tap reads for a group of columns, relative to the channel: lane `i` is read at
/// `offsets[i]` if bit `i` of `mask` is set and is zero otherwise.
#[derive(Clone, Copy)]
pub(super) struct Tap {
    pub mask: u16,
    /// The offsets are `offsets[0] + i · step`, and only the first is set; 0 if they are not.
    pub step: u8,
    pub offsets: [i32; GROUP],
}

impl Tap {
    fn offset(&self, lane: usize) -> isize {
        match self.step {
            0 => self.offsets[lane] as isize,
            step => self.offsets[0] as isize + lane as isize * step as isize,
        }
    }
}

/// What the taps say, row after row.
pub(super) struct TapRows<'a, E> {
    pub from: *const E,
    pub channel_stride: usize,
    pub taps: &'a [Tap],
    /// Of the next row, and the index of its tap.
    pub channel: usize,
    pub index: usize,
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
pub(super) unsafe fn pack<E: Element>(
    rows: TapRows<'_, E>,
    kc: usize,
    to: *mut f32,
    stride: usize,
) {
    #[cfg(target_arch = "x86_64")]
    if level() >= Level::Avx512 {
        // SAFETY: the level says that AVX-512 is there; the rest is the caller's contract.
        return unsafe {
            match E::PER_WORD {
                1 => pack_taps_avx512(rows.cast(), kc, to, stride),
                _ => pack_pairs_avx512(rows.cast(), kc, to, stride),
            }
        };
    }
    // SAFETY: this function's contract.
    unsafe { pack_taps(rows, kc, to, stride) }
}

/// [`pack`] on any processor, with its contract.
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
#[inline(always)]
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
