//! The arguments of `prepose run`.

use std::path::PathBuf;

use prepose::make::BatchSize;
use prepose::sampling::schedulers::SchedulerKind;
use prepose::suite::method::Method;
use prepose::suite::shard::Shard;

use super::detectors::NONE;
use super::source_args::SourceArgs;
use crate::cli::judge::prompted::PromptedArgs;
use crate::cli::looking::LookingArgs;
use crate::cli::memory::RunningArgs;
use crate::cli::model::ModelArgs;
use crate::cli::sampling::SamplingArgs;
use crate::cli::values::{Seeds, parse_seeds};

/// Run a set of prompts with one or several methods, and check every picture (docs/runs.md).
///
/// The run is kept in one folder and can be killed at any time; the same command resumes where it stopped.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose run spatialbench-uc --out runs/first
  prepose run spatialbench-uc --method psg,best-of-8-pruned --out runs/first --report
  prepose run mine.txt --method psg --checkpoint sd15.safetensors --checker frcnn-v2 --out runs/mine
  prepose run geneval-position --pictures flux/ --layout geneval --checker frcnn-v2 --out runs/flux
  prepose run visor --known-objects --every 10 --shard 0/4 --out runs/visor")]
pub struct Args {
    /// A set that `prepose suites` lists, a file of prompts, or - for standard input.
    ///
    /// A file is .jsonl, .csv with a column "prompt", or has one prompt per line.
    #[arg(value_name = "SUITE|FILE")]
    pub suite: String,
    #[arg(short, long = "method", value_name = "METHODS", value_delimiter = ',',
          help = format!("The methods to compare: {}, or several joined by '+' [default: prompt-only]", Method::names()))]
    pub methods: Vec<Method>,
    /// A file with methods of your own (docs/runs.md), added after those of --method.
    #[arg(long = "methods", value_name = "FILE.toml")]
    pub method_file: Option<PathBuf>,
    #[command(flatten)]
    pub settings: Settings,
    /// Use the sampling and checker settings of the set's paper wherever no others are given (docs/detectors.md).
    ///
    /// Pictures from elsewhere are made as their source is set, so that only the checker's settings are used for them;
    /// with --checker none only those of sampling are.
    #[arg(long, value_name = "NAME", value_enum)]
    pub preset: Option<Preset>,
    #[command(flatten)]
    pub judge: PromptedArgs,
    /// At the end, write tables, plots and a page, as `prepose report` does.
    #[arg(long, conflicts_with = "json", help_heading = "Output and speed")]
    pub report: bool,
}

/// The option --seeds of a command with a default of its own.
pub fn seeds_by_default(seeds: clap::Arg, default: &str) -> clap::Arg {
    let help = "Make one picture of each prompt for each of these seeds: 0-7 or 1,5,9";
    seeds
        .help(format!("{help} [default: {default}]"))
        .long_help(None)
}

/// The options of a run in a command whose work is one piece, of pictures that are made here, in a folder of this machine: those
/// that it refuses are not shown.
pub fn of_one_piece() -> impl FnMut(clap::Arg) -> clap::Arg {
    let elsewhere = <SourceArgs as clap::Args>::augment_args(clap::Command::new("elsewhere"));
    move |option| {
        let id = option.get_id().clone();
        let mut sources = elsewhere.get_arguments();
        match id.as_str() {
            "out" => option
                .help("The folder of the work, on this machine; the same command resumes what is there")
                .long_help(None),
            "every" | "limit" | "shard" | "shards" => option.hide(true),
            _ if sources.any(|source| *source.get_id() == id) => option.hide(true),
            _ => option,
        }
    }
}

/// Everything about a run but its prompts and methods: what the commands that are runs have in common.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// The folder of the run, or s3://bucket/run; a run that is already there grows.
    ///
    /// Methods, prompts and seeds that the run there does not have yet are added, and what it has is kept; different
    /// settings are refused. gs:// and az:// are object stores, too.
    #[arg(short, long, alias = "output", value_name = "FOLDER")]
    pub out: String,
    /// Make one picture of each prompt for each of these seeds: 0-7 or 1,5,9 [default: the set's].
    ///
    /// By default, as many seeds, from 0 up, as the set's authors make pictures of each prompt.
    #[arg(long, value_name = "LIST", value_parser = parse_seeds, help_heading = "Which pictures")]
    pub seeds: Option<Seeds>,
    /// Take only one in every N prompts.
    ///
    /// Each is taken with its counterpart, if it has one.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        help_heading = "Which pictures"
    )]
    pub every: usize,
    /// Take at most N prompts.
    #[arg(long, value_name = "N", help_heading = "Which pictures")]
    pub limit: Option<usize>,
    /// Leave out prompts with objects that the checker does not know.
    #[arg(long, help_heading = "Which pictures", hide_short_help = true)]
    pub known_objects: bool,

    /// Make one part of the run, counted from 0 (docs/cluster.md).
    ///
    /// It is one of COUNT parts, in a folder such as shard-000-of-004 within the run's. Slurm arrays do not need it;
    /// 0/1 is the whole run even there.
    #[arg(long, value_name = "INDEX/COUNT", help_heading = "Which pictures")]
    pub shard: Option<Shard>,
    /// How many shards there are; the scheduler says which one this is (SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX)
    /// [default: PREPOSE_SHARDS, or all tasks of a Slurm array].
    #[arg(
        long,
        value_name = "COUNT",
        conflicts_with = "shard",
        help_heading = "Which pictures",
        hide_short_help = true
    )]
    pub shards: Option<usize>,

    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub running: RunningArgs,

    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// Beside each picture, draw where the network looks for each object.
    #[arg(long, help_heading = "Sampling", hide_short_help = true)]
    pub save_attention_maps: bool,

    /// The detector: toybox, frcnn-v2, grounding-dino-base and others (docs/detectors.md), a path, or none [default: toybox].
    #[arg(long, value_name = "NAME|PATH", help_heading = "Checker")]
    pub checker: Option<String>,
    /// A second detector, whose agreement changes the confidence, or none [default: none].
    #[arg(
        long,
        value_name = "NAME|PATH",
        help_heading = "Checker",
        hide_short_help = true
    )]
    pub secondary: Option<String>,
    #[command(flatten)]
    pub looking: LookingArgs,
    /// The thresholds, in a file like SpatialBench-UC's checker_config.yaml [default: the paper's calibrated ones].
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Checker",
        hide_short_help = true
    )]
    pub checker_config: Option<PathBuf>,
    /// Decide as SpatialBench-UC's released code does where its paper says something else (docs/checker.md), and score
    /// depth as the released scripts do (docs/rules.md).
    #[arg(long, help_heading = "Checker", hide_short_help = true)]
    pub published: bool,

    /// Pictures at a time; the result does not depend on it.
    ///
    /// auto means as many as fit into memory, at most 16, or 8 on the CPU.
    #[arg(
        short,
        long,
        value_name = "N|auto",
        default_value_t,
        help_heading = "Output and speed"
    )]
    pub batch: BatchSize,
    /// Print one JSON object per picture on standard output.
    #[arg(long, help_heading = "Output and speed")]
    pub json: bool,
    #[command(flatten)]
    misplaced: Misplaced,
    /// Who judges the candidates of searches and the finished pictures, if anybody does.
    #[arg(skip)]
    pub judge: Option<PromptedArgs>,
}

impl Settings {
    /// The detector that looks at the pictures.
    pub fn checker(&self) -> &str {
        self.checker.as_deref().unwrap_or("toybox")
    }
}

/// Settings of a set's paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Preset {
    /// SpatialBench-UC: UniPC, 30 steps, guidance 7.5, Faster R-CNN v2 and Grounding DINO, the released code's decisions.
    Paper,
}

impl Preset {
    /// The set whose paper it is.
    pub const SUITE: &str = "spatialbench-uc";

    /// Puts what the paper has where nothing was said, but nothing that would be refused beside what was said: nobody can
    /// leave out an option that is the preset's.
    pub fn apply(self, settings: &mut Settings) {
        if !settings.source.is_given() {
            let sampling = &mut settings.sampling;
            sampling.steps.get_or_insert(30);
            sampling.guidance_scale.get_or_insert(7.5);
            sampling.scheduler.get_or_insert(SchedulerKind::UniPc);
        }
        settings.checker.get_or_insert_with(|| "frcnn-v2".into());
        if settings.checker() == NONE {
            return;
        }
        settings
            .secondary
            .get_or_insert_with(|| "grounding-dino-base".into());
        settings.published = true;
    }
}

/// Options of `generate` that people look for here: they are answered with where to say it.
#[derive(Clone, Debug, clap::Args)]
struct Misplaced {
    #[arg(long, hide = true, value_parser = guidance_by_method)]
    guide: Option<String>,
    #[arg(long, hide = true, value_parser = constant_of_a_method)]
    guide_scale: Option<String>,
    #[arg(long, hide = true, value_parser = constant_of_a_method)]
    guide_steps: Option<String>,
    #[arg(long, hide = true, value_parser = constant_of_a_method)]
    guide_preset: Option<String>,
    #[arg(long, hide = true, value_parser = constant_of_a_method)]
    guide_loss: Option<String>,
    #[arg(long, hide = true, value_parser = search_by_method)]
    best_of: Option<String>,
}

fn guidance_by_method(text: &str) -> Result<String, String> {
    Err(format!(
        "a run compares methods: write --method prompt-only,{text}"
    ))
}

fn constant_of_a_method(_: &str) -> Result<String, String> {
    Err("methods' constants go into a file: --methods FILE.toml (docs/runs.md shows one)".into())
}

fn search_by_method(text: &str) -> Result<String, String> {
    Err(format!(
        "a search is a method here: write --method best-of-{text}"
    ))
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;
    use crate::cli::run::detectors::DetectorSpecs;

    fn with_preset(options: &[&str]) -> Settings {
        let line = ["run", "spatialbench-uc", "--out", "r"];
        let line = line.iter().chain(options).copied();
        let command = Args::augment_args(Command::new("run"));
        let matches = command.try_get_matches_from(line).unwrap();
        let mut settings = Args::from_arg_matches(&matches).unwrap().settings;
        Preset::Paper.apply(&mut settings);
        settings
    }

    #[test]
    fn a_preset_sets_nothing_that_is_refused() {
        let here = with_preset(&["--steps", "2"]);
        assert_eq!(here.sampling.steps, Some(2));
        assert_eq!(here.sampling.guidance_scale, Some(7.5));
        assert_eq!(here.sampling.scheduler, Some(SchedulerKind::UniPc));
        let second = Some("grounding-dino-base");
        for source in [
            &["--pictures", "there", "--layout", "geneval"][..],
            &["--endpoint", "http://localhost:1", "--endpoint-model", "m"],
            &["--maker", "program"],
        ] {
            let elsewhere = with_preset(source);
            let sampling = &elsewhere.sampling;
            assert!(sampling.steps.is_none() && sampling.guidance_scale.is_none());
            assert!(sampling.scheduler.is_none());
            for settings in [&here, &elsewhere] {
                assert_eq!(settings.checker(), "frcnn-v2");
                assert_eq!(settings.secondary.as_deref(), second);
                assert!(settings.published);
            }
        }
        let unseen = with_preset(&["--checker", "none"]);
        assert_eq!(unseen.sampling.steps, Some(30));
        assert!(unseen.secondary.is_none() && !unseen.published);
        assert!(DetectorSpecs::open(&unseen).is_ok());
    }
}
