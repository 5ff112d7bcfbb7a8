//! `prepose parse`

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

use prepose::prompt::Prompt;
use prepose::prompt::compose::{first_part, opening};
use prepose::prompt::neutral::Opening;
use prepose::prompt::scene::{GivenRelation, Scene, TokenPolicy};
use prepose::prompt::schedule::{self, Segment};
use prepose_weights::tokenizer::{ClipTokenizer, Padding};
use prepose_weights::{Checkpoint, LoadOptions};
use serde_json::{Value, json};

use super::extract::{self, ExtractArgs};
use super::{ERROR, OK};

/// Show what is read from a prompt: objects, relations, tokens, schedule, neutral form.
///
/// Exit code 2 if a prompt is refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose parse \"a dog to the left of a cat and above a red car\"
  prepose parse \"a dog and a cat\" --relation \"dog | left of | cat\"
  prepose parse \"a [red:blue:.5] car\" --steps 20 --json")]
pub struct Args {
    /// What to read; each argument is a separate prompt.
    #[arg(required = true, value_name = "PROMPT")]
    prompts: Vec<String>,
    /// A relation to use instead of the prompt's own, as "dog | left of | cat"; may be repeated.
    #[arg(long, value_name = "A | RELATION | B")]
    relation: Vec<GivenRelation>,
    /// Whose tokenizers to use: a checkpoint, as for `generate`, or `clip` [default: toybox, if it is built in].
    #[arg(short, long, value_name = "NAME|PATH")]
    checkpoint: Option<String>,
    /// Tokens that stand for an object: all of its phrase, or only the first, as in PSG's reference code.
    #[arg(long, value_name = "NAME", default_value = "mean")]
    tokens: TokenPolicy,
    /// How many steps the prompt's schedule is for.
    #[arg(short, long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    #[command(flatten)]
    extract: ExtractArgs,
    /// Print one JSON object per prompt on standard output.
    #[arg(long)]
    json: bool,
}

/// What was read from a prompt.
struct Report {
    prompt: String,
    segments: Vec<Segment>,
    scene: Scene,
    /// For each object, the positions by tokenizer; one entry if all agree.
    positions: Vec<Vec<Vec<usize>>>,
    unread: Vec<String>,
    neutral: Result<String, String>,
    swapped: Option<String>,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let tokenizers = tokenizers(args.checkpoint.as_deref())?;
    let mut out = std::io::stdout().lock();
    let mut code = OK;
    for (i, prompt) in args.prompts.iter().enumerate() {
        match (read(prompt, args, &tokenizers), args.json) {
            (Ok(report), true) => writeln!(out, "{}", report.json())?,
            (Ok(report), false) => {
                let gap = if i > 0 { "\n" } else { "" };
                write!(out, "{gap}{}", report.text())?;
            }
            (Err(error), json) => {
                code = ERROR;
                if json {
                    writeln!(
                        out,
                        "{}",
                        json!({"prompt": prompt, "error": format!("{error:#}")})
                    )?;
                }
                eprintln!("error: {prompt:?}: {error:#}");
            }
        }
    }
    Ok(code)
}

/// What is read from the first of the prompts, as `--json` has it.
///
/// # Errors
/// A checkpoint or a prompt that cannot be read.
pub fn json(args: &Args) -> anyhow::Result<Value> {
    let tokenizers = tokenizers(args.checkpoint.as_deref())?;
    let prompt = args.prompts.first().map_or("", String::as_str);
    Ok(read(prompt, args, &tokenizers)?.json())
}

/// The tokenizers of a checkpoint, of which nothing else is read.
fn tokenizers(checkpoint: Option<&str>) -> anyhow::Result<Vec<ClipTokenizer>> {
    let default = if cfg!(feature = "toybox") {
        "toybox"
    } else {
        "clip"
    };
    match checkpoint.unwrap_or(default) {
        "clip" => Ok(vec![ClipTokenizer::clip(Padding::EndOfText)]),
        name => Ok(Checkpoint::open(Path::new(name), &LoadOptions::default())?.tokenizers()?),
    }
}

fn read(prompt: &str, args: &Args, tokenizers: &[ClipTokenizer]) -> anyhow::Result<Report> {
    let segments = schedule::segments(prompt, args.steps as usize)?;
    // What the picture ends with is what it should show.
    let last = segments.last().map_or(prompt, |segment| &segment.text);
    let read = first_part(last)?;
    let given = match args.extract.extractor()? {
        Some(extractor) => extract::relations(&extractor, &read),
        None => Some(args.relation.clone()).filter(|given| !given.is_empty()),
    };
    let scene = match given {
        Some(given) => Scene::with_relations(&read, &given)?,
        None => Scene::parse(&read)?,
    };
    let mut by_tokenizer: Vec<Vec<Vec<usize>>> = Vec::new();
    for tokenizer in tokenizers {
        let tokens = Prompt::parse(&read, tokenizer)?;
        let of = |object| tokens.positions_of(object, args.tokens);
        by_tokenizer.push(scene.objects.iter().map(of).collect::<Result<_, _>>()?);
    }
    by_tokenizer.dedup();
    let of_object = |object: usize| by_tokenizer.iter().map(|all| all[object].clone()).collect();
    Ok(Report {
        prompt: prompt.to_owned(),
        positions: (0..scene.objects.len()).map(of_object).collect(),
        unread: Scene::unread(&read).unwrap_or_default(),
        neutral: opening(Opening::Neutral, last).map_err(|error| error.to_string()),
        swapped: opening(Opening::Swapped, last).ok(),
        segments,
        scene,
    })
}

impl Report {
    fn json(&self) -> Value {
        let objects = self
            .scene
            .objects
            .iter()
            .zip(&self.positions)
            .map(|(object, positions)| {
                json!({
                    "phrase": object.phrase, "noun": object.noun, "count": object.count,
                    "bytes": [object.bytes.start, object.bytes.end],
                    "tokens": positions,
                })
            });
        let relations = self.scene.relations.iter().map(|stated| {
            json!({
                "subject": stated.subject, "relation": stated.relation.as_str(), "objects": stated.objects,
                "text": self.scene.describe(stated),
            })
        });
        let segments = self
            .segments
            .iter()
            .map(|segment| json!({"first_step": segment.first_step, "prompt": segment.text}));
        json!({
            "prompt": self.prompt,
            "objects": objects.collect::<Vec<_>>(),
            "relations": relations.collect::<Vec<_>>(),
            "unread": self.unread,
            "neutral": self.neutral.as_ref().ok(),
            "not_neutral_because": self.neutral.as_ref().err(),
            "swapped": self.swapped,
            "segments": segments.collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n", self.prompt);
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(text, "  {name:<10} {value}");
        };
        let width = self
            .scene
            .objects
            .iter()
            .map(|object| object.phrase.chars().count())
            .max()
            .unwrap_or(0);
        for (i, (object, positions)) in self.scene.objects.iter().zip(&self.positions).enumerate() {
            let name = if i == 0 { "objects" } else { "" };
            let tokens: Vec<String> = positions.iter().map(|positions| join(positions)).collect();
            let number = match object.count {
                Some(1) => String::new(),
                Some(count) => format!(", {count} of them"),
                None => ", several".to_owned(),
            };
            let noun = if object.phrase.to_lowercase() == object.noun {
                String::new()
            } else {
                format!(", {}", object.noun)
            };
            line(
                name,
                &format!(
                    "{:<width$}  tokens {}{noun}{number}",
                    object.phrase,
                    tokens.join(" or ")
                ),
            );
        }
        for (i, stated) in self.scene.relations.iter().enumerate() {
            line(
                if i == 0 { "relations" } else { "" },
                &self.scene.describe(stated),
            );
        }
        if self.scene.relations.is_empty() {
            line("relations", "none");
        }
        if !self.unread.is_empty() {
            line("not read", &self.unread.join("; "));
        }
        match &self.neutral {
            Ok(neutral) => line("neutral", neutral),
            Err(reason) => line("neutral", &format!("none: {reason}")),
        }
        if let Some(swapped) = &self.swapped {
            line("swapped", swapped);
        }
        if self.segments.len() > 1 {
            for segment in &self.segments {
                line(&format!("step {}", segment.first_step), &segment.text);
            }
        }
        text
    }
}

fn join(positions: &[usize]) -> String {
    let positions: Vec<String> = positions.iter().map(usize::to_string).collect();
    positions.join(" ")
}
