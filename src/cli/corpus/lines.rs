//! What was seen of each pair, a line each.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use prepose::corpus::layout::Seen;
use prepose::corpus::survey::{Counts, Found};
use serde_json::json;

/// Where what was seen of each pair is written: beside `layouts.jsonl` until it is whole.
pub struct Lines {
    path: PathBuf,
    whole: PathBuf,
    file: std::io::BufWriter<std::fs::File>,
}

impl Lines {
    pub fn create(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("layouts.jsonl.part");
        let file = std::fs::File::create(&path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self {
            path,
            whole: folder.join("layouts.jsonl"),
            file: std::io::BufWriter::new(file),
        })
    }

    pub fn add(
        &mut self,
        found: &Found,
        seen: Seen,
        exchanged: Option<Seen>,
    ) -> anyhow::Result<()> {
        let line = json!({
            "caption": found.caption,
            "first": found.first,
            "second": found.second,
            "picture": found.picture,
            "seen": seen.as_str(),
            "seen_exchanged": exchanged.map(Seen::as_str),
        });
        writeln!(self.file, "{line}")
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    pub fn finish(mut self) -> anyhow::Result<()> {
        self.file
            .flush()
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        drop(self.file);
        std::fs::rename(&self.path, &self.whole)
            .with_context(|| format!("cannot write {}", self.whole.display()))
    }

    /// Says that it was stopped after so many pairs: rates of these would look like those of all. `next` is what the same
    /// command does.
    pub fn stopped(self, done: u64, counts: &Counts, next: &str) {
        drop(self.file);
        // It is written anew in any case.
        let _ = std::fs::remove_file(&self.path);
        eprintln!(
            "stopped after {done} of {} pairs, and no table was written; {next}",
            counts.pairs
        );
    }
}
