//! `prepose ots`

mod cure;
mod edit;
mod moments;
mod propose;

use clap::ValueEnum;
use prepose::prompt::neutral::Opening;
use prepose::report::experiments::ots::{self, Direction};
use prepose::suite::experiments::switch_methods;
use prepose::suite::method::Method;

use super::experiment;
use super::run::{Settings, of_one_piece, seeds_by_default};
use moments::{Moments, parse_moments};

/// Does the order of mention decide where things stand, and who does what? The experiments of OTS-Bench
/// (docs/experiments/ots-bench.md).
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Homogenization(Homogenization),
    Switch(Switch),
    Correctness(Correctness),
    Edit(edit::Args),
    #[command(mut_args(of_one_piece()), mut_arg("seeds", |seeds| seeds_by_default(seeds, "0,1")))]
    Cure(Box<cure::Args>),
    Propose(propose::Args),
}

/// What is compared, and how.
#[derive(Debug, clap::Args)]
struct Compared {
    /// The methods to compare, as for `run`.
    #[arg(
        short,
        long = "method",
        value_name = "METHODS",
        value_delimiter = ',',
        default_value = "prompt-only"
    )]
    methods: Vec<Method>,
    #[command(flatten)]
    settings: Settings,
}

/// The prompts: neutral pairs in both orders.
#[derive(Debug, clap::Args)]
struct Which {
    /// A set of neutral pairs in both orders [default: ots-objects, or ots-objects-vertical with --vertical].
    #[arg(long, value_name = "SUITE")]
    suite: Option<String>,
    /// Above and below instead of left and right.
    #[arg(long)]
    vertical: bool,
}

impl Which {
    fn suite(&self) -> &str {
        match (&self.suite, self.vertical) {
            (Some(suite), _) => suite,
            (None, false) => "ots-objects",
            (None, true) => "ots-objects-vertical",
        }
    }

    fn direction(&self) -> Direction {
        match self.vertical {
            false => Direction::Sides,
            true => Direction::Levels,
        }
    }
}

/// How far the first-mentioned object is from being on either side equally often.
///
/// The run is kept in one folder, as with `prepose run`, and can be killed at any time; the same command resumes where
/// it stopped. Its tables and plots are in the folder `results`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose ots homogenization --out runs/hom
  prepose ots homogenization --method prompt-only,delayed-order-0.25 --every 8 --out runs/hom-both
  prepose ots homogenization --suite ots-bench --known-objects --checkpoint sd15.safetensors --checker frcnn-v2 --out runs/sd15")]
struct Homogenization {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    compared: Compared,
}

/// Until when the order of mention matters: it is swapped, or held back, for the first steps.
///
/// The run is kept in one folder, as with `prepose run`, and can be killed at any time; the same command resumes where
/// it stopped. Its tables and plots are in the folder `results`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose ots switch --switch-at 0-5 --out runs/switch
  prepose ots switch --switch-at 0.1,0.25,0.5 --with neutral --out runs/switch-shares
  prepose ots switch --switch-at sigma8,sigma4 --steps 20 --every 16 --vertical --out runs/switch-vertical")]
struct Switch {
    #[command(flatten)]
    which: Which,
    /// When the prompt is switched: after a number of steps (0-5 or 1,2,4), a share of them (0.1,0.25), or at a noise
    /// level (sigma5.5).
    ///
    /// 0 is the prompt from the start, and is always included.
    #[arg(long, value_name = "LIST", value_parser = parse_moments, default_value = "0-5")]
    switch_at: Moments,
    /// What the pictures begin with.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = With::Both)]
    with: With,
    #[command(flatten)]
    settings: Settings,
}

/// What pictures begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum With {
    /// The neutral prompt
    Neutral,
    /// The other order
    Swapped,
    /// Each of the two, by itself
    Both,
}

impl With {
    fn openings(self) -> &'static [Opening] {
        match self {
            Self::Neutral => &[Opening::Neutral],
            Self::Swapped => &[Opening::Swapped],
            Self::Both => &[Opening::Swapped, Opening::Neutral],
        }
    }
}

/// Whether things stand as they do in the world: each case is run in the order of its sides (aligned) and in the other
/// one (reverse).
///
/// The run is kept in one folder, as with `prepose run`. Things of this kind (keys, organs, notes) are not among the
/// labels of COCO's detectors, so make the pictures with --checker none and have a judge or an open-vocabulary detector
/// look at them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose run ots-correctness --checkpoint sd15.safetensors --checker none --out runs/correctness
  prepose ots correctness --suite mine.jsonl --checkpoint sd15.safetensors --checker frcnn-v2 --out runs/mine")]
struct Correctness {
    /// A set whose prompts have a relation of left or right that their texts do not state, tagged aligned or reverse.
    #[arg(long, value_name = "SUITE", default_value = "ots-correctness")]
    suite: String,
    #[command(flatten)]
    compared: Compared,
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    match &args.command {
        Command::Homogenization(args) => experiment::run(
            args.which.suite(),
            args.compared.methods.clone(),
            &args.compared.settings,
            quiet,
            |pictures| ots::homogenization(pictures, args.which.direction()),
        ),
        Command::Switch(args) => experiment::run(
            args.which.suite(),
            switch_methods(args.with.openings(), &args.switch_at.0),
            &args.settings,
            quiet,
            |pictures| ots::switch(pictures, args.which.direction()),
        ),
        Command::Correctness(args) => experiment::run(
            &args.suite,
            args.compared.methods.clone(),
            &args.compared.settings,
            quiet,
            ots::correctness,
        ),
        Command::Edit(args) => edit::run(args, quiet),
        Command::Cure(args) => cure::run(args, quiet),
        Command::Propose(args) => propose::run(args, quiet),
    }
}
