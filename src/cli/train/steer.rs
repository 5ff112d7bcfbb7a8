//! `prepose train steer`: pictures of pairs of objects, what they show, and the classifier that learns from their maps.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use prepose::check::sample::Sample;
use prepose::check::spatialbench::{Question, Reason, Rule, Verdict};
use prepose::guidance::classifier::{NONE, RELATIONS, classes};
use prepose::output::files::prepare_folder;
use prepose::store;
use prepose::suite::folder::RunFolder;
use prepose::suite::method::Method;
use prepose::suite::{Suite, SuitePrompt, sets};
use prepose::train::optimizer::draws::Draws;
use prepose::train::steer::{Looked, Shown, SteerJob, SteerRecipe, absent, run as train};
use prepose_models::steer::SteerSize;
use prepose_weights::TOYBOX;

use super::Told;
use crate::cli::run::{DetectorSpecs, Settings, carry_out_suite, prompts as known_prompts};
use crate::cli::values::Seeds;
use crate::cli::{OK, interrupt, model};

/// How much further apart two centres must be along the relation's axis than across it.
const CLEARLY: f64 = 1.5;

/// `prepose train steer`
#[derive(Debug, clap::Args)]
pub struct SteerArgs {
    /// The set whose pairs of objects training pictures are made of.
    #[arg(
        long,
        value_name = "SUITE",
        default_value = "visor",
        help_heading = "Pictures"
    )]
    suite: String,
    /// A set whose pairs of objects are never trained on: those that will be measured.
    #[arg(
        long,
        value_name = "SUITE",
        default_value = "spatialbench-uc",
        help_heading = "Pictures"
    )]
    leave_out: String,
    /// Make at most N pictures; each prompt has one of each of --seeds.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 4000,
        help_heading = "Pictures"
    )]
    most_pictures: usize,
    /// The share of pictures to show once more with one object's word replaced by that of an object that is not there, 0 to 1.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.25,
        help_heading = "Training"
    )]
    absent: f64,
    /// Leave out the maps under wrong relation words: the classifier then learns the word instead of the picture.
    #[arg(long, help_heading = "Training")]
    no_wrong_words: bool,
    /// The training timesteps at which maps are recorded, from high to low noise.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "881,781,681,581,481,1",
        help_heading = "Training",
        hide_short_help = true
    )]
    timesteps: Vec<f64>,
    /// Channels of a map's vector [default: 256 as published; toybox: 128].
    #[arg(
        long,
        value_name = "N",
        help_heading = "Training",
        hide_short_help = true
    )]
    width: Option<usize>,
    /// Steps of the optimiser.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3000,
        help_heading = "Training"
    )]
    train_steps: u64,
    /// Samples in a step.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 64,
        help_heading = "Training",
        hide_short_help = true
    )]
    train_batch: usize,
    /// The learning rate; it falls along half a cosine.
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 5e-4,
        help_heading = "Training",
        hide_short_help = true
    )]
    train_rate: f64,
    /// The seed of everything that the training draws at random.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        help_heading = "Training",
        hide_short_help = true
    )]
    train_seed: u64,
    /// Steps between saved states, and between tests on held-out pairs.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 250,
        help_heading = "Training",
        hide_short_help = true
    )]
    keep_every: u64,
    /// Where to keep maps, to share them between trainings [default: within --out].
    #[arg(
        long,
        value_name = "FOLDER",
        help_heading = "Training",
        hide_short_help = true
    )]
    cache: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

pub fn run(args: &SteerArgs, quiet: bool) -> anyhow::Result<u8> {
    args.check()?;
    let out = PathBuf::from(&args.settings.out);
    let folder = match args.pictures() {
        Some(path) => open(path)?,
        None => args.make(&out, quiet)?,
    };
    let (pictures, looked) = args.seen(&folder)?;
    let is_toybox = args.settings.model.request().checkpoint == TOYBOX;
    let size = match is_toybox {
        true => SteerSize::SMALL,
        false => SteerSize::PUBLISHED,
    };
    let job = SteerJob {
        recipe: SteerRecipe {
            size: SteerSize {
                width: args.width.unwrap_or(size.width),
                ..size
            },
            timesteps: args.timesteps.clone(),
            steps: args.train_steps,
            batch: args.train_batch,
            rate: args.train_rate,
            weight_decay: 0.05,
            dropout: 0.3,
            wrong_words: !args.no_wrong_words,
            seed: Draws(args.train_seed),
        },
        model: args.settings.model.request(),
        pictures,
        looked,
        out,
        cache: args.cache.clone(),
        keep_every: args.keep_every,
    };
    let device = model::open(args.settings.model.device)?;
    let stop = interrupt::listen_twice()?;
    let mut told = Told::new(args.settings.json, quiet);
    let done = train(&job, &device, &stop.soon, &mut |event| told.tell(event));
    told.finish();
    done?;
    Ok(OK)
}

/// A run whose pictures are taken.
fn open(path: &Path) -> anyhow::Result<RunFolder> {
    let name = path.to_string_lossy();
    let folder = RunFolder::open(store::open(&name)?)
        .with_context(|| format!("--pictures {name} is not a run that can be read"))?;
    ensure!(
        folder.plan().config.checker.is_some(),
        "no checker looked at the pictures of --pictures {name}; a run with a checker is needed, which says where things \
         are"
    );
    Ok(folder)
}

/// The two objects of a prompt, whatever their order.
fn pair(objects: &[String]) -> Option<[String; 2]> {
    let [one, other] = objects else {
        return None;
    };
    let mut pair = [one.to_lowercase(), other.to_lowercase()];
    pair.sort_unstable();
    Some(pair)
}

impl SteerArgs {
    /// A run whose pictures are trained on, instead of making some.
    fn pictures(&self) -> Option<&Path> {
        self.settings.source.pictures.as_deref()
    }

    /// Refuses what makes no sense here.
    fn check(&self) -> anyhow::Result<()> {
        let settings = &self.settings;
        ensure!(
            settings.checker() != "none",
            "what a picture shows is what a checker sees; --checker none sees nothing"
        );
        if settings.every != 1 || settings.limit.is_some() {
            bail!("give --most-pictures instead of --every and --limit");
        }
        ensure!(
            settings.shard.is_none() && settings.shards.is_none(),
            "a training is one piece; it has no shards"
        );
        let source = &settings.source;
        let layout = source.layout.is_some() || source.name_template.is_some() || source.partial;
        ensure!(
            source.endpoint.is_none() && source.maker.is_none() && !layout,
            "the maps are of the checkpoint that makes the pictures; they cannot come from elsewhere (--pictures takes those of a run)"
        );
        let pictures = self.pictures().map(|path| path.display().to_string());
        let out = Some(settings.out.clone());
        for (what, place) in [("--out", out), ("--pictures", pictures)] {
            if let Some(place) = place.filter(|place| place.contains("://")) {
                bail!(
                    "{what} {place} is not a folder on this machine, where trainings read and keep their files"
                );
            }
        }
        if let Some(width) = self.width {
            ensure!(
                width.is_multiple_of(2) && (8..=4096).contains(&width),
                "--width is {width}, but must be an even number from 8 to 4096"
            );
        }
        ensure!(
            (0.0..=1.0).contains(&self.absent),
            "--absent is {}, but must be from 0 to 1",
            self.absent
        );
        let least = match (self.pictures(), &settings.seeds) {
            (None, Some(seeds)) => seeds.0.len().max(1),
            _ => 1,
        };
        ensure!(
            self.most_pictures >= least,
            "--most-pictures is {}, but must be at least {least}: each prompt has a picture of each of --seeds",
            self.most_pictures
        );
        Ok(())
    }

    /// The pairs that are not trained on.
    fn left_out(&self) -> anyhow::Result<HashSet<[String; 2]>> {
        let suite = sets::open(&self.leave_out)
            .with_context(|| format!("cannot use --leave-out {}", self.leave_out))?;
        Ok((suite.prompts.iter())
            .filter_map(|prompt| pair(&prompt.objects))
            .collect())
    }

    /// Makes pictures and has them looked at.
    fn make(&self, out: &Path, quiet: bool) -> anyhow::Result<RunFolder> {
        let mut settings = self.settings.clone();
        prepare_folder(out)?;
        settings.out = out.join("pictures").to_string_lossy().into_owned();
        settings.known_objects = true;
        settings.json = false;
        let seeds = settings.seeds.get_or_insert_with(|| Seeds(vec![1000]));
        let most = self.most_pictures / seeds.0.len().max(1);
        let detectors = DetectorSpecs::open(&settings)?;
        let suite = sets::open(&self.suite)?;
        let mut suite = known_prompts(suite, &settings, &detectors)?;
        settings.known_objects = false;
        let left_out = self.left_out()?;
        let is_taken = |prompt: &SuitePrompt| {
            pair(&prompt.objects).is_some_and(|pair| !left_out.contains(&pair))
        };
        suite.prompts.retain(is_taken);
        let suite = drawn(suite, most, self.train_seed);
        ensure!(
            !suite.prompts.is_empty(),
            "{} has no prompt of a pair of objects that the checker knows and that is not in {}",
            self.suite,
            self.leave_out
        );
        carry_out_suite(
            suite,
            vec![Method::prompt_only()],
            &settings,
            quiet || self.settings.json,
        )
    }

    /// What the pictures of a run clearly show, and how many there are of it.
    fn seen(&self, folder: &RunFolder) -> anyhow::Result<(Vec<Shown>, usize)> {
        let left_out = self.left_out()?;
        let place = PathBuf::from(folder.store().location());
        let (mut seen, mut looked) = (Vec::new(), 0);
        for method in 0..folder.plan().config.methods.len() {
            let name = folder.method_folder(method).to_owned();
            folder.samples(method, |sample| {
                looked += 1;
                let objects = sample.records.first();
                let objects =
                    objects.map(|record| [record.object_a.clone(), record.object_b.clone()]);
                let Some(objects) = objects.filter(|_| sample.records.len() == 1) else {
                    return Ok(());
                };
                let is_left_out = pair(&objects).is_none_or(|pair| left_out.contains(&pair));
                if let Some(class) = class(&sample, &objects).filter(|_| !is_left_out) {
                    let shown = Shown {
                        file: place.join(&name).join(&sample.manifest.image_path),
                        objects,
                        class,
                    };
                    let labels = labels(&sample);
                    seen.push(Looked { shown, labels });
                }
                Ok(())
            })?;
        }
        let absent = absent(&seen, &left_out, self.absent, Draws(self.train_seed));
        let mut shown: Vec<Shown> = seen.into_iter().map(|one| one.shown).collect();
        shown.extend(absent);
        Ok((shown, looked))
    }
}

/// So many prompts at most, drawn.
fn drawn(mut suite: Suite, most: usize, seed: u64) -> Suite {
    let purpose = prepose::train::optimizer::draws::Purpose::Order;
    let order = Draws(seed).shuffled(purpose, 0, suite.prompts.len());
    let mut taken: Vec<usize> = order.into_iter().take(most).collect();
    taken.sort_unstable();
    let prompts = taken.into_iter().map(|at| SuitePrompt {
        counterpart: None,
        ..suite.prompts[at].clone()
    });
    suite.prompts = prompts.collect();
    suite.name = format!("{}-steer", suite.name);
    suite.pictures_per_prompt = 1;
    suite
}

/// What was detected in a picture.
fn labels(sample: &Sample) -> Vec<String> {
    let detections = sample.records.iter();
    let detections = detections.flat_map(|record| &record.detectors.primary.detections);
    detections.map(|one| one.label.clone()).collect()
}

/// How two objects of a picture stand, if that is beyond doubt: one of the relations, or none of them where just one of the
/// two is there.
fn class(sample: &Sample, objects: &[String; 2]) -> Option<usize> {
    let record = sample.records.first()?;
    let rule = Rule::default();
    let size = record.image_size.unwrap_or([512, 512]);
    let mut holds = Vec::new();
    let mut apart = [0f64; 4];
    for (at, relation) in RELATIONS.into_iter().enumerate() {
        let question = Question {
            relation,
            object_a: objects[0].clone(),
            object_b: objects[1].clone(),
        };
        let look = rule.look(&question, size, &record.detectors.primary.detections);
        let look = look.ok()?;
        if let Some(Reason::Missing(missing)) = &look.reason {
            let none = classes().iter().position(|class| class == NONE);
            return none.filter(|_| missing.len() == 1);
        }
        apart[at] = look.geometry?.progress;
        if look.verdict == Verdict::Pass {
            holds.push(at);
        }
    }
    let best = holds
        .into_iter()
        .max_by(|a, b| apart[*a].total_cmp(&apart[*b]))?;
    // Sideways and up are two axes; of a diagonal nobody can say which of the two it is.
    let across = match best {
        0 | 1 => apart[2].abs(),
        _ => apart[0].abs(),
    };
    (apart[best] >= CLEARLY * across).then_some(best)
}
