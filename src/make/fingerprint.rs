//! The checkpoint's SHA-256, which is computed while the first pictures are made.

use std::thread::JoinHandle;

use prepose_weights::WeightsError;

use super::error::MakeError;
use crate::request::Request;

/// The SHA-256 of the checkpoint, or the thread that computes it.
pub(super) struct Fingerprint {
    thread: Option<JoinHandle<Result<String, WeightsError>>>,
    hash: Option<String>,
}

impl Fingerprint {
    /// What [`Blueprint::fingerprint`](crate::engine::Blueprint::fingerprint) began.
    pub fn new(thread: JoinHandle<Result<String, WeightsError>>) -> Self {
        Self {
            thread: Some(thread),
            hash: None,
        }
    }

    /// Records the hash in `request`, and warns if the picture was first made from other weights. Waits for the hash.
    pub fn record(&mut self, request: &mut Request) -> Result<(), MakeError> {
        let hash = match &self.hash {
            Some(hash) => hash,
            None => {
                let thread = self.thread.take().ok_or(MakeError::Fingerprint)?;
                let hash = thread.join().map_err(|_| MakeError::Fingerprint)??;
                self.hash.insert(hash)
            }
        };
        let before = request.model.sha256.replace(hash.clone());
        if before.is_some_and(|before| before != *hash) {
            tracing::warn!(
                "{} is not what the picture was first made with (another SHA-256); the new picture will differ",
                request.model.checkpoint
            );
        }
        Ok(())
    }
}
