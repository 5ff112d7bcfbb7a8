//! The vectors of AVX-512 and of AVX2 with FMA.

/// Methods that are one instruction each, of vectors to a vector.
macro_rules! instructions {
    ($(Self: $name:ident($this:ident $(, $other:ident)*) = $instruction:expr;)*) => {$(
        #[inline(always)]
        fn $name($this $(, $other: Self)*) -> Self {
            // SAFETY: the processor has the instruction: `multiversion` has checked (see `Vector`).
            unsafe { Self($instruction($this.0 $(, $other.0)*)) }
        }
    )*};
    ($($name:ident($this:ident $(, $other:ident)*) = $instruction:expr;)*) => {$(
        #[inline(always)]
        fn $name($this $(, $other: Self)*) -> Self {
            // SAFETY: the processor has the instruction: `multiversion` has checked (see `Vector`).
            unsafe { $instruction($this $(, $other)*) }
        }
    )*};
}

mod avx2;
mod avx512;

pub(crate) use avx512::Wide;
