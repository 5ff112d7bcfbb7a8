//! `prepose check` on pictures: looks at them, a batch at a time, and tells what was seen.

use std::io::Write;

use anyhow::bail;
use prepose::check::detect::checker::Checker;
use prepose::check::json;
use prepose::check::spatialbench::{Buckets, Provenance, Record, Verdict};
use prepose::output::files::{prepare_folder, write_atomically};
use prepose_untrusted::escaped;

use super::check_run::CheckRun;
use super::inputs::{self, Depths, Inputs, Sample, Told, Wanted};
use super::opened::{Opened, depths};
use super::results::Results;
use super::told::{Answer, Line, RULES_FILE, line, listed};
use super::{Args, judged, manifest};
use crate::cli::input::{self, once};
use crate::cli::progress::Progress;
use crate::cli::{ERROR, NO, OK, colour};

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
