//! A process that measures: `prepose bench worker`, and the other end of its pipe.
//!
//! A row that runs out of memory may take its process with it. The next row then gets a new one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, bail};
use prepose::bench::machine::DeviceFacts;
use prepose::bench::measure::Bench;
use prepose::bench::row::{Outcome, Row};
use prepose::device::{self, DeviceSpec};

use crate::cli::OK;

/// How long a device may take to open.
const OPENING: Duration = Duration::from_secs(120);

/// Rows from standard input, one JSON object a line; outcomes to standard output, after the device's facts.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The device.
    #[arg(long, default_value = "auto")]
    device: DeviceSpec,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let device = device::open(args.device)?;
    let mut out = io::stdout();
    writeln!(out, "{}", serde_json::to_string(&DeviceFacts::of(&device))?)?;
    let mut bench = Bench::new(device);
    for line in io::stdin().lines() {
        let row: Row = serde_json::from_str(&line?).context("this is not a row")?;
        writeln!(out, "{}", serde_json::to_string(&bench.measure(&row))?)?;
    }
    Ok(OK)
}

/// A worker at work.
pub struct Worker {
    device: DeviceSpec,
    process: Process,
    /// What it said of its device.
    pub facts: DeviceFacts,
}

struct Process {
    child: Child,
    rows: ChildStdin,
    answers: Receiver<String>,
    /// What it complains.
    complaints: File,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Worker {
    /// Starts one, which opens the device.
    pub fn start(device: DeviceSpec) -> anyhow::Result<Self> {
        let mut process = Process::start(device)?;
        let Ok(answer) = process.answers.recv_timeout(OPENING) else {
            bail!("cannot open the device {device}: {}", process.last_words());
        };
        Ok(Self {
            device,
            process,
            facts: serde_json::from_str(&answer).context("the worker speaks another language")?,
        })
    }

    /// Has `row` measured in at most `limit`.
    ///
    /// # Errors
    /// A worker that cannot be started again; all else is in the outcome.
    pub fn measure(&mut self, row: &Row, limit: Duration) -> anyhow::Result<Outcome> {
        let request = serde_json::to_string(row)?;
        let sent = writeln!(self.process.rows, "{request}");
        let answer = match sent {
            Ok(()) => self.process.answers.recv_timeout(limit),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        let problem = match answer {
            Ok(answer) => return Ok(serde_json::from_str(&answer)?),
            Err(RecvTimeoutError::Timeout) => {
                format!("stopped: not done after {:.0} s", limit.as_secs_f64())
            }
            Err(RecvTimeoutError::Disconnected) => self.process.last_words(),
        };
        *self = Self::start(self.device)?;
        Ok(Outcome::failed(row, problem))
    }
}

impl Process {
    fn start(device: DeviceSpec) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let complaints = tempfile::tempfile().context("cannot make a temporary file")?;
        let mut child = Command::new(program)
            .args(["bench", "worker", "--device", &device.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(complaints.try_clone()?)
            .spawn()
            .context("cannot start a worker")?;
        let rows = child.stdin.take().context("a worker without input")?;
        let out = child.stdout.take().context("a worker without output")?;
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            for line in lines {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            child,
            rows,
            answers,
            complaints,
        })
    }

    /// Why it ended.
    fn last_words(&mut self) -> String {
        // Its output is closed or it is stuck; in either case there is nothing more to come.
        let _ = self.child.kill();
        let status = self.child.wait();
        let mut text = String::new();
        let read =
            (self.complaints.rewind()).and_then(|()| self.complaints.read_to_string(&mut text));
        match (read, last_words(&text), status) {
            (Ok(_), Some(words), _) => words,
            (_, _, Ok(status)) => format!("the worker ended without a word ({status})"),
            (_, _, Err(error)) => format!("the worker ended without a word ({error})"),
        }
    }
}

/// The message of a panic, or else the last line.
pub fn last_words(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let panic = lines
        .clone()
        .skip_while(|line| !line.contains("panicked at"))
        .nth(1);
    let words = panic.or_else(|| lines.next_back())?;
    Some(words.chars().take(300).collect())
}

#[cfg(test)]
mod tests {
    use super::last_words;

    #[test]
    fn the_reason_is_found_among_the_complaints() {
        let panic = "\nthread 'main' panicked at a.rs:1:2:\nout of memory\nnote: run with `RUST_BACKTRACE=1`\n";
        assert_eq!(last_words(panic).as_deref(), Some("out of memory"));
        assert_eq!(
            last_words("one\n\nerror: two\n").as_deref(),
            Some("error: two")
        );
        assert_eq!(last_words(" \n"), None);
    }
}
