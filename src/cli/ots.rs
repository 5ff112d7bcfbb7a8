//! `prepose ots`

use prepose::report::experiments::ots::{self, Direction};
use prepose::suite::experiments::switch_methods;
use prepose::suite::method::Method;

use super::experiment;
use super::run::Settings;
use super::values::{Numbers, parse_numbers};

/// Does the order of mention decide where things stand? The experiments of OTS-Bench (docs/experiments/ots-homogenization.md,
/// docs/experiments/ots-switch.md).
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// How far the first-mentioned object is from being on either side equally often
    Homogenization(Homogenization),
    /// Until which step the order of mention matters: order swapped, or held back, for the first steps
    Switch(Switch),
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
/// The run goes into one folder, as that of `prepose run`, and may be killed at any time: the same command goes on where it
/// stopped. Its tables and plots are in the folder `results`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose ots homogenization --out runs/hom
  prepose ots homogenization --method prompt-only,delayed-order-2 --every 8 --out runs/hom-both
  prepose ots homogenization --suite ots-bench --known-objects --checkpoint sd15.safetensors --checker frcnn-v2 --out runs/sd15")]
struct Homogenization {
    #[command(flatten)]
    which: Which,
    /// What is compared, as for `run`.
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

/// Until which step the order of mention matters: order swapped, or held back, for the first steps.
///
/// The run goes into one folder, as that of `prepose run`, and may be killed at any time: the same command goes on where it
/// stopped. Its tables and plots are in the folder `results`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose ots switch --switch-at 0-5 --out runs/switch
  prepose ots switch --switch-at 0,1,2,4,8 --steps 20 --every 16 --vertical --out runs/switch-vertical")]
struct Switch {
    #[command(flatten)]
    which: Which,
    /// After which steps the prompt is switched, 0-5 or 1,2,4; 0 is the prompt from the start, and always among them.
    #[arg(long, value_name = "LIST", value_parser = parse_numbers, default_value = "0-5")]
    switch_at: Numbers,
    #[command(flatten)]
    settings: Settings,
}

impl Switch {
    /// Each step once, in order.
    fn switch_at(&self) -> Vec<usize> {
        let mut steps = self.switch_at.0.clone();
        steps.sort_unstable();
        steps.dedup();
        steps
    }
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    match &args.command {
        Command::Homogenization(args) => experiment::run(
            args.which.suite(),
            args.methods.clone(),
            &args.settings,
            quiet,
            |pictures| ots::homogenization(pictures, args.which.direction()),
        ),
        Command::Switch(args) => experiment::run(
            args.which.suite(),
            switch_methods(&args.switch_at()),
            &args.settings,
            quiet,
            |pictures| ots::switch(pictures, args.which.direction()),
        ),
    }
}
