//! What is said of checked pictures: on the terminal, in JSON, and in a manifest.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use prepose::audit::table::relative;
use prepose::check::detect::checker::Checked;
use prepose::check::json;
use prepose::check::rules::Outcome;
use prepose::check::rules::read::read_depth;
use prepose::check::sample::sample_of;
use prepose::check::spatialbench::{Record, Size, Verdict};
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

/// Where the answers of the published rules go.
pub(super) const RULES_FILE: &str = "rules.jsonl";

/// What a published rule says of a picture.
pub(super) struct Answer {
    /// For the terminal.
    pub text: String,
    /// In JSON.
    pub line: String,
    /// A score of at least one half; what has no score cannot fail.
    pub passed: bool,
}

/// An answer in JSON.
#[derive(Serialize)]
struct AnswerLine<'a> {
    path: String,
    sample_id: &'a str,
    prompt_id: &'a str,
    prompt: &'a str,
    seed: u64,
    rule: &'a str,
    about: &'a str,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

impl Answer {
    /// The answers to what is asked of a picture.
    ///
    /// # Errors
    /// A depth map that cannot be read, or is not of this picture.
    pub fn of(sample: &Sample, size: Size, checked: &Checked) -> anyhow::Result<Vec<Self>> {
        let found = &checked.primary;
        let depth = sample.depth.as_deref().filter(|_| !sample.rules.is_empty());
        let depth = depth.map(read_depth).transpose()?.map(Arc::new);
        let depth = depth.or_else(|| checked.depth.clone());
        let answers = sample.rules.iter().map(|asked| {
            let outcome = asked.answer(size, found, depth.clone())?;
            let line = AnswerLine {
                path: sample.path.display().to_string(),
                sample_id: &sample.id,
                prompt_id: &sample.prompt_id,
                prompt: &sample.prompt,
                seed: sample.seed,
                rule: asked.rule,
                about: &asked.said,
                outcome: &outcome,
            };
            // A side is no merit.
            let side = asked.relation.is_none();
            let said = match (side, outcome.score) {
                (false, Some(score)) => format!("{score:.2}"),
                _ => outcome
                    .note
                    .split(':')
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            };
            let missing = match outcome.missing.as_slice() {
                [] => String::new(),
                missing => format!("  no {}", missing.join(", no ")),
            };
            let why = outcome
                .note
                .split_once(": ")
                .map(|(_, why)| format!("  {why}"));
            let text = format!(
                "{said:<11}  {}: {} ({}){missing}{}",
                sample.path.display(),
                asked.said,
                asked.rule,
                why.unwrap_or_default()
            );
            Ok(Self {
                text: escaped(&text),
                line: json::to_line(&line)?,
                passed: side || outcome.score.is_none_or(|score| score >= 0.5),
            })
        });
        answers.collect()
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
