//! `prepose detect`

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use prepose::check::manifest::free_name;
use prepose::check::vocabulary::label_of;
use prepose::check::{Detection, json};
use prepose::detect::{Detector, Thresholds};
use prepose::device;
use prepose::output::files::parent;
use prepose::output::png::{self, Made};
use prepose::picture::Picture;
use prepose::prompt::compose::scene_of;
use prepose::prompt::scene::Scene;
use prepose_untrusted::{escaped, printable};
use prepose_weights::TOYBOX;
use rayon::prelude::*;
use serde::Serialize;

use super::check::{pictures_in, read_picture};
use super::detecting::DetectingArgs;
use super::input::count;
use super::progress::Progress;
use super::{ERROR, OK, checker, input};

/// Write down what a detector sees in pictures: boxes, scores, masks.
///
/// They are written as the JSON lines that `prepose score` reads.
///
/// Pictures may have any name. A picture's line says what it should show if that is known, from --prompt or from a PNG made by
/// prepose, with the objects in the detector's words.
///
/// Exit codes: 0 everything was looked at, 2 an error; what was found in the other pictures is still written.
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
    objects: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relations: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    width: usize,
    height: usize,
    detector: &'a str,
    detections: Vec<Detection>,
}

/// A picture to look at.
struct Input {
    id: String,
    path: PathBuf,
    seed: Option<u64>,
    /// What it should show, in words, and what these say.
    prompt: Option<String>,
    scene: Option<Scene>,
}

impl Input {
    /// What is known of a picture: its prompt is that of the arguments or, with what is said of its relations, its own.
    fn new(id: String, path: PathBuf, made: Option<Made>, prompt: Option<&str>) -> Self {
        let own = || made.as_ref()?.final_prompt().ok();
        let given = match (&made, prompt) {
            (Some(made), None) => &*made.request.relations,
            _ => &[],
        };
        let prompt = prompt.map(str::to_owned).or_else(own);
        let scene = (prompt.as_ref()).and_then(|prompt| scene_of(prompt, given).ok());
        Self {
            id,
            path,
            seed: made.map(|made| made.request.seed),
            prompt,
            scene,
        }
    }

    /// What a detector that takes any phrase is asked for: each thing once, also where the prompt names two of them.
    fn asked(&self) -> Vec<String> {
        let mut asked: Vec<String> = Vec::new();
        for object in self.scene.iter().flat_map(|scene| &scene.objects) {
            // Without a vocabulary all phrases are known.
            let label = label_of(None, object).unwrap_or_default();
            if !asked.contains(&label) {
                asked.push(label);
            }
        }
        asked
    }

    /// What it should show, where names tell all of it apart: the objects in the words of a detector with this vocabulary, and
    /// the relations.
    fn shown(&self, vocabulary: Option<&[String]>) -> Option<(Vec<String>, Vec<String>)> {
        let scene = self.scene.as_ref()?;
        let label = |object| label_of(vocabulary, object).ok();
        let objects: Vec<String> = scene.objects.iter().map(label).collect::<Option<_>>()?;
        let unique: HashSet<&String> = objects.iter().collect();
        // Names could not tell two dogs apart.
        if unique.len() < objects.len() {
            return None;
        }
        let relations = scene.relations.iter().map(|stated| {
            let others: Vec<&str> = stated.objects.iter().map(|&at| &*objects[at]).collect();
            format!(
                "{} | {} | {}",
                objects[stated.subject],
                stated.relation,
                others.join(" | ")
            )
        });
        let relations = relations.collect();
        Some((objects, relations))
    }
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
        let (objects, relations) = one.shown(self.detector.vocabulary()).unzip();
        let told: Vec<String> = (found.iter())
            .map(|one| format!("{} {:.2}", one.label, one.score))
            .collect();
        let line = Line {
            id: &one.id,
            file: one.path.display().to_string(),
            prompt: one.prompt.as_deref(),
            objects,
            relations: relations.filter(|relations: &Vec<String>| !relations.is_empty()),
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

    fn flush(&mut self) -> anyhow::Result<()> {
        if let (Some(out), Some(path)) = (&mut self.out, &self.args.out) {
            out.flush()
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}
