//! `prepose run`

mod args;
mod detectors;
mod elsewhere;
mod judged;
mod plan;
mod secrets;
mod source_args;
mod watch;
mod workflow;

use std::io::Write;

use anyhow::{Context, anyhow, ensure};
use prepose::check::spatialbench::CheckerConfig;
use prepose::detect::Detector;
use prepose::device::OpenDevice;
use prepose::engine::Blueprint;
use prepose::make::{BatchSize, CandidateJudge};
use prepose::sources::Editing;
use prepose::store;
use prepose::store::ledger::{Fault, Look, named};
use prepose::suite::elsewhere::{Judge, SourceMaker};
use prepose::suite::folder::RunFolder;
use prepose::suite::growth::union;
use prepose::suite::maker::EngineMaker;
use prepose::suite::method::Method;
use prepose::suite::plan::{Plan, SourceId};
use prepose::suite::provenance::Invocation;
use prepose::suite::requests;
use prepose::suite::run::Runner;
use prepose::suite::{Suite, sets};

use args::Preset;
pub use args::{Args, Settings, of_one_piece, seeds_by_default};
pub use detectors::DetectorSpecs;
pub use elsewhere::{Opened, wishes};
use judged::{check_judge, judge_finished, open_model};
pub use plan::prompts;
use plan::{plan, plan_elsewhere, shard};
pub use watch::RunProgress;
use watch::{Totals, summary};
pub use workflow::open_workflow;

use super::judge::prompted::PromptedArgs;
use super::memory::RunningArgs;
use super::{OK, input, interrupt, report};

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let mut settings = args.settings.clone();
    if let Some(preset) = args.preset {
        ensure!(
            args.suite == Preset::SUITE,
            "--preset paper is for the set {}, whose paper it is",
            Preset::SUITE
        );
        preset.apply(&mut settings);
    }
    settings.judge = args.judge.model.is_given().then(|| args.judge.clone());
    args.judge.check(&settings.out)?;
    let folder = carry_out(&args.suite, methods(args)?, &settings, quiet)?;
    if !quiet && !args.settings.json {
        let mut stdout = anstream::stdout().lock();
        write!(stdout, "{}", summary(&totals(&folder)?))?;
        writeln!(stdout, "written to {}", folder.store().location())?;
    }
    let judged = match &settings.judge {
        Some(judge) => judge_finished(judge, &folder, &settings, quiet)?,
        None => OK,
    };
    let reported = match args.report {
        true => report::run(&report::Args::of(folder.store().location()), quiet)?,
        false => OK,
    };
    Ok(judged.max(reported))
}

/// Begins a run of a set by some methods, or goes on with it, to its end.
pub fn carry_out(
    suite: &str,
    methods: Vec<Method>,
    args: &Settings,
    quiet: bool,
) -> anyhow::Result<RunFolder> {
    ensure!(args.every > 0, "--every is 0, but must be at least 1");
    carry_out_suite(sets::open(suite)?, methods, args, quiet)
}

/// As [`carry_out`], of prompts that are read already.
pub fn carry_out_suite(
    suite: Suite,
    methods: Vec<Method>,
    args: &Settings,
    quiet: bool,
) -> anyhow::Result<RunFolder> {
    let quiet = quiet || args.json;
    if let Some(shard) = shard(args)?
        && !quiet
    {
        eprintln!("shard {shard} of the run, into {}", shard.folder());
    }
    let detectors = DetectorSpecs::open(args)?;
    Method::check_names(&methods)?;
    check_judge(&methods, args)?;
    if args.source.is_given() {
        return carry_out_elsewhere(suite, methods, args, &detectors, quiet);
    }
    let suite = prompts(suite, args, &detectors)?;
    let mut model = args.model.request();
    // Whatever the methods are now: others may be added later, to the same folder.
    model.ground_toybox();
    if shows_pictures(&methods, args) {
        model.show_toybox();
    }
    let blueprint = Blueprint::open(&model)?;
    let fingerprint = blueprint.fingerprint();
    let (device, dtype) = args.model.open()?;
    model.dtype = dtype;
    let hash = fingerprint.join();
    model.sha256 = Some(hash.map_err(|_| anyhow!("hashing the checkpoint failed"))??);
    let plan = plan(args, suite, methods, model, &blueprint, &detectors)?;

    let store = store::open(&location(args, &plan))?;
    let there = RunFolder::open(store.clone()).ok();
    if there.is_none_or(|there| asks_for_more(there.plan(), &plan)) {
        // What is wrong with a prompt is found before the first picture is made.
        requests::check(&plan, &blueprint, detectors.labels())?;
        detectors.check_depth(&plan)?;
    }
    let folder = RunFolder::claim(store, plan)?;
    tell(&folder, quiet)?;
    if folder.is_complete()? {
        folder.finish()?;
        return Ok(folder);
    }
    let mut progress = RunProgress::new(folder.store().location(), quiet, args.json);
    let making = Making {
        batch: args.batch,
        running: args.running,
        device: &device,
        detectors: &detectors,
        judge: args.judge.as_ref(),
    };
    let made = making.make(&folder, blueprint, &mut progress);
    progress.end();
    made?;
    Ok(folder)
}

/// Whether a picture is shown to the network. Where none is, the toybox goes without its own adapter: a run's settings have the
/// hash of all networks that it loads.
fn shows_pictures(methods: &[Method], args: &Settings) -> bool {
    let mut of_methods = methods.iter().filter_map(|method| method.pictures.as_ref());
    !args.sampling.ip_picture.is_empty() || of_methods.any(|pictures| !pictures.is_empty())
}

/// The same for pictures from elsewhere.
fn carry_out_elsewhere(
    suite: Suite,
    methods: Vec<Method>,
    args: &Settings,
    detectors: &DetectorSpecs,
    quiet: bool,
) -> anyhow::Result<RunFolder> {
    let stop = interrupt::listen_twice()?;
    let (mut opened, folder) = claim_elsewhere(suite, methods, args, detectors, &stop)?;
    tell(&folder, quiet)?;
    if folder.is_complete()? {
        folder.finish()?;
        return Ok(folder);
    }
    let (device, _) = args.model.open()?;
    let command = secrets::command_line(input::words());
    let mut invocation = Invocation::new(&folder, command, device.title());
    invocation.begun()?;
    let batch = match args.batch {
        BatchSize::AtMost(batch) => batch,
        BatchSize::Auto => ELSEWHERE_AT_ONCE,
    };
    invocation.batch = Some(batch);
    let mut examiner = detectors.load(&device, batch)?;
    let detector = detectors.load_judge(&device, folder.plan(), args.judge.as_ref())?;
    let judge = detector.as_ref().map(|detector| Judge {
        detector: &**detector,
        device: &device.device,
    });
    let model = open_model(args.judge.as_ref(), &folder, &stop)?;
    let reward = args.judge.as_ref().and_then(|judge| {
        let detector = detector.as_deref().map(|one| one as &dyn Detector);
        judge.reward(&model, detector, &device.device, &stop.at_once)
    });
    let mut progress = RunProgress::new(folder.store().location(), quiet, args.json);
    let reward = reward.as_ref().map(|reward| reward as &dyn CandidateJudge);
    let mut maker = SourceMaker::new(&folder, opened.source(), judge).with_candidate_judge(reward);
    let runner = Runner {
        folder: &folder,
        examiner: &mut *examiner,
        watcher: &mut progress,
        device: device.title(),
        stop: &stop.soon,
    };
    let made = invocation.ended(runner.run(&mut maker));
    progress.end();
    made?;
    Ok(folder)
}

/// Opens a source of pictures, and begins the run of its pictures or goes on with it.
pub fn claim_elsewhere(
    suite: Suite,
    methods: Vec<Method>,
    args: &Settings,
    detectors: &DetectorSpecs,
    stop: &interrupt::Requested,
) -> anyhow::Result<(Opened, RunFolder)> {
    let suite = prompts(suite, args, detectors)?;
    let seeds = plan::seeds(args, &suite);
    let opened = elsewhere::open(args, &suite.prompts, &seeds, stop.at_once.clone())?;
    ensure!(
        !args.source.edits_follow || opened.editing() != Editing::Never,
        "{} only makes pictures from nothing, but here they are changed next; a maker that can change pictures says \
         \"edits\": true with its hello (docs/sources.md)",
        opened.id.name()
    );
    let plan = plan_elsewhere(args, suite, methods, opened.id.clone(), detectors)?;
    prepose::suite::elsewhere::check(&plan, detectors.labels(), opened.editing())?;
    let store = store::open(&location(args, &plan))?;
    opened.check_missing(&store, &plan)?;
    Ok((opened, RunFolder::claim(store, plan)?))
}

/// Pictures that a detector looks at at a time where nothing else is on the device.
const ELSEWHERE_AT_ONCE: usize = 8;

/// The folder of the run, or of its part that is made here.
fn location(args: &Settings, plan: &Plan) -> String {
    match plan.config.shard {
        Some(shard) => format!("{}/{}", args.out.trim_end_matches('/'), shard.folder()),
        None => args.out.clone(),
    }
}

/// Whether a run would grow.
fn asks_for_more(there: &Plan, asked: &Plan) -> bool {
    union(there, asked).is_ok_and(|both| both.len() > there.len())
}

/// What was found when the run was taken up.
fn tell(folder: &RunFolder, quiet: bool) -> anyhow::Result<()> {
    let mut damage = folder.damage(Look::Quick)?;
    // A run of an earlier version, or one that was just begun, lists nothing.
    damage.retain(|damage| damage.fault != Fault::Unlisted);
    if !damage.is_empty() {
        // Not a matter of taste: something has changed files of the run.
        tracing::warn!(
            "not as they were written, and made again where possible: {}; `prepose verify` looks at every file in full",
            named(&damage)
        );
    }
    if quiet {
        return Ok(());
    }
    let news = folder.news();
    let mut new = Vec::new();
    if !news.methods.is_empty() {
        new.push(format!("by {}", news.methods.join(", ")));
    }
    for (number, what) in [
        (news.prompts, "of new prompts"),
        (news.seeds, "from new seeds"),
    ] {
        if number > 0 {
            new.push(format!("{what} ({number})"));
        }
    }
    if !new.is_empty() {
        eprintln!(
            "the run grows by pictures {}; what it has is kept",
            new.join(" and ")
        );
    } else if news.not_asked > 0 {
        eprintln!(
            "the run has {} pictures that were not asked for this time; they are kept as they are",
            news.not_asked
        );
    }
    Ok(())
}

fn methods(args: &Args) -> anyhow::Result<Vec<Method>> {
    let mut methods = args.methods.clone();
    if let Some(file) = &args.method_file {
        methods.extend(Method::from_file(file)?);
    }
    if methods.is_empty() {
        methods.push(Method::prompt_only());
    }
    Ok(methods)
}

/// What pictures are made and looked at with.
pub struct Making<'a> {
    /// Pictures at a time.
    pub batch: BatchSize,
    pub running: RunningArgs,
    pub device: &'a OpenDevice,
    pub detectors: &'a DetectorSpecs,
    /// Who scores the candidates of searches by a judge.
    pub judge: Option<&'a PromptedArgs>,
}

impl Making<'_> {
    /// Loads what the run needs, and makes what is missing.
    pub fn make(
        &self,
        folder: &RunFolder,
        blueprint: Blueprint,
        progress: &mut RunProgress,
    ) -> anyhow::Result<()> {
        let command = secrets::command_line(input::words());
        let device = self.device;
        let mut invocation = Invocation::new(folder, command, device.title());
        invocation.begun()?;
        let plan = folder.plan();
        let model = plan.config.model.as_ref();
        let model = model.context("the pictures of this run are not made here")?;
        let engine = blueprint.load(model, device)?;
        let engine = self.running.apply(engine);
        let batch = requests::batch_size(self.batch, plan, &engine)?;
        invocation.batch = Some(batch);
        let mut examiner = self.detectors.load(device, batch)?;
        let detector = self.detectors.load_judge(device, plan, self.judge)?;
        let detector = detector.as_deref().map(|one| one as &dyn Detector);
        let stop = interrupt::listen_twice()?;
        let model = open_model(self.judge, folder, &stop)?;
        let reward = self
            .judge
            .and_then(|judge| judge.reward(&model, detector, &device.device, &stop.at_once));
        let reward = reward.as_ref().map(|reward| reward as &dyn CandidateJudge);
        let mut maker = EngineMaker::new(&engine, plan, batch, detector, reward, &stop.at_once);
        let runner = Runner {
            folder,
            examiner: &mut *examiner,
            watcher: progress,
            device: device.title(),
            stop: &stop.soon,
        };
        Ok(invocation.ended(runner.run(&mut maker))?)
    }
}

/// What each method came to.
fn totals(folder: &RunFolder) -> anyhow::Result<Vec<(String, Totals)>> {
    let plan = folder.plan();
    let methods = plan.config.methods.iter().enumerate();
    let of = |(index, method): (usize, &Method)| {
        let refused = folder.refused(index)?.len();
        let planned = plan.jobs(index).count().saturating_sub(refused);
        let wishes = plan.config.source.as_ref().map(SourceId::wishes);
        let mut totals = Totals::new(plan.config.checker.is_some(), planned, refused);
        totals.asked_size = wishes.and_then(|wishes| wishes.size);
        folder.samples(index, |sample| {
            totals.add(&sample);
            Ok(())
        })?;
        Ok((method.name.clone(), totals))
    };
    methods.map(of).collect()
}

/// The thresholds that a run's pictures were checked with.
pub fn checker_config(plan: &Plan) -> anyhow::Result<Option<CheckerConfig>> {
    let Some(checker) = &plan.config.checker else {
        return Ok(None);
    };
    let config = CheckerConfig::from_yaml(&checker.config_file());
    config
        .map(Some)
        .context("the checker's configuration in run.json cannot be read")
}
