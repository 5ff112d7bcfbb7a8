//! `prepose ots cure`: pictures, flipped pairs, LoRAs, and what they do.

mod args;
mod measure;
mod pairs;
mod prompts;
mod stages;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use prepose::output::files::{lock, prepare_folder, write_atomically};
use prepose::report::experiments::ots::cure;
use prepose::request::{Dtype, Lora, ModelRequest};
use prepose::suite::Suite;
use prepose::suite::plan::SuiteId;
use prepose::train::dataset::Options;
use prepose::train::dataset::order::Flips;
use prepose::train::recipe::{Recipe, differences};
use prepose::train::run::{Job, Samples, run as train};
use prepose_models::unet::Memory;
use prepose_untrusted::read_text;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::run::{DetectorSpecs, prompts as known_prompts};
use crate::cli::train::Told;
use crate::cli::{OK, experiment, interrupt, model};
pub use args::Args;
use pairs::Pairs;
use prompts::Split;
use stages::Stages;

/// Steps of a training between states that are kept.
const KEEP_EVERY: u64 = 50;

/// The checkpoint as it is, and the LoRA of the pictures without flips.
const BEFORE: &str = "before";
const CONTROL: &str = "control";

/// What must be the same when a cure is gone on with. LoRAs by another kind of flips may be added.
#[derive(Serialize)]
struct Claim<'a> {
    suite: SuiteId,
    pairs: Option<&'a Path>,
    with_sides: bool,
    most_pairs: usize,
    pair_seeds: &'a [u64],
    most_prompts: usize,
    seeds: Vec<u64>,
    steps: Option<usize>,
    recipe: &'a Recipe,
}

/// A cure at work.
struct Cure<'a> {
    args: &'a Args,
    out: PathBuf,
    recipe: Recipe,
    split: Split,
    quiet: bool,
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    args.check()?;
    let recipe = args.recipe()?;
    if args.recipe {
        writeln!(std::io::stdout().lock(), "{:#}", show(args, &recipe)?)?;
        return Ok(OK);
    }
    let detectors = DetectorSpecs::open(&args.settings)?;
    let suite = prepose::suite::sets::open(&args.suite)?;
    let suite = known_prompts(suite, &args.settings, &detectors)?;
    let taken = args.pairs.as_deref().map(pairs::open).transpose()?;
    let names = taken.as_ref().map(|folder| pairs::names(folder.plan()));
    let split = Split::new(&suite, names.as_ref(), args.most_pairs, args.most_prompts)?;

    // A network that is not there is to be found before hours of work.
    measure::extractor(args)?;
    let out = PathBuf::from(&args.settings.out);
    prepare_folder(&out)?;
    let Some(_lock) = lock(&out)? else {
        bail!(
            "another cure is at work in {}; wait for it to finish, or give another folder",
            out.display()
        );
    };
    let cure = Cure {
        args,
        out,
        recipe,
        split,
        quiet: quiet || args.settings.json,
    };
    cure.claim(&suite)?;
    let mut stages = Stages::open(&cure.out, args.settings.json, quiet)?;
    let pairs = stages.take("pairs", || match taken {
        Some(folder) => pairs::gather(&folder, &cure.out, args.with_sides),
        None => pairs::make(
            &cure.settings("pairs", None),
            &cure.split.train,
            args,
            &cure.out,
            cure.quiet,
        ),
    })?;
    let trained = std::iter::once((CONTROL, Flips::None))
        .chain(args.by.iter().map(|by| (by.name(), by.flips())));
    let trained: Vec<(&str, Flips)> = trained.collect();
    for (name, flips) in &trained {
        stages.take(&format!("train {name}"), || cure.train(name, *flips))?;
    }
    let mut arms = Vec::new();
    let all = std::iter::once(BEFORE).chain(trained.iter().map(|(name, _)| *name));
    for name in all {
        arms.push(stages.take(&format!("measure {name}"), || cure.measure(name, &pairs))?);
    }
    cure.finish(&arms, &pairs, &stages)?;
    Ok(OK)
}

/// The settings, for people and programs.
fn show(args: &Args, recipe: &Recipe) -> anyhow::Result<Value> {
    let by: Vec<&str> = args.by.iter().map(|by| by.name()).collect();
    Ok(json!({
        "suite": args.suite, "by": by, "with_sides": args.with_sides, "pairs": args.pairs,
        "most_pairs": args.most_pairs, "pair_seeds": args.pair_seeds.0, "most_prompts": args.most_prompts,
        "seeds": seeds(args), "steps": args.settings.sampling.steps, "recipe": serde_json::to_value(recipe)?,
    }))
}

/// Every prompt that is measured is made from each of these.
fn seeds(args: &Args) -> Vec<u64> {
    match &args.settings.seeds {
        Some(seeds) => seeds.0.clone(),
        None => vec![0, 1],
    }
}

impl Cure<'_> {
    /// Writes down what this cure is, or compares it with what the folder has.
    fn claim(&self, suite: &Suite) -> anyhow::Result<()> {
        let args = self.args;
        let here = serde_json::to_value(Claim {
            suite: suite.id()?,
            pairs: args.pairs.as_deref(),
            with_sides: args.with_sides,
            most_pairs: args.most_pairs,
            pair_seeds: &args.pair_seeds.0,
            most_prompts: args.most_prompts,
            seeds: seeds(args),
            steps: args.settings.sampling.steps,
            recipe: &self.recipe,
        })?;
        let path = self.out.join("cure.json");
        let there = match read_text(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(write_atomically(&path, format!("{here:#}\n").as_bytes())?);
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let there: Value = serde_json::from_str(&there)
            .with_context(|| format!("{} is not what prepose writes", path.display()))?;
        let different = differences(&there, &here);
        ensure!(
            different.is_empty(),
            "{} has another cure, in which {}; give those settings to continue it, or another folder",
            self.out.display(),
            different.join(", ")
        );
        Ok(())
    }

    /// The settings of a run in a folder of the cure's, with a LoRA or without.
    fn settings(&self, folder: &str, lora: Option<PathBuf>) -> crate::cli::run::Settings {
        let mut settings = self.args.settings.clone();
        settings.out = self.out.join(folder).to_string_lossy().into_owned();
        settings.model.lora = lora
            .map(|path| Lora { path, weight: 1.0 })
            .into_iter()
            .collect();
        settings.known_objects = false;
        settings.json = false;
        settings
    }

    fn lora(&self, name: &str) -> PathBuf {
        self.out.join("trained").join(name).join("lora.safetensors")
    }

    fn train(&self, name: &str, flips: Flips) -> anyhow::Result<()> {
        let model = ModelRequest {
            dtype: Dtype::F32,
            ..self.args.settings.model.request()
        };
        let job = Job {
            recipe: Recipe {
                flips,
                ..self.recipe.clone()
            },
            model,
            new_adapter: None,
            data: self.out.join(pairs::SAMPLES),
            options: Options::default(),
            out: self.out.join("trained").join(name),
            cache: Some(self.out.join("cache")),
            keep_every: KEEP_EVERY,
            samples: Samples::default(),
            memory: Memory::Keep,
        };
        let device = model::open(self.args.settings.model.device)?;
        let stop = interrupt::listen_twice()?;
        let mut told = Told::new(self.args.settings.json, self.quiet);
        let done = train(&job, &device, &stop.soon, &mut |event| told.tell(event));
        told.finish();
        Ok(done?)
    }

    /// Writes what the arms came to, and shows it.
    fn finish(&self, arms: &[cure::Arm], pairs: &Pairs, stages: &Stages) -> anyhow::Result<()> {
        let (measured, results) = cure::cure(arms);
        let device = model::open(self.args.settings.model.device)?;
        let value = json!({
            "prepose": env!("CARGO_PKG_VERSION"),
            "settings": show(self.args, &self.recipe)?,
            "device": device.title(),
            "threads": rayon::current_num_threads(),
            "pairs": pairs.counts(),
            "seconds": stages.seconds(),
            "arms": measured,
        });
        let folder = self.out.join(experiment::FOLDER);
        prepare_folder(&folder)?;
        write_atomically(&folder.join("cure.json"), format!("{value:#}\n").as_bytes())?;
        for (name, text) in results.files() {
            write_atomically(&folder.join(name), text.as_bytes())?;
        }
        if self.args.settings.json {
            let line = json!({"event": "results", "results": value});
            writeln!(std::io::stdout().lock(), "{line}")?;
        } else if !self.quiet {
            experiment::print(&results, &folder.to_string_lossy())?;
        }
        Ok(())
    }
}
