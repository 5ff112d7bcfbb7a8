//! What came and was not looked at yet: a line that says where it comes from, and the file's bytes.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::sources::{File, Origin, Outcome};

/// The line before the bytes of a file in `received/`.
#[derive(Serialize, Deserialize)]
struct Received {
    origin: Origin,
    seconds: f64,
}

/// What is kept of an outcome: a line, and the picture's bytes.
pub(super) fn packed(outcome: &Outcome) -> Option<Vec<u8>> {
    // A refusal is free, and soon written down.
    let Outcome::Picture(file) = outcome else {
        return None;
    };
    let line = Received {
        origin: file.origin.clone(),
        seconds: file.seconds,
    };
    let mut packed = serde_json::to_vec(&line).ok()?;
    packed.push(b'\n');
    packed.extend_from_slice(&file.bytes);
    Some(packed)
}

/// The outcome in a file; none if it is not whole.
pub(super) fn unpacked(packed: &[u8]) -> Option<Outcome> {
    let end = packed.iter().position(|byte| *byte == b'\n')?;
    let bytes = &packed[end + 1..];
    let Received { origin, seconds } = serde_json::from_slice(&packed[..end]).ok()?;
    let sha256 = format!("{:x}", Sha256::digest(bytes));
    (sha256 == origin.sha256).then(|| {
        Outcome::Picture(File {
            bytes: bytes.to_vec(),
            origin,
            seconds,
        })
    })
}
