//! Who judges in `prepose judge`, and what it is asked.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use prepose::check::rules::Options as RuleOptions;
use prepose::device::DeviceSpec;
use prepose::judge::ask::{Manner, Outcome, Questions, ask};
use prepose::judge::book::Book;
use prepose::judge::oracle::Oracle;
use prepose::judge::picture::Named;

use super::asking::{RoundArgs, Totals, Who, ask_all, open_book, outcomes};
use super::model::ModelArgs;
use super::{Args, pictures};
use crate::cli::interrupt;

/// Who judges.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Judge")]
pub struct JudgeArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub rounds: RoundArgs,
    /// Detections that the oracle answers from, as `score` reads them [default: what --checker finds].
    #[arg(long, num_args = 1.., value_name = "FILE")]
    detections: Vec<PathBuf>,
    /// The detector that the oracle uses, as for `check` [default: toybox].
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "detections")]
    pub checker: Option<String>,
    /// Where the detector runs: auto, cuda[:i], vulkan[:i], metal, wgpu[:i] or flex (the CPU).
    #[arg(
        long,
        value_name = "NAME",
        default_value = "auto",
        hide_short_help = true
    )]
    pub device: DeviceSpec,
}

impl JudgeArgs {
    /// Whether somebody who sees boxes answers too, beside a model.
    pub fn has_boxes(&self) -> bool {
        !self.model.is_oracle() && (!self.detections.is_empty() || self.checker.is_some())
    }

    /// The files with detections that the oracle answers from.
    pub fn detections(&self) -> &[PathBuf] {
        &self.detections
    }

    /// The oracle, from detections in files or from what the detector finds of what it is asked for.
    pub fn oracle<Q: Questions + ?Sized>(
        &self,
        named: &[Named],
        questions: &Q,
        quiet: bool,
    ) -> anyhow::Result<Oracle> {
        let cases = match self.detections.as_slice() {
            [] => {
                let wanted = pictures::wanted(named.len(), questions);
                let eyes = pictures::Eyes {
                    checker: self.checker.as_deref(),
                    device: self.device,
                };
                pictures::look(named, &wanted, &eyes, quiet)?
            }
            files => pictures::detections(files)?,
        };
        Ok(Oracle::new(cases, RuleOptions::default()))
    }
}

/// Asks all of it, with a book in the folder of results.
pub fn judge<Q: Questions + ?Sized>(
    args: &Args,
    named: &[Named],
    questions: &Q,
    quiet: bool,
) -> anyhow::Result<(Vec<Vec<Outcome>>, Totals)> {
    args.judge.model.check()?;
    let (who, stop) = match args.judge.model.is_oracle() {
        true => {
            let oracle = args.judge.oracle(named, questions, quiet)?;
            (Who::Oracle(Box::new(oracle)), Arc::default())
        }
        false => {
            // What is wrong with the arguments is told before anything is begun.
            args.judge.model.model_until(Arc::default(), 0)?;
            (Who::Model(&args.judge.model), interrupt::listen()?)
        }
    };
    let mut book = open_book(&args.out)?;
    let quiet = quiet || args.json;
    let all = (named, questions);
    let asked = ask_all(&who, args.judge.rounds, &stop, &mut book, all, quiet)?;
    Ok(outcomes(asked))
}

/// Answers of somebody who sees boxes; they cost nothing and are not kept.
pub fn by_boxes<Q: Questions + ?Sized>(
    args: &Args,
    named: &[Named],
    questions: &Q,
    quiet: bool,
) -> anyhow::Result<Vec<Outcome>> {
    let oracle = args.judge.oracle(named, questions, quiet)?;
    let mut book = Book::unkept();
    let manner = Manner {
        concurrency: 1,
        progress: &|_| (),
        stop: &AtomicBool::new(false),
    };
    Ok(ask(&oracle, named, questions, &mut book, &manner)?.outcomes)
}
