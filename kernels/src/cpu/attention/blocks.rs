//! How many queries and keys attention takes at a time.

use crate::cpu::simd::Words;
use crate::cpu::tile::{GROUP, in_amx};

/// Queries handled together: their scores against a block of keys stay in the second-level cache.
/// More of them when heads are so wide that keys and values come from further away, fewer where products are so fast that
/// scores should not leave the first-level cache.
pub(super) fn queries_at_once<W: Words>(width: usize, keys: usize) -> usize {
    match width {
        _ if W::PARTS > 1 => 256,
        257.. => 256,
        _ if in_amx::<W>() => (SCORES_IN_AMX / keys / 32 * 32).clamp(32, 128),
        _ => 64,
    }
}
/// Keys in a block, at most; fewer when they are wide, so that a block of keys and one of values stay
/// in the second-level cache together with the scores.
const KEYS: usize = 768;
/// As [`KEYS`] with AMX.
const KEYS_IN_AMX: usize = 256;
/// As [`KEYS`] of f32 in parts: those of a head are too large for the second-level cache, and so must serve many queries.
const KEYS_IN_PARTS: usize = 128;
/// Scores of some queries and a block of keys with AMX: 32 KiB.
const SCORES_IN_AMX: usize = 32 * KEYS_IN_AMX;
const BLOCK: usize = 1 << 16;
/// Heads from this width on are multiplied in parts where there are tiles: two whole steps. With 40 it is no faster.
#[cfg(target_arch = "x86_64")]
pub(super) const WIDTH_IN_PARTS: usize = 64;

/// Keys in a block for heads of this width.
pub(super) fn block<W: Words>(width: usize) -> usize {
    let most = match in_amx::<W>() {
        true if W::PARTS > 1 => KEYS_IN_PARTS,
        true => KEYS_IN_AMX,
        false => KEYS,
    };
    // Whole steps of parts.
    let whole = W::PARTS.min(2) * GROUP;
    (BLOCK / width / whole * whole).clamp(whole, most)
}
