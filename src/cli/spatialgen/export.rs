//! `prepose spatialgen export`

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail, ensure};
use prepose::judge::picture;
use prepose::judge::spatialgen::{Control, Domain, Item, QUESTIONS};
use prepose::output::files::{prepare_folder, write_atomically};
use prepose_untrusted::read_text;
use serde::Deserialize;
use serde_json::json;

use super::{items, write};
use crate::cli::OK;
use crate::cli::input::count;

/// Put pictures that pass, with their prompts, into a folder to train on.
///
/// The folder has the form that diffusers' training scripts and Hugging Face's `imagefolder` read: pictures, and a
/// metadata.jsonl with `file_name` and `text`. A picture passes if enough of its ten questions were answered correctly when it
/// was judged. Pictures are copied as they are; an existing folder is added to. A picture whose name another one has there gets
/// the beginning of its SHA-256 after it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose spatialgen export judged/mine --pictures runs/mine --questions mine.jsonl --out train
  prepose spatialgen export judged/mine --pictures runs/mine --questions mine.jsonl --least 10 --need Position,Layout --out strict")]
pub struct Args {
    /// The folder that `prepose judge --benchmark spatialgen` wrote to.
    judged: PathBuf,
    /// The pictures that were judged: the folder that `prepose judge` was given.
    #[arg(long, value_name = "FOLDER")]
    pictures: PathBuf,
    /// The prompts and questions that were asked.
    #[arg(long, value_name = "FILE")]
    questions: PathBuf,
    /// How many of the ten questions must be answered correctly; the paper does not say how many.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=10))]
    least: u8,
    /// Sub-domains whose questions must be among them, such as Position,Layout.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse_domain)]
    need: Vec<Domain>,
    /// The folder to train on.
    #[arg(short, long, value_name = "FOLDER")]
    out: PathBuf,
}

fn parse_domain(text: &str) -> Result<Domain, String> {
    let found = Domain::ALL
        .into_iter()
        .find(|one| one.as_str().eq_ignore_ascii_case(text.trim()));
    found.ok_or_else(|| {
        let names = Domain::ALL.map(Domain::as_str);
        format!("there are {}", names.join(", "))
    })
}

/// A line of `judged.jsonl`, as far as it matters here.
#[derive(Deserialize)]
struct Line {
    id: String,
    item: String,
    picture: Option<PathBuf>,
    method: Option<String>,
    asked: String,
    right: [Option<bool>; QUESTIONS],
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let items: HashMap<String, Item> = items(&args.questions)?
        .into_iter()
        .map(|item| (item.id.clone(), item))
        .collect();
    let path = args.judged.join("judged.jsonl");
    let (passing, judged) = passing(args, &path, &items)?;
    let target = args.out.join("metadata.jsonl");
    let mut lines = before(&target)?;
    prepare_folder(&args.out)?;
    let mut names = HashSet::new();
    for Passing { line, item, right } in &passing {
        let name = put(args, &path, line, &mut names)?;
        let passed: Vec<&str> = (Domain::ALL.iter().zip(line.right))
            .filter(|(_, right)| *right == Some(true))
            .map(|(domain, _)| domain.as_str())
            .collect();
        let new = json!({
            "file_name": name,
            "text": item.prompt,
            "item": item.id,
            "scene": item.scene,
            "method": line.method,
            "right": right,
            "passed": passed,
        });
        lines.insert(name, new.to_string());
    }
    let text: String = lines.values().map(|line| format!("{line}\n")).collect();
    write(&target, &text)?;
    if !quiet {
        writeln!(
            std::io::stdout().lock(),
            "{} of {} pass; {} in {}",
            passing.len(),
            count(judged, "picture"),
            lines.len(),
            args.out.display()
        )?;
    }
    Ok(OK)
}

/// A picture that passes.
struct Passing<'a> {
    line: Line,
    item: &'a Item,
    /// How many of its questions are answered rightly.
    right: usize,
}

/// The pictures that pass, and how many were judged.
fn passing<'a>(
    args: &Args,
    path: &Path,
    items: &'a HashMap<String, Item>,
) -> anyhow::Result<(Vec<Passing<'a>>, usize)> {
    let text = read_text(path)
        .with_context(|| format!("cannot read {}; prepose judge writes it", path.display()))?;
    let mut passing = Vec::new();
    let mut judged = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let place = || {
            format!(
                "{}: line {number} is none of SpatialGenEval's",
                path.display()
            )
        };
        let line: Line = serde_json::from_str(line).with_context(place)?;
        if line.asked != Control::AsPublished.as_str() {
            continue;
        }
        judged += 1;
        let right = line
            .right
            .iter()
            .filter(|right| **right == Some(true))
            .count();
        let has = |domain: &Domain| {
            let at = Domain::ALL.iter().position(|one| one == domain);
            at.and_then(|at| line.right[at]) == Some(true)
        };
        if right >= usize::from(args.least) && args.need.iter().all(has) {
            let Some(item) = items.get(&line.item) else {
                bail!(
                    "{} has no prompt {:?}, which a picture was judged by",
                    args.questions.display(),
                    line.item
                );
            };
            passing.push(Passing { line, item, right });
        }
    }
    ensure!(
        judged > 0,
        "{}: there are no pictures in it",
        path.display()
    );
    Ok((passing, judged))
}

/// Copies the picture of a line into the folder, and returns its name there, which is none of `names` yet and no other picture's.
fn put(
    args: &Args,
    path: &Path,
    line: &Line,
    names: &mut HashSet<String>,
) -> anyhow::Result<String> {
    let Some(file) = &line.picture else {
        bail!("{}: {} has no picture", path.display(), line.id);
    };
    // Names in a file are no ways out of the folder.
    let inside = file
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    ensure!(
        inside,
        "{}: {} is not a file below --pictures",
        path.display(),
        file.display()
    );
    let seen = picture::read(&args.pictures.join(file))?;
    let ending = file
        .extension()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    let safe = |c: char| match c.is_ascii_alphanumeric() || "._-".contains(c) {
        true => c,
        false => '_',
    };
    let stem: String = line.id.chars().map(safe).collect();
    let stem = stem.trim_start_matches('.');
    let mut name = format!("{stem}.{ending}");
    // Ids are of prompts: pictures of several models have the same.
    let place = args.out.join(&name);
    if place.exists() && picture::read(&place)?.digest != seen.digest {
        let short: String = seen.digest.chars().take(8).collect();
        name = format!("{stem}-{short}.{ending}");
    }
    ensure!(
        names.insert(name.clone()),
        "two pictures would both be called {name}"
    );
    write_atomically(&args.out.join(&name), &seen.bytes)
        .with_context(|| format!("cannot write {}", args.out.join(&name).display()))?;
    Ok(name)
}

/// The lines of a folder that is there already, by their pictures.
fn before(path: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    #[derive(Deserialize)]
    struct Known {
        file_name: String,
    }
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let text = read_text(path).with_context(|| format!("cannot read {}", path.display()))?;
    let line = |(number, line): (usize, &str)| {
        let known: Known = serde_json::from_str(line)
            .with_context(|| format!("{}: line {number} names no file", path.display()))?;
        Ok((known.file_name, line.to_owned()))
    };
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
        .map(line)
        .collect()
}
