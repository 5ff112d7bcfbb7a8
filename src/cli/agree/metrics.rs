//! `prepose agree correlation` and `prepose agree decisions`

use std::path::PathBuf;

use anyhow::ensure;
use prepose::audit::study::metrics;
use prepose::audit::study::raters::{self, Rater, Together, Worth, raters, together};
use serde_json::{Map, json};

use super::Output;
use super::input::{Draws, sheets};

/// Metrics, and the people that they are compared with.
#[derive(Debug, clap::Args)]
struct Compared {
    /// What people say, one file per person; with several, what most of them say counts.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    people: Vec<PathBuf>,
    /// What metrics say, by the same ids: any number of files, such as the scores.jsonl of a run.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    metrics: Vec<PathBuf>,
    /// The metrics' columns [default: all with numbers, but for a run's seeds, times and counts].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<String>,
    /// The column with what people say [default: human_verdict, label, choice, code, answer or verdict].
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// The words of people that mean yes; all others mean no.
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    right: Vec<String>,
    /// Use the mean of what several people say, instead of what most of them say.
    #[arg(long)]
    mean: bool,
    /// Show the paper's rows below.
    #[arg(long)]
    published: bool,
    #[command(flatten)]
    draws: Draws,
    #[command(flatten)]
    output: Output,
}

impl Compared {
    /// What people say, `worth` that much where nothing says which words are right, and the metrics.
    fn read(&self, worth: Worth) -> anyhow::Result<(Together, Vec<Rater>)> {
        let worth = match self.right.as_slice() {
            [] => worth,
            right => Worth::Right(right.to_vec()),
        };
        let people = raters(&sheets(&self.people)?, self.label.as_slice())?;
        let people = together(&people, &worth, self.mean)?;
        let metrics = raters::metrics(&sheets(&self.metrics)?, &self.columns)?;
        Ok((people, metrics))
    }

    /// What is said beside the table.
    fn notes(&self, people: &Together) -> (Map<String, serde_json::Value>, String) {
        let mut more = Map::new();
        more.insert("people".into(), json!(self.people.len()));
        more.insert("divided".into(), json!(people.divided));
        let text = match people.divided {
            0 => String::new(),
            divided => format!("\nleft out: {divided} items on which people are divided\n"),
        };
        (more, text)
    }
}

/// How metrics correlate with people: Spearman's rho, Kendall's tau-b and Pearson's r, with 95 % intervals.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose agree correlation --people anna.json ben.json cleo.json --right right --metrics scores.jsonl --columns pse,centre,t2i
  prepose agree correlation --people anna.json --grades missing,wrong,right --metrics scores.jsonl --published")]
pub struct Correlation {
    #[command(flatten)]
    compared: Compared,
    /// People's words from the worst to the best: worth 0, 1, 2 and so on.
    #[arg(
        long,
        value_name = "WORDS",
        value_delimiter = ',',
        conflicts_with = "right"
    )]
    grades: Vec<String>,
}

impl Correlation {
    pub fn run(&self) -> anyhow::Result<u8> {
        let given = &self.compared;
        let worth = match self.grades.as_slice() {
            [] => Worth::Number,
            grades => Worth::Grade(grades.to_vec()),
        };
        let (people, of) = given.read(worth)?;
        let bootstrap = given.draws.bootstrap();
        let table = metrics::correlations(&people, &of, &bootstrap, given.published)?;
        let (more, notes) = given.notes(&people);
        given.output.print(&[table], more, &notes)
    }
}

/// What metrics get right as a yes or no: precision, recall, accuracy, specificity and F1, with 95 % intervals.
///
/// People's words are a yes or a no by --right, or are 0 and 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose agree decisions --people anna.json --right right --metrics scores.jsonl --columns pse,t2i --threshold pse=0.5,t2i=0.1")]
pub struct Decisions {
    #[command(flatten)]
    compared: Compared,
    /// The number from which a metric says yes: one for all, or NAME=NUMBER for each.
    #[arg(long, value_name = "NUMBER|NAME=NUMBER", value_delimiter = ',', value_parser = parse_threshold, default_value = "0.5")]
    threshold: Vec<Threshold>,
}

#[derive(Clone, Debug)]
struct Threshold {
    name: Option<String>,
    at: f64,
}

fn parse_threshold(text: &str) -> Result<Threshold, String> {
    let (name, number) = match text.rsplit_once('=') {
        Some((name, number)) => (Some(name.trim().to_owned()), number),
        None => (None, text),
    };
    let at: f64 = (number.trim().parse().ok())
        .filter(|at: &f64| at.is_finite())
        .ok_or_else(|| {
            format!("{number:?} is not a number; thresholds look like 0.5 or pse=0.5,t2i=0.1")
        })?;
    Ok(Threshold { name, at })
}

impl Decisions {
    pub fn run(&self) -> anyhow::Result<u8> {
        let given = &self.compared;
        let (people, of) = given.read(Worth::Truth)?;
        for name in self.threshold.iter().filter_map(|one| one.name.as_ref()) {
            let known: Vec<&str> = of.iter().map(|metric| metric.name.as_str()).collect();
            ensure!(
                known.contains(&name.as_str()),
                "--threshold {name}=…: there is no metric {name:?}; the metrics are {}",
                known.join(", ")
            );
        }
        let of_all = self.threshold.iter().find(|one| one.name.is_none());
        let threshold = |name: &str| {
            let own = (self.threshold.iter()).find(|one| one.name.as_deref() == Some(name));
            own.or(of_all).map_or(0.5, |one| one.at)
        };
        let bootstrap = given.draws.bootstrap();
        let table = metrics::decisions(&people, &of, threshold, &bootstrap, given.published)?;
        let (more, notes) = given.notes(&people);
        given.output.print(&[table], more, &notes)
    }
}
