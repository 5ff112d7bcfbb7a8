//! What a vector can do, and the vectors of every processor.

/// A vector of [`Vector::LANES`] f32.
///
/// The methods compile to instructions that not every processor has. They may only be reached
/// through a function made by [`multiversion`](super::multiversion), which checks.
pub(crate) trait Vector: Copy {
    /// Number of f32 in a vector; divides 16.
    const LANES: usize;
    /// Rows of the register tile that suits the number of registers.
    const TILE_ROWS: usize;

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
    /// `2^self` for integral values from -126 to 127.
    fn exp2_integer(self) -> Self;
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

    /// The largest lane; NaN only if all are.
    #[inline(always)]
    fn largest(self) -> f32 {
        self.fold(f32::max)
    }
}

/// Four f32 in plain Rust, for processors without AVX2; the compiler turns them into SSE or NEON.
pub(crate) type Portable = [f32; 4];

impl Vector for Portable {
    const LANES: usize = 4;
    const TILE_ROWS: usize = 4;

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
    fn exp2_integer(self) -> Self {
        core::array::from_fn(|i| f32::from_bits(((self[i] as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    fn zero_where_below(self, x: Self, limit: f32) -> Self {
        core::array::from_fn(|i| if x[i] < limit { 0.0 } else { self[i] })
    }
    #[inline(always)]
    fn copy_sign(self, sign: Self) -> Self {
        core::array::from_fn(|i| self[i].copysign(sign[i]))
    }
}
