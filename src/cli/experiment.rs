//! What the commands of the papers' experiments share: a run, and then its tables and plots.

use std::io::{IsTerminal, Write};

use anyhow::ensure;
use prepose::report::experiments::{Pictures, Results};
use prepose::suite::experiments::pictures;
use prepose::suite::folder::RunFolder;
use prepose::suite::method::Method;

use super::OK;
use super::run::{Settings, carry_out};

/// How wide tables are on a terminal at most.
const WIDTH: usize = 100;

/// The folder within the run's for tables and plots.
pub const FOLDER: &str = "results";

/// Carries out a run of `suite` by `methods`, or goes on with it, and shows what it came to.
pub fn run(
    suite: &str,
    methods: Vec<Method>,
    settings: &Settings,
    quiet: bool,
    results: impl FnOnce(&Pictures) -> Results,
) -> anyhow::Result<u8> {
    ensure!(
        settings.checker() != "none",
        "an experiment is about what a checker sees; --checker none sees nothing"
    );
    let folder = carry_out(suite, methods, settings, quiet)?;
    if folder.plan().config.shard.is_some() {
        if !quiet && !settings.json {
            writeln!(
                std::io::stdout().lock(),
                "this is a part of a run; join the parts with `prepose merge`, and give this command the joined folder"
            )?;
        }
        return Ok(OK);
    }
    show(&folder, settings, quiet, |pictures| Ok(results(pictures)))?;
    Ok(OK)
}

/// Writes what a run came to beside it, and shows it.
pub fn show(
    folder: &RunFolder,
    settings: &Settings,
    quiet: bool,
    results: impl FnOnce(&Pictures) -> anyhow::Result<Results>,
) -> anyhow::Result<()> {
    let results = results(&pictures(folder)?)?;
    for (name, text) in results.files() {
        let name = format!("{FOLDER}/{name}");
        folder.store().put(&name, text.as_bytes())?;
    }
    if !quiet && !settings.json {
        let location = folder.store().location();
        print(&results, &format!("{location}/{FOLDER}"))?;
    }
    Ok(())
}

/// Shows results, which were written to `location`.
pub fn print(results: &Results, location: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.is_terminal() {
        true => write!(stdout, "{}", results.text(WIDTH))?,
        false => write!(stdout, "{}", results.markdown())?,
    }
    writeln!(stdout, "\nwritten to {location}")?;
    Ok(())
}
