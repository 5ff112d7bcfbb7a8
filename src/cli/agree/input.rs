//! What the commands of `agree` read.

use std::path::{Path, PathBuf};

use anyhow::Context;
use prepose::audit::study::sheet::{Sheet, SheetError};
use prepose_statistics::bootstrap::Bootstrap;
use prepose_untrusted::read_text_or_stdin;

/// How intervals are drawn.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Draws {
    /// How often items are resampled for the 95 % intervals.
    #[arg(long, value_name = "N", default_value_t = Bootstrap::default().draws, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000), hide_short_help = true)]
    bootstrap: usize,
    /// The seed for resampling.
    #[arg(long, value_name = "SEED", default_value_t = Bootstrap::default().seed, hide_short_help = true)]
    seed: u64,
}

impl Draws {
    pub fn bootstrap(self) -> Bootstrap {
        Bootstrap {
            draws: self.bootstrap,
            seed: self.seed,
        }
    }
}

/// The sheets in files, each named after its file.
pub fn sheets(paths: &[PathBuf]) -> anyhow::Result<Vec<Sheet>> {
    paths.iter().map(|path| sheet(path, Sheet::read)).collect()
}

/// The sheet in a file.
pub fn sheet(
    path: &Path,
    read: fn(&str, &str) -> Result<Sheet, SheetError>,
) -> anyhow::Result<Sheet> {
    let text =
        read_text_or_stdin(path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    read(&name, &text).with_context(|| path.display().to_string())
}
