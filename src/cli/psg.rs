//! `prepose psg`

use prepose::report::experiments::psg;
use prepose::search::RewardKind;
use prepose::suite::experiments::scaling_methods;
use prepose::suite::method::{MOST_NOISES, Method};

use super::experiment;
use super::run::Settings;
use super::values::{Numbers, parse_numbers};

/// What guidance and search do for relations: the experiments of "Why Settle for Mid" (docs/experiments/psg-table.md,
/// docs/experiments/psg-scaling.md).
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Table(Table),
    Scaling(Scaling),
}

/// VISOR's table for each method, split by relation and by first and second object.
///
/// The run is kept in one folder, as with `prepose run`, and can be killed at any time; the same command resumes where
/// it stopped. Its tables and plots are in the folder `results`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose psg table --out runs/psg
  prepose psg table --suite spatialbench-uc+and --method prompt-only,psg --out runs/psg-and
  prepose psg table --suite psg-three --method prompt-only,psg --seeds 0 --out runs/psg-three
  prepose psg table --suite visor-5000 --method prompt-only,psg --checkpoint sd15.safetensors --checker frcnn-v2 --out runs/visor")]
struct Table {
    /// The prompts.
    #[arg(long, value_name = "SUITE", default_value = "spatialbench-uc")]
    suite: String,
    /// The methods to compare, as for `run`.
    #[arg(
        short,
        long = "method",
        value_name = "METHODS",
        value_delimiter = ',',
        default_value = "prompt-only,psg,boxdiff,attend-and-excite,best-of-4,psg+best-of-4"
    )]
    methods: Vec<Method>,
    #[command(flatten)]
    settings: Settings,
}

/// How much trying more noises helps, with and without guidance.
///
/// The run is kept in one folder, as with `prepose run`, and can be killed at any time; the same command resumes where
/// it stopped. Its tables and plots are in the folder `results`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose psg scaling --every 4 --seeds 0 --out runs/scaling
  prepose psg scaling --noises 4,16 --reward attention --every 10 --seeds 0 --out runs/scaling-attention")]
struct Scaling {
    /// The prompts.
    #[arg(long, value_name = "SUITE", default_value = "spatialbench-uc")]
    suite: String,
    /// How many noises to try.
    #[arg(
        long,
        value_name = "LIST",
        default_value = "2,4,8,16",
        value_parser = parse_noises
    )]
    noises: Numbers,
    /// How the best of them is chosen.
    #[arg(long, value_enum, default_value = "pse")]
    reward: RewardKind,
    #[command(flatten)]
    settings: Settings,
}

/// Reads `--noises`: a list of numbers, each of at least two noises, as one leaves nothing to choose.
fn parse_noises(text: &str) -> Result<Numbers, String> {
    let numbers = parse_numbers(text)?;
    match numbers
        .0
        .iter()
        .find(|number| !(2..=MOST_NOISES).contains(*number))
    {
        Some(wrong) => Err(format!("{wrong} noises: it can be from 2 to {MOST_NOISES}")),
        None => Ok(numbers),
    }
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    match &args.command {
        Command::Table(args) => experiment::run(
            &args.suite,
            args.methods.clone(),
            &args.settings,
            quiet,
            psg::table,
        ),
        Command::Scaling(args) => {
            let mut noises = args.noises.0.clone();
            noises.sort_unstable();
            noises.dedup();
            let methods = scaling_methods(&noises, args.reward);
            experiment::run(&args.suite, methods, &args.settings, quiet, psg::scaling)
        }
    }
}
