//! `prepose scene`

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, ensure};
use prepose::judge::ask::{Manner, Outcome, ask};
use prepose::judge::book::Book;
use prepose::judge::picture::{Named, read as read_picture};
use prepose::judge::question::Question;
use prepose::judge::scene::graph::{self, Graph, Level};
use prepose::judge::scene::language::{self, Placed};
use prepose::output::files::{parent, prepare_folder, write_atomically};
use prepose::picture::Picture;
use prepose_untrusted::{escaped, escaped_json, read_text_or_stdin};
use serde::Deserialize;
use serde_json::{Value, json};

use super::judge::model::ModelArgs;
use super::progress::Progress;
use super::{ERROR, OK, interrupt};

/// Scene graphs (docs/judge.md): prompts and texts of them, and graphs of captions and pictures, as Scene-Bench makes them.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Prompts of graphs, "{subject} {predicate} {object}" joined by commas, with complexity and level; offline
    Prompts(Prompts),
    /// Let a language model write a text of each graph
    Compose(Compose),
    /// Let a language model read the graph of each caption
    Extract(Extract),
    /// Let a vision-language model read the graph of each picture, whose objects and boxes are known
    Annotate(Annotate),
    /// Let a language model say what kind of scene each graph is
    Classify(Classify),
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    match &args.command {
        Command::Prompts(args) => args.run(),
        Command::Compose(args) => args.run(quiet),
        Command::Extract(args) => args.run(quiet),
        Command::Annotate(args) => args.run(quiet),
        Command::Classify(args) => args.run(quiet),
    }
}

/// Where lines go.
#[derive(Debug, clap::Args)]
struct Output {
    /// One JSON object a line [default: standard output].
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

/// Prompts of graphs, with complexity and level.
#[derive(Debug, clap::Args)]
struct Prompts {
    /// The graphs: a JSON list, or one a line.
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
            "--gamma is {}, and goes from 0 to 1",
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
struct Asking {
    #[command(flatten)]
    model: ModelArgs,
    /// What was answered, and is not asked again [default: answers.jsonl beside --out].
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Asking {
    /// Asks, reads each answer, and writes a line for each that could be read.
    fn ask(
        &self,
        named: &[Named],
        questions: &[Question],
        read: impl Fn(usize, &str) -> Result<Value, String>,
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
                Book::open(&parent(out).join("answers.jsonl"))?
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
        let (mut lines, mut wrong) = (Vec::new(), Vec::new());
        for (at, (outcome, text)) in asked.outcomes.iter().zip(&asked.texts).enumerate() {
            let line = match (outcome, text) {
                (_, Some(text)) => read(at, text),
                (Outcome::Failed(why), None) => Err(why.clone()),
                (Outcome::Unasked, None) => Err("it was not asked".into()),
                (Outcome::Answered(_), None) => Err("the answer is no JSON object".into()),
            };
            match line {
                Ok(line) => lines.push(line),
                Err(why) => wrong.push((&questions[at].id, why)),
            }
        }
        self.output.write(&lines)?;
        let cost = self.model.cost(asked.prompt_tokens, asked.answer_tokens);
        if !quiet {
            eprintln!(
                "{} of {} answers can be used; {} tokens of questions and {} of answers{}",
                lines.len(),
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

/// Let a language model write a text of each graph (table 6 of the paper).
#[derive(Debug, clap::Args)]
struct Compose {
    /// The graphs: a JSON list, or one a line.
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
            Ok(json!({ "id": graphs[at].id, "prompt": prompt }))
        };
        self.asking.ask(&[], &questions, read, quiet)
    }
}

/// Let a language model say what kind of scene each graph is (appendix A of the paper).
#[derive(Debug, clap::Args)]
struct Classify {
    /// The graphs: a JSON list, or one a line.
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
            Ok(json!({ "id": graphs[at].id, "theme": theme, "class": class }))
        };
        self.asking.ask(&[], &questions, read, quiet)
    }
}

/// Let a language model read the graph of each caption (table 10 of the paper).
#[derive(Debug, clap::Args)]
struct Extract {
    /// The captions, one a line.
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
            Ok(line)
        };
        self.asking.ask(&[], &questions, read, quiet)
    }
}

/// Let a vision-language model read the graph of each picture, whose objects and boxes are known (algorithm 1 of the paper).
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The paper asks with --temperature 0.7 --max-tokens 8192 --judge-extra '{\"top_p\": 0.95, \"top_k\": 64}', and leaves out \
pictures of fewer than three objects."
)]
struct Annotate {
    /// A line for each picture: {"id": "1", "picture": "1.jpg", "objects": [{"object": "person.2", "bbox": [left, top, right, bottom]}, …]}.
    #[arg(value_name = "FILE")]
    objects: PathBuf,
    /// Where the pictures are [default: beside the file].
    #[arg(long, value_name = "FOLDER")]
    pictures: Option<PathBuf>,
    #[command(flatten)]
    asking: Asking,
}

/// A picture with its objects.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    id: String,
    picture: String,
    objects: Vec<Placed>,
}

impl Annotate {
    fn run(&self, quiet: bool) -> anyhow::Result<u8> {
        let text = text(&self.objects)?;
        let place = |number: usize| format!("{}: line {number}", self.objects.display());
        let folder = self
            .pictures
            .as_deref()
            .unwrap_or_else(|| parent(&self.objects));
        let (mut shown, mut named, mut questions) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen: HashMap<String, usize> = HashMap::new();
        let lines = (1..)
            .zip(text.lines())
            .filter(|(_, line)| !line.trim().is_empty());
        for (number, line) in lines {
            let one: Shown = serde_json::from_str(line).with_context(|| place(number))?;
            let first = seen.insert(one.id.clone(), number);
            ensure!(
                first.is_none(),
                "{}: there is a picture {} already",
                place(number),
                one.id
            );
            let alone = Graph {
                id: one.id.clone(),
                picture: None,
                objects: one
                    .objects
                    .iter()
                    .map(|placed| placed.object.clone())
                    .collect(),
                relationships: Vec::new(),
            };
            graph::check(alone)
                .map_err(anyhow::Error::msg)
                .with_context(|| place(number))?;
            let path = folder.join(&one.picture);
            let file = read_picture(&path)?;
            let picture =
                Picture::decode(&file.bytes).with_context(|| path.display().to_string())?;
            let size =
                [picture.width, picture.height].map(|side| u32::try_from(side).unwrap_or(u32::MAX));
            questions.push(language::annotate(&one.id, named.len(), &one.objects, size));
            named.push(Named {
                id: one.id.clone(),
                path,
            });
            shown.push(one);
        }
        ensure!(
            !shown.is_empty(),
            "{}: there are no pictures in it",
            self.objects.display()
        );
        let read = |at: usize, answer: &str| {
            let mut graph = language::annotated(&shown[at].id, &shown[at].objects, answer)?;
            graph.picture = Some(shown[at].picture.clone());
            serde_json::to_value(graph).map_err(|error| error.to_string())
        };
        self.asking.ask(&named, &questions, read, quiet)
    }
}
