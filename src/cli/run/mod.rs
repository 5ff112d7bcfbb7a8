//! `prepose run`

mod args;
mod watch;

use std::cell::Cell;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, anyhow, bail, ensure};
use prepose::check::detect::checker::Checker;
use prepose::check::detect::{Detector, RcnnDetector};
use prepose::check::spatialbench::{CheckerConfig, Rule};
use prepose::device::OpenDevice;
use prepose::engine::{Blueprint, Engine};
use prepose::request::ModelRequest;
use prepose::store;
use prepose::suite::examiner::{Examiner, Nobody, labels};
use prepose::suite::folder::RunFolder;
use prepose::suite::maker::{EngineMaker, request, reward_kind};
use prepose::suite::method::Method;
use prepose::suite::plan::{CheckerId, Plan, RunConfig, Sampling};
use prepose::suite::run::{RunError, Runner};
use prepose::suite::sets;
use prepose::suite::shard::Shard;
use prepose::suite::{Suite, SuitePrompt};
use prepose_weights::DetectorWeights;
use serde_json::json;

pub use args::{Args, Settings};
use watch::{Teller, Totals, summary};

use super::check::read_config;
use super::memory::Batch;
use super::{OK, checker, report};

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let folder = carry_out(&args.suite, methods(args)?, &args.settings, quiet)?;
    if !quiet && !args.settings.json {
        let mut stdout = std::io::stdout().lock();
        write!(stdout, "{}", summary(&totals(&folder)?))?;
        writeln!(stdout, "written to {}", folder.store().location())?;
    }
    match args.report {
        true => report::run(&report::Args::of(folder.store().location()), quiet),
        false => Ok(OK),
    }
}

/// Begins a run of a set by some methods, or goes on with it, to its end.
pub fn carry_out(
    suite: &str,
    methods: Vec<Method>,
    args: &Settings,
    quiet: bool,
) -> anyhow::Result<RunFolder> {
    ensure!(args.every > 0, "--every is 0, but must be at least 1");
    if let Some(shard) = shard(args)?
        && !quiet
        && !args.json
    {
        eprintln!("shard {shard} of the run, into {}", shard.folder());
    }
    let eyes = Eyes::open(args)?;
    Method::check_names(&methods)?;
    let suite = prompts(suite, args, &eyes)?;
    let mut model = args.model.request();
    let blueprint = Blueprint::open(&model)?;
    let fingerprint = blueprint.fingerprint();
    let (device, dtype) = args.model.open()?;
    model.dtype = dtype;
    let hash = fingerprint.join();
    model.sha256 = Some(hash.map_err(|_| anyhow!("hashing the checkpoint failed"))??);
    let plan = plan(args, suite, methods, model, &blueprint, &eyes)?;

    let location = match plan.config.shard {
        Some(shard) => format!("{}/{}", args.out.trim_end_matches('/'), shard.folder()),
        None => args.out.clone(),
    };
    let store = store::open(&location)?;
    let begun = store.get(prepose::suite::folder::CONFIG)?.is_some();
    if !begun {
        // What is wrong with a prompt is found before the first picture is made.
        check(&plan, &blueprint, &eyes)?;
    }
    let folder = RunFolder::claim(store, plan)?;
    if folder.is_complete()? {
        folder.finish()?;
        return Ok(folder);
    }
    let mut teller = Teller::new(quiet, args.json);
    let made = make(args, &folder, blueprint, &device, &eyes, &mut teller);
    teller.end();
    made?;
    Ok(folder)
}

/// The detectors of a run, not yet loaded.
struct Eyes {
    primary: Option<DetectorWeights>,
    secondary: Option<DetectorWeights>,
    config: CheckerConfig,
    /// The primary's vocabulary.
    labels: Vec<String>,
}

impl Eyes {
    fn open(args: &Settings) -> anyhow::Result<Self> {
        let mut config = match &args.checker_config {
            Some(path) => read_config(path)?,
            None => CheckerConfig::default(),
        };
        let primary = match args.checker.as_str() {
            "none" => None,
            name => Some(checker::open(name)?),
        };
        let secondary = args.secondary.as_deref().map(checker::open).transpose()?;
        if primary.is_none() {
            ensure!(
                secondary.is_none() && args.checker_config.is_none() && !args.known_objects,
                "--checker none looks at nothing: it goes without --secondary, --checker-config and --known-objects"
            );
        }
        // What is written beside the records is what looks.
        let detectors = &mut config.detector;
        if let Some(primary) = &primary {
            checker::name_in(&mut detectors.primary, primary);
        }
        match &secondary {
            Some(weights) => {
                checker::name_in(detectors.secondary.get_or_insert_default(), weights);
            }
            None => detectors.secondary = None,
        }
        Ok(Self {
            labels: primary
                .as_ref()
                .map_or_else(Vec::new, |weights| RcnnDetector::labels(weights.config())),
            primary,
            secondary,
            config,
        })
    }

    /// What the run's settings say of them.
    fn id(&self) -> anyhow::Result<Option<CheckerId>> {
        let Some(primary) = &self.primary else {
            return Ok(None);
        };
        let secondary = self.secondary.as_ref().map(DetectorWeights::file_hash);
        let secondary = secondary.transpose()?.map(|file| file.sha256);
        let primary = primary.file_hash()?.sha256;
        Ok(Some(CheckerId::new(primary, secondary, &self.config)))
    }

    fn load(&self, device: &OpenDevice, batch: usize) -> anyhow::Result<Box<dyn Examiner>> {
        let Some(primary) = &self.primary else {
            return Ok(Box::new(Nobody));
        };
        let load =
            |weights: &DetectorWeights, threshold| -> anyhow::Result<Box<dyn Detector + Send>> {
                Ok(Box::new(checker::load(weights, &device.device, threshold)?))
            };
        let detectors = &self.config.detector;
        let second = detectors.secondary.as_ref();
        let second = second.and_then(|config| config.params.score_threshold);
        Ok(Box::new(Checker {
            primary: load(primary, detectors.primary.params.score_threshold)?,
            secondary: (self.secondary.as_ref())
                .map(|weights| load(weights, second))
                .transpose()?,
            rule: Rule {
                config: self.config.clone(),
                published: false,
            },
            device: device.device.clone(),
            batch,
        }))
    }
}

fn methods(args: &Args) -> anyhow::Result<Vec<Method>> {
    let mut methods = args.methods.clone();
    if let Some(file) = &args.method_file {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        methods.extend(Method::from_toml(&text).with_context(|| file.display().to_string())?);
    }
    if methods.is_empty() {
        methods.push(Method::prompt_only());
    }
    Ok(methods)
}

/// The prompts that are run.
fn prompts(suite: &str, args: &Settings, eyes: &Eyes) -> anyhow::Result<Suite> {
    let mut suite = sets::open(suite)?;
    let all = suite.prompts.len();
    if eyes.primary.is_some() {
        let known = |prompt: &SuitePrompt| labels(prompt, Some(&eyes.labels));
        if args.known_objects {
            suite.prompts.retain(|prompt| known(prompt).is_ok());
            ensure!(
                !suite.prompts.is_empty(),
                "the checker knows the objects of none of the {all} prompts"
            );
        } else {
            let unknown = suite
                .prompts
                .iter()
                .find_map(|prompt| Some((prompt, known(prompt).err()?)));
            if let Some((prompt, why)) = unknown {
                let count = suite
                    .prompts
                    .iter()
                    .filter(|prompt| known(prompt).is_err())
                    .count();
                bail!(
                    "{count} of {all} prompts name objects that --checker {} does not know, {:?} for one: {why}; \
                     --known-objects leaves them out, --checker none looks at nothing",
                    args.checker,
                    prompt.prompt_id
                );
            }
        }
    }
    suite.thin(args.every, args.limit);
    ensure!(!suite.prompts.is_empty(), "--limit 0 leaves no prompt");
    Ok(suite)
}

fn plan(
    args: &Settings,
    suite: Suite,
    methods: Vec<Method>,
    model: ModelRequest,
    blueprint: &Blueprint,
    eyes: &Eyes,
) -> anyhow::Result<Plan> {
    let defaults = blueprint.defaults();
    let (width, height) = args.size.unwrap_or((defaults.width, defaults.height));
    let seeds = match &args.seeds {
        Some(seeds) => seeds.0.clone(),
        None => (0..suite.pictures_per_prompt as u64).collect(),
    };
    let mut sorted = seeds.clone();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!(
            "--seeds has {} twice; a seed stands for one picture",
            twice[0]
        );
    }
    let kind = args.scheduler.map(|kind| kind.to_string());
    let config = RunConfig {
        suite: suite.id()?,
        prompts: suite.prompts.len(),
        seeds,
        methods,
        sampling: Sampling {
            steps: args.steps.unwrap_or(defaults.steps),
            guidance_scale: args.guidance_scale.unwrap_or(defaults.guidance_scale),
            scheduler: blueprint.scheduler_name(kind.as_deref())?,
            width,
            height,
            negative_prompt: args.negative_prompt.clone(),
            noise: args.noise,
            clip_skip: args.clip_skip,
            vae_tiling: args.vae_tiling,
        },
        model,
        checker: eyes.id()?,
        attention_maps: args.attention_maps,
        shard: shard(args)?,
    };
    Ok(Plan {
        config,
        prompts: suite.prompts,
    })
}

/// The part of the run to make, if it is divided.
fn shard(args: &Settings) -> anyhow::Result<Option<Shard>> {
    Ok(Shard::choose(args.shard, args.shards, |name| {
        std::env::var(name).ok()
    })?)
}

/// Checks every prompt with every method as far as possible without weights.
fn check(plan: &Plan, blueprint: &Blueprint, eyes: &Eyes) -> anyhow::Result<()> {
    let seeds = plan.config.seeds.len();
    for (index, method) in plan.config.methods.iter().enumerate() {
        if let Some(search) = &method.search
            && reward_kind(search).is_some()
        {
            ensure!(
                eyes.primary.is_some(),
                "{} goes by what the checker sees, but there is --checker none",
                method.name
            );
        }
        let first = index * plan.prompts.len() * seeds;
        for (number, prompt) in plan.prompts.iter().enumerate() {
            request(plan, blueprint, plan.job(first + number * seeds))
                .with_context(|| format!("{} cannot make {:?}", method.name, prompt.prompt_id))?;
        }
    }
    Ok(())
}

fn make(
    args: &Settings,
    folder: &RunFolder,
    blueprint: Blueprint,
    device: &OpenDevice,
    eyes: &Eyes,
    teller: &mut Teller,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    let named = format!("{} ({})", device.spec, device.name);
    let name = format!(
        "provenance/{}-{}.json",
        now.replace(':', "-"),
        std::process::id()
    );
    // Known once the networks are loaded.
    let batch: Cell<Option<usize>> = Cell::new(None);
    let note = |outcome: &str| -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(&json!({
            "started_utc": now,
            "seconds": started.elapsed().as_secs_f64(),
            "outcome": outcome,
            "command": std::env::args().collect::<Vec<_>>(),
            "prepose": env!("CARGO_PKG_VERSION"),
            "git_commit": option_env!("PREPOSE_GIT_COMMIT"),
            "burn": "0.22.1",
            "device": named,
            "threads": std::thread::available_parallelism().map_or(0, usize::from),
            "os": std::env::consts::OS,
            "arch": std::env::consts::ARCH,
            "batch": batch.get(),
        }))?;
        Ok(folder.store().put(&name, (text + "\n").as_bytes())?)
    };
    note("running")?;
    let plan = folder.plan();
    let engine = args
        .running
        .apply(blueprint.load(&plan.config.model, device)?);
    let batch_size = choose_batch(args.batch, &engine, plan)?;
    batch.set(Some(batch_size));
    let mut examiner = eyes.load(device, batch_size)?;
    let by_picture = |method: &Method| method.search.as_ref().and_then(reward_kind).is_some();
    let judge = match &eyes.primary {
        Some(weights) if plan.config.methods.iter().any(by_picture) => {
            Some(checker::load(weights, &device.device, None)?)
        }
        _ => None,
    };
    // The first signal lets the pictures at hand be finished, the second does not.
    let (soon, now_at_once) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let flags = (soon.clone(), now_at_once.clone());
    ctrlc::set_handler(move || {
        if flags.0.swap(true, Ordering::Relaxed) {
            flags.1.store(true, Ordering::Relaxed);
        } else {
            eprintln!("finishing the pictures at hand; once more stops at once");
        }
    })
    .context("cannot listen for Ctrl-C")?;
    let mut maker = EngineMaker {
        engine: &engine,
        plan,
        batch: batch_size,
        judge: judge.as_ref().map(|judge| judge as &dyn Detector),
        stop: &now_at_once,
    };
    let runner = Runner {
        folder,
        examiner: &mut *examiner,
        watcher: teller,
        device: named.clone(),
        stop: &soon,
    };
    let result = runner.run(&mut maker);
    let noted = note(match &result {
        Ok(()) => "complete",
        Err(RunError::Interrupted) => "interrupted",
        Err(_) => "failed",
    });
    // What ended the run is the one to tell; on a full disk the note fails too.
    result?;
    noted
}

/// Pictures at a time: room is made for those of the method that takes most.
fn choose_batch(batch: Batch, engine: &Engine, plan: &Plan) -> anyhow::Result<usize> {
    /// On the CPU, where more at a time gain nothing.
    const ON_CPU: usize = 8;
    let each = plan.prompts.len() * plan.config.seeds.len();
    let mut least = usize::MAX;
    for index in 0..plan.config.methods.len() {
        let request = request(plan, engine.blueprint(), plan.job(index * each))?;
        least = least.min(batch.choose(engine, &request, ON_CPU)?);
    }
    Ok(least)
}

/// What each method came to.
fn totals(folder: &RunFolder) -> anyhow::Result<Vec<(String, Totals)>> {
    let methods = folder.plan().config.methods.iter().enumerate();
    let of = |(index, method): (usize, &Method)| {
        let mut totals = Totals::default();
        folder.samples(index, |sample| {
            totals.add(&sample);
            Ok(())
        })?;
        Ok((method.name.clone(), totals))
    };
    methods.map(of).collect()
}
