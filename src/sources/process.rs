//! A program that makes pictures: a JSON line a job goes in, a JSON line a finished picture comes out.
//!
//! ```text
//! out  {"type": "hello", "protocol": 1, "name": "FLUX.1-dev", "at_once": 4}
//! in   {"id": "…", "prompt": "a cup", "negative_prompt": "", "seed": 0, "width": 512, "height": 512, "steps": 20,
//!       "guidance_scale": 7.5, "out": "/tmp/…"}
//! out  {"type": "done", "id": "…", "path": "/tmp/…/1.png"}
//! out  {"type": "error", "id": "…", "code": "refused", "message": "…"}
//! ```
//!
//! What is not wished for is null. Answers may come in any order. The end of its input tells the program to end.

mod running;

use crate::{Deliver, File, Job, Origin, Outcome, Refusal, Source, SourceError, Wishes};
use prepose_untrusted::{MAX_PICTURE, printable, read_regular};
use running::Running;
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
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
}

/// What a program answers.
#[derive(Debug, Deserialize)]
struct Answer {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    seconds: Option<f64>,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    message: Option<String>,
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
                "which is no JSON; its first line should be {\"type\": \"hello\", \"protocol\": 1}"
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
            "out": self.folder.path(),
        });
        format!("{line}\n")
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
            let answer: Answer =
                serde_json::from_str(&line).map_err(|_| strange("which is no answer".into()))?;
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

enum Wrong {
    Line(String),
    Source(SourceError),
}

/// What an answer says of its job.
fn outcome(answer: &Answer, job: &Job, folder: &Path, seconds: f64) -> Result<Outcome, Wrong> {
    let message = || {
        let message = answer.message.as_deref().unwrap_or("no reason given");
        printable(message).to_string()
    };
    let code = || printable(answer.code.as_deref().unwrap_or("unknown")).to_string();
    match (answer.kind.as_deref(), answer.code.as_deref()) {
        (Some("error"), Some("refused")) => Ok(Outcome::Refused(Refusal {
            code: code(),
            message: message(),
        })),
        (Some("error"), _) => Err(Wrong::Source(SourceError::Maker {
            prompt_id: job.prompt_id.clone(),
            seed: job.seed,
            code: code(),
            message: message(),
        })),
        (Some("done") | None, _) => {
            let Some(path) = &answer.path else {
                return Err(Wrong::Line("which has no \"path\" of a picture".into()));
            };
            let (path, bytes) = take(path, folder).map_err(Wrong::Source)?;
            // It has been read; what is left of it goes with the folder.
            let _ = std::fs::remove_file(path);
            let origin = Origin {
                seed: answer.seed,
                attempts: 1,
                ..Origin::default()
            };
            let seconds = answer
                .seconds
                .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
                .unwrap_or(seconds);
            Ok(Outcome::Picture(File::new(bytes, origin, seconds)))
        }
        (Some(_), _) => Err(Wrong::Line(
            "whose \"type\" is neither \"done\" nor \"error\"".into(),
        )),
    }
}

/// The file at a path that a program named, which must be in the folder that it was given.
fn take(given: &str, folder: &Path) -> Result<(PathBuf, Vec<u8>), SourceError> {
    let wrong = |why: String| SourceError::Place {
        path: printable(given).to_string(),
        why,
    };
    let path = folder
        .join(given)
        .canonicalize()
        .map_err(|error| wrong(format!("which cannot be read: {error}")))?;
    let folder = folder
        .canonicalize()
        .map_err(|error| wrong(error.to_string()))?;
    if !path.starts_with(&folder) {
        return Err(wrong(
            "which is not in the folder that the job names in \"out\"".into(),
        ));
    }
    let bytes = read_regular(&path, MAX_PICTURE)
        .map_err(|error| wrong(format!("which cannot be read: {error}")))?;
    Ok((path, bytes))
}

impl Source for Process {
    fn at_once(&self) -> usize {
        self.hello.at_once.unwrap_or(1).clamp(1, MOST)
    }

    fn fetch(&mut self, jobs: &[Job], deliver: &mut Deliver) -> Result<(), SourceError> {
        let mut left: Vec<usize> = (0..jobs.len()).collect();
        while !left.is_empty() {
            self.begin()?;
            left.sort_unstable();
            let these: Vec<(usize, &Job)> =
                left.iter().map(|index| (*index, &jobs[*index])).collect();
            left = self.go(&these, deliver).inspect_err(|_| {
                // What it makes now nobody will ask for.
                if let Some(running) = &mut self.running {
                    running.grace = Duration::ZERO;
                }
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
