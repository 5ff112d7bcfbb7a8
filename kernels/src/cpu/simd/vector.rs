//! What a vector can do, and the vectors of every processor.

use super::{Element, Words};
use crate::cpu::tile::{self, Product, Tile};
use half::bf16;

/// The register tiles for a vector, out of line: there is much code in them, of which one copy for each vector is enough.
pub(crate) trait Tiles: Sized {
    /// # Safety
    /// As for [`tile::tile`].
    unsafe fn tile<W: Words, T: Element>(tile: &Tile<T>);
    /// # Safety
    /// As for [`tile::product`].
    unsafe fn product<W: Words>(product: &Product);
}

/// Implements [`Tiles`] with the features that the vector needs.
macro_rules! tiles {
    ($vector:ty, #[$features:meta]) => {
        impl Tiles for $vector {
            unsafe fn tile<W: Words, T: Element>(tile: &Tile<T>) {
                #[$features]
                unsafe fn compiled<W: Words, T: Element>(tile: &Tile<T>) {
                    // SAFETY: this function's contract; the features are those of the vectors.
                    unsafe { tile::tile_body::<$vector, W, T>(tile) }
                }
                // SAFETY: `multiversion` has checked for the features; the rest is this function's contract.
                unsafe { compiled::<W, T>(tile) }
            }
            unsafe fn product<W: Words>(product: &Product) {
                #[$features]
                unsafe fn compiled<W: Words>(product: &Product) {
                    // SAFETY: this function's contract; the features are those of the vectors.
                    unsafe { tile::product_body::<$vector, W>(product) }
                }
                // SAFETY: `multiversion` has checked for the features; the rest is this function's contract.
                unsafe { compiled::<W>(product) }
            }
        }
    };
}
tiles!(Portable, #[inline(never)]);
#[cfg(target_arch = "x86_64")]
mod x86_tiles {
    use super::*;
    use crate::cpu::simd::Wide;
    use core::arch::x86_64::__m256;

    tiles!(__m256, #[target_feature(enable = "avx2,fma")]);
    tiles!(Wide<false>, #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]);
    tiles!(
        Wide<true>,
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,fma")]
    );
}

/// A vector of [`Vector::LANES`] f32.
///
/// The methods compile to instructions that not every processor has. They may only be reached
/// through a function made by [`multiversion`](super::multiversion), which checks.
pub(crate) trait Vector: Tiles + Copy {
    /// Number of f32 in a vector; divides 16.
    const LANES: usize;
    /// Rows of the register tile that suits the number of registers.
    const TILE_ROWS: usize;
    /// Rows to multiply with a panel before the next one is read: many where panels stay in the nearest cache.
    const STRIP_ROWS: usize;

    /// Reads a vector; `from` needs no alignment.
    ///
    /// # Safety
    /// `from` must point to [`Vector::LANES`] elements.
    unsafe fn load(from: *const f32) -> Self;
    /// Writes the vector; `to` needs no alignment.
    ///
    /// # Safety
    /// `to` must have room for [`Vector::LANES`] elements.
    unsafe fn store(self, to: *mut f32);
    fn splat(x: f32) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    /// `self · a + b`, fused where the processor can.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// Nearest integer, ties to even.
    fn round(self) -> Self;
    /// `self · 2^whole` for integral values of that from -126 to 127, where the result is no subnormal number.
    fn times_exp2(self, whole: Self) -> Self;
    /// 0 where `x < limit`, elsewhere `self`.
    fn zero_where_below(self, x: Self, limit: f32) -> Self;
    /// The magnitude of `self` with the sign of `sign`.
    fn copy_sign(self, sign: Self) -> Self;

    /// The first `count` elements, then zeros.
    ///
    /// # Safety
    /// `from` must point to `count` elements, which are no more than [`Vector::LANES`].
    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        let mut lanes = [0.0f32; 16];
        // SAFETY: the caller's elements, of which a vector has at most sixteen.
        unsafe {
            core::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count);
            Self::load(lanes.as_ptr())
        }
    }

    /// Writes the first `count` lanes.
    ///
    /// # Safety
    /// `to` must have room for `count` elements, which are no more than [`Vector::LANES`].
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        let mut lanes = [0.0f32; 16];
        // SAFETY: a vector has at most sixteen lanes, and the caller room for `count` of them.
        unsafe {
            self.store(lanes.as_mut_ptr());
            core::ptr::copy_nonoverlapping(lanes.as_ptr(), to, count);
        }
    }

    /// Reads a vector of bf16; `from` needs no alignment.
    ///
    /// # Safety
    /// `from` must point to [`Vector::LANES`] elements.
    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self {
        let mut lanes = [0.0f32; 16];
        for (i, lane) in lanes.iter_mut().enumerate().take(Self::LANES) {
            // SAFETY: `i` is below the number of lanes.
            *lane = unsafe { from.add(i).read_unaligned() }.to_f32();
        }
        // SAFETY: a vector has at most sixteen lanes.
        unsafe { Self::load(lanes.as_ptr()) }
    }

    /// Writes the vector rounded to bf16, ties to even; `to` needs no alignment.
    ///
    /// # Safety
    /// `to` must have room for [`Vector::LANES`] elements.
    #[inline(always)]
    unsafe fn store_bf16(self, to: *mut bf16) {
        // SAFETY: the caller's room.
        unsafe { self.store_first_bf16(to, Self::LANES) };
    }

    /// As [`Vector::load_first`], of bf16.
    ///
    /// # Safety
    /// `from` must point to `count` elements, which are no more than [`Vector::LANES`].
    #[inline(always)]
    unsafe fn load_first_bf16(from: *const bf16, count: usize) -> Self {
        let mut lanes = [bf16::ZERO; 16];
        // SAFETY: the caller's elements, of which a vector has at most sixteen.
        unsafe {
            core::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count);
            Self::load_bf16(lanes.as_ptr())
        }
    }

    /// As [`Vector::store_first`], rounded to bf16.
    ///
    /// # Safety
    /// `to` must have room for `count` elements, which are no more than [`Vector::LANES`].
    #[inline(always)]
    unsafe fn store_first_bf16(self, to: *mut bf16, count: usize) {
        let mut lanes = [0.0f32; 16];
        // SAFETY: a vector has at most sixteen lanes.
        unsafe { self.store(lanes.as_mut_ptr()) };
        for (i, lane) in lanes.iter().enumerate().take(count) {
            // SAFETY: the caller has room for `count` elements.
            unsafe { to.add(i).write_unaligned(bf16::from_f32(*lane)) };
        }
    }

    /// Pairs of bf16 as the bits of each lane: `self` rounded in the lower half, `second` in the upper.
    #[inline(always)]
    fn pairs_bf16(self, second: Self) -> Self {
        let mut lanes = [[0.0f32; 16]; 2];
        // SAFETY: a vector has at most sixteen lanes.
        unsafe {
            self.store(lanes[0].as_mut_ptr());
            second.store(lanes[1].as_mut_ptr());
        }
        let mut pairs = [0.0f32; 16];
        for (i, pair) in pairs.iter_mut().enumerate().take(Self::LANES) {
            let [low, high] = [0, 1].map(|j| u32::from(bf16::from_f32(lanes[j][i]).to_bits()));
            *pair = f32::from_bits(low | high << 16);
        }
        // SAFETY: as above.
        unsafe { Self::load(pairs.as_ptr()) }
    }

    /// The lower and the upper bf16 of each lane of pairs.
    fn halves(self) -> [Self; 2];

    /// `sum` plus both products of each lane's pairs of bf16.
    #[inline(always)]
    fn dot_bf16(self, other: Self, sum: Self) -> Self {
        dot_of_halves(self, other, sum)
    }

    /// The columns of a matrix with a row for each lane. Lanes without a row are zero.
    ///
    /// # Safety
    /// Each of the `rows`, of which there are at most [`Vector::LANES`], must point to `N` elements, which are no more than 16.
    #[inline(always)]
    unsafe fn columns<E: Element, const N: usize>(rows: &[*const E]) -> [Self; N] {
        let mut columns = [[0.0f32; 16]; N];
        for (lane, row) in rows.iter().enumerate() {
            for (j, column) in columns.iter_mut().enumerate() {
                // SAFETY: the caller's row of this lane, which may hold words of another type, at any address.
                column[lane] = unsafe { row.add(j).read_unaligned() }.widen();
            }
        }
        // SAFETY: a vector has at most sixteen lanes.
        columns.map(|column| unsafe { Self::load(column.as_ptr()) })
    }

    /// The columns of a matrix with a row of four elements for each lane; rows follow each other.
    ///
    /// # Safety
    /// `from` must point to four times [`Vector::LANES`] elements.
    #[inline(always)]
    unsafe fn load_fours(from: *const f32) -> [Self; 4] {
        let mut columns = [[0.0f32; 16]; 4];
        for i in 0..4 * Self::LANES {
            // SAFETY: the caller's elements.
            columns[i % 4][i / 4] = unsafe { *from.add(i) };
        }
        // SAFETY: a vector has at most sixteen lanes.
        columns.map(|column| unsafe { Self::load(column.as_ptr()) })
    }

    /// Writes what [`Vector::load_fours`] reads.
    ///
    /// # Safety
    /// `to` must have room for four times [`Vector::LANES`] elements.
    #[inline(always)]
    unsafe fn store_fours(columns: [Self; 4], to: *mut f32) {
        for (j, column) in columns.into_iter().enumerate() {
            let mut lanes = [0.0f32; 16];
            // SAFETY: a vector has at most sixteen lanes, and the caller room for four elements of each.
            unsafe {
                column.store(lanes.as_mut_ptr());
                for (lane, x) in lanes.iter().enumerate().take(Self::LANES) {
                    *to.add(4 * lane + j) = *x;
                }
            }
        }
    }

    #[inline(always)]
    fn fold(self, f: impl Fn(f32, f32) -> f32) -> f32 {
        let mut lanes = [0.0; 16];
        // SAFETY: a vector has at most 16 lanes, and `lanes` has 16.
        unsafe { self.store(lanes.as_mut_ptr()) };
        let mut width = Self::LANES;
        while width > 1 {
            width /= 2;
            for i in 0..width {
                lanes[i] = f(lanes[i], lanes[i + width]);
            }
        }
        lanes[0]
    }

    /// Sum of the lanes.
    #[inline(always)]
    fn sum(self) -> f32 {
        self.fold(|a, b| a + b)
    }

    /// The largest lane that is a number; NaN or -∞ if none is.
    #[inline(always)]
    fn largest(self) -> f32 {
        self.fold(f32::max)
    }
}

/// [`Vector::dot_bf16`] in f32, for processors that have no instruction for it.
#[inline(always)]
pub(super) fn dot_of_halves<V: Vector>(a: V, b: V, sum: V) -> V {
    let ([a_low, a_high], [b_low, b_high]) = (a.halves(), b.halves());
    a_low.mul_add(b_low, a_high.mul_add(b_high, sum))
}

/// Four f32 in plain Rust, for processors without AVX2; the compiler turns them into SSE or NEON.
pub(crate) type Portable = [f32; 4];

impl Vector for Portable {
    const LANES: usize = 4;
    const TILE_ROWS: usize = 4;
    const STRIP_ROWS: usize = 48;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's four elements.
        unsafe { from.cast::<Self>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's room for four elements.
        unsafe { to.cast::<Self>().write_unaligned(self) }
    }
    #[inline(always)]
    fn splat(x: f32) -> Self {
        [x; 4]
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        core::array::from_fn(|i| self[i] + other[i])
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        core::array::from_fn(|i| self[i] - other[i])
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        core::array::from_fn(|i| self[i] * other[i])
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        core::array::from_fn(|i| self[i] / other[i])
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        core::array::from_fn(|i| {
            if self[i] > other[i] {
                self[i]
            } else {
                other[i]
            }
        })
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        core::array::from_fn(|i| {
            if self[i] < other[i] {
                self[i]
            } else {
                other[i]
            }
        })
    }
    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        core::array::from_fn(|i| {
            if cfg!(target_arch = "aarch64") {
                self[i].mul_add(a[i], b[i])
            } else {
                self[i] * a[i] + b[i]
            }
        })
    }
    #[inline(always)]
    fn round(self) -> Self {
        core::array::from_fn(|i| self[i].round_ties_even())
    }
    #[inline(always)]
    fn times_exp2(self, whole: Self) -> Self {
        let power = |x: f32| f32::from_bits(((x as i32 + 127) as u32) << 23);
        core::array::from_fn(|i| self[i] * power(whole[i]))
    }
    #[inline(always)]
    fn zero_where_below(self, x: Self, limit: f32) -> Self {
        core::array::from_fn(|i| if x[i] < limit { 0.0 } else { self[i] })
    }
    #[inline(always)]
    fn copy_sign(self, sign: Self) -> Self {
        core::array::from_fn(|i| self[i].copysign(sign[i]))
    }
    #[inline(always)]
    fn halves(self) -> [Self; 2] {
        [
            self.map(|x| f32::from_bits(x.to_bits() << 16)),
            self.map(|x| f32::from_bits(x.to_bits() & 0xffff_0000)),
        ]
    }
}
