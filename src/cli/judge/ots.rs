//! `prepose judge --benchmark ots`

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prepose::check::prompt::SuitePrompt;
use prepose::judge::answers::{Beside, Rounds};
use prepose::judge::ask::Made;
use prepose::judge::ask::Outcome;
use prepose::judge::ots::{Case, Judged, agreement, bias, figures, from_prompt, published, read};
use prepose_untrusted::read_text;
use serde_json::json;

use super::judging::{self, by_boxes};
use super::results::Results;
use super::runs::{lines_of, manifests};
use super::{Args, pictures};

/// What is asked for OTS-Bench.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "OTS-Bench")]
pub struct Options {
    /// The cases, one JSON object per line (docs/judge.md) [default: the run's prompts].
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,
    /// Ask only the paper's question, not also the one with the subjects in the other order.
    #[arg(long)]
    one_order: bool,
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let cases = match &args.ots.cases {
        Some(path) => {
            let text =
                read_text(path).with_context(|| format!("cannot read {}", path.display()))?;
            read(&text).with_context(|| path.display().to_string())?
        }
        None => of_run(&args.pictures)?,
    };
    let wanted = cases
        .iter()
        .map(|case| (case.id.clone(), case.picture.clone()));
    let (named, there) = pictures::named(&args.pictures, wanted, args.partial)?;
    let cases: Vec<Case> = (cases.into_iter().zip(there))
        .filter_map(|(case, there)| there.then_some(case))
        .collect();
    let orders: &[bool] = match args.ots.one_order {
        true => &[false],
        false => &[false, true],
    };
    let questions = Made {
        count: cases.len() * orders.len(),
        make: |at: usize| {
            let picture = at / orders.len();
            cases[picture].question(picture, orders[at % orders.len()])
        },
    };
    let (rounds, totals) = judging::judge(args, &named, &questions, quiet)?;
    let first = rounds.first().map_or(&[][..], Vec::as_slice);
    let judged = judged(&cases, first, orders.len());
    let kinds = cases
        .iter()
        .flat_map(|case| vec![case.setting.as_str(); orders.len()]);
    let kinds: Vec<&str> = kinds.collect();
    let boxes = match args.judge.has_boxes() {
        true => Some(by_boxes(args, &named, &questions, quiet)?),
        false => None,
    };
    let by_boxes = boxes
        .as_ref()
        .map(|outcomes| outcomes.iter().map(Outcome::answer));
    let by_boxes: Option<Vec<_>> = by_boxes.map(Iterator::collect);
    let answers = Rounds {
        kinds: &kinds,
        outcomes: &rounds,
        beside: match (args.judge.model.is_oracle(), &by_boxes) {
            (true, _) => Beside::Geometry,
            (false, Some(answers)) => Beside::Answers(answers),
            (false, None) => Beside::Nothing,
        },
    };
    let bootstrap = args.bootstrap();
    let mut tables = vec![figures(&judged, &bootstrap)];
    if orders.len() > 1 {
        tables.push(bias(&judged));
    }
    let boxes = boxes.map(|outcomes| self::judged(&cases, &outcomes, orders.len()));
    if let Some(boxes) = &boxes {
        let mut by_boxes = figures(boxes, &bootstrap);
        by_boxes.name = "figures_by_boxes";
        tables.push(by_boxes);
        tables.push(agreement(&judged, boxes, &bootstrap));
    }
    tables.extend([answers.table(), published()]);
    let results = Results {
        lines: lines(&judged, boxes.as_deref()),
        notes: answers.notes(),
        tables,
        more: Vec::new(),
    };
    results.finish(&args.out, args.json, &args.judge.model, &totals)
}

fn judged<'a>(cases: &'a [Case], outcomes: &[Outcome], orders: usize) -> Vec<Judged<'a>> {
    let of_case = outcomes.chunks(orders);
    (cases.iter().zip(of_case))
        .filter_map(|(case, outcomes)| {
            Some(Judged {
                case,
                as_published: outcomes.first()?.clone(),
                exchanged: outcomes.get(1).cloned(),
            })
        })
        .collect()
}

/// A line for each picture: its codes, as `prepose agree ots` reads them.
fn lines(judged: &[Judged], boxes: Option<&[Judged]>) -> Vec<serde_json::Value> {
    let code = |one: &Judged, exchanged: bool| {
        let outcome = match exchanged {
            false => Some(&one.as_published),
            true => one.exchanged.as_ref(),
        };
        let answer = outcome?.answer()?;
        Some(one.case.code(answer, exchanged).0)
    };
    let line = |(at, one): (usize, &Judged)| {
        json!({
            "id": one.case.id,
            "figure": one.case.figure(),
            "method": one.case.method,
            "a": one.case.a,
            "b": one.case.b,
            "code": code(one, false),
            "code_exchanged": code(one, true),
            "code_of_boxes": boxes.and_then(|boxes| code(boxes.get(at)?, false)),
        })
    };
    judged.iter().enumerate().map(line).collect()
}

/// The cases of a run: its pictures of prompts with two objects and no relation, or with one of left and right.
fn of_run(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let file = folder.join("prompts.jsonl");
    let text = match read_text(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
            "there is no prompts.jsonl in {}, so it is not a run; say what its pictures are of with --cases FILE",
            folder.display()
        ),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let prompts: Vec<SuitePrompt> = lines_of(&file, &text)?;
    let prompts: HashMap<&str, &SuitePrompt> = prompts
        .iter()
        .map(|prompt| (prompt.prompt_id.as_str(), prompt))
        .collect();
    let mut cases = Vec::new();
    for (name, lines) in manifests(folder)? {
        for line in lines {
            let Some(mut case) = prompts
                .get(line.prompt_id.as_str())
                .and_then(|prompt| from_prompt(prompt))
            else {
                continue;
            };
            case.id = line.sample_id;
            case.picture = format!("{name}/{}", line.image_path);
            case.method = Some(name.clone());
            cases.push(case);
        }
    }
    if cases.is_empty() {
        bail!(
            "{} has no finished pictures of two different objects without a relation, or with one of left and right",
            folder.display()
        );
    }
    Ok(cases)
}
