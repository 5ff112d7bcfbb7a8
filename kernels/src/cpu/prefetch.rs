//! Hints to the processor that elements will be read; any address will do.

#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};

const LINE: usize = 64;

/// Asks for a line of the nearest cache.
#[inline(always)]
pub(crate) fn near<E>(at: *const E) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which reads nothing.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Asks for `count` elements in the second cache.
#[inline(always)]
pub(crate) fn far<E>(from: *const E, count: usize) {
    for byte in (0..count * size_of::<E>()).step_by(LINE) {
        let at = from.cast::<u8>().wrapping_add(byte);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint, which reads nothing.
        unsafe {
            _mm_prefetch::<_MM_HINT_T1>(at.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }
}
