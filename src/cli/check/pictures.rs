//! `prepose check` on pictures: looks at them, a batch at a time, and tells what was seen.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prepose::check::detect::checker::{Asked, Checked, Checker};
use prepose::check::json;
use prepose::check::spatialbench::config::DetectorConfig;
use prepose::check::spatialbench::{
    Buckets, CheckerConfig, Decision, Provenance, Question, Record, Rule, Verdict,
};
use prepose::detect::OpenDetector;
use prepose::device;
use prepose::output::files::{prepare_folder, write_atomically};
use prepose::output::overlay::{Overlay, Role};
use prepose::output::png::save_plain;
use prepose::picture::Picture;
use prepose_untrusted::{escaped, read_regular};
use prepose_weights::TOYBOX;
use rayon::prelude::*;

use super::inputs::{self, Depths, Inputs, Sample, Told, Wanted};
use super::records::read_config;
use super::results::Results;
use super::told::{Answer, Line, RULES_FILE, line, listed};
use super::{Args, judged, manifest};
use crate::cli::input::{self, once};
use crate::cli::looking::Looking;
use crate::cli::progress::Progress;
use crate::cli::{ERROR, NO, OK, checker, colour};

/// Checks what the arguments name.
pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    args.judge.check("")?;
    let opened = Opened::new(args)?;
    let depth = Depths {
        maps: depths(args.depth.as_deref()).0,
        seen: opened.looking.sees_depth(),
    };
    let labels = opened.primary.vocabulary();
    let mut inputs = match &args.manifest {
        Some(file) => manifest::from_manifest(file, labels.as_deref(), depth)?,
        None => {
            let wanted = Wanted {
                prompt: args.prompt.as_deref(),
                relations: &args.relation,
                vocabulary: labels.as_deref(),
                depth,
            };
            inputs::from_pictures(&args.pictures, &wanted)
        }
    };
    if args.checker.is_none() {
        inputs::of_the_toybox(&mut inputs);
    }
    if !quiet {
        tell("skipped", &inputs.skipped);
    }
    let (mut records, mut answers) = (Vec::new(), Vec::new());
    let failure = match inputs.samples.is_empty() {
        true => None,
        false => {
            if let Some(out) = &args.out {
                prepare_folder(out)?;
            }
            let checker = opened.load(args)?;
            let mut told = (&mut records, &mut answers);
            let failure = look(args, &checker, &mut inputs, &mut told, quiet);
            if let (Some(out), false) = (&args.out, answers.is_empty()) {
                let lines: String = answers
                    .iter()
                    .map(|answer| format!("{}\n", answer.line))
                    .collect();
                write_atomically(&out.join(RULES_FILE), lines.as_bytes())?;
            }
            if !records.is_empty() {
                finish(args, &checker, &inputs, &records, failure.is_none())?;
            }
            failure
        }
    };
    tell("error", &inputs.problems);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let judged = match args.judge.model.is_given() {
        true => judged::run(args, &inputs.samples, &records, quiet)?,
        false => OK,
    };
    exit_code(args, &inputs, &records, &answers, judged)
}

/// What all of it comes to; `judged` is what the judge's part comes to.
fn exit_code(
    args: &Args,
    inputs: &Inputs,
    records: &[Record],
    answers: &[Answer],
    judged: u8,
) -> anyhow::Result<u8> {
    if records.is_empty() && answers.is_empty() && inputs.problems.is_empty() {
        bail!(
            "nothing was checked: no picture states a relation that this checker decides, and no published rule scores one"
        );
    }
    let passed = |record: &Record| record.verdict_raw == Verdict::Pass;
    let scored = answers.iter().all(|answer| answer.passed);
    let all_passed = inputs.undecided == 0 && records.iter().all(passed) && scored;
    Ok(if !inputs.problems.is_empty() || judged != OK {
        judged.max(ERROR)
    } else if args.strict && !all_passed {
        NO
    } else {
        OK
    })
}

/// What `--depth` names: a folder of maps, or a network.
fn depths(given: Option<&Path>) -> (Option<&Path>, Option<&Path>) {
    match given {
        Some(path) if path.is_dir() && !path.join("config.json").exists() => (given, None),
        _ => (None, given),
    }
}

/// Says what is not checked on standard error, once where the reason is the same.
fn tell(kind: &str, told: &[Told]) {
    let told = told.iter().map(|told| {
        let alone = told.alone.then_some(&told.place);
        (&told.place, (&told.why, alone))
    });
    for (place, (why, _), more) in once(told) {
        eprintln!("{}", input::line(kind, place, why, more));
    }
}

/// Looks at all samples and tells of each; what fails on the way is returned, so that what was looked at before is not lost.
fn look(
    args: &Args,
    checker: &Checker,
    inputs: &mut Inputs,
    (records, answers): &mut (&mut Vec<Record>, &mut Vec<Answer>),
    quiet: bool,
) -> Option<anyhow::Error> {
    let overlays = checker.rule.config.output.generate_overlays;
    let check = CheckRun {
        checker,
        overlays: args.out.as_deref().filter(|_| overlays),
    };
    let total = inputs.samples.len() as u64;
    let mut progress = Progress::new(total, "pictures", quiet || args.json);
    let colours = colour::on_stdout();
    let told =
        |sample: &Sample, new: Vec<Record>, by_rules: Vec<Answer>, progress: &mut Progress| {
            for answer in by_rules {
                progress.println(match args.json {
                    true => &answer.line,
                    false => &answer.text,
                })?;
                answers.push(answer);
            }
            for record in new {
                progress.println(&match args.json {
                    true => json::to_line(&Line::new(sample, &record))?,
                    false => line(sample, &record, colours),
                })?;
                records.push(record);
            }
            Ok(())
        };
    let checked = check.all(&inputs.samples, &mut progress, told);
    progress.finish();
    match checked {
        Ok(unreadable) => {
            inputs.problems.extend(unreadable);
            None
        }
        Err(error) => Some(error),
    }
}

/// Writes the results, and says what they come to.
fn finish(
    args: &Args,
    checker: &Checker,
    inputs: &Inputs,
    records: &[Record],
    complete: bool,
) -> anyhow::Result<()> {
    let results = results(args, records);
    if let Some(out) = &args.out {
        results.write(out, &checker.rule.config)?;
        let lines = listed(&inputs.samples, records, out)?;
        write_atomically(&out.join("manifest.jsonl"), lines.as_bytes())?;
    }
    if complete && !args.json {
        summarise(args, &results, inputs.skipped.len())?;
    }
    Ok(())
}

/// What the arguments name to look at pictures and to decide, without its weights.
struct Opened {
    config: CheckerConfig,
    primary: OpenDetector,
    secondary: Option<OpenDetector>,
    looking: Looking,
}

/// The detectors and the rule that the arguments name, loaded.
///
/// # Errors
/// What they name cannot be used.
pub fn open_checker(args: &Args) -> anyhow::Result<Checker> {
    Opened::new(args)?.load(args)
}

impl Opened {
    fn new(args: &Args) -> anyhow::Result<Self> {
        args.detecting.check()?;
        let (_, network) = depths(args.depth.as_deref());
        Ok(Self {
            looking: Looking::open(args.masks.as_deref(), network)?,
            config: match &args.config {
                Some(path) => read_config(path)?,
                None => CheckerConfig::default(),
            },
            primary: checker::open(args.checker.as_deref().unwrap_or(TOYBOX))?,
            secondary: args.secondary.as_deref().map(checker::open).transpose()?,
        })
    }

    /// Loads the detectors; what is written beside the records names what looked.
    fn load(&self, args: &Args) -> anyhow::Result<Checker> {
        let opened = device::open(args.detecting.device)?;
        let load = |weights: &OpenDetector, config: &mut DetectorConfig| {
            let detector = checker::load(weights, &opened.device, &config.params)?;
            checker::name_in(config, weights);
            anyhow::Ok(detector)
        };
        let mut config = self.config.clone();
        let primary = load(&self.primary, &mut config.detector.primary)?;
        let secondary = match &self.secondary {
            Some(weights) => Some(load(
                weights,
                config.detector.secondary.get_or_insert_default(),
            )?),
            None => {
                if let Some(named) = config.detector.secondary.take() {
                    tracing::warn!(
                        "the configuration's secondary detector, {:?}, does not run without --secondary; nothing \
                         disagrees, and confidences are higher for it",
                        named.kind
                    );
                }
                None
            }
        };
        Ok(Checker {
            primary: self.looking.complete(primary, &opened.device)?,
            secondary,
            rule: Rule {
                config,
                published: args.published.unwrap_or(false),
            },
            device: opened.device,
            batch: args.detecting.batch,
        })
    }
}

/// Everything that follows from the records.
fn results<'a>(args: &Args, records: &'a [Record]) -> Results<'a> {
    let manifest = args
        .manifest
        .as_ref()
        .map(|path| path.display().to_string());
    let from = args.config.as_ref().map(|path| path.display().to_string());
    let provenance = Provenance::now(manifest, from, option_env!("PREPOSE_GIT_COMMIT"));
    Results::new(records, Buckets::default(), provenance)
}

fn summarise(args: &Args, results: &Results, skipped: usize) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{}", results.summary())?;
    if skipped > 0 {
        writeln!(stdout, "skipped: {skipped}")?;
    }
    if let Some(out) = &args.out {
        writeln!(stdout, "written to {}", escaped(&out.display().to_string()))?;
    }
    Ok(())
}

/// Where overlays go, in the records' folder.
const OVERLAYS: &str = "overlays";

/// Runs the checker over samples, and collects records and problems.
struct CheckRun<'a> {
    checker: &'a Checker,
    /// The records' folder, if overlays are drawn.
    overlays: Option<&'a Path>,
}

impl CheckRun<'_> {
    /// Checks `samples` in their order, and hands each finished picture's records to `told`. What cannot be read
    /// goes to the problems, and the others are checked all the same.
    ///
    /// # Errors
    /// A detector that fails, an overlay that cannot be written.
    fn all(
        &self,
        samples: &[Sample],
        progress: &mut Progress,
        mut told: impl FnMut(&Sample, Vec<Record>, Vec<Answer>, &mut Progress) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Told>> {
        if let Some(folder) = self.overlays {
            prepare_folder(&folder.join(OVERLAYS))?;
        }
        let mut problems = Vec::new();
        for batch in samples.chunks(self.checker.batch) {
            let read: Vec<_> = (batch.par_iter())
                .map(|sample| read_picture(&sample.path))
                .collect();
            let (mut readable, mut asked) = (Vec::new(), Vec::new());
            for (sample, read) in batch.iter().zip(read) {
                match read {
                    Ok(picture) => {
                        asked.push(Asked {
                            questions: sample.questions.clone(),
                            others: (sample.rules.iter())
                                .flat_map(|asked| asked.objects.clone())
                                .collect(),
                            depth: sample.depth.is_none() && !sample.rules.is_empty(),
                            picture,
                        });
                        readable.push(sample);
                    }
                    Err(why) => problems.push(Told::unreadable(&sample.path, &why)),
                }
            }
            let checked = self.checker.check(&asked)?;
            for ((sample, asked), checked) in readable.iter().zip(&asked).zip(checked) {
                let records = self.records(sample, asked, &checked)?;
                let size = [asked.picture.width as u32, asked.picture.height as u32];
                let answers = match Answer::of(sample, size, &checked) {
                    Ok(answers) => answers,
                    Err(why) => {
                        problems.push(Told::unreadable(&sample.path, &why));
                        Vec::new()
                    }
                };
                told(sample, records, answers, progress)?;
            }
            progress.advance(batch.len() as u64);
        }
        Ok(problems)
    }

    /// A record for each question about a picture, with its overlay written.
    fn records(
        &self,
        sample: &Sample,
        asked: &Asked,
        checked: &Checked,
    ) -> anyhow::Result<Vec<Record>> {
        let mut records = self
            .checker
            .records(&sample.id, &sample.prompt_id, asked, checked);
        if let Some(folder) = self.overlays {
            let decided = asked.questions.iter().zip(&checked.decisions);
            for (record, (question, decision)) in records.iter_mut().zip(decided) {
                let path = PathBuf::from(OVERLAYS).join(file_name(&record.sample_id));
                let drawn = overlay(question, checked, decision).over(&asked.picture);
                save_plain(&folder.join(&path), &drawn)?;
                record.overlay_path = Some(path.to_string_lossy().into_owned());
            }
        }
        Ok(records)
    }
}

/// More than any picture's file has.
const MOST_BYTES: u64 = 1 << 30;

/// The picture in a file.
pub fn read_picture(path: &Path) -> anyhow::Result<Picture> {
    let bytes = read_regular(path, MOST_BYTES).context("cannot be read")?;
    Ok(Picture::decode(&bytes)?)
}

/// What is drawn over a picture for one question: every detection, and on top the two that were chosen.
fn overlay<'a>(question: &Question, checked: &'a Checked, decision: &'a Decision) -> Overlay<'a> {
    let chosen = decision.selected.as_ref();
    let roles = chosen.map(|chosen| [(&chosen.a, Role::First), (&chosen.b, Role::Second)]);
    let is_chosen =
        |detection| chosen.is_some_and(|chosen| [&chosen.a, &chosen.b].contains(&detection));
    let others = checked.primary.iter().filter(|found| !is_chosen(found));
    let mut detections: Vec<_> = others.map(|found| (found, Role::Other)).collect();
    detections.extend(roles.into_iter().flatten());
    let mut lines = vec![
        format!(
            "{} {} {}",
            question.object_a, question.relation, question.object_b
        ),
        format!(
            "{}, confidence {:.2}",
            decision.verdict, decision.confidence
        ),
    ];
    lines.extend(decision.reason.as_ref().map(ToString::to_string));
    Overlay {
        detections,
        verdict: decision.verdict,
        lines,
    }
}

/// A sample's name as a file name.
fn file_name(sample_id: &str) -> String {
    let plain = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => letter,
        _ => '_',
    };
    format!("{}.png", sample_id.chars().map(plain).collect::<String>())
}
