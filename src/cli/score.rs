//! `prepose score`

mod eyes;
mod known;
mod opse;
pub mod quality;
mod robustness;
mod texts;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use prepose::check::rules::read::{Place, Reader};
use prepose::check::rules::{Options, Outcome, Report, RuleError, Value, by_name};
use prepose_untrusted::read_text_or_stdin;
use serde_json::{Map, json};

use self::eyes::{EyeArgs, Eyes};
use self::known::{CLIP_SCORE, IMAGE_REWARD, JUDGE, OPSE, QUALITY, names, rules};
use self::quality::QualityArgs;
use super::given::Given;
use super::judge::prompted::{self, PromptedArgs};
use super::values::parse_size;
use super::{ERROR, OK, input};

/// Different errors that are told.
const MOST_ERRORS: usize = 20;

/// What both helps end with.
macro_rules! examples {
    () => {
        "Examples:
  prepose score visor results_mymodel_text_spatial_rel_phrases_owlvit_0.1.json
  prepose score pse out/per_sample.jsonl --json
  prepose score geneval detections.jsonl --metadata evaluation_metadata.jsonl
  prepose score pse-3d detections.jsonl --depth Depth-Anything-V2-Small-hf
  prepose score clip-score out/manifest.jsonl --clip clip-vit-base-patch32
  prepose score image-reward out/manifest.jsonl --image-reward ImageReward.pt
  prepose score judge runs/a --judge http://localhost:8000/v1 --judge-model Qwen/Qwen3-VL-8B-Instruct
  prepose score quality runs/tour --reference photos/ --features pt_inception-2015-12-05-6726825d.pth
  prepose score opse sdxl.jsonl kandinsky.jsonl --of pse
  prepose score pse-detectors grounding-dino.jsonl mask-rcnn.jsonl"
    };
}
const EXAMPLES: &str = examples!();

/// Score detections by a published rule.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = concat!("Reads one JSON object per line:

  {\"id\": \"1\", \"prompt\": \"a dog to the left of a cat\", \"width\": 512, \"height\": 512,
   \"detections\": [{\"label\": \"dog\", \"score\": 0.9, \"box_xyxy\": [10, 20, 110, 220]}, …]}

A box may also be COCO's \"bbox\": [x, y, width, height]. The checker's per_sample.jsonl, VISOR's results files and what
GenEval's evaluation writes are read as well, and T2I-CompBench's prompts are read from file names. For all of this, and for
masks, depth and relations without a prompt, see docs/rules.md. clip-score and image-reward read manifests, and pictures that
carry their request; judge takes folders of runs (docs/judge.md), and quality takes those and folders of pictures
(docs/quality.md).

Exit code 2 if a picture cannot be read or scored; the others are still scored.

", examples!()))]
pub struct Args {
    #[command(flatten)]
    given: Given,
    /// The rule.
    #[arg(value_parser = rules())]
    rule: String,
    /// Detections; several files are summed up as one, except that each is a model for `opse`. - is standard input. For
    /// `judge`, runs; for `quality`, runs, methods' folders, or folders of pictures.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Do as the authors' code does, including its known mistakes [default: no].
    #[arg(
        long,
        value_name = "yes|no",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "yes",
        value_parser = clap::builder::BoolishValueParser::new(),
        hide_possible_values = true
    )]
    published: Option<bool>,
    /// Count detections with a score above this [default: the rule's own].
    #[arg(long, value_name = "SCORE")]
    min_score: Option<f64>,
    /// The size of pictures whose lines do not give one [default: 512x512 for the checker's records, none for others].
    #[arg(long, value_name = "WxH", value_parser = parse_size)]
    size: Option<(usize, usize)>,
    /// GenEval's evaluation_metadata.jsonl; the number in a picture's path is that of the line that says what is asked of it.
    #[arg(long, value_name = "FILE")]
    metadata: Option<PathBuf>,
    /// The text to put before each prompt for clip-score [default: "A photo depicts "].
    #[arg(long, value_name = "TEXT", hide_short_help = true)]
    clip_prompt: Option<String>,
    /// Print one JSON object on standard output, on one line: the figures, and what is said about each picture.
    #[arg(long)]
    json: bool,
    /// The rule that scores pictures.
    #[arg(long, value_name = "RULE", default_value = "pse", value_parser = names(), help_heading = "opse")]
    of: String,
    /// The last round.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        help_heading = "opse",
        hide_short_help = true
    )]
    rounds: usize,
    /// Pictures per round.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        help_heading = "opse",
        hide_short_help = true
    )]
    batch: usize,
    /// The seed for what is drawn at random: pictures for opse, what happens to masks for pse-corruptions, subsets and intervals
    /// for quality.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        help_heading = "opse",
        hide_short_help = true
    )]
    seed: u64,
    #[command(flatten)]
    eyes: EyeArgs,
    #[command(flatten)]
    judge: PromptedArgs,
    /// The detector that the oracle of `judge` uses, as for `check` [default: toybox].
    #[arg(
        long,
        value_name = "NAME|PATH",
        help_heading = "Judge",
        hide_short_help = true
    )]
    checker: Option<String>,
    #[command(flatten)]
    quality: QualityArgs,
}

impl Args {
    /// Whether [`of_texts`] opens networks that look at pictures.
    pub fn looks(&self) -> bool {
        self.eyes.look()
    }
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    known::check(&args.rule, &args.given)?;
    if args.rule == JUDGE {
        let eyes = (args.checker.as_deref(), args.eyes.device);
        return prompted::score(&args.judge, &args.files, eyes, args.json, quiet);
    }
    if let Some(score) = args.min_score {
        ensure!(
            score.is_finite(),
            "--min-score is {score}, not a finite number"
        );
    }
    if args.rule == CLIP_SCORE || args.rule == IMAGE_REWARD {
        return texts::run(args);
    }
    if args.rule == QUALITY {
        return quality::run(args, quiet);
    }
    let asked = Asked::new(args)?;
    match args.rule.as_str() {
        OPSE => return opse::compare(args, &asked),
        robustness::CORRUPTIONS => return robustness::corruptions(args, &asked),
        robustness::DETECTORS => return robustness::detectors(args, &asked),
        _ => {}
    }
    let scored = asked.of_files(&args.rule, &args.files)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", scored.json(&args.rule, &asked.options))?;
    } else {
        write!(out, "{}", table(&scored.rows()))?;
    }
    Ok(scored.told())
}

/// What a rule says of the pictures of some files, and what is wrong with the others.
struct Scored {
    report: Report,
    /// Where each picture of the report is from, and its name.
    pictures: Vec<(Place, String)>,
    unread: Vec<(Place, String)>,
}

/// How detections are read and scored.
struct Asked {
    reader: Reader,
    options: Options,
    eyes: Eyes,
}

/// What a published rule says of the pictures that texts describe, each with the name of its file: as `--json` has it.
///
/// # Errors
/// Options that cannot be used; no picture in the texts.
pub fn of_texts(args: &Args, texts: &[(PathBuf, String)]) -> anyhow::Result<serde_json::Value> {
    known::check(&args.rule, &args.given)?;
    let asked = Asked::new(args)?;
    let scored = asked.of_texts(&args.rule, texts)?;
    Ok(scored.json(&args.rule, &asked.options))
}

impl Asked {
    fn new(args: &Args) -> anyhow::Result<Self> {
        let mut reader = match &args.metadata {
            Some(path) => Reader::with_geneval_metadata(&read(path)?)
                .with_context(|| format!("cannot use {}", path.display()))?,
            None => Reader::default(),
        };
        reader.size = args.size;
        let options = Options {
            published: args.published.unwrap_or(false),
            min_score: args.min_score,
        };
        Ok(Self {
            eyes: Eyes::open(&args.eyes, options.published)?,
            reader,
            options,
        })
    }

    fn of_files(&self, rule: &str, files: &[PathBuf]) -> anyhow::Result<Scored> {
        let texts = files.iter().map(|path| Ok((path.clone(), read(path)?)));
        let texts: Vec<_> = texts.collect::<anyhow::Result<_>>()?;
        let scored = self.of_texts(rule, &texts)?;
        if scored.pictures.is_empty() {
            scored.told();
            match scored.unread.is_empty() {
                true => bail!("there is no picture in {}", list(files)),
                false => bail!("no picture in {} can be scored", list(files)),
            }
        }
        Ok(scored)
    }

    fn of_texts(&self, rule: &str, texts: &[(PathBuf, String)]) -> anyhow::Result<Scored> {
        let rule = by_name(rule).with_context(|| format!("there is no rule {rule:?}"))?;
        let (mut pictures, mut unread) = (Vec::new(), Vec::new());
        let all = texts
            .iter()
            .flat_map(|(path, text)| self.reader.read(path, text));
        let mut cases = all.filter_map(|(place, case)| {
            let case = case.map_err(anyhow::Error::from);
            match case.and_then(|case| self.eyes.complete(case.known()?)) {
                Ok(case) => {
                    pictures.push((place, case.id.clone()));
                    Some(case)
                }
                Err(error) => {
                    unread.push((place, format!("{error:#}")));
                    None
                }
            }
        });
        let report = rule.score(&mut cases, &self.options);
        drop(cases);
        Ok(Scored {
            report,
            pictures,
            unread,
        })
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    read_text_or_stdin(path).with_context(|| format!("cannot read {}", path.display()))
}

fn list(files: &[PathBuf]) -> String {
    let names: Vec<String> = files
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(", ")
}

impl Scored {
    /// Each picture with what is said of it.
    fn outcomes(&self) -> impl Iterator<Item = (&(Place, String), &Result<Outcome, RuleError>)> {
        self.pictures.iter().zip(&self.report.outcomes)
    }

    /// What is wrong and where, in the order of the files.
    fn errors(&self) -> Vec<(&Place, String)> {
        let unread = self
            .unread
            .iter()
            .map(|(place, error)| (place, error.clone()));
        let unscored = self.outcomes().filter_map(|((place, _), outcome)| {
            let error = outcome.as_ref().err()?;
            Some((place, error.to_string()))
        });
        unread.chain(unscored).collect()
    }

    /// Says what is wrong on standard error, once where it is the same; the exit code.
    fn told(&self) -> u8 {
        let told = input::once(self.errors());
        for (place, error, more) in told.iter().take(MOST_ERRORS) {
            eprintln!("{}", input::line("error", place, error, *more));
        }
        if told.len() > MOST_ERRORS {
            eprintln!("error: {} other errors", told.len() - MOST_ERRORS);
        }
        if told.is_empty() { OK } else { ERROR }
    }

    fn rows(&self) -> Vec<[String; 2]> {
        let mut rows: Vec<_> = (self.report.figures.iter())
            .map(|figure| [figure.name.clone(), shown(figure.value)])
            .collect();
        let errors = self.errors().len();
        if errors > 0 {
            rows.push(["left out".into(), errors.to_string()]);
        }
        rows
    }

    fn json(&self, rule: &str, options: &Options) -> serde_json::Value {
        let figures = self.report.figures.iter();
        let figures: Map<_, _> = figures
            .map(|figure| (figure.name.clone(), json!(figure.value)))
            .collect();
        let picture = |((_, id), outcome): (&(Place, String), &Result<Outcome, RuleError>)| {
            let mut value = match outcome {
                Ok(outcome) => json!(outcome),
                Err(error) => json!({"error": error.to_string()}),
            };
            value["id"] = json!(id);
            value
        };
        let unread =
            |(place, error): &(Place, String)| json!({"place": place.to_string(), "error": error});
        json!({
            "rule": rule,
            "published": options.published,
            "min_score": options.min_score,
            "figures": figures,
            "pictures": self.outcomes().map(picture).collect::<Vec<_>>(),
            "unread": self.unread.iter().map(unread).collect::<Vec<_>>(),
        })
    }
}

fn shown(value: Value) -> String {
    match value {
        Value::Count(count) => count.to_string(),
        Value::Percent(Some(percent)) => format!("{percent:.2} %"),
        Value::Mean(Some(mean)) => format!("{mean:.4}"),
        Value::Percent(None) | Value::Mean(None) => "–".to_owned(),
    }
}

/// Columns, the first to the left and the others to the right.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let line = |row: &[String; N]| {
        let mut line = format!("{:<w$}", row[0], w = width(0));
        for (column, cell) in row.iter().enumerate().skip(1) {
            line += &format!("  {cell:>w$}", w = width(column));
        }
        line + "\n"
    };
    rows.iter().map(line).collect()
}
