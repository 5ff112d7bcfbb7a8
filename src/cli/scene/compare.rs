//! `prepose scene compare`

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use prepose::judge::scene::compare::{Comparison, compare, read};
use prepose::output::files::write_atomically;
use prepose_statistics::bootstrap::Bootstrap;
use prepose_untrusted::escaped;
use serde_json::json;

use super::text;
use crate::cli::OK;

/// Compare models' judged pictures side by side, with the paper's figures.
#[derive(Debug, clap::Args)]
pub struct Compare {
    /// Folders that prepose judge --benchmark scene has written, one per model; the folder's name is the model's.
    #[arg(value_name = "JUDGED")]
    judged: Vec<PathBuf>,
    /// Which of the paper's tables to show beside them.
    #[arg(long, value_enum)]
    with: With,
    /// How often pictures are resampled for the 95 % intervals.
    #[arg(long, value_name = "N", default_value_t = Bootstrap::default().draws, hide_short_help = true,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    bootstrap: usize,
    /// Also write the table to a CSV file.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

/// A comparison of the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum With {
    /// Table 2: Visual Genome's test set, SGScore by level
    Vg,
    /// Table 3: MegaSG, SGScore by level
    Megasg,
    /// Tables 4 and 7: composition and feedback, recall and SGScore
    Feedback,
    /// Table 9: objects with and without attributes
    Attributes,
}

impl Compare {
    pub fn run(&self) -> anyhow::Result<u8> {
        let mut models = Vec::new();
        for folder in &self.judged {
            let file = folder.join("judged.jsonl");
            let lines = read(&text(&file)?).with_context(|| file.display().to_string())?;
            let named = folder.canonicalize().unwrap_or_else(|_| folder.clone());
            let name = named.file_name().unwrap_or_default().to_string_lossy();
            models.push((name.into_owned(), lines));
        }
        let comparison = match self.with {
            With::Vg => Comparison::Vg,
            With::Megasg => Comparison::Megasg,
            With::Feedback => Comparison::Feedback,
            With::Attributes => Comparison::Attributes,
        };
        let bootstrap = Bootstrap {
            draws: self.bootstrap,
            ..Bootstrap::default()
        };
        let table = compare(&models, comparison, &bootstrap);
        if let Some(out) = &self.out {
            write_atomically(out, table.to_csv().as_bytes())
                .with_context(|| format!("cannot write {}", out.display()))?;
        }
        let mut stdout = std::io::stdout().lock();
        match self.json {
            true => writeln!(
                stdout,
                "{}",
                json!({ "comparison": crate::cli::agree::rows(&table) })
            )?,
            false => write!(stdout, "{}", escaped(&table.to_text(140)))?,
        }
        Ok(OK)
    }
}
