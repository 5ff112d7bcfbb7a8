//! `prepose scene`

mod annotate;
mod attributes;
mod compare;
mod refine;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, ensure};
use prepose::judge::ask::{Manner, Outcome, ask};
use prepose::judge::book::Book;
use prepose::judge::picture::Named;
use prepose::judge::question::Question;
use prepose::judge::scene::graph::{self, Graph, Level};
use prepose::judge::scene::language;
use prepose::output::files::{parent, prepare_folder, write_atomically};
use prepose_untrusted::{escaped, escaped_json, read_text_or_stdin};
use serde_json::{Value, json};

use super::judge::asking::{BOOK, no_object};
use super::judge::model::{ModelArgs, of_a_server, of_a_writer, of_texts};
use super::progress::Progress;
use super::{ERROR, OK, interrupt};
use annotate::Annotate;
use attributes::Attributes;
use compare::Compare;
use refine::Refine;

/// Scene graphs (docs/judge.md): prompts and texts from graphs, and graphs from captions and pictures, as Scene-Bench makes them.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make prompts from graphs, "{subject} {predicate} {object}" joined by commas, with complexity and level; offline
    Prompts(Prompts),
    /// Let a language model write a text for each graph
    #[command(mut_args(of_texts))]
    Compose(Compose),
    /// Let a language model extract the graph of each caption
    #[command(mut_args(of_texts))]
    Extract(Extract),
    Annotate(Annotate),
    /// Let a language model say what kind of scene each graph is
    #[command(mut_args(of_texts))]
    Classify(Classify),
    /// Let a language model give things of each category an attribute, "red apple" for "apple"; one graph for each
    #[command(mut_args(of_texts))]
    Attributes(Attributes),
    /// Compare models' judged pictures side by side, with the paper's figures: its tables 2, 3, 4, 7 and 9; offline
    Compare(Compare),
    Refine(Box<Refine>),
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    match &args.command {
        Command::Prompts(args) => args.run(),
        Command::Compose(args) => args.run(quiet),
        Command::Extract(args) => args.run(quiet),
        Command::Annotate(args) => args.run(quiet),
        Command::Classify(args) => args.run(quiet),
        Command::Attributes(args) => args.run(quiet),
        Command::Compare(args) => args.run(),
        Command::Refine(args) => args.run(quiet),
    }
}

/// Where lines go.
#[derive(Debug, clap::Args)]
struct Output {
    /// The file to write, one JSON object per line [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Output {
    fn write(&self, lines: &[Value]) -> anyhow::Result<()> {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        match &self.out {
            None => Ok(write!(std::io::stdout().lock(), "{}", escaped_json(&text))?),
            Some(path) => write_atomically(path, text.as_bytes())
                .with_context(|| format!("cannot write {}", path.display())),
        }
    }
}

/// Make prompts from graphs, with complexity and level.
#[derive(Debug, clap::Args)]
struct Prompts {
    /// The graphs: a JSON list, or one per line.
    #[arg(value_name = "FILE")]
    graphs: PathBuf,
    /// How much objects count in a scene's complexity; relationships count for the rest.
    #[arg(long, value_name = "0-1", default_value_t = 0.0)]
    gamma: f64,
    #[command(flatten)]
    output: Output,
}

impl Prompts {
    fn run(&self) -> anyhow::Result<u8> {
        ensure!(
            (0.0..=1.0).contains(&self.gamma),
            "--gamma is {}, but must be from 0 to 1",
            self.gamma
        );
        let line = |graph: &Graph| {
            let complexity = graph.complexity(self.gamma);
            json!({ "id": graph.id, "prompt": graph.prompt(), "complexity": complexity,
                "level": Level::of(complexity).as_str() })
        };
        let lines: Vec<Value> = graphs(&self.graphs)?.iter().map(line).collect();
        self.output.write(&lines)?;
        Ok(OK)
    }
}

/// Whom to ask, and where answers are kept.
#[derive(Debug, clap::Args)]
#[command(mut_arg("judge", of_a_server), mut_args(of_a_writer))]
struct Asking {
    #[command(flatten)]
    model: ModelArgs,
    /// Where answers are kept, so that nothing is asked twice [default: answers.jsonl beside --out].
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Asking {
    /// Asks, reads each answer, and writes the lines of those that could be read.
    fn ask(
        &self,
        named: &[Named],
        questions: &[Question],
        read: impl Fn(usize, &str) -> Result<Vec<Value>, String>,
        quiet: bool,
    ) -> anyhow::Result<u8> {
        ensure!(
            !self.model.is_oracle(),
            "--judge needs the address of a server with a language model: no box can write or read texts"
        );
        let (model, stop) = self.model.model()?;
        let mut book = match (&self.answers, &self.output.out) {
            (Some(path), _) => Book::open(path)?,
            (None, Some(out)) => {
                prepare_folder(parent(out))?;
                Book::open(&parent(out).join(BOOK))?
            }
            (None, None) => Book::unkept(),
        };
        let bar = Mutex::new(Progress::new(questions.len() as u64, "questions", quiet));
        let manner = Manner {
            concurrency: self.model.concurrency,
            progress: &|_| {
                bar.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .advance(1)
            },
            stop: &stop,
        };
        let asked = ask(&model, named, questions, &mut book, &manner)?;
        bar.into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .finish();
        let (mut lines, mut used, mut wrong) = (Vec::new(), 0, Vec::new());
        for (at, (outcome, text)) in asked.outcomes.iter().zip(&asked.texts).enumerate() {
            let line = match (outcome, text) {
                (_, Some(text)) => read(at, text),
                (Outcome::Failed(why), None) => Err(why.clone()),
                (Outcome::Unasked, None) => Err("it was not asked".into()),
                (Outcome::Answered(answer), None) => Err(no_object(*answer)),
            };
            match line {
                Ok(new) => {
                    used += 1;
                    lines.extend(new);
                }
                Err(why) => wrong.push((&questions[at].id, why)),
            }
        }
        self.output.write(&lines)?;
        let cost = self.model.cost(asked.prompt_tokens, asked.answer_tokens);
        if !quiet {
            eprintln!(
                "{} of {} answers can be used; {} tokens of questions and {} of answers{}",
                used,
                questions.len(),
                asked.prompt_tokens,
                asked.answer_tokens,
                cost.map_or(String::new(), |cost| format!(", cost {cost:.4}"))
            );
        }
        for (id, why) in wrong.iter().take(5) {
            eprintln!("{}", escaped(&format!("left out: {id}: {why}")));
        }
        if wrong.len() > 5 {
            eprintln!("left out: {} more", wrong.len() - 5);
        }
        if let Some(code) = interrupt::exit_code() {
            return Ok(code);
        }
        Ok(if wrong.is_empty() { OK } else { ERROR })
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    read_text_or_stdin(path).with_context(|| format!("cannot read {}", path.display()))
}

fn graphs(path: &Path) -> anyhow::Result<Vec<Graph>> {
    graph::read(&text(path)?).with_context(|| path.display().to_string())
}

/// Let a language model write a text for each graph (table 6 of the paper).
#[derive(Debug, clap::Args)]
struct Compose {
    /// The graphs: a JSON list, or one per line.
    #[arg(value_name = "FILE")]
    graphs: PathBuf,
    #[command(flatten)]
    asking: Asking,
}

impl Compose {
    fn run(&self, quiet: bool) -> anyhow::Result<u8> {
        let graphs = graphs(&self.graphs)?;
        let questions: Vec<Question> = graphs.iter().map(language::compose).collect();
        let read = |at: usize, answer: &str| {
            let prompt = language::composed(answer)?;
            Ok(vec![json!({ "id": graphs[at].id, "prompt": prompt })])
        };
        self.asking.ask(&[], &questions, read, quiet)
    }
}

/// Let a language model say what kind of scene each graph is (appendix A of the paper).
#[derive(Debug, clap::Args)]
struct Classify {
    /// The graphs: a JSON list, or one per line.
    #[arg(value_name = "FILE")]
    graphs: PathBuf,
    #[command(flatten)]
    asking: Asking,
}

impl Classify {
    fn run(&self, quiet: bool) -> anyhow::Result<u8> {
        let graphs = graphs(&self.graphs)?;
        let questions: Vec<Question> = graphs.iter().map(language::classify).collect();
        let read = |at: usize, answer: &str| {
            let [theme, class] = language::classified(answer)?;
            Ok(vec![
                json!({ "id": graphs[at].id, "theme": theme, "class": class }),
            ])
        };
        self.asking.ask(&[], &questions, read, quiet)
    }
}

/// Let a language model extract the graph of each caption (table 10 of the paper).
#[derive(Debug, clap::Args)]
struct Extract {
    /// The captions, one per line.
    #[arg(value_name = "FILE")]
    captions: PathBuf,
    #[command(flatten)]
    asking: Asking,
}

impl Extract {
    fn run(&self, quiet: bool) -> anyhow::Result<u8> {
        let text = text(&self.captions)?;
        let captions: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        ensure!(
            !captions.is_empty(),
            "{}: there are no captions in it",
            self.captions.display()
        );
        let question =
            |(number, caption): (usize, &&str)| language::extract(&number.to_string(), caption);
        let questions: Vec<Question> = (1..).zip(&captions).map(question).collect();
        let read = |at: usize, answer: &str| {
            let graph = language::extracted(&questions[at].id, answer)?;
            let mut line = serde_json::to_value(graph).map_err(|error| error.to_string())?;
            line["caption"] = json!(captions[at]);
            Ok(vec![line])
        };
        self.asking.ask(&[], &questions, read, quiet)
    }
}
