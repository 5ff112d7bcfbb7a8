//! Which files made a picture, where more are loaded than it may need.

use std::thread::{self, JoinHandle};

use prepose_weights::WeightsError;

use super::error::MakeError;
use crate::engine::Blueprint;
use crate::request::Request;

/// The SHA-256 of a checkpoint's files. Servers and Python load the toybox with its layers of GLIGEN's in case a picture has boxes for them; a
/// picture that has none is signed without them, as the command line would sign it: they do not change it.
#[derive(Clone, Debug)]
pub struct Signature {
    hash: String,
    ungrounded: Option<String>,
}

/// A [`Signature`] that is being computed.
pub struct Signing(JoinHandle<Result<Signature, MakeError>>);

impl Signature {
    /// Begins to hash the files of `loaded`. `ungrounded` is the same without layers that nobody asked for.
    pub fn begin(loaded: &Blueprint, ungrounded: Option<&Blueprint>) -> Signing {
        let hashing = loaded.fingerprint();
        let plain = ungrounded.map(Blueprint::fingerprint);
        Signing(thread::spawn(move || {
            Ok(Self {
                hash: joined(hashing)?,
                ungrounded: plain.map(joined).transpose()?,
            })
        }))
    }

    /// Of the files that a picture without boxes is made from.
    pub fn ungrounded(&self) -> &str {
        self.ungrounded.as_ref().unwrap_or(&self.hash)
    }

    /// Puts into the request of a finished picture which files made it.
    pub fn sign(&self, request: &mut Request) {
        let hash = match &self.ungrounded {
            Some(hash) if request.ground.is_none() => {
                request.model.gligen = None;
                hash
            }
            _ => &self.hash,
        };
        request.model.sha256 = Some(hash.clone());
    }
}

impl Signing {
    /// Waits for it.
    ///
    /// # Errors
    /// [`MakeError::Weights`] if a file cannot be read.
    pub fn finish(self) -> Result<Signature, MakeError> {
        self.0.join().map_err(|_| MakeError::Fingerprint)?
    }
}

fn joined(hashing: JoinHandle<Result<String, WeightsError>>) -> Result<String, MakeError> {
    Ok(hashing.join().map_err(|_| MakeError::Fingerprint)??)
}
