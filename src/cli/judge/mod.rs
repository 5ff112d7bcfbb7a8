//! `prepose judge`

pub mod asking;
mod judging;
pub mod model;
mod ots;
pub mod pictures;
pub mod prompted;
pub mod results;
mod runs;
pub mod scene;
mod spatialgen;

use std::path::PathBuf;

use anyhow::{bail, ensure};
use prepose_statistics::bootstrap::Bootstrap;

use super::given::Given;

/// Ask a vision-language model about pictures, as OTS-Bench, Scene-Bench and SpatialGenEval do (docs/judge.md).
///
/// Answers are kept in the folder --out, and nothing is asked twice: the same command resumes where it stopped, and asks
/// again where the picture, question, model or a setting has changed. An answer that is none of those asked for is invalid,
/// never wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose judge runs/hom --benchmark ots --out judged                        # the oracle: by detections, offline
  prepose judge runs/hom --benchmark ots --judge http://localhost:8000/v1 --judge-model Qwen/Qwen3-VL-8B-Instruct --out judged
  prepose judge pictures --benchmark ots --cases cases.jsonl --out judged    # pictures of any model
  prepose judge pictures --benchmark scene --graphs graphs.jsonl --out judged
  prepose judge pictures --benchmark spatialgen --questions SpatialGenEval_T2I_Prompts.jsonl --out judged --judge http://localhost:8000/v1 --judge-model Qwen/Qwen2.5-VL-72B-Instruct")]
pub struct Args {
    #[command(flatten)]
    given: Given,
    /// A folder of pictures, or a run's folder.
    pictures: PathBuf,
    /// The benchmark whose questions to ask.
    #[arg(long, value_enum)]
    benchmark: Benchmark,
    /// Where answers and tables go; if this command was begun in the folder before, it continues from there.
    #[arg(short, long, value_name = "FOLDER")]
    out: PathBuf,
    /// Leave out missing pictures, instead of refusing.
    #[arg(long)]
    partial: bool,
    /// How often pairs or graphs are resampled for the 95 % intervals.
    #[arg(long, value_name = "N", default_value_t = Bootstrap::default().draws, hide_short_help = true,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    bootstrap: usize,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    ots: ots::Options,
    #[command(flatten)]
    scene: scene::Options,
    #[command(flatten)]
    spatialgen: spatialgen::Options,
    #[command(flatten)]
    judge: judging::JudgeArgs,
}

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Benchmark {
    /// OTS-Bench: homogenization and correctness
    Ots,
    /// Scene-Bench: how much of a scene graph is there, and SGScore
    Scene,
    /// SpatialGenEval: ten questions about each picture, in five rounds
    Spatialgen,
}

impl Benchmark {
    /// As it is written.
    fn name(self) -> &'static str {
        match self {
            Self::Ots => "ots",
            Self::Scene => "scene",
            Self::Spatialgen => "spatialgen",
        }
    }

    /// The options that it alone has.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Ots => &["cases", "one_order"],
            Self::Scene => &["graphs", "gamma", "alpha", "distractors", "question_seed"],
            Self::Spatialgen => &[
                "questions",
                "control",
                "rounds",
                "most_rounds",
                "agreeing",
                "shuffle_seed",
            ],
        }
    }
}

impl Args {
    /// Refuses what the benchmark does not read.
    fn check(&self) -> anyhow::Result<()> {
        let here = self.benchmark;
        let others = <Benchmark as clap::ValueEnum>::value_variants().iter();
        for other in others.filter(|other| **other != here) {
            if let Some(option) = self.given.first_of(other.options()) {
                bail!(
                    "{option} is for --benchmark {}; --benchmark {} does not read it",
                    other.name(),
                    here.name()
                );
            }
        }
        ensure!(
            here != Benchmark::Spatialgen || self.judge.rounds.judge_rounds == 1,
            "--judge-rounds is for the other benchmarks; --rounds says how many answers --benchmark spatialgen gets for each \
             picture"
        );
        Ok(())
    }

    fn bootstrap(&self) -> Bootstrap {
        Bootstrap {
            draws: self.bootstrap,
            ..Bootstrap::default()
        }
    }
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    args.check()?;
    match args.benchmark {
        Benchmark::Ots => ots::run(args, quiet),
        Benchmark::Scene => scene::run(args, quiet),
        Benchmark::Spatialgen => spatialgen::run(args, quiet),
    }
}
