//! Which shard of a run makes a picture: its method, prompt and seed decide, and nothing else.
//!
//! A run may grow, and no picture changes its shard by that. The seeds of a prompt go to one shard after the other, beginning with
//! one that the names of method and prompt decide as if by chance.

use sha2::{Digest, Sha256};

/// What decides the shard of the picture of a prompt by a method with seed 0.
pub fn turn(method: &str, prompt_id: &str) -> u64 {
    let digest = Sha256::digest(format!("{method}\n{prompt_id}"));
    digest[..8]
        .iter()
        .fold(0, |turn, byte| turn << 8 | u64::from(*byte))
}

/// Whether shard `index` of `count` makes the picture with this seed, of the prompt and the method with this [`turn`].
pub fn makes(index: usize, count: usize, turn: u64, seed: u64) -> bool {
    turn.wrapping_add(seed) % count as u64 == index as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_picture_has_one_shard_and_seeds_take_turns() {
        for (method, prompt) in [("plain", "p1"), ("psg", "p1"), ("plain", "p2")] {
            let turn = turn(method, prompt);
            let of = |seed: u64| (0..3).filter(move |&index| makes(index, 3, turn, seed));
            let shards: Vec<Vec<usize>> = (0..6).map(|seed| of(seed).collect()).collect();
            assert!(shards.iter().all(|one| one.len() == 1), "{shards:?}");
            assert_eq!(shards[..3], shards[3..]);
            assert_ne!(shards[0], shards[1]);
        }
        assert_ne!(turn("plain", "p1"), turn("plain", "p2"));
        assert_eq!((0..3).filter(|&i| makes(i, 3, u64::MAX, 7)).count(), 1);
    }
}
