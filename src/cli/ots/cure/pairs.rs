//! The pictures that are trained on: made, or those of a run.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, ensure};
use prepose::output::files::{prepare_folder, write_atomically};
use prepose::store;
use prepose::suite::Suite;
use prepose::suite::folder::RunFolder;
use prepose::suite::method::Method;
use prepose::suite::plan::Plan;
use prepose::train::dataset::pairs::{Pair, lines};
use serde::Serialize;

use super::args::Args;
use super::prompts::{self, Names};
use crate::cli::run::{Settings, carry_out_suite};

/// The list of pictures and captions that is trained on, in the cure's folder.
pub const SAMPLES: &str = "samples.jsonl";

/// Pictures to train on.
pub struct Pairs {
    /// What was made or taken, and what of it is trained on.
    counts: Counts,
    /// The folder of the run that they are from.
    pub run: String,
}

/// How many pictures there are.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counts {
    /// That were looked at.
    pictures: usize,
    /// In which the two are both there once, apart and beside each other.
    kept: usize,
    /// In which the first-mentioned one is on the left.
    first_left: usize,
    /// Captions to pictures, without flips.
    samples: usize,
}

impl Pairs {
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// A run whose pictures are taken.
pub fn open(path: &Path) -> anyhow::Result<RunFolder> {
    let name = path.to_string_lossy();
    let folder = RunFolder::open(store::open(&name)?)
        .with_context(|| format!("--pairs {name} is not a run that can be read"))?;
    ensure!(
        folder.plan().config.checker.is_some(),
        "no checker looked at the pictures of --pairs {name}; a run with a checker is needed, which says where things are"
    );
    Ok(folder)
}

/// The pairs of objects that a run is about.
pub fn names(plan: &Plan) -> HashSet<Names> {
    plan.prompts.iter().filter_map(prompts::names).collect()
}

/// Makes pictures of neutral pairs, and lists those that are trained on.
pub fn make(
    settings: &Settings,
    suite: &Suite,
    args: &Args,
    out: &Path,
    quiet: bool,
) -> anyhow::Result<Pairs> {
    let mut settings = settings.clone();
    settings.seeds = Some(args.pair_seeds.clone());
    let folder = carry_out_suite(suite.clone(), vec![Method::prompt_only()], &settings, quiet)?;
    let (pairs, counts) = seen(&folder, |method, picture| {
        Ok(format!("pairs/{method}/{picture}"))
    })?;
    list(&pairs, counts, args.with_sides, out, &folder)
}

/// Copies the pictures of a run that are trained on, and lists them.
pub fn gather(folder: &RunFolder, out: &Path, with_sides: bool) -> anyhow::Result<Pairs> {
    let place = out.join("pictures");
    prepare_folder(&place)?;
    let (pairs, counts) = seen(folder, |method, picture| {
        let name = picture.rsplit('/').next().unwrap_or(picture);
        let path = place.join(name);
        if !path.exists() {
            let from = format!("{method}/{picture}");
            let bytes = folder.store().get(&from)?;
            let bytes = bytes.with_context(|| format!("{from} is no longer there"))?;
            write_atomically(&path, &bytes)?;
        }
        Ok(format!("pictures/{name}"))
    })?;
    list(&pairs, counts, with_sides, out, folder)
}

/// The pictures in which two things stand side by side; `place` says where a picture of a method is.
fn seen(
    folder: &RunFolder,
    place: impl Fn(&str, &str) -> anyhow::Result<String>,
) -> anyhow::Result<(Vec<Pair>, Counts)> {
    let mut found = Vec::new();
    let mut counts = Counts::default();
    for method in 0..folder.plan().config.methods.len() {
        let name = folder.method_folder(method).to_owned();
        folder.samples(method, |sample| {
            let Some(side) = sample.scores.side else {
                return Ok(());
            };
            counts.pictures += 1;
            if matches!(side.as_str(), "left" | "right") {
                found.push((name.clone(), sample.manifest, side == "left"));
            }
            Ok(())
        })?;
    }
    let mut pairs = Vec::with_capacity(found.len());
    for (method, manifest, first_is_left) in found {
        counts.first_left += usize::from(first_is_left);
        pairs.push(Pair {
            file: place(&method, &manifest.image_path)?,
            caption: manifest.prompt,
            first_is_left,
        });
    }
    counts.kept = pairs.len();
    Ok((pairs, counts))
}

fn list(
    pairs: &[Pair],
    mut counts: Counts,
    with_sides: bool,
    out: &Path,
    folder: &RunFolder,
) -> anyhow::Result<Pairs> {
    ensure!(
        !pairs.is_empty(),
        "none of {} pictures shows its two things clearly side by side, so there is nothing to train on; more steps or \
         --most-pairs may help",
        counts.pictures
    );
    let all = lines(pairs, with_sides);
    counts.samples = all.len();
    let text = all
        .iter()
        .map(|line| Ok(serde_json::to_string(line)? + "\n"));
    let text = text.collect::<anyhow::Result<String>>()?;
    write_atomically(&out.join(SAMPLES), text.as_bytes())?;
    Ok(Pairs {
        counts,
        run: folder.store().location(),
    })
}
