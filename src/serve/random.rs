//! Identifiers that nobody can guess.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::Read;

use sha2::{Digest, Sha256};

/// So many random bytes as hexadecimal digits.
pub fn hex(bytes: usize) -> String {
    let mut random = vec![0; bytes];
    let read =
        std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random));
    if read.is_err() {
        // Elsewhere: the standard library's hashers are keyed by the system's random numbers.
        for chunk in random.chunks_mut(8) {
            let bits = RandomState::new().build_hasher().finish().to_le_bytes();
            chunk.copy_from_slice(&bits[..chunk.len()]);
        }
        let mixed = Sha256::digest(&random);
        for (byte, mixed) in random.iter_mut().zip(mixed) {
            *byte = mixed;
        }
    }
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}
