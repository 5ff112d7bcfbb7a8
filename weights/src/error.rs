//! What can go wrong between a path and a network, by meaning. Every message says which file, what
//! is wrong with it and what to do; where a library or the operating system gave the reason, it is
//! the error's source and not repeated in the message.

use std::fmt;
use std::path::PathBuf;

use prepose_formats::FormatError;
use prepose_untrusted::printable;

use crate::hub::error::HubError;
use crate::tokenizer::TokenizerError;

/// Why a checkpoint, a LoRA or a download could not be had.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// Nothing at this path, and no known name either.
    #[error("{}: no such file or folder{hint}", path.display())]
    NotFound {
        /// The path as given.
        path: PathBuf,
        /// What to do, starting with punctuation.
        hint: String,
    },
    /// A known checkpoint that is not on this machine yet.
    #[error("{name} is not downloaded yet; run `prepose pull {name}` first")]
    NotPulled {
        /// Its name in the list of known checkpoints.
        name: String,
    },
    /// The operating system would not let us read.
    #[error("{}: cannot be read", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// The operating system would not let us write.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A file of tensors that is damaged, no such file, or an attack.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A JSON file that is not JSON, or whose content makes no sense.
    #[error("{}: {what}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
        /// The parser's reason, where there is one.
        source: Option<serde_json::Error>,
    },
    /// A folder that lacks a file which it must have.
    #[error("{}: {what}; {hint}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        what: String,
        /// The way out.
        hint: String,
    },
    /// A sound file of something that prepose does not run.
    #[error("{}: this is {what}, which cannot be used here; {hint}", path.display())]
    Unsupported {
        /// The file or folder.
        path: PathBuf,
        /// What it is.
        what: String,
        /// The way out.
        hint: String,
    },
    /// A checkpoint of SD 2.x that says nothing about what it predicts.
    #[error(
        "{}: this checkpoint of Stable Diffusion 2.x does not say whether it predicts noise or velocity; give \
         --prediction epsilon (the 512 ones, SD-Turbo) or --prediction v (the 768 ones)",
        path.display()
    )]
    Prediction {
        /// The file.
        path: PathBuf,
    },
    /// Tensors that are missing, unused or of another shape than the network's.
    #[error(transparent)]
    Mismatch(Box<Mismatch>),
    /// Weights that are NaN or infinite.
    #[error("{}: {} in {}: NaN or infinite values; the file is damaged or was badly converted; download it again or use \
             another version", path.display(), list(tensors), part)]
    NonFinite {
        /// The file.
        path: PathBuf,
        /// Which network.
        part: String,
        /// The tensors, by the file's own names.
        tensors: Vec<String>,
    },
    /// A tensor stored in a type that is not loaded.
    #[error("{}: {} is stored as {dtype}, which is not supported; use an f32, f16 or bf16 version \
             of this checkpoint", path.display(), printable(name))]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its type, as the file calls it.
        dtype: String,
    },
    /// A LoRA that cannot be merged into this checkpoint.
    #[error("{}: {what}; {hint}", path.display())]
    Lora {
        /// The LoRA file.
        path: PathBuf,
        /// What does not fit.
        what: String,
        /// The way out.
        hint: String,
    },
    /// A network that cannot be trained as asked.
    #[error("the UNet of {} cannot be trained like this", path.display())]
    Training {
        /// The checkpoint's file or folder.
        path: PathBuf,
        /// Why not.
        source: Box<prepose_models::training::TrainingError>,
    },
    /// A configuration that no network can be built from.
    #[error("{}: no network can be built from this configuration", path.display())]
    Config {
        /// Where the configuration comes from.
        path: PathBuf,
        /// The network's reason.
        source: prepose_models::ConfigError,
    },
    /// Tokenizer files that cannot be used.
    #[error("{}: this tokenizer cannot be used", path.display())]
    Tokenizer {
        /// The tokenizer's folder.
        path: PathBuf,
        /// The reason.
        source: TokenizerError,
    },
    /// A download that failed.
    #[error(transparent)]
    Hub(#[from] HubError),
}

/// What a network asked for and what the file holds, where they differ.
#[derive(Debug, Default, Clone)]
pub struct Mismatch {
    /// The checkpoint.
    pub path: PathBuf,
    /// Which network: `unet`, `vae`, `text_encoder`, `text_encoder_2`.
    pub part: String,
    /// Parameters that the network has and the file lacks, in diffusers' naming.
    pub missing: Vec<String>,
    /// Tensors that the file has and the network does not use, by the file's own names.
    pub unused: Vec<String>,
    /// Parameters of another shape than the network's.
    pub misshaped: Vec<Misshaped>,
    /// What to do about it.
    pub hint: String,
}

/// A parameter whose stored shape is not the network's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misshaped {
    /// Its name in the file.
    pub name: String,
    /// The network's shape.
    pub expected: Vec<usize>,
    /// The file's shape.
    pub found: Vec<usize>,
}

impl Mismatch {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unused.is_empty() && self.misshaped.is_empty()
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: the {} does not fit its configuration:",
            self.path.display(),
            self.part
        )?;
        if !self.missing.is_empty() {
            write!(
                f,
                " {} missing ({});",
                self.missing.len(),
                list(&self.missing)
            )?;
        }
        if !self.unused.is_empty() {
            write!(f, " {} unused ({});", self.unused.len(), list(&self.unused))?;
        }
        if !self.misshaped.is_empty() {
            let shapes: Vec<_> = self
                .misshaped
                .iter()
                .map(|m| format!("{} is {:?}, expected {:?}", m.name, m.found, m.expected))
                .collect();
            write!(f, " {} of another shape ({});", shapes.len(), list(&shapes))?;
        }
        write!(f, " {}", self.hint)
    }
}

impl std::error::Error for Mismatch {}

impl From<Mismatch> for WeightsError {
    fn from(mismatch: Mismatch) -> Self {
        Self::Mismatch(Box::new(mismatch))
    }
}

/// The first few names and how many more there are: a checkpoint of another family differs in
/// hundreds.
pub(crate) fn list(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names
        .iter()
        .take(SHOWN)
        .map(|name| printable(name).to_string())
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
