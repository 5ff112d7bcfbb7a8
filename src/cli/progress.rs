//! Progress: a bar on a terminal, plain lines elsewhere, nothing when asked for nothing.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

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
        /// When the last line was printed.
        last: Instant,
        /// What a unit is.
        unit: &'static str,
    },
    /// Silence.
    Quiet,
}

/// Between two plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

impl Progress {
    /// Progress over `total` units on standard error.
    pub fn new(total: u64, unit: &'static str, quiet: bool) -> Self {
        let template =
            format!("{{msg:20!}} {{wide_bar}} {{pos}}/{{len}} {unit} {{per_sec}} {{eta}}");
        Self::with_template(total, unit, &template, quiet)
    }

    /// Progress over the `total` bytes of `file`.
    pub fn bytes(total: u64, file: &str, quiet: bool) -> Self {
        let template = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        let progress = Self::with_template(total, "bytes", template, quiet);
        progress.message(file);
        progress
    }

    fn with_template(total: u64, unit: &'static str, template: &str, quiet: bool) -> Self {
        if quiet {
            Progress::Quiet
        } else if io::stderr().is_terminal() {
            let bar = ProgressBar::new(total);
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            Progress::Bar(bar)
        } else {
            Progress::Lines {
                total,
                done: 0,
                last: Instant::now(),
                unit,
            }
        }
    }

    /// Says what is being done.
    pub fn message(&self, text: impl Into<String>) {
        if let Progress::Bar(bar) = self {
            bar.set_message(text.into());
        }
    }

    /// `n` more units are done.
    pub fn advance(&mut self, n: u64) {
        match self {
            Progress::Bar(bar) => bar.inc(n),
            Progress::Lines {
                total,
                done,
                last,
                unit,
            } => {
                *done += n;
                if last.elapsed() >= LINE_INTERVAL {
                    *last = Instant::now();
                    eprintln!("{done}/{total} {unit}");
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

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Progress::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
