//! `prepose judge --benchmark spatialgen`

mod shown;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail, ensure};
use prepose::check::detected;
use prepose::check::rules::Case;
use prepose::judge::ask::Manner;
use prepose::judge::picture::Named;
use prepose::judge::question::Question;
use prepose::judge::spatialgen::rounds::{Rules, Votes, vote};
use prepose::judge::spatialgen::tables::{Judged, domains, figures, letters, notes};
use prepose::judge::spatialgen::{Control, Domain, Item, QUESTIONS, geometry, published, read};
use prepose::output::files::prepare_folder;
use prepose_untrusted::read_text_or_stdin;
use serde_json::{Value, json};

use super::asking::{Totals, open_book};
use super::results::Results;
use super::{Args, pictures};
use crate::cli::progress::Progress;
use shown::{Shown, of_folder, of_run};

/// What is asked for SpatialGenEval.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "SpatialGenEval")]
pub struct Options {
    /// The prompts with their questions, one JSON object per line: the benchmark's own file, or one that `prepose spatialgen
    /// propose` wrote.
    #[arg(long, value_name = "FILE")]
    questions: Option<PathBuf>,
    /// Also ask with the options in another order (shuffled) and without a picture (no-picture), to see how much of the
    /// figures is not due to the pictures.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "shuffled,no-picture"
    )]
    control: Vec<Controls>,
    /// Valid answers to get for each picture.
    #[arg(long, value_name = "N", default_value_t = Rules::default().rounds, hide_short_help = true,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    rounds: usize,
    /// How often to ask about a picture at most, to get that many valid answers.
    #[arg(long, value_name = "N", default_value_t = Rules::default().attempts, hide_short_help = true,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    most_rounds: usize,
    /// How many of the valid answers must be right.
    #[arg(long, value_name = "N", default_value_t = Rules::default().right, hide_short_help = true,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    agreeing: usize,
    /// The seed for the order of shuffled options.
    #[arg(long, value_name = "N", default_value_t = 0, hide_short_help = true)]
    shuffle_seed: u64,
}

/// What can be asked besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Controls {
    /// Options A to D in another order
    Shuffled,
    /// The questions alone
    NoPicture,
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let options = &args.spatialgen;
    let rules = Rules {
        rounds: options.rounds,
        attempts: options.most_rounds,
        right: options.agreeing,
    };
    ensure!(
        rules.right <= rules.rounds && rules.rounds <= rules.attempts,
        "--agreeing ({}) must not be more than --rounds ({}), and --rounds must not be more than --most-rounds ({})",
        rules.right,
        rules.rounds,
        rules.attempts
    );
    let Some(path) = &options.questions else {
        bail!(
            "--benchmark spatialgen needs --questions FILE: the benchmark's file, which has no licence and so is not in \
             prepose, or one made by prepose spatialgen propose"
        );
    };
    let text =
        read_text_or_stdin(path).with_context(|| format!("cannot read {}", path.display()))?;
    let items = read(&text).with_context(|| path.display().to_string())?;
    let shown = match args.pictures.join("prompts.jsonl").is_file() {
        true => of_run(&args.pictures, &items)?,
        false => of_folder(&args.pictures, &items),
    };
    let wanted = shown.iter().map(|one| (one.id.clone(), one.file.clone()));
    let (named, there) = pictures::named(&args.pictures, wanted, args.partial)?;
    let shown: Vec<Shown> = (shown.into_iter().zip(there))
        .filter_map(|(one, there)| there.then_some(one))
        .collect();
    match args.judge.model.is_oracle() {
        true => by_boxes(args, &items, &shown, &named, quiet),
        false => by_model(args, &items, &shown, &named, &rules, quiet),
    }
}

/// Of whom which question is asked, and how.
type AskedOf<'a> = (&'a Item, String, Option<String>, Control);

/// All questions, those of the controls after the others.
fn questions<'a>(
    options: &Options,
    items: &'a [Item],
    shown: &[Shown],
) -> (Vec<AskedOf<'a>>, Vec<Question>) {
    let seed = options.shuffle_seed;
    let mut asked: Vec<AskedOf> = Vec::new();
    let mut questions = Vec::new();
    let mut add = |control: Control| {
        // Without a picture there is one thing to ask of each item, however many pictures it has.
        let mut seen = HashSet::new();
        for (picture, one) in shown.iter().enumerate() {
            let item = &items[one.item];
            let (name, method) = match control {
                Control::NoPicture if !seen.insert(one.item) => continue,
                Control::NoPicture => (item.id.clone(), None),
                _ => (one.id.clone(), one.method.clone()),
            };
            questions.push(item.question(&name, picture, control, seed));
            asked.push((item, name, method, control));
        }
    };
    add(Control::AsPublished);
    for (wanted, control) in [
        (Controls::Shuffled, Control::Shuffled),
        (Controls::NoPicture, Control::NoPicture),
    ] {
        if options.control.contains(&wanted) {
            add(control);
        }
    }
    (asked, questions)
}

fn by_model(
    args: &Args,
    items: &[Item],
    shown: &[Shown],
    named: &[Named],
    rules: &Rules,
    quiet: bool,
) -> anyhow::Result<u8> {
    let options = &args.spatialgen;
    ensure!(
        !args.judge.model.is_seeded(),
        "--judge-seed would make all rounds of SpatialGenEval say the same; leave it out"
    );
    ensure!(
        !args.judge.has_boxes(),
        "--detections and --checker are for the oracle, not for a model; judge once with --judge oracle to see what boxes \
         decide"
    );
    let seed = options.shuffle_seed;
    let (asked, questions) = questions(options, items, shown);
    let (model, stop) = args.judge.model.model_at(1.0)?;
    let mut book = open_book(&args.out)?;
    let least = questions.len() * rules.rounds;
    let bar = Mutex::new(Progress::new(least as u64, "answers", quiet || args.json));
    let locked = || bar.lock().unwrap_or_else(PoisonError::into_inner);
    let manner = Manner {
        concurrency: args.judge.model.concurrency,
        progress: &|_| locked().advance(1),
        stop: &stop,
    };
    let voted = vote(&model, named, &questions, &mut book, &manner, rules);
    locked().finish();
    let voted = voted?;
    let totals = Totals {
        rounds: rules.rounds,
        questions: voted.votes.len(),
        new: voted.new,
        unanswered: voted
            .votes
            .iter()
            .filter(|one| one.failed.is_some())
            .count(),
        prompt_tokens: voted.prompt_tokens,
        answer_tokens: voted.answer_tokens,
    };
    let judged: Vec<Judged> = (asked.into_iter().zip(voted.votes))
        .map(|((item, name, method, control), votes)| {
            Judged::of_votes(item, name, method, control, votes, rules, seed)
        })
        .collect();
    let results = Results {
        tables: vec![
            figures(&judged, &args.bootstrap()),
            domains(&judged, &args.bootstrap()),
            letters(&judged),
            published(),
        ],
        more: Vec::new(),
        notes: notes(&judged, rules),
        lines: lines(&judged, shown, rules),
    };
    results.finish(&args.out, args.json, &args.judge.model, &totals)
}

/// A line for each picture: which of its questions are answered rightly, and what was said round by round.
fn lines(judged: &[Judged], shown: &[Shown], rules: &Rules) -> Vec<Value> {
    let files: HashMap<&str, &str> = shown
        .iter()
        .map(|one| (one.id.as_str(), one.file.as_str()))
        .collect();
    let line = |one: &Judged| {
        let of_picture = one.control != Control::NoPicture;
        let said = |votes: &Votes| -> Vec<String> {
            let letters = |answer: &[u8; QUESTIONS]| -> String {
                answer
                    .iter()
                    .map(|place| prepose::judge::spatialgen::read::letter(*place))
                    .collect()
            };
            votes.valid.iter().map(letters).collect()
        };
        json!({
            "id": one.picture,
            "item": one.item.id,
            "picture": files.get(one.picture.as_str()).filter(|_| of_picture),
            "method": one.method,
            "asked": one.control.as_str(),
            "right": one.right,
            "said": one.votes.as_ref().map(said),
            "whole": one.votes.as_ref().is_none_or(|votes| votes.is_whole(rules)),
        })
    };
    judged.iter().map(line).collect()
}

/// What boxes decide, without a model.
fn by_boxes(
    args: &Args,
    items: &[Item],
    shown: &[Shown],
    named: &[Named],
    quiet: bool,
) -> anyhow::Result<u8> {
    ensure!(
        args.judge.model.judge_model.is_none(),
        "--judge-model needs --judge with the address of its server"
    );
    ensure!(
        args.spatialgen.control.is_empty(),
        "--control is for models: boxes have no letters to prefer, and see no questions"
    );
    let (cases, known) = match args.judge.detections() {
        [] => {
            let known = pictures::vocabulary(args.judge.checker.as_deref())?;
            let eyes = pictures::Eyes {
                checker: args.judge.checker.as_deref(),
                device: args.judge.device,
            };
            // A detector with a vocabulary need not be asked for anything.
            let wanted = vec![Vec::new(); named.len()];
            (pictures::look(named, &wanted, &eyes, quiet)?, known)
        }
        files => detections(files)?,
    };
    let cases: HashMap<&str, &Case> = cases.iter().map(|case| (case.id.as_str(), case)).collect();
    let mut judged = Vec::new();
    let mut decided = 0;
    for one in shown {
        let item = &items[one.item];
        let stem = Path::new(&one.file)
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy();
        let names = [one.id.as_str(), one.file.as_str(), &*stem];
        let Some(case) = names.iter().find_map(|name| cases.get(name)) else {
            bail!("there are no detections of {}", one.file);
        };
        let right: [Option<bool>; QUESTIONS] = std::array::from_fn(|at| {
            let choice = item.questions.get(at)?;
            let answer = geometry::answer(Domain::ALL[at], choice, case, &known)?;
            Some(answer == choice.right)
        });
        decided += right.iter().flatten().count();
        judged.push(Judged {
            item,
            picture: one.id.clone(),
            method: one.method.clone(),
            control: Control::AsPublished,
            right,
            votes: None,
            unanimous: [true; QUESTIONS],
        });
    }
    let all = judged.len() * QUESTIONS;
    let rules = Rules::default();
    let mut told = vec![format!(
        "the oracle can answer {decided} of {all} questions: boxes tell which objects are there, on which side, which is largest and which \
         nearest, where the question's words leave no doubt; the other {} it cannot answer, and they count neither for nor against",
        all - decided
    )];
    told.extend(notes(&judged, &rules));
    prepare_folder(&args.out)?;
    let results = Results {
        tables: vec![
            figures(&judged, &args.bootstrap()),
            domains(&judged, &args.bootstrap()),
            published(),
        ],
        more: Vec::new(),
        notes: told,
        lines: lines(&judged, shown, &rules),
    };
    // Nothing was asked of anybody.
    results.finish(&args.out, args.json, &args.judge.model, &Totals::default())
}

/// Detections in files, and the labels that are in them.
fn detections(files: &[PathBuf]) -> anyhow::Result<(Vec<Case>, Vec<String>)> {
    let mut cases = Vec::new();
    for path in files {
        let text =
            read_text_or_stdin(path).with_context(|| format!("cannot read {}", path.display()))?;
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() {
                continue;
            }
            let found = detected::read(line)
                .with_context(|| format!("{}: line {number}", path.display()))?;
            cases.push(found.case());
        }
    }
    let mut known: Vec<String> = (cases.iter().flat_map(|case| &case.detections))
        .map(|one| one.label.trim().to_lowercase())
        .collect();
    known.sort_unstable();
    known.dedup();
    Ok((cases, known))
}
