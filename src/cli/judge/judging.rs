//! Who judges, and how all is asked, kept and told.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, ensure};
use prepose::check::rules::Options as RuleOptions;
use prepose::device::DeviceSpec;
use prepose::judge::ask::{Asked, Judge, Manner, Outcome, ask};
use prepose::judge::book::Book;
use prepose::judge::oracle::Oracle;
use prepose::judge::picture::Named;
use prepose::judge::question::Question;
use prepose::output::files::{prepare_folder, write_atomically};
use prepose::table::Table;
use prepose_untrusted::escaped;
use serde_json::{Map, Value, json};

use super::model::ModelArgs;
use super::{Args, pictures};
use crate::cli::progress::Progress;
use crate::cli::{ERROR, OK, interrupt};

/// What was asked and answered.
pub const BOOK: &str = "answers.jsonl";

/// Who judges.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Judge")]
pub struct JudgeArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// Detections that the oracle answers from, as `score` reads them [default: what --checker finds].
    #[arg(long, num_args = 1.., value_name = "FILE")]
    detections: Vec<PathBuf>,
    /// The detector that the oracle sees by, as for `check` [default: toybox].
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "detections")]
    pub checker: Option<String>,
    /// Where the detector runs: auto, cuda[:i], vulkan[:i], metal, wgpu[:i] or flex (the CPU).
    #[arg(
        long,
        value_name = "NAME",
        default_value = "auto",
        hide_short_help = true
    )]
    pub device: DeviceSpec,
}

impl JudgeArgs {
    /// Whether somebody who sees boxes answers too, beside a model.
    pub fn has_boxes(&self) -> bool {
        !self.model.is_oracle() && (!self.detections.is_empty() || self.checker.is_some())
    }

    /// The files with detections that the oracle answers from.
    pub fn detections(&self) -> &[PathBuf] {
        &self.detections
    }

    /// The oracle, from detections in files or from what the detector finds.
    pub fn oracle(&self, named: &[Named], quiet: bool) -> anyhow::Result<Oracle> {
        let cases = match self.detections.as_slice() {
            [] => pictures::look(named, self, quiet)?,
            files => pictures::detections(files)?,
        };
        Ok(Oracle::new(cases, RuleOptions::default()))
    }

    /// Whoever is named, and what ends the asking when it becomes true.
    fn judge(
        &self,
        named: &[Named],
        quiet: bool,
    ) -> anyhow::Result<(Box<dyn Judge>, Arc<AtomicBool>)> {
        if self.model.is_oracle() {
            ensure!(
                self.model.judge_model.is_none(),
                "--judge-model needs --judge with the address of its server"
            );
            return Ok((Box::new(self.oracle(named, quiet)?), Arc::default()));
        }
        let (model, stop) = self.model.model()?;
        Ok((Box::new(model), stop))
    }
}

/// Asks all of it, with a book in the folder of results.
pub fn judge(
    args: &Args,
    named: &[Named],
    questions: &[Question],
    quiet: bool,
) -> anyhow::Result<Asked> {
    let (judge, stop) = args.judge.judge(named, quiet)?;
    prepare_folder(&args.out)?;
    let mut book = Book::open(&args.out.join(BOOK))?;
    let bar = Progress::new(questions.len() as u64, "questions", quiet || args.json);
    let bar = Mutex::new(bar);
    let manner = Manner {
        concurrency: match args.judge.model.is_oracle() {
            true => 1,
            false => args.judge.model.concurrency,
        },
        progress: &|_| {
            bar.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .advance(1)
        },
        stop: &stop,
    };
    let asked = ask(judge.as_ref(), named, questions, &mut book, &manner);
    bar.into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .finish();
    Ok(asked?)
}

/// Answers of somebody who sees boxes; they cost nothing and are not kept.
pub fn by_boxes(
    args: &Args,
    named: &[Named],
    questions: &[Question],
    quiet: bool,
) -> anyhow::Result<Vec<Outcome>> {
    let oracle = args.judge.oracle(named, quiet)?;
    let mut book = Book::unkept();
    let manner = Manner {
        concurrency: 1,
        progress: &|_| (),
        stop: &AtomicBool::new(false),
    };
    Ok(ask(&oracle, named, questions, &mut book, &manner)?.outcomes)
}

/// What is written and told at the end.
pub struct Results {
    /// In the order in which they are shown.
    pub tables: Vec<Table>,
    /// Tables that are written and not shown.
    pub more: Vec<Table>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// A line for each picture.
    pub lines: Vec<Value>,
}

/// Writes and prints what came of the questions.
pub fn finish(args: &Args, asked: &Asked, results: &Results) -> anyhow::Result<u8> {
    let write = |name: &Path, text: &str| {
        let path = args.out.join(name);
        write_atomically(&path, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))
    };
    for table in results.tables.iter().chain(&results.more) {
        write(Path::new(&format!("{}.csv", table.name)), &table.to_csv())?;
    }
    let lines = results.lines.iter().map(|line| format!("{line}\n"));
    write(Path::new("judged.jsonl"), &lines.collect::<String>())?;

    let failed = asked
        .outcomes
        .iter()
        .filter(|one| one.answer().is_none())
        .count();
    let price = args
        .judge
        .model
        .cost(asked.prompt_tokens, asked.answer_tokens);
    let mut stdout = std::io::stdout().lock();
    if args.json {
        let mut report = Map::new();
        for table in &results.tables {
            report.insert(table.name.into(), crate::cli::agree::rows(table));
        }
        report.insert("questions".into(), json!(asked.outcomes.len()));
        report.insert("asked_now".into(), json!(asked.new));
        report.insert("unanswered".into(), json!(failed));
        report.insert("question_tokens".into(), json!(asked.prompt_tokens));
        report.insert("answer_tokens".into(), json!(asked.answer_tokens));
        report.insert("cost".into(), json!(price));
        report.insert("notes".into(), json!(results.notes));
        writeln!(stdout, "{}", Value::Object(report))?;
    } else {
        let tables: Vec<String> = results
            .tables
            .iter()
            .map(|table| table.to_text(140))
            .collect();
        let mut text = tables.join("\n");
        // Writing into a string cannot fail.
        let _ = write!(
            text,
            "\n{} questions, {} asked now; {} tokens of questions and {} of answers",
            asked.outcomes.len(),
            asked.new,
            asked.prompt_tokens,
            asked.answer_tokens
        );
        if let Some(price) = price {
            let _ = write!(text, ", cost {price:.4}");
        }
        text.push('\n');
        for note in &results.notes {
            let _ = writeln!(text, "note: {note}");
        }
        write!(stdout, "{}", escaped(&text))?;
        writeln!(
            stdout,
            "written to {}",
            escaped(&args.out.display().to_string())
        )?;
    }
    if let Some(code) = interrupt::exit_code() {
        return Ok(code);
    }
    if failed > 0 {
        eprintln!("{failed} questions have no answer; the same command asks them again");
        return Ok(ERROR);
    }
    Ok(OK)
}
