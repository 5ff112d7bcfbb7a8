//! What is noted of each call of the runner: `provenance/TIME-PROCESS.json` in the run's folder.

use std::time::Instant;

use serde_json::json;

use super::folder::{FolderError, RunFolder};
use super::run::RunError;
use crate::check::clock;
use crate::output::manifest::BURN_VERSION;

/// One call of the runner on a run's folder.
pub struct Invocation<'a> {
    folder: &'a RunFolder,
    started: Instant,
    started_utc: String,
    /// The command line.
    pub command: Vec<String>,
    /// The device.
    pub device: String,
    /// Pictures at a time, once the networks are loaded.
    pub batch: Option<usize>,
}

impl<'a> Invocation<'a> {
    /// Begins now.
    pub fn new(folder: &'a RunFolder, command: Vec<String>, device: String) -> Self {
        Self {
            folder,
            started: Instant::now(),
            started_utc: clock::now(),
            command,
            device,
            batch: None,
        }
    }

    /// Notes that it has begun.
    ///
    /// # Errors
    /// The store's.
    pub fn begun(&self) -> Result<(), FolderError> {
        self.note("running")
    }

    /// Notes how it ended.
    ///
    /// # Errors
    /// What ended it; else the store's.
    pub fn ended(&self, result: Result<(), RunError>) -> Result<(), RunError> {
        let noted = self.note(match &result {
            Ok(()) => "complete",
            Err(RunError::Interrupted) => "interrupted",
            Err(_) => "failed",
        });
        // On a full disk the note fails too, but what ended the run is the one to tell.
        result?;
        Ok(noted?)
    }

    fn note(&self, outcome: &str) -> Result<(), FolderError> {
        let name = format!(
            "provenance/{}-{}.json",
            self.started_utc.replace(':', "-"),
            std::process::id()
        );
        let text = serde_json::to_string_pretty(&json!({
            "started_utc": self.started_utc,
            "seconds": self.started.elapsed().as_secs_f64(),
            "outcome": outcome,
            "command": self.command,
            "prepose": env!("CARGO_PKG_VERSION"),
            "git_commit": option_env!("PREPOSE_GIT_COMMIT"),
            "burn": BURN_VERSION,
            "device": self.device,
            "threads": std::thread::available_parallelism().map_or(0, usize::from),
            "os": std::env::consts::OS,
            "arch": std::env::consts::ARCH,
            "batch": self.batch,
        }))?;
        let text = text + "\n";
        self.folder.store().put(&name, text.as_bytes())?;
        match outcome {
            "running" => Ok(()),
            _ => self.folder.enlist(&name, text.as_bytes()),
        }
    }
}
