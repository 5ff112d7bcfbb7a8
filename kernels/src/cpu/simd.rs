//! Vectors of f32 for three instruction sets, and the functions of them that the kernels need.
//!
//! A kernel is written once, generic over [`Vector`] and `#[inline(always)]`; the macro
//! [`multiversion`] compiles it for AVX-512, for AVX2 with FMA, and for whatever the target
//! guarantees, and picks one when it is called.

/// A vector of [`Vector::LANES`] f32.
///
/// The methods compile to instructions that not every processor has. They may only be reached
/// through a function made by [`multiversion`], which checks.
pub(crate) trait Vector: Copy {
    /// Number of f32 in a vector; divides 16.
    const LANES: usize;
    /// Rows of the register tile that suits the number of registers.
    const TILE_ROWS: usize;

    unsafe fn load(from: *const f32) -> Self;
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

    #[inline(always)]
    fn fold(self, f: impl Fn(f32, f32) -> f32) -> f32 {
        let mut lanes = [0.0; 16];
        // SAFETY: a vector has at most 16 lanes.
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

    /// Largest lane.
    #[inline(always)]
    fn largest(self) -> f32 {
        self.fold(f32::max)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Vector;
    use core::arch::x86_64::*;

    impl Vector for __m512 {
        const LANES: usize = 16;
        const TILE_ROWS: usize = 8;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { _mm512_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm512_storeu_ps(to, self) }
        }
        #[inline(always)]
        fn splat(x: f32) -> Self {
            unsafe { _mm512_set1_ps(x) }
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            unsafe { _mm512_add_ps(self, other) }
        }
        #[inline(always)]
        fn sub(self, other: Self) -> Self {
            unsafe { _mm512_sub_ps(self, other) }
        }
        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            unsafe { _mm512_mul_ps(self, other) }
        }
        #[inline(always)]
        fn div(self, other: Self) -> Self {
            unsafe { _mm512_div_ps(self, other) }
        }
        #[inline(always)]
        fn max(self, other: Self) -> Self {
            unsafe { _mm512_max_ps(self, other) }
        }
        #[inline(always)]
        fn min(self, other: Self) -> Self {
            unsafe { _mm512_min_ps(self, other) }
        }
        #[inline(always)]
        fn mul_add(self, a: Self, b: Self) -> Self {
            unsafe { _mm512_fmadd_ps(self, a, b) }
        }
        #[inline(always)]
        fn round(self) -> Self {
            unsafe { _mm512_roundscale_ps::<0x08>(self) }
        }
        #[inline(always)]
        fn exp2_integer(self) -> Self {
            unsafe { _mm512_scalef_ps(_mm512_set1_ps(1.0), self) }
        }
        #[inline(always)]
        fn zero_where_below(self, x: Self, limit: f32) -> Self {
            unsafe {
                let keep = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, _mm512_set1_ps(limit));
                _mm512_maskz_mov_ps(keep, self)
            }
        }
        #[inline(always)]
        fn copy_sign(self, sign: Self) -> Self {
            unsafe {
                let mask = _mm512_set1_epi32(i32::MIN);
                let magnitude = _mm512_andnot_si512(mask, _mm512_castps_si512(self));
                let sign = _mm512_and_si512(mask, _mm512_castps_si512(sign));
                _mm512_castsi512_ps(_mm512_or_si512(magnitude, sign))
            }
        }
    }

    impl Vector for __m256 {
        const LANES: usize = 8;
        const TILE_ROWS: usize = 6;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { _mm256_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm256_storeu_ps(to, self) }
        }
        #[inline(always)]
        fn splat(x: f32) -> Self {
            unsafe { _mm256_set1_ps(x) }
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            unsafe { _mm256_add_ps(self, other) }
        }
        #[inline(always)]
        fn sub(self, other: Self) -> Self {
            unsafe { _mm256_sub_ps(self, other) }
        }
        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            unsafe { _mm256_mul_ps(self, other) }
        }
        #[inline(always)]
        fn div(self, other: Self) -> Self {
            unsafe { _mm256_div_ps(self, other) }
        }
        #[inline(always)]
        fn max(self, other: Self) -> Self {
            unsafe { _mm256_max_ps(self, other) }
        }
        #[inline(always)]
        fn min(self, other: Self) -> Self {
            unsafe { _mm256_min_ps(self, other) }
        }
        #[inline(always)]
        fn mul_add(self, a: Self, b: Self) -> Self {
            unsafe { _mm256_fmadd_ps(self, a, b) }
        }
        #[inline(always)]
        fn round(self) -> Self {
            unsafe { _mm256_round_ps::<0x08>(self) }
        }
        #[inline(always)]
        fn exp2_integer(self) -> Self {
            unsafe {
                let biased = _mm256_add_epi32(_mm256_cvtps_epi32(self), _mm256_set1_epi32(127));
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
            }
        }
        #[inline(always)]
        fn zero_where_below(self, x: Self, limit: f32) -> Self {
            unsafe {
                let keep = _mm256_cmp_ps::<_CMP_NLT_UQ>(x, _mm256_set1_ps(limit));
                _mm256_and_ps(keep, self)
            }
        }
        #[inline(always)]
        fn copy_sign(self, sign: Self) -> Self {
            unsafe {
                let mask = _mm256_set1_ps(-0.0);
                _mm256_or_ps(_mm256_andnot_ps(mask, self), _mm256_and_ps(mask, sign))
            }
        }
    }
}

/// Four f32 in plain Rust, for processors without AVX2; the compiler turns them into SSE or NEON.
pub(crate) type Portable = [f32; 4];

impl Vector for Portable {
    const LANES: usize = 4;
    const TILE_ROWS: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { from.cast::<Self>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
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

/// Coefficients of `t` to `t⁶` in a polynomial for `2^t` that is 1 at 0; relative error below 2e-9
/// on [-1/2, 1/2] before rounding (weighted least squares, reweighted towards the minimax solution).
const EXP2: [f32; 6] = [
    core::f32::consts::LN_2,
    2.402_264_8e-1,
    5.550_332_5e-2,
    9.618_437e-3,
    1.339_887_4e-3,
    1.535_336_2e-4,
];

/// `2^x` with a relative error below 2e-7; 0 below -126 (no subnormals, which are slow), 2^127 above
/// 127, and NaN stays NaN.
#[inline(always)]
pub(crate) fn exp2<V: Vector>(x: V) -> V {
    // The operand order keeps a NaN: the vector instructions return their second operand then.
    let clamped = V::splat(127.0).min(V::splat(-126.0).max(x));
    let whole = clamped.round();
    let t = clamped.sub(whole);
    let mut y = V::splat(EXP2[5]);
    for c in EXP2[..5].iter().rev() {
        y = y.mul_add(t, V::splat(*c));
    }
    y.mul_add(t, V::splat(1.0))
        .mul(whole.exp2_integer())
        .zero_where_below(x, -126.0)
}

/// `e^x` through [`exp2`]; relative error below 2e-7 · max(1, |x|).
#[inline(always)]
pub(crate) fn exp<V: Vector>(x: V) -> V {
    exp2(x.mul(V::splat(core::f32::consts::LOG2_E)))
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid<V: Vector>(x: V) -> V {
    let one = V::splat(1.0);
    one.div(one.add(exp(V::splat(0.0).sub(x))))
}

/// `x · sigmoid(x)`.
#[inline(always)]
pub(crate) fn silu<V: Vector>(x: V) -> V {
    let one = V::splat(1.0);
    x.div(one.add(exp(V::splat(0.0).sub(x))))
}

/// The normal distribution `Φ(x)` with the error function of Abramowitz & Stegun, formula 7.1.26, whose
/// absolute error is below 1.5e-7, and the `e^(-x²/2)` it takes.
#[inline(always)]
pub(crate) fn distribution<V: Vector>(x: V) -> (V, V) {
    let one = V::splat(1.0);
    let z = x
        .mul(V::splat(core::f32::consts::FRAC_1_SQRT_2))
        .copy_sign(one);
    let t = one.div(z.mul_add(V::splat(0.327_591_1), one));
    let mut p = V::splat(1.061_405_4);
    for c in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        p = p.mul_add(t, V::splat(c));
    }
    let bell = exp(V::splat(0.0).sub(z.mul(z)));
    let tail = p.mul(t).mul(bell);
    // Φ(|x|) = 1 − tail/2, and Φ(−|x|) = tail/2.
    let half_tail = tail.mul(V::splat(0.5));
    let signed = V::splat(0.5).sub(half_tail).copy_sign(x);
    (V::splat(0.5).add(signed), bell)
}

/// `x · Φ(x)`.
#[inline(always)]
pub(crate) fn gelu<V: Vector>(x: V) -> V {
    x.mul(distribution(x).0)
}

/// Defines `fn name(arguments) -> result` that runs `body::<V>(arguments)` with the widest vectors
/// the processor has. `body` must be an `unsafe` generic function marked `#[inline(always)]`.
macro_rules! multiversion {
    ($(#[$meta:meta])* $vis:vis unsafe fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn wide($($arg: $ty),*) $(-> $ret)? {
                    unsafe { $body::<core::arch::x86_64::__m512>($($arg),*) }
                }
                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn middle($($arg: $ty),*) $(-> $ret)? {
                    unsafe { $body::<core::arch::x86_64::__m256>($($arg),*) }
                }
                match $crate::cpu::simd::level() {
                    $crate::cpu::simd::Level::Avx512 => return unsafe { wide($($arg),*) },
                    $crate::cpu::simd::Level::Avx2 => return unsafe { middle($($arg),*) },
                    $crate::cpu::simd::Level::Portable => {}
                }
            }
            unsafe { $body::<$crate::cpu::simd::Portable>($($arg),*) }
        }
    };
}
pub(crate) use multiversion;

/// Which of the three versions of every kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) enum Level {
    Avx512,
    Avx2,
    Portable,
}

/// The best version for this processor.
#[cfg(target_arch = "x86_64")]
pub(crate) fn level() -> Level {
    #[cfg(test)]
    if let Some(level) = forced::get() {
        return level;
    }
    if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
    {
        Level::Avx512
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        Level::Avx2
    } else {
        Level::Portable
    }
}

/// Lets the tests run the versions for lesser processors too.
#[cfg(test)]
pub(crate) mod forced {
    use super::Level;
    use std::cell::Cell;

    thread_local! {
        static LEVEL: Cell<Option<Level>> = const { Cell::new(None) };
    }

    #[cfg(target_arch = "x86_64")]
    pub(crate) fn get() -> Option<Level> {
        LEVEL.get()
    }

    /// Runs `f` at every level that this processor has, each on threads of its own: operands are
    /// packed for a level, so that it must not change while another test computes.
    pub(crate) fn each(f: impl Fn(Level) + Sync) {
        let best = super::level();
        for level in [Level::Portable, Level::Avx2, Level::Avx512] {
            let threads = rayon::ThreadPoolBuilder::new()
                .start_handler(move |_| LEVEL.set(Some(level)))
                .build()
                .expect("threads");
            threads.install(|| f(level));
            if level == best {
                break;
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn level() -> Level {
    Level::Portable
}
