//! `prepose corpus`

mod lines;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, ensure};
use prepose::check::rules::Options as RuleOptions;
use prepose::corpus::asked::{Cost, sides};
use prepose::corpus::layout::{self, Boxes, Seen, Usable};
use prepose::corpus::rates::{Tally, funnel, published};
use prepose::corpus::read::{Columns, sources};
use prepose::corpus::survey::{Counts, Found, survey};
use prepose::judge::ask::{JudgeError, Manner};
use prepose::judge::book::Book;
use prepose::judge::picture::Named;
use prepose::output::files::{prepare_folder, write_atomically};
use prepose::remote::RemoteError;
use prepose::table::Table;
use prepose_untrusted::escaped;
use serde_json::{Map, Value, json};

use super::judge::asking::Totals;
use super::judge::model::ModelArgs;
use super::judge::results::told;
use super::progress::Progress;
use super::{ERROR, interrupt};
use lines::Lines;

/// Pairs that a judge is asked about at a time.
const PART: usize = 256;

/// Measure how often captions first name what is on the left of their pictures (docs/corpus.md).
///
/// Table 5 of OTS-Bench's paper, on your own captions and pictures.
///
/// First, all captions are read, and those that name two things joined by "and" or a word of nearness are kept; this needs no
/// pictures. Then boxes or a vision-language model say which of the two is on the left. The same command
/// resumes where it stopped: captions that were read and questions that were answered are not read or asked again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose corpus captions.parquet --out survey                       # the text alone: how many pairs there are
  prepose detect photos --checker frcnn-v2 -o found.jsonl
  prepose corpus photos --detections found.jsonl --out survey        # sides by boxes; photos has metadata.jsonl or texts
  prepose corpus laion/ --pictures photos --judge http://localhost:8000/v1 --judge-model Qwen/Qwen3-VL-8B-Instruct --out survey")]
pub struct Args {
    /// .parquet, .jsonl and .csv files of captions, folders of them, or folders of pictures with .txt files beside them.
    #[arg(required = true, value_name = "FILE|FOLDER")]
    captions: Vec<PathBuf>,
    /// Where pairs, answers and tables go; if this command was begun in the folder before, it continues from there.
    #[arg(short, long, value_name = "FOLDER")]
    out: PathBuf,
    /// Where the pictures are [default: beside their captions].
    #[arg(long, value_name = "FOLDER")]
    pictures: Option<PathBuf>,
    /// What prepose detect found in the pictures; the boxes then say which is on the left.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    detections: Vec<PathBuf>,
    /// The least length of a picture's shorter side, in pixels.
    #[arg(long, value_name = "PIXELS", default_value_t = Usable::default().least, hide_short_help = true)]
    least: u32,
    /// Leave out pictures whose longer side is more than this many times the shorter one.
    #[arg(long, value_name = "N", default_value_t = Usable::default().ratio, hide_short_help = true)]
    ratio: f64,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    model: ModelArgs,
}

/// What columns are called.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Columns")]
struct Names {
    /// The column of captions [default: caption, TEXT, text, prompt or title].
    #[arg(long, value_name = "NAME")]
    caption_column: Option<String>,
    /// The column of pictures' files [default: file_name, picture, image_path, file, path or key].
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    picture_column: Option<String>,
    /// The column of addresses, by which duplicates are recognised [default: url or URL].
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    url_column: Option<String>,
}

impl Names {
    fn columns(&self) -> Columns {
        let named = |name: &Option<String>, usual: Vec<String>| match name {
            Some(name) => vec![name.clone()],
            None => usual,
        };
        let usual = Columns::default();
        Columns {
            caption: named(&self.caption_column, usual.caption),
            picture: named(&self.picture_column, usual.picture),
            url: named(&self.url_column, usual.url),
            ..usual
        }
    }
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let judged = !args.model.is_oracle();
    ensure!(
        judged || args.model.judge_model.is_none(),
        "--judge-model needs --judge with the address of its server"
    );
    ensure!(
        judged || !args.model.is_given() || !args.detections.is_empty(),
        "--judge oracle answers from boxes, but there are none: give what prepose detect found with --detections, or leave out \
         --judge to read the texts alone"
    );
    ensure!(
        !judged || args.detections.is_empty(),
        "--detections and --judge both say which is on the left; choose one, and another --out for the other"
    );
    ensure!(
        args.ratio >= 1.0,
        "--ratio is {}, but must be at least 1",
        args.ratio
    );
    let sources = sources(&args.captions)?;
    // Detections are looked through before captions: a wrong file should not cost an hour.
    let boxes = match args.detections.as_slice() {
        [] => None,
        files => Some(Boxes::open(files, args.pictures.as_deref())?),
    };
    let (model, stop) = match judged {
        true => {
            let (model, stop) = args.model.model()?;
            (Some(model), stop)
        }
        false => (None, interrupt::listen()?),
    };
    prepare_folder(&args.out)?;
    let start = Instant::now();
    let mut bar = Progress::new(0, "captions", quiet || args.json);
    let mut before = 0;
    let mut progress = |done: u64| {
        bar.advance(done.saturating_sub(before));
        before = done;
    };
    let (counts, whole) = survey(
        &sources,
        &args.names.columns(),
        &args.out,
        &mut progress,
        &stop,
    )?;
    bar.finish();
    tracing::info!(
        "{} captions after {:.1} s",
        counts.captions,
        start.elapsed().as_secs_f64()
    );
    if !whole {
        eprintln!(
            "stopped after {} captions; the same command goes on from there",
            counts.captions
        );
        return Ok(interrupt::exit_code().unwrap_or(ERROR));
    }
    let mut cost = Cost::default();
    let tally = match (boxes, model) {
        (Some(boxes), _) => by_boxes(args, boxes, &counts, &stop)?,
        (None, Some(model)) => by_model(args, &model, &counts, &stop, &mut cost, quiet)?,
        (None, None) => return finish(args, &counts, None, &cost),
    };
    match tally {
        Some(tally) => finish(args, &counts, Some(&tally), &cost),
        None => Ok(interrupt::exit_code().unwrap_or(ERROR)),
    }
}

/// A pair, its picture's file, and why it is of no use.
type Looked = (Found, Option<PathBuf>, Option<Seen>);

fn looked(args: &Args) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Looked>>> {
    let usable = Usable {
        least: args.least,
        ratio: args.ratio,
    };
    Ok(layout::pairs(&args.out)?.map(move |found| {
        let found = found?;
        let file = layout::file(&found, args.pictures.as_deref());
        let fault = layout::fault(&found, file.as_deref(), &usable);
        Ok((found, file, fault))
    }))
}

/// None if it was stopped, which is said then.
fn by_boxes(
    args: &Args,
    mut boxes: Boxes,
    counts: &Counts,
    stop: &AtomicBool,
) -> anyhow::Result<Option<Tally>> {
    let mut tally = Tally::default();
    let mut lines = Lines::create(&args.out)?;
    for (done, looked) in (0..).zip(looked(args)?) {
        if stop.load(Ordering::Relaxed) {
            let next = "the same command looks at all of them again";
            lines.stopped(done, counts, next);
            return Ok(None);
        }
        let (found, file, fault) = looked?;
        let seen = match fault {
            Some(fault) => fault,
            None => boxes.side(&found, file.as_deref(), &RuleOptions::default())?,
        };
        tally.add(&found, seen);
        lines.add(&found, seen, None)?;
    }
    lines.finish()?;
    Ok(Some(tally))
}

/// None if it was stopped, which is said then.
fn by_model(
    args: &Args,
    model: &prepose::judge::chat::ChatJudge,
    counts: &Counts,
    stop: &AtomicBool,
    cost: &mut Cost,
    quiet: bool,
) -> anyhow::Result<Option<Tally>> {
    let mut book = Book::open(&args.out.join("answers.jsonl"))?;
    let mut tally = Tally::default();
    let mut lines = Lines::create(&args.out)?;
    let mut bar = Progress::new(counts.pairs, "pairs", quiet || args.json);
    let manner = Manner {
        concurrency: args.model.concurrency,
        progress: &|_| (),
        stop,
    };
    let mut looked = looked(args)?;
    let mut done = 0;
    loop {
        let part: Vec<Looked> = looked.by_ref().take(PART).collect::<anyhow::Result<_>>()?;
        if part.is_empty() {
            break;
        }
        let many = part.len() as u64;
        let mut asked = Vec::new();
        for (found, file, fault) in part {
            bar.advance(1);
            match (fault, file) {
                (None, Some(path)) => {
                    let id = found.picture.clone().unwrap_or_default();
                    asked.push((found, Named { id, path }));
                }
                (fault, _) => {
                    let seen = fault.unwrap_or(Seen::NoPicture);
                    tally.add(&found, seen);
                    lines.add(&found, seen, None)?;
                }
            }
        }
        let told = match sides(model, &asked, &mut book, &manner, cost) {
            Ok(_) | Err(JudgeError::Remote(RemoteError::Stopped))
                if stop.load(Ordering::Relaxed) =>
            {
                bar.finish();
                let next = "answers are kept, and the same command asks only what is left";
                lines.stopped(done, counts, next);
                return Ok(None);
            }
            told => told?,
        };
        done += many;
        for ((found, _), told) in asked.iter().zip(told) {
            tally.add_told(found, told);
            lines.add(found, told.published, Some(told.exchanged))?;
        }
    }
    bar.finish();
    lines.finish()?;
    Ok(Some(tally))
}

fn finish(args: &Args, counts: &Counts, tally: Option<&Tally>, cost: &Cost) -> anyhow::Result<u8> {
    let mut tables = vec![funnel(counts, tally)];
    if let Some(tally) = tally {
        tables.extend([tally.table(), published()]);
    }
    for table in &tables {
        let path = args.out.join(format!("{}.csv", table.name));
        write_atomically(&path, table.to_csv().as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut notes = tally.map(Tally::notes).unwrap_or_default();
    if counts.unreadable > 0 {
        notes.push(format!(
            "{} rows could not be read and are left out",
            counts.unreadable
        ));
    }
    if let Some(why) = &cost.failure {
        notes.push(format!(
            "some questions have no answer, the first because of this: {why}"
        ));
    }
    let mut stdout = std::io::stdout().lock();
    let price = args.model.cost(cost.prompt_tokens, cost.answer_tokens);
    if args.json {
        let mut report = Map::new();
        for table in &tables {
            report.insert(table.name.into(), super::agree::rows(table));
        }
        report.insert("questions".into(), json!(cost.questions));
        report.insert("asked_now".into(), json!(cost.new));
        report.insert("unanswered".into(), json!(cost.unanswered));
        report.insert("cost".into(), json!(price));
        report.insert("notes".into(), json!(notes));
        writeln!(stdout, "{}", Value::Object(report))?;
    } else {
        let texts: Vec<String> = tables
            .iter()
            .map(|table: &Table| table.to_text(120))
            .collect();
        writeln!(stdout, "{}", escaped(&texts.join("\n")))?;
        if cost.questions > 0 {
            let price = price.map_or(String::new(), |price| format!(", cost {price:.4}"));
            writeln!(
                stdout,
                "{} questions, {} asked now; {} tokens of questions and {} of answers{price}",
                cost.questions, cost.new, cost.prompt_tokens, cost.answer_tokens
            )?;
        }
        for note in &notes {
            writeln!(stdout, "note: {}", escaped(note))?;
        }
        writeln!(
            stdout,
            "written to {}",
            escaped(&args.out.display().to_string())
        )?;
    }
    Ok(told(&Totals {
        unanswered: cost.unanswered,
        ..Totals::default()
    }))
}
