//! Why a download failed.

use std::path::PathBuf;
use std::time::Duration;

use prepose_untrusted::{printable, redact};

/// Why something could not be pulled from the hub.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// Neither a known name nor a repository.
    #[error("{:?} is not known; give one of {known}, or a repository as OWNER/NAME", printable(name).to_string())]
    Unknown {
        /// As given.
        name: String,
        /// The known names.
        known: String,
    },
    /// A repository without a revision.
    #[error(
        "{repo} needs a revision, so that the same files are downloaded every time: give --revision with a commit from \
         {url}"
    )]
    NoRevision {
        /// Owner and name.
        repo: String,
        /// The page that lists its commits.
        url: String,
    },
    /// A revision that would not stay one name in the cache and on the hub.
    #[error(
        "{} is not a revision; give a commit's hash, a branch or a tag: letters, digits and -_.+, parts joined by /",
        printable(revision)
    )]
    Revision {
        /// As given.
        revision: String,
    },
    /// A hub's address that cannot be used.
    #[error("HF_ENDPOINT is not the address of a hub: {why}")]
    Endpoint {
        /// What is wrong, without the address, which may hold a secret.
        why: String,
    },
    /// A token that cannot be sent.
    #[error(
        "the token in HF_TOKEN or from `hf auth login` has characters that no token has; set it again"
    )]
    Token,
    /// A repository from which prepose cannot tell what to take.
    #[error(
        "{repo} is neither a diffusers checkpoint nor a network of transformers in one file; name the file to pull as {repo}/FILE: {files}"
    )]
    Choose {
        /// Owner and name.
        repo: String,
        /// Some of its weight files.
        files: String,
    },
    /// A diffusers checkpoint of which a part is not there.
    #[error(
        "{repo} has no weights of its {part} that prepose reads (.safetensors or .bin); nothing was downloaded; give another \
         revision with --revision, or another repository"
    )]
    NoWeights {
        /// Owner and name.
        repo: String,
        /// The folder of the part.
        part: String,
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
        "{what} could not be downloaded from {endpoint}; what has arrived is kept; run the same command again to go on"
    )]
    Network {
        /// The repository and file.
        what: String,
        /// The hub.
        endpoint: String,
        /// The last failure.
        source: TransferError,
    },
    /// The content is not what was promised.
    #[error(
        "{what} is corrupt: its hash is {found}, expected {expected}; it was not kept; run the same command again"
    )]
    Corrupt {
        /// The repository and file.
        what: String,
        /// The hash of what arrived.
        found: String,
        /// The hash that it must have.
        expected: String,
    },
    /// A file in the cache is damaged, and the network is switched off.
    #[error("{}: damaged, its hash is {found}, expected {expected}; HF_HUB_OFFLINE forbids downloading it again",
        path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Its hash.
        found: String,
        /// The hash that it must have.
        expected: String,
    },
    /// The hub has another file at this revision than the known one.
    #[error(
        "{endpoint} offers a {what} (sha256 {found}) other than the known one ({expected}); do not use this mirror"
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
    /// A link, or something else that is no folder, where the cache has folders.
    #[error("{}: not a folder of its own but a link or a file; downloads are written to real folders only. Remove it, or \
             set HF_HOME to the folder that it leads to", path.display())]
    NoFolder {
        /// What lies there.
        path: PathBuf,
    },
    /// Another process is downloading the same file.
    #[error("{what} is being downloaded by another process; wait for it")]
    Locked {
        /// The repository and file.
        what: String,
    },
    /// The hub's answer makes no sense.
    #[error(
        "{endpoint} did not answer for {what} as the hub does: {}",
        redact(reason)
    )]
    Answer {
        /// The repository and file.
        what: String,
        /// The hub.
        endpoint: String,
        /// What is wrong.
        reason: String,
    },
}

/// Why a transfer did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// No connection, or one that broke off. The reason may name addresses, whose secrets are cut out.
    #[error("{}", redact(&.0.to_string()))]
    Http(ureq::Error),
    /// A connection that broke off within a file.
    #[error("the connection broke off: {}", redact(&.0.to_string()))]
    Broken(std::io::Error),
    /// Another status than a success.
    #[error("the server answered with status {0}")]
    Status(u16),
    /// Nothing came for too long.
    #[error("the server sent nothing for {} s (HF_HUB_DOWNLOAD_TIMEOUT sets how long to wait)", .0.as_secs_f32())]
    Silent(Duration),
    /// The end came too early.
    #[error("only {received} of {size} bytes came")]
    Short {
        /// Bytes that came, with those of earlier tries.
        received: u64,
        /// Bytes that the file has.
        size: u64,
    },
    /// An answer that makes no sense.
    #[error("{}", redact(.0))]
    Answer(String),
}

impl TransferError {
    /// Whether trying again can help.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Http(_) | Self::Broken(_) | Self::Short { .. } => true,
            Self::Status(status) => matches!(status, 408 | 425 | 429 | 500..),
            Self::Silent(_) | Self::Answer(_) => false,
        }
    }
}
