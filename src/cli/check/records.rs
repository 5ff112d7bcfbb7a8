//! `prepose check --records`: stored detections, decided again.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use prepose::check::json;
use prepose::check::spatialbench::{
    Buckets, CheckerConfig, Metrics, Provenance, Record, Rule, read_records,
};
use prepose::output::files::parent;
use prepose_untrusted::{escaped, read_text_or_stdin};
use serde_json::{Value, json};

use super::Args;
use super::results::Results;
use crate::cli::OK;

/// How the second decision differs from the first.
#[derive(Default)]
struct Changes {
    /// Records with another verdict.
    verdicts: usize,
    /// Records of which anything that is decided differs, the verdict included.
    records: usize,
    /// Records whose new verdict rests on a stability or an agreement that was never measured.
    unmeasured: usize,
}

pub fn run(args: &Args, file: &Path, out: &Path) -> anyhow::Result<u8> {
    ensure!(
        !args.judge.model.is_given(),
        "--records decides again without pictures, so there is nothing to ask --judge about: leave it out"
    );
    let config = match &args.config {
        Some(path) => path.clone(),
        None => beside(file)?,
    };
    let rule = Rule {
        config: read_config(&config)?,
        published: args.published.unwrap_or(true),
    };
    let text = read_text(file)?;
    let stored = read_records(&text).with_context(|| file.display().to_string())?;
    refuse_overwriting(file, &out.join(&rule.config.output.results_file))?;

    let mut changes = Changes::default();
    let mut records = Vec::with_capacity(stored.len());
    for before in &stored {
        let again = before
            .redecide(&rule)
            .with_context(|| file.display().to_string())?;
        changes.verdicts += usize::from(again.record.verdict_raw != before.verdict_raw);
        changes.records += usize::from(again.record != *before);
        changes.unmeasured += usize::from(again.unmeasured);
        records.push(again.record);
    }

    let (manifest, buckets) = told_beside(file, &stored);
    // Another configuration makes another run, which is counted as it should be.
    let buckets = match changes.records {
        0 if rule.published => buckets,
        _ => Buckets::default(),
    };
    let provenance = Provenance::now(
        manifest,
        Some(config.display().to_string()),
        option_env!("PREPOSE_GIT_COMMIT"),
    );
    let results = Results::new(&records, buckets, provenance);
    results.write(out, &rule.config)?;

    if changes.unmeasured > 0 {
        eprintln!(
            "warning: {} of {} records are decided without a stability or an agreement that their first checker had no \
             reason to measure; they are taken as 1 and 0.5",
            changes.unmeasured,
            records.len()
        );
    }
    print(args.json, out, &results, &changes)?;
    Ok(OK)
}

/// The configuration that stands beside released records.
fn beside(file: &Path) -> anyhow::Result<PathBuf> {
    let path = parent(file).join("checker_config.yaml");
    if !path.exists() {
        bail!(
            "there is no {}; name the configuration with --config",
            path.display()
        );
    }
    Ok(path)
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    read_text_or_stdin(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The thresholds in a `checker_config.yaml`.
pub fn read_config(path: &Path) -> anyhow::Result<CheckerConfig> {
    CheckerConfig::from_yaml(&read_text(path)?)
        .with_context(|| format!("cannot use {}", path.display()))
}

/// The records that are read are somebody's results; they are not to be lost to a second opinion.
fn refuse_overwriting(file: &Path, target: &Path) -> anyhow::Result<()> {
    if let (Ok(file), Ok(target)) = (file.canonicalize(), target.canonicalize())
        && file == target
    {
        bail!(
            "{} would be overwritten; choose another --out",
            file.display()
        );
    }
    Ok(())
}

/// The manifest that the metrics beside the records name, and how those metrics count reasons, if they are about these
/// very records.
fn told_beside(file: &Path, stored: &[Record]) -> (Option<String>, Buckets) {
    let metrics = read_text_or_stdin(&parent(file).join("metrics.json"))
        .ok()
        .and_then(|text| json::from_str::<Value>(&text).ok());
    let Some(metrics) = metrics else {
        return (None, Buckets::default());
    };
    let buckets = Buckets::of(&metrics);
    let expected = serde_json::to_value(Metrics::of(stored, buckets)).unwrap_or_default();
    let same = ["total_samples", "mean_confidence", "undecidable_reasons"]
        .into_iter()
        .all(|key| metrics[key] == expected[key]);
    if !same {
        return (None, Buckets::default());
    }
    (metrics["manifest"].as_str().map(Into::into), buckets)
}

fn print(as_json: bool, out: &Path, results: &Results, changes: &Changes) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    if as_json {
        let summary = json!({
            "out": out.display().to_string(),
            "changed_verdicts": changes.verdicts,
            "changed_records": changes.records,
            "unmeasured": changes.unmeasured,
            "metrics": results.metrics,
        });
        writeln!(stdout, "{}", json::to_line(&summary)?)?;
        return Ok(());
    }
    writeln!(stdout, "{}", results.summary())?;
    match changes.records {
        0 => writeln!(stdout, "every record as it was")?,
        n => writeln!(
            stdout,
            "{n} records differ from before, {} in their verdict",
            changes.verdicts
        )?,
    }
    writeln!(stdout, "written to {}", escaped(&out.display().to_string()))?;
    Ok(())
}
