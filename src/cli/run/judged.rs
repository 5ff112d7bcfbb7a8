//! The judge of a run: of its searches' candidates, and of its finished pictures.

use std::path::PathBuf;

use anyhow::{bail, ensure};
use prepose::suite::folder::RunFolder;
use prepose::suite::method::Method;

use super::args::Settings;
use super::detectors;
use crate::cli::interrupt;
use crate::cli::judge::pictures::Eyes;
use crate::cli::judge::prompted::{self, OpenModel, PromptedArgs};

/// Asks a judge about the finished pictures, and tells what it says.
pub fn judge_finished(
    judge: &PromptedArgs,
    folder: &RunFolder,
    settings: &Settings,
    quiet: bool,
) -> anyhow::Result<u8> {
    let stop = interrupt::listen_twice()?.soon;
    let eyes = Eyes {
        checker: Some(settings.checker()).filter(|checker| *checker != detectors::NONE),
        device: settings.model.device,
    };
    let (results, totals) = judge.judge_run(folder, &eyes, &stop, quiet || settings.json)?;
    if !quiet {
        let place = PathBuf::from(folder.store().location()).join(prompted::FOLDER);
        prompted::print(&results, judge, &totals, settings.json, &place)?;
    }
    Ok(prompted::exit_code(&totals))
}

/// Refuses searches by a judge without one.
pub fn check_judge(methods: &[Method], args: &Settings) -> anyhow::Result<()> {
    let Some(method) = methods.iter().find(|method| method.asks_judge()) else {
        return Ok(());
    };
    let Some(judge) = &args.judge else {
        bail!(
            "{} scores candidates by a judge: name one with --judge and --judge-model, or --judge oracle",
            method.name
        );
    };
    ensure!(
        !judge.model.is_oracle() || args.checker() != detectors::NONE,
        "{} scores candidates by the oracle, which sees what a detector sees, but there is no checker (--checker none)",
        method.name
    );
    Ok(())
}

/// Opens the model that scores candidates, if there is one.
pub fn open_model(
    judge: Option<&PromptedArgs>,
    folder: &RunFolder,
    stop: &interrupt::Requested,
) -> anyhow::Result<OpenModel> {
    match judge {
        Some(judge) => judge.open_model(folder, &stop.at_once),
        None => Ok(None),
    }
}
