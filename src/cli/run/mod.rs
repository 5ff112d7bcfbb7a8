//! `prepose run`

mod args;
mod detectors;
mod plan;
mod watch;

use std::io::Write;

use anyhow::{Context, anyhow, ensure};
use prepose::detect::Detector;
use prepose::device::OpenDevice;
use prepose::engine::Blueprint;
use prepose::store;
use prepose::suite::folder::{self, RunFolder};
use prepose::suite::maker::EngineMaker;
use prepose::suite::method::Method;
use prepose::suite::provenance::Invocation;
use prepose::suite::requests;
use prepose::suite::run::Runner;

pub use args::{Args, Settings};
use detectors::DetectorSpecs;
use plan::{plan, prompts, shard};
use watch::{RunProgress, Totals, summary};

use super::{OK, interrupt, report};

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
    let detectors = DetectorSpecs::open(args)?;
    Method::check_names(&methods)?;
    let suite = prompts(suite, args, &detectors)?;
    let mut model = args.model.request();
    let blueprint = Blueprint::open(&model)?;
    let fingerprint = blueprint.fingerprint();
    let (device, dtype) = args.model.open()?;
    model.dtype = dtype;
    let hash = fingerprint.join();
    model.sha256 = Some(hash.map_err(|_| anyhow!("hashing the checkpoint failed"))??);
    let plan = plan(args, suite, methods, model, &blueprint, &detectors)?;

    let location = match plan.config.shard {
        Some(shard) => format!("{}/{}", args.out.trim_end_matches('/'), shard.folder()),
        None => args.out.clone(),
    };
    let store = store::open(&location)?;
    let begun = store.get(folder::CONFIG)?.is_some();
    if !begun {
        // What is wrong with a prompt is found before the first picture is made.
        requests::check(&plan, &blueprint, detectors.labels())?;
    }
    let folder = RunFolder::claim(store, plan)?;
    if folder.is_complete()? {
        folder.finish()?;
        return Ok(folder);
    }
    let mut progress = RunProgress::new(quiet, args.json);
    let made = make(args, &folder, blueprint, &device, &detectors, &mut progress);
    progress.end();
    made?;
    Ok(folder)
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

/// Loads what the run needs, and makes what is missing.
fn make(
    args: &Settings,
    folder: &RunFolder,
    blueprint: Blueprint,
    device: &OpenDevice,
    detectors: &DetectorSpecs,
    progress: &mut RunProgress,
) -> anyhow::Result<()> {
    let command = std::env::args().collect();
    let mut invocation = Invocation::new(folder, command, device.title());
    invocation.begun()?;
    let plan = folder.plan();
    let engine = blueprint.load(&plan.config.model, device)?;
    let engine = args.running.apply(engine);
    let batch = requests::batch_size(args.batch, plan, &engine)?;
    invocation.batch = Some(batch);
    let mut examiner = detectors.load(device, batch)?;
    let judge = detectors.load_judge(device, plan)?;
    let judge = judge.as_ref().map(|judge| judge as &dyn Detector);
    let stop = interrupt::listen_twice()?;
    let mut maker = EngineMaker::new(&engine, plan, batch, judge, &stop.at_once);
    let runner = Runner {
        folder,
        examiner: &mut *examiner,
        watcher: progress,
        device: device.title(),
        stop: &stop.soon,
    };
    Ok(invocation.ended(runner.run(&mut maker))?)
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
