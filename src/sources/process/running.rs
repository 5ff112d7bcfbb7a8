//! A program that runs: lines in, lines out, and its end.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::SourceError;

/// The longest line that is read.
const LONGEST: usize = 1 << 20;

/// What is kept of standard error.
const STDERR: usize = 4 << 10;

/// A program that was started.
pub(super) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<std::io::Result<String>>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    drained: Option<JoinHandle<()>>,
    /// How long it has to end by itself once its input has ended.
    pub(super) grace: Duration,
}

impl Running {
    pub(super) fn start(command: &str) -> std::io::Result<Self> {
        let mut shell = shell(command);
        shell
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = shell.spawn()?;
        let stdout = child.stdout.take();
        let (send, lines) = channel();
        std::thread::spawn(move || {
            let Some(stdout) = stdout else { return };
            let mut reader = BufReader::new(stdout);
            while let Some(line) = next_line(&mut reader) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        let (kept, from) = (stderr.clone(), child.stderr.take());
        let drained = std::thread::spawn(move || drain(from, &kept));
        Ok(Self {
            stdin: child.stdin.take(),
            child,
            lines,
            stderr,
            drained: Some(drained),
            grace: Duration::from_secs(5),
        })
    }

    /// Writes on a thread of its own: a program that does not read must not keep us from reading what it says.
    pub(super) fn write(&mut self, lines: String) {
        let Some(mut stdin) = self.stdin.take() else {
            return;
        };
        let (send, receive) = channel();
        std::thread::spawn(move || {
            // One that has ended is found out by its silence.
            let _ = stdin
                .write_all(lines.as_bytes())
                .and_then(|()| stdin.flush());
            let _ = send.send(stdin);
        });
        // A window of jobs fits into a pipe, as a rule.
        self.stdin = receive.recv_timeout(Duration::from_secs(60)).ok();
    }

    /// The next line.
    pub(super) fn line(
        &mut self,
        patience: Duration,
        stop: &AtomicBool,
        what: &str,
    ) -> Result<String, SourceError> {
        const LOOK_UP: Duration = Duration::from_millis(100);
        let began = Instant::now();
        loop {
            match self.lines.recv_timeout(LOOK_UP) {
                Ok(Ok(line)) if line.trim().is_empty() => {}
                Ok(Ok(line)) => return Ok(line),
                Ok(Err(error)) => {
                    return Err(SourceError::Line {
                        line: String::new(),
                        why: format!("which cannot be read: {error}"),
                    });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.died(what)),
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                    return Err(SourceError::Stopped);
                }
                Err(RecvTimeoutError::Timeout) if began.elapsed() > patience => {
                    return Err(SourceError::Silent {
                        seconds: patience,
                        what: format!("it {what}"),
                        stderr: self.said(),
                    });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// It has closed its output.
    fn died(&mut self, what: &str) -> SourceError {
        drop(self.stdin.take());
        let how = wait(&mut self.child, Duration::from_secs(10));
        if let Some(drained) = self.drained.take() {
            // What it wrote last says why it ended; a child of its own may keep the pipe open.
            let began = Instant::now();
            while !drained.is_finished() && began.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        SourceError::Died {
            how: how.map_or("it closed its output".into(), |status| status.to_string()),
            what: what.into(),
            stderr: self.said(),
        }
    }

    fn said(&self) -> String {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        prepose_untrusted::escaped(&lines[lines.len().saturating_sub(12)..].join("\n"))
    }
}

/// Ends it: first its input, then a signal, then by force.
impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if wait(&mut self.child, self.grace).is_some() {
            return;
        }
        end(&self.child, false);
        if wait(&mut self.child, Duration::from_secs(5)).is_none() {
            end(&self.child, true);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn wait(child: &mut Child, most: Duration) -> Option<ExitStatus> {
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if began.elapsed() < most => std::thread::sleep(Duration::from_millis(10)),
            _ => return None,
        }
    }
}

#[cfg(unix)]
fn shell(command: &str) -> Command {
    use std::os::unix::process::CommandExt;
    let mut shell = Command::new("sh");
    // In a group of its own, so that Ctrl-C is ours to pass on, and all of it can be ended.
    shell.arg("-c").arg(command).process_group(0);
    shell
}

#[cfg(not(unix))]
fn shell(command: &str) -> Command {
    let mut shell = Command::new("cmd");
    shell.arg("/C").arg(command);
    shell
}

/// Signals the program and what it has started.
#[cfg(unix)]
fn end(child: &Child, by_force: bool) {
    let signal = if by_force {
        libc::SIGKILL
    } else {
        libc::SIGTERM
    };
    if let Ok(id) = libc::pid_t::try_from(child.id()) {
        // SAFETY: a system call with numbers alone. The child has not been waited for, so its id, which is its group's
        // as well, is not another's.
        unsafe { libc::kill(-id, signal) };
    }
}

#[cfg(not(unix))]
fn end(_child: &Child, _by_force: bool) {}

/// The next line; none at the end.
fn next_line(reader: &mut impl BufRead) -> Option<std::io::Result<String>> {
    let mut bytes = Vec::new();
    let mut limited = reader.take(LONGEST as u64);
    match limited.read_until(b'\n', &mut bytes) {
        Ok(0) => None,
        Ok(length) if length == LONGEST => Some(Err(std::io::Error::other(format!(
            "a line of more than {LONGEST} bytes"
        )))),
        Ok(_) => Some(Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())),
        Err(error) => Some(Err(error)),
    }
}

/// Reads to the end and keeps the last of it, and shows it on our own standard error if that is wanted by the log.
fn drain(from: Option<impl Read>, kept: &Mutex<VecDeque<u8>>) {
    let Some(mut from) = from else { return };
    let mut some = [0; 1024];
    while let Ok(length) = from.read(&mut some) {
        if length == 0 {
            return;
        }
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&some[..length]);
        let surplus = kept.len().saturating_sub(STDERR);
        kept.drain(..surplus);
    }
}
