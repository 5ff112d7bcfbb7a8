//! `prepose bench sheet`

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use prepose::bench::budget::{self, Fit, Known, fit};
use prepose::bench::machine::Machine;
use prepose::bench::row::{Outcome, Row, What};
use prepose::bench::sheet::{Plan, Sheet};
use prepose::request::Dtype;
use prepose_untrusted::read_text;

use super::args::Args;
use super::plan::{Subject, default_weights, matmul};
use super::start;
use super::worker::Worker;
use crate::cli::{OK, input};

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    args.check()?;
    let plan = args.like.as_deref().map(read_plan).transpose()?;
    let folder = args.weights.clone().unwrap_or_else(default_weights);
    let subjects = match plan {
        Some(_) => Vec::new(),
        None => (args.checkpoints.iter())
            .map(|name| Subject::open(name, args.size, &folder, quiet))
            .collect::<anyhow::Result<Vec<_>>>()?,
    };
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot make {}", args.out.display()))?;
    let started = Instant::now();
    let worker = Worker::start(args.device)?;
    let machine = Machine::with(worker.facts.clone());
    let mut measuring = Measuring {
        args,
        quiet,
        end: started + *args.budget,
        device: worker.facts.device.clone(),
        worker: Some(worker),
        known: Known::default(),
        cuts: Vec::new(),
        rows: Vec::new(),
    };
    match plan {
        Some(plan) => measuring.again(plan.rows)?,
        None => measuring.all(subjects, &machine)?,
    }
    let sheet = Sheet {
        machine,
        command: command_line(input::words().skip(1)),
        budget_seconds: args.budget.as_secs_f64(),
        seconds: started.elapsed().as_secs_f64(),
        cuts: measuring.cuts,
        rows: measuring.rows,
    };
    write(&sheet, args)?;
    Ok(OK)
}

fn read_plan(path: &Path) -> anyhow::Result<Plan> {
    let text = read_text(path).with_context(|| format!("cannot read --like {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is not the JSON of a sheet", path.display()))
}

/// As it was typed, but for where things lie on this machine.
fn command_line(mut words: impl Iterator<Item = String>) -> String {
    const PLACES: [&str; 3] = ["--out", "--output", "--weights"];
    let mut command = "prepose".to_string();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (&*word, None),
        };
        // -o FOLDER, -oFOLDER, and behind a -q or a -v.
        let short = word
            .strip_prefix('-')
            .map(|word| word.trim_start_matches(['q', 'v']));
        let in_word = match short.and_then(|word| word.strip_prefix('o')) {
            Some(value) => !value.is_empty(),
            None if PLACES.contains(&name) => value.is_some(),
            None => {
                command = format!("{command} {word}");
                continue;
            }
        };
        if !in_word {
            words.next();
        }
    }
    command
}

/// A sheet in the making.
struct Measuring<'a> {
    args: &'a Args,
    quiet: bool,
    end: Instant,
    device: String,
    /// None while whole programs are measured, which need the device's memory.
    worker: Option<Worker>,
    known: Known,
    cuts: Vec<String>,
    rows: Vec<Outcome>,
}

impl Measuring<'_> {
    /// Everything that the arguments ask for, type by type, checkpoint by checkpoint, and starts last.
    fn all(&mut self, subjects: Vec<Subject>, machine: &Machine) -> anyhow::Result<()> {
        let is_cpu = machine.device.is_cpu;
        let dtypes = match (&*self.args.dtypes, is_cpu) {
            ([], true) => vec![Dtype::F32],
            ([], false) => vec![Dtype::F16, Dtype::Bf16],
            (given, _) => given.to_vec(),
        };
        let mut subjects = subjects;
        let mut left_weight: f64 =
            dtypes.len() as f64 * subjects.iter().map(|s| s.weight).sum::<f64>();
        let wants_starts = self.args.wants(What::Start);
        let start_weight = if wants_starts {
            0.15 * left_weight
        } else {
            0.0
        };
        left_weight += start_weight;
        for (index, &dtype) in dtypes.iter().enumerate() {
            if let Some(row) = matmul(dtype, is_cpu, self.args) {
                self.measure(row)?;
            }
            for subject in &mut subjects {
                let seconds = self.left() * subject.weight / left_weight;
                left_weight -= subject.weight;
                // A size that was asked for is the one that is meant.
                if index == 0 && self.args.size.is_none() {
                    self.choose_size(subject, dtype, seconds);
                }
                let rows = subject.rows(dtype, index == 0, self.args);
                self.group(rows, subject, seconds)?;
            }
        }
        // The device's memory is for the programs that follow.
        self.worker = None;
        let mut starts = subjects.len();
        for subject in &subjects {
            let rows = subject.starts(dtypes[0], self.args);
            let seconds = self.left() / starts.max(1) as f64;
            starts -= 1;
            self.group(rows, subject, seconds)?;
        }
        Ok(())
    }

    /// Smaller pictures where the full ones would take all the time.
    fn choose_size(&mut self, subject: &mut Subject, dtype: Dtype, seconds: f64) {
        let call = |size: usize| {
            let mut rows = subject.rows(dtype, true, self.args).into_iter();
            let unet = rows.find(|row| row.what == What::Unet);
            let cost = unet.map(|row| self.known.cost(&Row { size, ..row }, subject.flops(size)));
            cost.map_or(0.0, |cost| cost.call)
        };
        let size = budget::size(subject.size, subject.factor, seconds, call);
        if size < subject.size {
            self.cut(format!(
                "{}: pictures of {size}² instead of {}²",
                subject.name, subject.size
            ));
            subject.size = size;
        }
    }

    /// Rows that share `seconds`.
    fn group(&mut self, rows: Vec<Row>, subject: &Subject, seconds: f64) -> anyhow::Result<()> {
        let end = Instant::now() + Duration::from_secs_f64(seconds.max(0.0));
        let caches = tempfile::tempdir().context("cannot make a temporary folder")?;
        let count = rows.len();
        for (done, row) in rows.into_iter().enumerate() {
            let left = end.saturating_duration_since(Instant::now()).as_secs_f64();
            let flops = subject.flops(row.size);
            match fit(&row, self.known.cost(&row, flops), left, count - done) {
                Fit::Skip(why) => self.cut(format!("{row}: {why}")),
                Fit::Run(fitted, cuts) => {
                    if let Some(cuts) = cuts {
                        self.cut(format!("{row}: {cuts}"));
                    }
                    let loaded = match fitted.what {
                        What::Start => self.start(fitted, caches.path())?,
                        _ => self.measure(fitted)?,
                    };
                    if !loaded && row.what == What::Load {
                        self.cut(format!(
                            "{}: all the rest, because it cannot be loaded",
                            subject.name
                        ));
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows of another sheet.
    fn again(&mut self, rows: Vec<Row>) -> anyhow::Result<()> {
        let (starts, rows): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| row.what == What::Start);
        let mut late = Vec::new();
        for row in rows {
            match self.left() > 0.0 {
                true => drop(self.measure(row)?),
                false => late.push(row),
            }
        }
        self.worker = None;
        let caches = tempfile::tempdir().context("cannot make a temporary folder")?;
        for row in starts {
            let folder = caches.path().join(&row.model);
            std::fs::create_dir_all(&folder)?;
            match self.left() > 0.0 {
                true => drop(self.start(row, &folder)?),
                false => late.push(row),
            }
        }
        for row in late {
            self.cut(format!("{row}: left out: the time was over"));
        }
        Ok(())
    }

    /// Whether it went well.
    fn measure(&mut self, row: Row) -> anyhow::Result<bool> {
        let limit = self.limit();
        let Some(worker) = &mut self.worker else {
            return Ok(false);
        };
        let outcome = worker.measure(&row, limit)?;
        Ok(self.take(outcome))
    }

    fn start(&mut self, row: Row, folder: &Path) -> anyhow::Result<bool> {
        let outcome = start::measure(&row, &self.device, folder, self.limit())?;
        Ok(self.take(outcome))
    }

    fn take(&mut self, outcome: Outcome) -> bool {
        let went_well = outcome.problem.is_none();
        let result = match (&outcome.problem, outcome.median()) {
            (Some(problem), _) => format!("not measured: {problem}"),
            (None, Some(median)) => format!("{median:.4} s"),
            (None, None) => "nothing".into(),
        };
        self.say(&format!("{}: {result}", outcome.row));
        self.known.add(outcome.clone());
        self.rows.push(outcome);
        went_well
    }

    fn cut(&mut self, what: String) {
        self.say(&what);
        self.cuts.push(what);
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            eprintln!("[{:4.0} s left] {text}", self.left());
        }
    }

    /// Seconds.
    fn left(&self) -> f64 {
        self.end
            .saturating_duration_since(Instant::now())
            .as_secs_f64()
    }

    /// For one row: what is left, and something for the last one to end in peace.
    fn limit(&self) -> Duration {
        Duration::from_secs_f64(self.left().max(30.0))
    }
}

/// A name that neither of two files in the folder has.
fn free(folder: &Path, name: &str) -> String {
    let is_taken = |stem: &str| {
        let mut endings = ["json", "md"].iter();
        endings.any(|ending| folder.join(format!("{stem}.{ending}")).exists())
    };
    let mut stem = name.to_owned();
    let mut number = 1;
    while is_taken(&stem) {
        number += 1;
        stem = format!("{name}-{number}");
    }
    stem
}

/// Both files, and where they are.
fn write(sheet: &Sheet, args: &Args) -> anyhow::Result<()> {
    let json = sheet.to_json();
    let stem = free(&args.out, &sheet.machine.slug());
    for (extension, text) in [("json", format!("{json:#}\n")), ("md", sheet.to_markdown())] {
        let path = args.out.join(format!("{stem}.{extension}"));
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        if !args.json {
            writeln!(std::io::stdout().lock(), "{}", path.display())?;
        }
    }
    if args.json {
        writeln!(std::io::stdout().lock(), "{json}")?;
    }
    Ok(())
}

#[cfg(all(test, feature = "toybox"))]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    #[test]
    fn nothing_that_is_there_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(free(folder.path(), "cpu"), "cpu");
        // One of the two may be gone, or be somebody's own.
        for (file, next) in [("cpu.md", "cpu-2"), ("cpu-2.json", "cpu-3")] {
            std::fs::write(folder.path().join(file), "").unwrap();
            assert_eq!(free(folder.path(), "cpu"), next);
        }
    }

    #[test]
    fn a_command_is_shown_without_places() {
        for place in [
            "-o here",
            "-ohere",
            "-o=here",
            "-qo here",
            "--out here",
            "--out=here",
            "--output here",
            "--output=here",
            "--weights here",
            "--weights=here",
        ] {
            let line = format!("bench sheet -c toybox {place} --only unet");
            let words = line.split(' ').map(str::to_owned);
            let shown = "prepose bench sheet -c toybox --only unet";
            assert_eq!(command_line(words), shown, "{place}");
        }
    }

    #[test]
    fn pictures_are_as_large_as_one_call_of_the_first_batch_can_be() {
        let command = Args::augment_args(Command::new("sheet"));
        let words = ["sheet", "--batches", "4,16"];
        let args = Args::from_arg_matches(&command.get_matches_from(words)).unwrap();
        let mut product = Outcome::empty(&matmul(Dtype::F32, true, &args).unwrap());
        (product.seconds, product.flops) = (vec![1.0], Some(1000));
        let size = |calls: f64| {
            let folder = Path::new("nothing is made");
            let mut subject = Subject::open("toybox", None, folder, true).unwrap();
            let mut known = Known::default();
            known.add(product.clone());
            let mut measuring = Measuring {
                args: &args,
                quiet: true,
                end: Instant::now(),
                device: "flex".into(),
                worker: None,
                known,
                cuts: Vec::new(),
                rows: Vec::new(),
            };
            // Four pictures, at half the speed of a product of matrices.
            let call = 4.0 * subject.flops(128) as f64 / 500.0;
            measuring.choose_size(&mut subject, Dtype::F32, calls * call);
            (subject.size, measuring.cuts.len())
        };
        // Two calls may take a third of the time.
        assert_eq!(size(6.1), (128, 0));
        assert_eq!(size(5.9), (64, 1));
    }
}
