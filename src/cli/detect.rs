//! `prepose detect`

mod asked;

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use prepose::check::manifest::free_name;
use prepose::check::{Detection, json};
use prepose::detect::{Detector, Thresholds};
use prepose::device;
use prepose::output::files::parent;
use prepose::output::png::{self, Made};
use prepose::picture::Picture;
use prepose_untrusted::{escaped, printable};
use prepose_weights::TOYBOX;
use rayon::prelude::*;
use serde::Serialize;

use super::check::{pictures_in, read_picture};
use super::detecting::DetectingArgs;
use super::input::count;
use super::progress::Progress;
use super::{ERROR, OK, checker, input};
use asked::{Input, Wanted};

/// Write down what a detector sees in pictures: boxes, scores, masks.
///
/// They are written as the JSON lines that `prepose score` reads.
///
/// Pictures may have any name. A picture's line says what it should show if that is known, from --prompt or from a PNG made by
/// prepose, with the objects in the detector's words. Where the detector has no word for one of them, this is reported, and
/// `prepose score` leaves the picture out if its relations need it; that is an error only with --prompt.
///
/// Exit codes: 0 everything was looked at, 2 an error; what was found is still written.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose detect out/ -o out/detections.jsonl
  prepose detect photos/ --checker frcnn-v2 --prompt \"a dog to the left of a cat\" -o photos.jsonl
  prepose detect photos/ --checker mask-rcnn-v2 --masks -o masks.jsonl && prepose score pse masks.jsonl")]
pub struct Args {
    /// PNG, JPEG or WebP files, or folders of them.
    #[arg(required = true)]
    pictures: Vec<PathBuf>,
    /// What they should show [default: the prompt that pictures made by prepose carry].
    #[arg(short, long, value_name = "TEXT")]
    prompt: Option<String>,
    /// The detector: toybox, frcnn-v2, grounding-dino-base and others (docs/detectors.md), or a path [default: toybox].
    ///
    /// Unless it is named here, the toybox's detector looks only at pictures that the toybox made. A detector that takes any
    /// phrase looks for the things that the prompt names, and so needs a prompt.
    #[arg(long, value_name = "NAME|PATH", help_heading = "Detector")]
    checker: Option<String>,
    /// Write down detections with at least this score; the rules of `score` apply their own thresholds on top of it.
    #[arg(
        long,
        value_name = "SCORE",
        default_value_t = 0.05,
        help_heading = "Detector"
    )]
    min_score: f64,
    /// Also write masks, from a detector that segments, in COCO's run-length encoding.
    #[arg(long, help_heading = "Detector")]
    masks: bool,
    #[command(flatten)]
    detecting: DetectingArgs,
    /// The file for the lines, one per picture [default: what was found is shown on the terminal].
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Print the lines on standard output.
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// A picture's line: what [`prepose::check::rules::read`] reads.
#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a str>,
    /// In the detector's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    objects: Option<Vec<Wanted>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relations: Option<Vec<String>>,
    /// What the prompt names and the detector has no word for; there are no `objects` if the relations need it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown_objects: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    width: usize,
    height: usize,
    detector: &'a str,
    detections: Vec<Detection>,
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    args.detecting.check()?;
    ensure!(
        (0.0..=1.0).contains(&args.min_score),
        "--min-score is {}, but scores are from 0 to 1",
        args.min_score
    );
    let weights = checker::open(args.checker.as_deref().unwrap_or(TOYBOX))?;
    let (inputs, mut problems) = inputs(args, weights.vocabulary().is_none());
    if !inputs.is_empty() {
        let opened = device::open(args.detecting.device)?;
        let thresholds = Thresholds {
            score: Some(args.min_score),
            weak: true,
            ..Thresholds::default()
        };
        let detector = checker::load_with(&weights, &opened.device, thresholds)?;
        let mut looking = Looking {
            args,
            detector: &*detector,
            out: match &args.out {
                Some(path) => Some(create(path)?),
                None => None,
            },
            pictures: 0,
            found: 0,
            unknown: Vec::new(),
            is_wrong: false,
        };
        let mut progress = Progress::new(inputs.len() as u64, "pictures", quiet || args.json);
        for batch in inputs.chunks(args.detecting.batch) {
            let read: Vec<_> = batch
                .par_iter()
                .map(|one| read_picture(&one.path))
                .collect();
            let (mut seen, mut pictures) = (Vec::new(), Vec::new());
            for (one, read) in batch.iter().zip(read) {
                match read {
                    Ok(picture) => {
                        seen.push(one);
                        pictures.push(picture);
                    }
                    Err(error) => problems.push(problem(&one.path, &error)),
                }
            }
            let shown: Vec<&Picture> = pictures.iter().collect();
            let queries: Vec<Vec<String>> = seen.iter().map(|one| one.asked()).collect();
            let found = detector.detect_on_host(&shown, &queries, args.masks, &opened.device)?;
            for ((one, picture), found) in seen.iter().zip(&pictures).zip(found) {
                looking.tell(one, picture, found, &mut progress)?;
            }
            looking.flush()?;
            progress.advance(batch.len() as u64);
        }
        progress.finish();
        problems.extend(looking.tell_unknown());
        if !quiet && !args.json {
            writeln!(
                std::io::stdout().lock(),
                "{} in {}",
                count(looking.found, "detection"),
                count(looking.pictures, "picture")
            )?;
        }
    }
    for line in &problems {
        eprintln!("{line}");
    }
    match (inputs.is_empty(), problems.is_empty()) {
        (true, true) => bail!("there is no picture to look at"),
        (_, true) => Ok(OK),
        _ => Ok(ERROR),
    }
}

/// The pictures that the arguments name, and what is wrong with the others. `any_phrase`: whether the detector finds only what
/// it is asked for.
fn inputs(args: &Args, any_phrase: bool) -> (Vec<Input>, Vec<String>) {
    let (mut inputs, mut problems) = (Vec::new(), Vec::new());
    let mut names: HashSet<String> = HashSet::new();
    for given in &args.pictures {
        let paths = match pictures_in(given) {
            Ok(paths) => paths,
            Err(error) => {
                problems.push(problem(given, &error));
                continue;
            }
        };
        for path in paths {
            let made = png::read_made(&path).ok();
            let by_toybox = |made: &Made| made.request.model.checkpoint == TOYBOX;
            if args.checker.is_none() && !made.as_ref().is_some_and(by_toybox) {
                let why = anyhow::anyhow!(
                    "it does not say that the toybox made it, and the toybox's detector knows only the toybox's pictures; \
                     choose another with --checker (such as frcnn-v2), or use it anyway with --checker toybox"
                );
                problems.push(problem(&path, &why));
                continue;
            }
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let id = free_name(&stem, &mut names);
            let one = Input::new(id, path, made, args.prompt.as_deref());
            if any_phrase && one.asked().is_empty() {
                let why = match &one.prompt {
                    Some(prompt) => format!(
                        "its prompt, {:?}, names nothing to look for; name it with --prompt, such as --prompt \"a dog and a cat\"",
                        printable(prompt).to_string()
                    ),
                    None => "nothing says what to look for, and this detector finds only what it is asked for; name it with --prompt, \
                             such as --prompt \"a dog and a cat\""
                        .into(),
                };
                problems.push(problem(&one.path, &anyhow::anyhow!(why)));
                continue;
            }
            inputs.push(one);
        }
    }
    (inputs, problems)
}

fn problem(path: &Path, error: &anyhow::Error) -> String {
    input::line("error", path.display(), &format!("{error:#}"), 0)
}

/// The file for the lines; its folder is made.
fn create(path: &Path) -> anyhow::Result<BufWriter<File>> {
    let cannot = || format!("cannot write {}", path.display());
    std::fs::create_dir_all(parent(path)).with_context(cannot)?;
    Ok(BufWriter::new(File::create(path).with_context(cannot)?))
}

/// Tells what was found.
struct Looking<'a> {
    args: &'a Args,
    detector: &'a dyn Detector,
    out: Option<BufWriter<File>>,
    /// Pictures so far.
    pictures: usize,
    /// Detections so far.
    found: usize,
    /// Pictures whose prompts name something that the detector does not know, and what that is.
    unknown: Vec<(String, String)>,
    /// Whether no rule can score such a picture.
    is_wrong: bool,
}

impl Looking<'_> {
    fn tell(
        &mut self,
        one: &Input,
        picture: &Picture,
        found: Vec<Detection>,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        self.pictures += 1;
        self.found += found.len();
        let shown = one.shown(self.detector.vocabulary());
        let place = one.path.display().to_string();
        let (is_wrong, then) = match shown.objects {
            None => (true, "`prepose score` leaves the picture out"),
            Some(_) => (false, "`prepose score geneval` leaves the picture out"),
        };
        self.is_wrong |= is_wrong && !shown.unknown.is_empty();
        let told_of = shown.unknown.iter();
        (self.unknown).extend(told_of.map(|error| (place.clone(), format!("{error}; {then}"))));
        let told: Vec<String> = (found.iter())
            .map(|one| format!("{} {:.2}", one.label, one.score))
            .collect();
        let line = Line {
            id: &one.id,
            file: place,
            prompt: one.prompt.as_deref(),
            objects: shown.objects,
            relations: shown.relations,
            unknown_objects: (shown.unknown.into_iter())
                .map(|error| error.object)
                .collect(),
            seed: one.seed,
            width: picture.width,
            height: picture.height,
            detector: self.detector.name(),
            detections: found,
        };
        let line = json::to_line(&line)?;
        if let (Some(out), Some(path)) = (&mut self.out, &self.args.out) {
            writeln!(out, "{line}").with_context(|| format!("cannot write {}", path.display()))?;
        }
        if self.args.json {
            progress.println(&line)?;
        } else if self.args.out.is_none() {
            let told = match told.is_empty() {
                true => "nothing".to_owned(),
                false => told.join(", "),
            };
            progress.println(&escaped(&format!("{}: {told}", one.path.display())))?;
        }
        Ok(())
    }

    /// Tells what the detector has no words for, once where it is the same: what is wrong, as the user said what should be
    /// there, is returned, and the rest is only noted.
    fn tell_unknown(&self) -> Vec<String> {
        let wrong = self.args.prompt.is_some() && self.is_wrong;
        let kind = if wrong { "error" } else { "note" };
        let told = input::once(self.unknown.iter().map(|(place, why)| (place, why)));
        let lines = told.into_iter();
        let lines = lines.map(|(place, why, more)| input::line(kind, place, why, more));
        if wrong {
            return lines.collect();
        }
        lines.for_each(|line| eprintln!("{line}"));
        Vec::new()
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        if let (Some(out), Some(path)) = (&mut self.out, &self.args.out) {
            out.flush()
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}
