//! What is said of checked pictures: on the terminal, in JSON, and in a manifest.

use std::collections::HashSet;
use std::path::Path;

use prepose::audit::table::relative;
use prepose::check::sample::sample_of;
use prepose::check::spatialbench::{Record, Verdict};
use prepose_untrusted::escaped;
use serde::Serialize;

use super::inputs::Sample;
use crate::cli::colour;
use crate::cli::input::absolute;

/// The manifest of what was checked, with the pictures' places as seen from `out`.
pub(super) fn listed(samples: &[Sample], records: &[Record], out: &Path) -> anyhow::Result<String> {
    let folder = absolute(out)?;
    let seen: HashSet<&str> = (records.iter())
        .map(|record| sample_of(&record.sample_id))
        .collect();
    let mut lines = String::new();
    for sample in samples.iter().filter(|sample| seen.contains(&*sample.id)) {
        let line = serde_json::json!({
            "sample_id": sample.id,
            "prompt_id": sample.prompt_id,
            "image_path": relative(&absolute(&sample.path)?, &folder),
            "prompt": sample.prompt,
            "seed": sample.seed,
        });
        lines += &format!("{line}\n");
    }
    Ok(lines)
}

/// What is said of a record in JSON: what every command says of a picture, and all of the record.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    path: String,
    prompt: &'a str,
    verdict: Verdict,
    reason: Option<&'a str>,
    confidence: f64,
    #[serde(flatten)]
    record: &'a Record,
}

impl<'a> Line<'a> {
    pub fn new(sample: &'a Sample, record: &'a Record) -> Self {
        Self {
            path: sample.path.display().to_string(),
            prompt: &sample.prompt,
            verdict: record.verdict_raw,
            reason: record.verdict_reason.as_deref(),
            confidence: record.conf,
            record,
        }
    }
}

/// What is said of a record on the terminal; its verdict in its colour if the terminal wants that.
pub(super) fn line(sample: &Sample, record: &Record, colours: bool) -> String {
    let verdict = record.verdict_raw.as_str();
    let room = " ".repeat(11usize.saturating_sub(verdict.len()));
    let verdict = match colours {
        true => colour::verdict(verdict),
        false => verdict.to_owned(),
    };
    let reason = record.verdict_reason.as_deref().unwrap_or_default();
    let gap = if reason.is_empty() { "" } else { "  " };
    let said = format!(
        "{:.2}  {}: {} {} {}{gap}{reason}",
        record.conf,
        sample.path.display(),
        record.object_a,
        record.relation,
        record.object_b
    );
    format!("{verdict}{room} {}", escaped(&said))
}
