//! Vectors of f32 for four instruction sets, the types they are read from and written to, and the functions of them that
//! the kernels need.
//!
//! A kernel is written once, generic over [`Vector`] and `#[inline(always)]`; the macro
//! [`multiversion`] compiles it for AVX-512, for AVX2 with FMA, and for whatever the target
//! guarantees, and picks one when it is called. Kernels that are generic over the [`Element`] of their operands too are also
//! compiled for AVX-512 with the instructions of bf16.

mod element;
mod functions;
mod level;
#[cfg(target_arch = "x86_64")]
mod turned;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use element::{Element, Words};
pub(crate) use functions::{distribution, exp2, gelu, sigmoid, silu};
pub use level::{INSTRUCTIONS_VARIABLE, UnknownInstructions, instructions};
pub(crate) use level::{Level, level};
pub(crate) use vector::{Portable, Vector};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::Wide;

/// Defines `fn name(arguments) -> result` that runs `body::<V>(arguments)` with the widest vectors
/// the processor has, or `fn name<E>(arguments)` that runs `body::<V, E>(arguments)` for an [`Element`]. `body` must be an
/// `unsafe` generic function marked `#[inline(always)]`; its contract is that of the function.
macro_rules! multiversion {
    ($(#[$meta:meta])* $vis:vis unsafe fn $name:ident<$E:ident>($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis unsafe fn $name<$E: $crate::cpu::simd::Element>($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                use $crate::cpu::simd::{Element, Level, Wide};
                #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,fma")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn widest<$E: Element>($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller keeps the contract of the body, whose vectors take AVX-512 with bf16, enabled here.
                    unsafe { $body::<$E::Widest, $E>($($arg),*) }
                }
                #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn wide<$E: Element>($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller keeps the contract of the body, whose vectors take AVX-512F, enabled here.
                    unsafe { $body::<Wide<false>, $E>($($arg),*) }
                }
                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn middle<$E: Element>($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller keeps the contract of the body, whose vectors take AVX2 and FMA, enabled here.
                    unsafe { $body::<core::arch::x86_64::__m256, $E>($($arg),*) }
                }
                match $crate::cpu::simd::level() {
                    // SAFETY: `level` has found every feature of `widest`; the rest is the caller's contract.
                    Level::Avx512Bf16 | Level::Amx if $E::PER_WORD > 1 => return unsafe { widest::<$E>($($arg),*) },
                    // SAFETY: `level` has found every feature of `wide`; the rest is the caller's contract.
                    Level::Avx512 | Level::Avx512Bf16 | Level::Amx => return unsafe { wide::<$E>($($arg),*) },
                    // SAFETY: `level` has found every feature of `middle`; the rest is the caller's contract.
                    Level::Avx2 => return unsafe { middle::<$E>($($arg),*) },
                    Level::Portable => {}
                }
            }
            // SAFETY: the caller keeps the contract of the body, and `Portable` takes no special instructions.
            unsafe { $body::<$crate::cpu::simd::Portable, $E>($($arg),*) }
        }
    };
    ($(#[$meta:meta])* $vis:vis unsafe fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn wide($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller keeps the contract of the body, whose vectors take AVX-512F, enabled here.
                    unsafe { $body::<$crate::cpu::simd::Wide<false>>($($arg),*) }
                }
                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn middle($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller keeps the contract of the body, whose vectors take AVX2 and FMA, enabled here.
                    unsafe { $body::<core::arch::x86_64::__m256>($($arg),*) }
                }
                match $crate::cpu::simd::level() {
                    $crate::cpu::simd::Level::Avx512
                    | $crate::cpu::simd::Level::Avx512Bf16
                    | $crate::cpu::simd::Level::Amx => {
                        // SAFETY: `level` has found every feature of `wide`; the rest is the caller's contract.
                        return unsafe { wide($($arg),*) };
                    }
                    // SAFETY: `level` has found every feature of `middle`; the rest is the caller's contract.
                    $crate::cpu::simd::Level::Avx2 => return unsafe { middle($($arg),*) },
                    $crate::cpu::simd::Level::Portable => {}
                }
            }
            // SAFETY: the caller keeps the contract of the body, and `Portable` takes no special instructions.
            unsafe { $body::<$crate::cpu::simd::Portable>($($arg),*) }
        }
    };
}
pub(crate) use multiversion;

/// Writes `$f` of each vector of the `$E` of `$from` to `$to`, where both must have `$len` elements and may be the
/// same. A macro, because a closure would not be compiled for the instruction set of the function around it.
macro_rules! map {
    ($V:ident, $E:ident, $from:expr, $to:expr, $len:expr, |$x:ident| $f:expr) => {{
        let (from, to, len): (*const $E, *mut $E, usize) = ($from, $to, $len);
        let mut i = 0;
        while i + $V::LANES <= len {
            let $x: $V = $E::load(from.add(i));
            $E::store($f, to.add(i));
            i += $V::LANES;
        }
        if i < len {
            let $x: $V = $E::load_first(from.add(i), len - i);
            $E::store_first($f, to.add(i), len - i);
        }
    }};
}
pub(crate) use map;

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
        for level in Level::ALL {
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
