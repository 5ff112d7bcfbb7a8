//! The parts of a cure: which are done, and how long they took.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use prepose::output::files::append_line;
use prepose_untrusted::read_text;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A stage that came to its end, or was stopped; of a kill nothing is known.
#[derive(Serialize, Deserialize)]
struct Line {
    stage: String,
    seconds: f64,
    done: bool,
}

/// What `stages.jsonl` says.
pub struct Stages {
    path: PathBuf,
    known: Vec<Line>,
    json: bool,
    quiet: bool,
}

impl Stages {
    pub fn open(folder: &Path, json: bool, quiet: bool) -> anyhow::Result<Self> {
        let path = folder.join("stages.jsonl");
        let text = match read_text(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        // A kill may have left half a line at the end.
        let known = text
            .lines()
            .map_while(|line| serde_json::from_str(line).ok());
        Ok(Self {
            known: known.collect(),
            path,
            json,
            quiet,
        })
    }

    /// Whether a stage came to its end.
    pub fn is_done(&self, stage: &str) -> bool {
        self.known
            .iter()
            .any(|line| line.done && line.stage == stage)
    }

    /// Does a stage. One that is done is done again, as it may find its files damaged, but counts once.
    pub fn take<T>(
        &mut self,
        stage: &str,
        act: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let known = self.is_done(stage);
        if !known && self.json {
            let line = json!({"event": "stage", "stage": stage});
            // A reader that has gone away does not stop a cure.
            let _ = writeln!(std::io::stdout().lock(), "{line}");
        } else if !known && !self.quiet {
            eprintln!("{stage}");
        }
        let started = Instant::now();
        let result = act();
        if !known {
            let line = Line {
                stage: stage.into(),
                seconds: started.elapsed().as_secs_f64(),
                done: result.is_ok(),
            };
            append_line(&self.path, &serde_json::to_string(&line)?)?;
            self.known.push(line);
        }
        result
    }

    /// Seconds of each stage, over all calls that were not killed.
    pub fn seconds(&self) -> BTreeMap<&str, f64> {
        let mut seconds: BTreeMap<&str, f64> = BTreeMap::new();
        for line in &self.known {
            *seconds.entry(&line.stage).or_default() += line.seconds;
        }
        seconds
    }
}
