//! `prepose verify`: whether the files of runs are as they were written.

use std::io::Write;

use anyhow::{Context, anyhow, bail, ensure};
use prepose::check::json;
use prepose::check::spatialbench::CheckerConfig;
use prepose::device::{self, DeviceSpec};
use prepose::engine::Blueprint;
use prepose::make::BatchSize;
use prepose::store::ledger::{Damage, Look};
use prepose::suite::folder::RunFolder;
use prepose::suite::merge;
use prepose::suite::run::RunError;
use serde_json::json;

use super::looking::LookingArgs;
use super::memory::RunningArgs;
use super::run::{DetectorSpecs, Making, RunProgress, checker_config};
use super::{NO, OK};

/// Check that the files of runs are as they were written, and remake what can be remade (docs/runs.md).
///
/// A run keeps the digests of its finished files. Files that are not as they were written are named, one per line. With
/// --mend, metrics and tables are remade from the records, records from the pictures, and pictures from their requests;
/// what cannot be remade is named.
///
/// Exit codes: 0 everything is as it was written, 1 something is not, 2 an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose verify runs/first
  prepose verify runs/first --mend
  prepose verify runs/mine --mend --checkpoint sd15.safetensors --checker frcnn-v2")]
pub struct Args {
    /// Folders of runs or shards, or of runs that hold shards; s3://, gs:// and az:// too.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// Remake what can be remade.
    #[arg(long)]
    mend: bool,
    /// Compare only sizes and times, and read only files whose time has changed.
    #[arg(long)]
    quick: bool,
    /// Print a JSON object for each file that is not as it was written.
    #[arg(long)]
    json: bool,

    /// The checkpoint of the run, if it is somewhere else now [default: where run.json says].
    #[arg(
        short,
        long,
        value_name = "PATH|NAME",
        requires = "mend",
        help_heading = "With --mend"
    )]
    checkpoint: Option<String>,
    /// The detector that looked at the pictures, or none [default: toybox].
    #[arg(
        long,
        value_name = "NAME|PATH",
        requires = "mend",
        help_heading = "With --mend"
    )]
    checker: Option<String>,
    /// The second detector, if there was one.
    #[arg(
        long,
        value_name = "NAME|PATH",
        requires = "mend",
        help_heading = "With --mend"
    )]
    secondary: Option<String>,
    #[command(flatten)]
    looking: LookingArgs,
    /// auto, cuda[:i], vulkan[:i], metal, wgpu[:i] or flex (the CPU).
    #[arg(
        long,
        value_name = "DEVICE",
        default_value = "auto",
        help_heading = "With --mend"
    )]
    device: DeviceSpec,
    /// Pictures at a time, or auto.
    #[arg(
        short,
        long,
        value_name = "N|auto",
        default_value_t,
        help_heading = "With --mend"
    )]
    batch: BatchSize,
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let mut whole = true;
    for location in &args.runs {
        let stores = merge::runs_in(location)?;
        for store in stores {
            let folder = RunFolder::open(store.clone())?;
            let damage = folder.damage(args.look())?;
            let left = match args.mend && !damage.is_empty() {
                true => {
                    let mended = RunFolder::mend(store)
                        .map_err(Into::into)
                        .and_then(|folder| mend(args, &folder, quiet));
                    if let Err(error) = mended {
                        if is_interrupted(&error) {
                            return Err(error);
                        }
                        let why = prepose_untrusted::escaped(&format!("{error:#}"));
                        eprintln!("error: {}: {why}", folder.store().location());
                    }
                    // Opened again: its settings may have been brought back.
                    RunFolder::open(folder.store().clone())?.damage(Look::Whole)?
                }
                false => damage.clone(),
            };
            whole &= left.is_empty();
            tell(args, quiet, &folder.store().location(), &damage, &left)?;
        }
    }
    Ok(if whole { OK } else { NO })
}

impl Args {
    fn look(&self) -> Look {
        match self.quick {
            true => Look::Quick,
            false => Look::Whole,
        }
    }
}

fn is_interrupted(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref::<RunError>(),
        Some(RunError::Interrupted)
    )
}

/// A line for each file, and one for the run.
fn tell(
    args: &Args,
    quiet: bool,
    run: &str,
    damage: &[Damage],
    left: &[Damage],
) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let is_left = |name: &str| left.iter().any(|left| left.name == name);
    let new = left
        .iter()
        .filter(|left| damage.iter().all(|damage| damage.name != left.name));
    let all: Vec<&Damage> = damage.iter().chain(new).collect();
    for one in &all {
        let Damage { name, fault } = one;
        let mended = !is_left(name);
        if args.json {
            let line = json!({
                "run": run, "path": format!("{run}/{name}"), "fault": fault.as_str(), "mended": mended,
            });
            writeln!(stdout, "{}", json::to_line(&line)?)?;
            continue;
        }
        let became = match (args.mend, mended) {
            (false, _) => "",
            (true, true) => ", remade",
            (true, false) => ", cannot be remade",
        };
        let line = prepose_untrusted::escaped(&format!("{run}/{name}: {fault}{became}"));
        writeln!(stdout, "{line}")?;
    }
    if quiet || args.json {
        return Ok(());
    }
    let run = prepose_untrusted::escaped(run);
    match (all.len(), left.len()) {
        (0, _) => writeln!(stdout, "{run}: all files are as they were written")?,
        (1, 0) => writeln!(stdout, "{run}: 1 file was remade")?,
        (found, 0) => writeln!(stdout, "{run}: {found} files were remade")?,
        (_, left) if args.mend => writeln!(stdout, "{run}: {}", damaged(left))?,
        (_, left) => writeln!(
            stdout,
            "{run}: {}; --mend remakes what it can",
            damaged(left)
        )?,
    }
    Ok(())
}

/// So many files in words.
fn damaged(files: usize) -> String {
    match files {
        1 => "1 file is not as it was written".into(),
        files => format!("{files} files are not as they were written"),
    }
}

/// Makes again what was there once.
fn mend(args: &Args, folder: &RunFolder, quiet: bool) -> anyhow::Result<()> {
    if folder.is_complete()? {
        return Ok(folder.finish()?);
    }
    let plan = folder.plan();
    let detectors = detectors(args, folder)?;
    let Some(mut model) = plan.config.model.clone() else {
        bail!(
            "the pictures of this run come from elsewhere: run the command that made it again, and what is damaged is \
             fetched again"
        );
    };
    if let Some(checkpoint) = &args.checkpoint {
        model.checkpoint.clone_from(checkpoint);
    }
    let blueprint = Blueprint::open(&model).with_context(
        || "cannot make pictures again; say where the run's checkpoint is now with --checkpoint",
    )?;
    let hash = blueprint.fingerprint().join();
    let hash = hash.map_err(|_| anyhow!("hashing the checkpoint failed"))??;
    if model.sha256.as_ref() != Some(&hash) {
        bail!(
            "{} is not the checkpoint that the run was made with: its SHA-256 is {hash}, and run.json has {}",
            model.checkpoint,
            model.sha256.as_deref().unwrap_or("none")
        );
    }
    let device = device::open(args.device)?;
    device.check_dtype(model.dtype)?;
    let mut progress = RunProgress::new(folder.store().location(), quiet || args.json, false);
    let making = Making {
        batch: args.batch,
        running: RunningArgs::default(),
        device: &device,
        detectors: &detectors,
        judge: None,
    };
    let made = making.make(folder, blueprint, &mut progress);
    progress.end();
    made
}

/// The detectors that looked at the run's pictures.
fn detectors(args: &Args, folder: &RunFolder) -> anyhow::Result<DetectorSpecs> {
    let checked = &folder.plan().config.checker;
    let Some(config) = checker_config(folder.plan())? else {
        return DetectorSpecs::named("none", None, CheckerConfig::default(), false);
    };
    let name = args.checker.as_deref().unwrap_or("toybox");
    let published = checked.as_ref().is_some_and(|checked| checked.published);
    let detectors = DetectorSpecs::named(name, args.secondary.as_deref(), config, published)?;
    let detectors = detectors.with(args.looking.open()?);
    let id = detectors.id()?;
    ensure!(
        id == *checked,
        "{name} is not the detector that looked at the run's pictures{}; name it with --checker, a second one with \
         --secondary, and what else looked with --masks and --depth",
        checked.as_ref().map_or_else(String::new, |checked| format!(
            ": its SHA-256 is {}",
            checked.sha256
        ))
    );
    Ok(detectors)
}
