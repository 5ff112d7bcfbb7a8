//! Progress: a bar on a terminal, plain lines elsewhere, nothing when asked for nothing.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// How a run tells that it is going on.
pub enum Progress {
    /// A bar that redraws itself.
    Bar(ProgressBar),
    /// A line now and then.
    Lines {
        /// Of how many units.
        total: u64,
        /// How many are done.
        done: u64,
        /// When the first unit was begun.
        started: Instant,
        /// When the last line was printed.
        last: Instant,
        /// What a unit is.
        unit: &'static str,
        /// What is being done.
        message: String,
    },
    /// Silence.
    Quiet,
}

/// Between two plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

impl Progress {
    /// Progress over `total` units on standard error.
    pub fn new(total: u64, unit: &'static str, quiet: bool) -> Self {
        let template = format!("{{msg}} {{wide_bar}} {{pos}}/{{len}} {unit} {{rate}} {{eta}}");
        Self::with_template(total, unit, &template, quiet)
    }

    /// Progress over the `total` bytes of `file`.
    pub fn bytes(total: u64, file: &str, quiet: bool) -> Self {
        let template = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        let mut progress = Self::with_template(total, "bytes", template, quiet);
        progress.message(file);
        progress
    }

    fn with_template(total: u64, unit: &'static str, template: &str, quiet: bool) -> Self {
        if quiet {
            Progress::Quiet
        } else if io::stderr().is_terminal() {
            let bar = ProgressBar::new(total);
            if let Ok(style) = ProgressStyle::with_template(template) {
                let rate = |state: &ProgressState, to: &mut dyn std::fmt::Write| {
                    // What cannot be written is not seen either.
                    let _ = write!(to, "{:.1}/s", state.per_sec());
                };
                bar.set_style(style.with_key("rate", rate));
            }
            Progress::Bar(bar)
        } else {
            Progress::Lines {
                total,
                done: 0,
                started: Instant::now(),
                last: Instant::now(),
                unit,
                message: String::new(),
            }
        }
    }

    /// Says what is being done.
    pub fn message(&mut self, text: impl Into<String>) {
        match self {
            Progress::Bar(bar) => bar.set_message(text.into()),
            Progress::Lines { message, .. } => *message = text.into(),
            Progress::Quiet => {}
        }
    }

    /// Says whose prompt is at work, or how it begins.
    pub fn prompt(&mut self, prompt: &str) {
        const LETTERS: usize = 24;
        let mut letters = prompt.chars();
        let mut text: String = letters.by_ref().take(LETTERS).collect();
        if letters.next().is_some() {
            text.push('…');
        }
        self.message(text);
    }

    /// `n` more units are done.
    pub fn advance(&mut self, n: u64) {
        match self {
            Progress::Bar(bar) => bar.inc(n),
            Progress::Lines {
                total,
                done,
                started,
                last,
                unit,
                message,
            } => {
                *done += n;
                if last.elapsed() >= LINE_INTERVAL {
                    *last = Instant::now();
                    let rate = *done as f64 / started.elapsed().as_secs_f64();
                    let left = total.saturating_sub(*done) as f64 / rate.max(f64::MIN_POSITIVE);
                    let left = Duration::from_secs(left.min(1e9) as u64);
                    let left = humantime::format_duration(left);
                    eprintln!("{done}/{total} {unit}, {rate:.2} a second, {left} left  {message}");
                }
            }
            Progress::Quiet => {}
        }
    }

    /// Prints a line on standard output without tearing the bar.
    pub fn println(&self, line: &str) -> io::Result<()> {
        let print = || writeln!(io::stdout().lock(), "{line}");
        match self {
            Progress::Bar(bar) => bar.suspend(print),
            _ => print(),
        }
    }

    /// Prints a line on standard error without tearing the bar.
    pub fn note(&self, line: &str) {
        match self {
            Progress::Bar(bar) => bar.suspend(|| eprintln!("{line}")),
            _ => eprintln!("{line}"),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Progress::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
