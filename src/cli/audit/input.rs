//! What the commands of an audit read.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prepose::audit::annotators::{Between, alpha, between, consensus};
use prepose::audit::join::Audit;
use prepose::audit::labels;
use prepose::audit::table::{self, SampleRow};
use prepose::check::spatialbench::{CheckerConfig, Record, Verdict, read_records};
use prepose::output::files::parent;
use prepose_statistics::bootstrap::Interval;
use prepose_untrusted::{escaped, read_text_or_stdin};
use serde::de::DeserializeOwned;

/// The records and labels that an analysis is of.
#[derive(Debug, clap::Args)]
pub struct Judged {
    /// The checker's records: any number of files, or folders of runs or methods that contain them.
    ///
    /// Records of the same pictures at several margins are kept apart.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE|RUN")]
    pub records: Vec<PathBuf>,
    /// What people say: the labelling page's export, or a CSV table with the same columns; a file for each person.
    ///
    /// With several people, what most of them say counts, and UNDECIDABLE where they are divided.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    pub labels: Vec<PathBuf>,
    /// The table from `audit sample`; coverage is then over all its pictures, labelled or not [default: over the labelled ones].
    #[arg(long, value_name = "FILE")]
    pub sample: Option<PathBuf>,
    /// Leave out pictures that have no record, instead of refusing.
    #[arg(long)]
    pub partial: bool,
}

/// What [`Judged`] names.
pub struct Read {
    /// What several people say of a picture is one label there.
    pub audit: Audit,
    /// How far people agree with each other.
    pub between: Vec<Between>,
    /// How far all of them agree: Krippendorff's α.
    pub alpha: Option<f64>,
}

impl Judged {
    /// Reads all of it.
    pub fn read(&self) -> anyhow::Result<Read> {
        let each = self
            .labels
            .iter()
            .map(|path| labels::read(&text(path)?).with_context(|| path.display().to_string()));
        let each = each.collect::<anyhow::Result<Vec<_>>>()?;
        let (between, alpha) = (between(&each), alpha(&each));
        let labels = consensus(each);
        let rows = self.sample.as_deref().map(sample).transpose()?;
        let mut all = Vec::new();
        for path in record_files(&self.records)? {
            all.extend(records(&path)?);
        }
        let audit = Audit::new(all, &labels, rows.as_deref(), self.partial)
            .with_context(|| format!("cannot use {}", self.named()))?;
        Ok(Read {
            audit,
            between,
            alpha,
        })
    }

    fn named(&self) -> String {
        let names = self.labels.iter().map(|path| path.display().to_string());
        names.collect::<Vec<_>>().join(", ")
    }

    /// How far each two people agree, a line each, and all of them.
    pub fn agreement_between(&self, all: &[Between], alpha: Option<f64>) -> String {
        let line = |found: &Between| {
            let [first, second] = found.annotators.map(|place| self.labels[place].display());
            let kappa = found
                .kappa
                .map_or("-".into(), |kappa| format!("{kappa:.4}"));
            format!(
                "{first} and {second}: {} pictures in common, agreement {:.4}{}, Cohen's kappa {kappa}{}\n",
                found.pictures,
                found.agreement,
                shown(found.agreement_interval),
                shown(found.kappa_interval)
            )
        };
        let mut text = escaped(&all.iter().map(line).collect::<String>());
        if let (Some(alpha), true) = (alpha, self.labels.len() > 2) {
            text += &format!(
                "all {} of them: Krippendorff's alpha {alpha:.4}\n",
                self.labels.len()
            );
        }
        text
    }
}

/// An interval as it is printed: ` [0.6868, 0.9868]`, or nothing.
pub fn shown(interval: Option<Interval>) -> String {
    interval.map_or(String::new(), |[low, high]| {
        format!(" [{low:.4}, {high:.4}]")
    })
}

/// What the files of records are called.
const RECORDS: &str = "per_sample.jsonl";

/// The files of records that are named, and those in the folders that are: a run's, a method's, or one of records.
pub fn record_files(given: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in given {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let found = in_folder(path)?;
        if found.is_empty() {
            bail!(
                "there are no records in {}: neither {RECORDS} nor eval/{RECORDS} is in it or in a folder in it",
                path.display()
            );
        }
        files.extend(found);
    }
    Ok(files)
}

fn in_folder(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let own = |folder: &Path| {
        let places = [folder.join(RECORDS), folder.join("eval").join(RECORDS)];
        places.into_iter().find(|path| path.is_file())
    };
    if let Some(file) = own(folder) {
        return Ok(vec![file]);
    }
    let unreadable = || format!("cannot read {}", folder.display());
    let entries = std::fs::read_dir(folder).with_context(unreadable)?;
    let mut folders = Vec::new();
    for entry in entries {
        folders.push(entry.with_context(unreadable)?.path());
    }
    folders.sort();
    // In the order of the run, which is that of its tables.
    let methods = text(&folder.join("run.json")).unwrap_or_default();
    let methods: serde_json::Value = serde_json::from_str(&methods).unwrap_or_default();
    let methods = methods["methods"].as_array().into_iter().flatten();
    let names: Vec<&str> = methods
        .filter_map(|method| method["name"].as_str())
        .collect();
    folders.sort_by_key(|folder| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let place = names.iter().position(|known| *known == name);
        place.unwrap_or(names.len())
    });
    Ok(folders.iter().filter_map(|folder| own(folder)).collect())
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
    let files = record_files(records)?;
    let beside = files
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

/// How many verdicts are PASS, FAIL and UNDECIDABLE.
pub fn count(verdicts: impl Iterator<Item = Verdict>) -> [usize; 3] {
    let verdicts: Vec<Verdict> = verdicts.collect();
    [Verdict::Pass, Verdict::Fail, Verdict::Undecidable]
        .map(|verdict| verdicts.iter().filter(|said| **said == verdict).count())
}

fn text(path: &Path) -> anyhow::Result<String> {
    read_text_or_stdin(path).with_context(|| format!("cannot read {}", path.display()))
}
