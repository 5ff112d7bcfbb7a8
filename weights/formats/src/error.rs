//! What can be wrong with a file of tensors. Every message says which file, what is wrong and what to do.

use std::path::PathBuf;

/// Why a file of tensors cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The operating system would not let us read.
    #[error("{}: cannot be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// The file is not what its name or its place promises.
    #[error("{}: {what}; {hint}", path.display())]
    NotWeights {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        what: String,
        /// The way out.
        hint: &'static str,
    },
    /// A damaged safetensors file.
    #[error("{}: broken safetensors file: {what}; {hint}", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What is broken.
        what: String,
        /// The way out.
        hint: &'static str,
    },
    /// A PyTorch file that cannot be read.
    #[error("{}: cannot be read as a PyTorch checkpoint: {what}; {hint}", path.display())]
    Pytorch {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// The way out.
        hint: &'static str,
    },
}
