//! Whether there are tiles, and what shapes they have.
//!
//! Shapes are set by an instruction that takes as long as ten products, so that they stay as they are until others are wanted. They
//! hold for a thread, and other libraries may set them too: [`Engaged`] forgets them before an operation, and gives the tiles back
//! after it.

use super::SIDE;
use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::cell::Cell;
use std::sync::OnceLock;

/// Whether the processor multiplies bf16 in tiles, and the system lets this process do so.
pub(crate) fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| has_tiles() && permitted())
}

/// Whether the processor has tiles and products of bf16 in them, and the system keeps what is in them for each thread.
fn has_tiles() -> bool {
    const XSAVE_IN_USE: u32 = 1 << 27;
    const BF16_AND_TILES: u32 = 1 << 22 | 1 << 24;
    const SHAPES_AND_TILES: u32 = 0b11 << 17;
    if __cpuid(0).eax < 7 || __cpuid(1).ecx & XSAVE_IN_USE == 0 {
        return false;
    }
    let kept: u32;
    // SAFETY: the system uses XSAVE, so that there is this register; it is only read.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") kept, out("edx") _, options(nomem, nostack)) };
    __cpuid_count(7, 0).edx & BF16_AND_TILES == BF16_AND_TILES
        && kept & SHAPES_AND_TILES == SHAPES_AND_TILES
}

/// Asks the system for the tiles, which it does not give to a process that has not asked.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const TILES: libc::c_long = 18;
    // SAFETY: numbers only; nothing is read or written.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILES) == 0 }
}

/// Other systems are not known to us.
#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// The shapes of all tiles: sums are 0 to 3, of which the upper rows are 0 and 1; the left operand's are 4 and 5, a panel's 6 and
/// 7.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Shapes {
    /// For up to [`ROWS`](super::ROWS) rows of the left operand and steps of up to [`SIDE`] words.
    fn new(rows: usize, words: usize) -> Self {
        let upper = rows.min(SIDE) as u8;
        // A tile that is not used must have a shape all the same.
        let lower = rows.saturating_sub(SIDE).max(1) as u8;
        let (words, whole) = (words as u8, 4 * SIDE as u16);
        let mut shapes = Self {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [0; 16],
            rows: [0; 16],
        };
        shapes.rows[..8].copy_from_slice(&[upper, upper, lower, lower, upper, lower, words, words]);
        let left = 4 * u16::from(words);
        shapes.row_bytes[..8]
            .copy_from_slice(&[whole, whole, whole, whole, left, left, whole, whole]);
        shapes
    }
}

thread_local! {
    /// The rows and words that this thread's tiles are shaped for; none is 0.
    static SHAPED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Shapes the tiles, which become zero, unless they have these shapes.
///
/// # Safety
/// The processor must have AMX; `rows` is at most [`ROWS`](super::ROWS) and `words` at most [`SIDE`], neither is 0.
#[inline(always)]
pub(super) unsafe fn shape(rows: usize, words: usize) {
    if SHAPED.get() == (rows, words) {
        return;
    }
    let shapes = Shapes::new(rows, words);
    // SAFETY: the caller's processor; these are valid shapes.
    unsafe { asm!("ldtilecfg [{shapes}]", shapes = in(reg) &raw const shapes, options(nostack)) };
    SHAPED.set((rows, words));
}

/// An operation that may use tiles. Shapes that others have set meanwhile are not taken for ours, and tiles are given back at the
/// end, since a processor saves what is in them with every change of threads.
pub(crate) struct Engaged(());

impl Engaged {
    pub(crate) fn new() -> Self {
        SHAPED.set((0, 0));
        Self(())
    }
}

impl Drop for Engaged {
    fn drop(&mut self) {
        if SHAPED.replace((0, 0)) != (0, 0) {
            // SAFETY: tiles have been shaped, so that the processor has AMX.
            unsafe { asm!("tilerelease", options(nomem, nostack)) };
        }
    }
}
