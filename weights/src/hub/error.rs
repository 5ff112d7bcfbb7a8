//! Why a download failed.

use std::path::PathBuf;

use hf_hub::api::sync::ApiError;

/// Why something could not be pulled from the hub.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// Neither a known name nor a repository.
    #[error("{name:?} is not known; give one of {known}, or a repository as OWNER/NAME")]
    Unknown {
        /// As given.
        name: String,
        /// The known names.
        known: String,
    },
    /// A repository without a revision.
    #[error(
        "{repo} needs a revision, so that the same files come every time: give --revision with a \
             commit from {url}"
    )]
    NoRevision {
        /// Owner and name.
        repo: String,
        /// The page that lists its commits.
        url: String,
    },
    /// A repository from which prepose cannot tell what to take.
    #[error("{repo} is not a diffusers checkpoint; name the file to pull as {repo}/FILE: {files}")]
    Choose {
        /// Owner and name.
        repo: String,
        /// Some of its weight files.
        files: String,
    },
    /// The network is switched off.
    #[error("{file} of {repo} is not on this machine, and HF_HUB_OFFLINE forbids downloading it; unset \
             it, or copy the file into {}", cache.display())]
    Offline {
        /// Owner and name.
        repo: String,
        /// The file.
        file: String,
        /// The cache.
        cache: PathBuf,
    },
    /// The hub wants to know who asks.
    #[error("the hub refuses access to {repo} ({status}){}", if *token {
        ": the token in HF_TOKEN or from `hf auth login` is not allowed to read it; accept its licence on \
         the hub, or use another token"
    } else {
        ": it needs an account; accept its licence on the hub, then set HF_TOKEN or run `hf auth login`"
    })]
    Refused {
        /// Owner and name.
        repo: String,
        /// The HTTP status.
        status: u16,
        /// Whether a token was sent.
        token: bool,
    },
    /// There is no such repository, revision or file.
    #[error("{what} does not exist at {endpoint}; check the name and the revision")]
    Missing {
        /// The repository and file.
        what: String,
        /// The hub.
        endpoint: String,
    },
    /// The hub could not be reached, or the connection kept breaking off.
    #[error(
        "{what} could not be downloaded from {endpoint}; what has arrived is kept, run the same \
             command again to go on"
    )]
    Network {
        /// The repository and file.
        what: String,
        /// The hub.
        endpoint: String,
        /// The last failure.
        source: Box<ApiError>,
    },
    /// The content is not what was promised.
    #[error(
        "{what} is corrupt: its sha256 is {found}, expected {expected}; it was removed, run the same \
             command again"
    )]
    Corrupt {
        /// The repository and file.
        what: String,
        /// The hash of what arrived.
        found: String,
        /// The hash that it must have.
        expected: String,
    },
    /// The hub has another file at this revision than the known one.
    #[error(
        "{endpoint} offers another {what} (sha256 {found}) than the known one ({expected}); do not \
             use this mirror"
    )]
    Other {
        /// The repository and file.
        what: String,
        /// The hub.
        endpoint: String,
        /// The hash that it announces.
        found: String,
        /// The known hash.
        expected: String,
    },
    /// The cache cannot be written.
    #[error("{}: cannot be written; free some space or set HF_HOME to another folder", path.display())]
    Disk {
        /// The cache or a file in it.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// Another process is downloading the same file.
    #[error("{what} is being downloaded by another process; wait for it")]
    Locked {
        /// The repository and file.
        what: String,
    },
    /// The hub's answer makes no sense.
    #[error("{endpoint} answered for {what} with something that is not the hub's: {reason}")]
    Answer {
        /// The repository and file.
        what: String,
        /// The hub.
        endpoint: String,
        /// What is wrong.
        reason: String,
    },
}
