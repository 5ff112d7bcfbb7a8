//! What the commands of an audit read.

use std::path::{Path, PathBuf};

use anyhow::Context;
use prepose::audit::join::Audit;
use prepose::audit::labels::{self, Label};
use prepose::audit::table::{self, SampleRow};
use prepose::check::spatialbench::{CheckerConfig, Record, Verdict, read_records};
use prepose::output::files::parent;
use serde::de::DeserializeOwned;

use crate::cli::input::text_of;

/// The records and labels that an analysis is of.
#[derive(Debug, clap::Args)]
pub struct Judged {
    /// The checker's records, any number of files. Records of the same pictures at several margins are kept apart.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    pub records: Vec<PathBuf>,
    /// What people say: the labelling page's export, or a CSV table with the same columns.
    #[arg(long, value_name = "FILE")]
    pub labels: PathBuf,
    /// The table of `audit sample`: coverage is then of all its pictures, labelled or not [default: the labelled ones].
    #[arg(long, value_name = "FILE")]
    pub sample: Option<PathBuf>,
    /// Leave out pictures that no record has, instead of refusing.
    #[arg(long)]
    pub partial: bool,
}

impl Judged {
    /// Reads all of it.
    pub fn read(&self) -> anyhow::Result<(Audit, Vec<Label>)> {
        let labels = labels::read(&text(&self.labels)?)
            .with_context(|| self.labels.display().to_string())?;
        let rows = self.sample.as_deref().map(sample).transpose()?;
        let mut all = Vec::new();
        for path in &self.records {
            all.extend(records(path)?);
        }
        let audit = Audit::new(all, &labels, rows.as_deref(), self.partial)
            .with_context(|| format!("cannot use {}", self.labels.display()))?;
        Ok((audit, labels))
    }
}

/// The records of one file.
pub fn records(path: &Path) -> anyhow::Result<Vec<Record>> {
    read_records(&text(path)?).with_context(|| path.display().to_string())
}

/// The rows of a sample.
pub fn sample(path: &Path) -> anyhow::Result<Vec<SampleRow>> {
    table::read(&text(path)?).with_context(|| path.display().to_string())
}

/// The configuration that is given, or else the one beside the first records, or else the published one.
pub fn config(given: Option<&Path>, records: &[PathBuf]) -> anyhow::Result<CheckerConfig> {
    let beside = records
        .first()
        .map(|path| parent(path).join("checker_config.yaml"))
        .filter(|path| path.is_file());
    let Some(path) = given.map(Path::to_path_buf).or(beside) else {
        return Ok(CheckerConfig::default());
    };
    CheckerConfig::from_yaml(&text(&path)?).with_context(|| path.display().to_string())
}

/// One value a line; empty lines do not matter.
pub fn json_lines<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Vec<T>> {
    let text = text(path)?;
    let lines = (1..).zip(text.lines());
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            serde_json::from_str(line).with_context(|| format!("{}: line {number}", path.display()))
        })
        .collect()
}

/// How many labels say PASS, FAIL and UNDECIDABLE.
pub fn count(labels: &[Label]) -> [usize; 3] {
    [Verdict::Pass, Verdict::Fail, Verdict::Undecidable].map(|verdict| {
        let same = labels.iter().filter(|label| label.human_verdict == verdict);
        same.count()
    })
}

fn text(path: &Path) -> anyhow::Result<String> {
    text_of(path).with_context(|| format!("cannot read {}", path.display()))
}
