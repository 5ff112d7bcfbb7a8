//! A program that makes pictures: a JSON line a job goes in, a JSON line a finished picture comes out.
//!
//! ```text
//! out  {"type": "hello", "protocol": 1, "name": "FLUX.1-dev", "at_once": 4}
//! in   {"id": "…", "prompt": "a cup", "negative_prompt": "", "seed": 0, "width": 512, "height": 512, "steps": 20,
//!       "guidance_scale": 7.5, "image": null, "strength": null, "out": "/tmp/…"}
//! out  {"type": "done", "id": "…", "path": "/tmp/…/1.png"}
//! out  {"type": "error", "id": "…", "code": "refused", "message": "…"}
//! ```
//!
//! What is not wished for is null. Answers may come in any order. The end of its input tells the program to end. One that can
//! change a picture says `"edits": true` with its hello, and then finds the path of a PNG file in `image`.

mod answer;
mod running;

use crate::{Deliver, Editing, Job, Source, SourceError, Start, Wishes};
use answer::{Answer, Wrong, outcome};
use prepose_untrusted::printable;
use running::Running;
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How often a program is started again that ends over the same job.
const DEATHS: u32 = 2;

/// The most jobs that a program may ask for at a time.
const MOST: usize = 4096;

/// How long a program may say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Before it says hello: models take their time to load.
    pub start: Duration,
    /// Before the next picture.
    pub picture: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(1800),
            picture: Duration::from_secs(1800),
        }
    }
}

/// A program that makes pictures.
pub struct Process {
    command: String,
    wishes: Wishes,
    patience: Patience,
    stop: Arc<AtomicBool>,
    folder: tempfile::TempDir,
    running: Option<Running>,
    hello: Hello,
    /// How often it ended while a job was under way, by the job's name.
    deaths: HashMap<String, u32>,
}

/// What a program says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Hello {
    /// What it makes pictures with.
    #[serde(default)]
    pub name: Option<String>,
    /// The version of that.
    #[serde(default)]
    pub version: Option<String>,
    /// How many jobs it likes to have at a time.
    #[serde(default)]
    pub at_once: Option<usize>,
    /// Of these lines.
    #[serde(default)]
    pub protocol: Option<u32>,
    /// Whether it takes a picture to begin with.
    #[serde(default)]
    pub edits: Option<bool>,
}

impl Process {
    /// Starts `command` by the system's shell, and waits until it says hello.
    ///
    /// # Errors
    /// It cannot be started, ends, says nothing or something else.
    pub fn start(
        command: &str,
        wishes: Wishes,
        patience: Patience,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, SourceError> {
        let start = |source| SourceError::Start {
            command: command.into(),
            source,
        };
        let folder = tempfile::Builder::new()
            .prefix("prepose-maker-")
            .tempdir()
            .map_err(start)?;
        let mut process = Self {
            command: command.into(),
            wishes,
            patience,
            stop,
            folder,
            running: None,
            hello: Hello::default(),
            deaths: HashMap::new(),
        };
        process.begin()?;
        Ok(process)
    }

    /// What it says of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Starts it, if it does not run.
    fn begin(&mut self) -> Result<(), SourceError> {
        if self.running.is_some() {
            return Ok(());
        }
        let mut running = Running::start(&self.command).map_err(|source| SourceError::Start {
            command: self.command.clone(),
            source,
        })?;
        let what = "was to say hello";
        running.grace = Duration::ZERO;
        let line = running.line(self.patience.start, &self.stop, what)?;
        let strange = |why: String| SourceError::Line {
            line: printable(&line).to_string(),
            why,
        };
        let answer: serde_json::Value = serde_json::from_str(&line).map_err(|_| {
            strange(
                "which is not JSON; its first line should be {\"type\": \"hello\", \"protocol\": 1}"
                    .into(),
            )
        })?;
        if answer.get("type").and_then(|kind| kind.as_str()) != Some("hello") {
            return Err(strange(
                "which is not {\"type\": \"hello\", \"protocol\": 1}".into(),
            ));
        }
        let hello: Hello =
            serde_json::from_value(answer).map_err(|error| strange(format!("in which {error}")))?;
        if hello.protocol.is_some_and(|version| version != 1) {
            return Err(strange("but only protocol 1 is known here".into()));
        }
        self.hello = hello;
        running.grace = Duration::from_secs(5);
        self.running = Some(running);
        Ok(())
    }

    fn line_for(&self, job: &Job) -> String {
        let Wishes {
            size,
            steps,
            guidance_scale,
            negative_prompt,
        } = &self.wishes;
        let line = json!({
            "id": job.name,
            "prompt_id": job.prompt_id,
            "prompt": job.prompt,
            "negative_prompt": negative_prompt,
            "seed": job.seed,
            "width": size.map(|[width, _]| width),
            "height": size.map(|[_, height]| height),
            "steps": steps,
            "guidance_scale": guidance_scale,
            "image": job.start.as_ref().map(|start| self.start_path(start)),
            "strength": job.start.as_ref().map(|start| start.strength),
            "out": self.folder.path(),
        });
        format!("{line}\n")
    }

    /// Where the picture that a job changes lies for the program.
    fn start_path(&self, start: &Start) -> PathBuf {
        let name = format!("start-{}.png", start.sha256);
        self.folder.path().join(name)
    }

    /// Puts the pictures that jobs change where the program finds them.
    fn put_starts(&self, jobs: &[(usize, &Job)]) -> Result<(), SourceError> {
        for start in jobs.iter().filter_map(|(_, job)| job.start.as_ref()) {
            let path = self.start_path(start);
            if !path.exists() {
                let put = std::fs::write(&path, &*start.png);
                put.map_err(|source| SourceError::Put { path, source })?;
            }
        }
        Ok(())
    }

    /// Takes them away again.
    fn remove_starts(&self, jobs: &[Job]) {
        for start in jobs.iter().filter_map(|job| job.start.as_ref()) {
            // What is left of them goes with the folder.
            let _ = std::fs::remove_file(self.start_path(start));
        }
    }

    /// Gives it all of `jobs` and takes its answers, until all are there or it ends. The jobs that are left.
    fn go(
        &mut self,
        jobs: &[(usize, &Job)],
        deliver: &mut Deliver,
    ) -> Result<Vec<usize>, SourceError> {
        let lines: String = jobs.iter().map(|(_, job)| self.line_for(job)).collect();
        let mut open: HashMap<&str, (usize, &Job)> = HashMap::new();
        for (index, job) in jobs {
            open.insert(&job.name, (*index, job));
        }
        let Some(running) = &mut self.running else {
            return Ok(open.into_values().map(|(index, _)| index).collect());
        };
        running.write(lines);
        let mut began = Instant::now();
        while !open.is_empty() {
            let what = format!("had {} to make", plural(open.len()));
            let line = match running.line(self.patience.picture, &self.stop, &what) {
                Ok(line) => line,
                Err(SourceError::Died { how, what, stderr }) => {
                    self.running = None;
                    let left: Vec<usize> = open.values().map(|(index, _)| *index).collect();
                    for (_, job) in open.values() {
                        let deaths = self.deaths.entry(job.name.clone()).or_default();
                        *deaths += 1;
                        if *deaths > DEATHS {
                            return Err(SourceError::Died { how, what, stderr });
                        }
                    }
                    tracing::warn!("the maker ended ({how}) and {what}; it is started again");
                    return Ok(left);
                }
                Err(error) => return Err(error),
            };
            let strange = |why: String| SourceError::Line {
                line: printable(&line).to_string(),
                why,
            };
            let answer: Answer = serde_json::from_str(&line)
                .map_err(|_| strange("which is not an answer".into()))?;
            if matches!(answer.kind.as_deref(), Some("progress" | "hello")) {
                continue;
            }
            let Some(id) = answer.id.as_deref() else {
                return Err(strange(
                    "which does not say in \"id\" what it is about".into(),
                ));
            };
            let Some((index, job)) = open.remove(id) else {
                let asked = jobs.iter().any(|(_, job)| job.name == id);
                let why = match asked {
                    true => "which is about a picture that it has answered for already",
                    false => "which is about no picture that it was asked for",
                };
                return Err(strange(why.into()));
            };
            let seconds = began.elapsed().as_secs_f64();
            began = Instant::now();
            let outcome =
                outcome(&answer, job, self.folder.path(), seconds).map_err(
                    |error| match error {
                        Wrong::Line(why) => strange(why),
                        Wrong::Source(error) => error,
                    },
                )?;
            deliver(index, outcome)?;
        }
        Ok(Vec::new())
    }
}

fn plural(count: usize) -> String {
    match count {
        1 => "1 picture".into(),
        many => format!("{many} pictures"),
    }
}

impl Source for Process {
    fn at_once(&self) -> usize {
        self.hello.at_once.unwrap_or(1).clamp(1, MOST)
    }

    fn editing(&self) -> Editing {
        match self.hello.edits {
            Some(true) => Editing::Also,
            _ => Editing::Never,
        }
    }

    fn fetch(&mut self, jobs: &[Job], deliver: &mut Deliver) -> Result<(), SourceError> {
        let mut left: Vec<usize> = (0..jobs.len()).collect();
        while !left.is_empty() {
            self.begin()?;
            left.sort_unstable();
            let these: Vec<(usize, &Job)> =
                left.iter().map(|index| (*index, &jobs[*index])).collect();
            self.put_starts(&these)?;
            left = self.go(&these, deliver).inspect_err(|_| {
                // What it makes now nobody will ask for.
                if let Some(running) = &mut self.running {
                    running.grace = Duration::ZERO;
                }
            })?;
        }
        self.remove_starts(jobs);
        Ok(())
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
