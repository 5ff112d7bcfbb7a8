//! What a training tells of itself: a bar or lines for people, or JSON lines.

use std::io::Write as _;

use prepose::train::run::Event;
use prepose::train::trainer::Step;
use prepose_untrusted::{escaped_line, printable};
use serde_json::{Value, json};

use crate::cli::progress::Progress;

/// Pictures of no use that are named on the terminal; all of them are in `skipped.jsonl`.
const NAMED: usize = 5;

/// Tells of a training.
pub struct Told {
    json: bool,
    quiet: bool,
    progress: Progress,
}

impl Told {
    pub fn new(json: bool, quiet: bool) -> Self {
        Self {
            json,
            quiet,
            progress: Progress::Quiet,
        }
    }

    fn begin(&mut self, total: usize, unit: &'static str, message: &str) {
        self.progress.finish();
        self.progress = Progress::new(total as u64, unit, self.quiet || self.json);
        self.progress.message(message);
    }

    fn line(&self, line: &Value) {
        // A reader that has gone away does not stop a training.
        let _ = writeln!(std::io::stdout().lock(), "{line}");
    }

    fn say(&self, text: &str) {
        if !self.quiet && !self.json {
            let _ = self.progress.println(text);
        }
    }

    pub fn finish(&self) {
        self.progress.finish();
    }

    fn step(&mut self, step: &Step, seconds: f64) {
        if self.json {
            let rate = step.samples as f64 / seconds.max(1e-9);
            let mut line = json!({
                "event": "step", "step": step.step, "loss": step.loss, "rate": step.rate,
                "norm": step.norm, "seconds": seconds, "samples_per_second": rate,
            });
            if let Some(scale) = step.scale {
                line["scale"] = json!(scale);
            }
            self.line(&line);
        }
        self.progress.message(format!("loss {:.4}", step.loss));
        self.progress.advance(1);
    }

    pub fn tell(&mut self, event: Event) {
        match event {
            Event::Looking(pictures) => self.say(&format!("looking at {pictures} pictures")),
            Event::Looked { pictures, skipped } => {
                if self.json {
                    return self
                        .line(&json!({"event": "data", "pictures": pictures, "skipped": skipped}));
                }
                for one in skipped.iter().take(NAMED) {
                    self.progress.note(&format!(
                        "left out {}: {}",
                        printable(&one.name),
                        printable(&one.why)
                    ));
                }
                if skipped.len() > NAMED {
                    let more = skipped.len() - NAMED;
                    self.progress
                        .note(&format!("left out {more} more: see skipped.jsonl"));
                }
                self.say(&format!("{pictures} pictures, {} left out", skipped.len()));
            }
            Event::Encoding(samples) => self.begin(samples, "samples", "encoding"),
            Event::Encoded => self.progress.advance(1),
            Event::Begun {
                done,
                steps,
                parameters,
                samples,
            } => {
                self.begin(
                    usize::try_from(steps - done.min(steps)).unwrap_or(0),
                    "steps",
                    "",
                );
                if self.json {
                    return self.line(&json!({"event": "begun", "done": done, "steps": steps, "parameters": parameters, "samples": samples}));
                }
                if done > 0 {
                    self.say(&format!("going on after step {done} of {steps}"));
                }
                self.say(&format!(
                    "training {parameters} numbers on {samples} samples an epoch"
                ));
            }
            Event::Step(step, seconds) => self.step(step, seconds),
            Event::Kept(step) => {
                if self.json {
                    self.line(&json!({"event": "kept", "step": step}));
                }
            }
            Event::Tried(tried) => {
                if self.json {
                    self.line(&json!({"event": "tried", "tried": tried}));
                } else {
                    self.say(&format!("step {}: {tried}", tried.step));
                }
            }
            Event::Sampled(path) => {
                if self.json {
                    self.line(&json!({"event": "sample", "path": path.to_string_lossy()}));
                }
            }
            Event::Written(path) => match self.json {
                true => self.line(&json!({"event": "written", "path": path.to_string_lossy()})),
                false => self.say(&escaped_line(&path.to_string_lossy())),
            },
        }
    }
}
