//! `prepose spatialgen`

mod export;
mod propose;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use prepose::check::prompt::SuitePrompt;
use prepose::judge::spatialgen::{Item, read};
use prepose::output::files::{parent, prepare_folder, write_atomically};
use prepose::suite::plan::prompts_file;
use prepose_untrusted::{escaped_json, read_text_or_stdin};

use super::OK;

/// SpatialGenEval (docs/spatialgeneval.md): prompts for `run`, tests for scenes of your own, and training data from pictures that
/// pass. The judging itself is `prepose judge --benchmark spatialgen`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// The prompts of a file of questions, as `run` takes them; offline
    Prompts(Prompts),
    Propose(Box<propose::Args>),
    Export(export::Args),
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    match &args.command {
        Command::Prompts(args) => args.run(),
        Command::Propose(args) => propose::run(args, quiet),
        Command::Export(args) => export::run(args, quiet),
    }
}

/// The prompts of a file of questions, as `prepose run` takes them.
#[derive(Debug, clap::Args)]
struct Prompts {
    /// The benchmark's file, or one that `propose` wrote.
    #[arg(value_name = "FILE")]
    questions: PathBuf,
    /// The file to write, one JSON object per line [default: standard output].
    #[arg(short, long, value_name = "FILE.jsonl")]
    out: Option<PathBuf>,
}

impl Prompts {
    fn run(&self) -> anyhow::Result<u8> {
        let prompts: Vec<SuitePrompt> = items(&self.questions)?
            .into_iter()
            .map(|item| SuitePrompt {
                prompt_id: item.id,
                prompt: item.prompt,
                tags: Some(item.scene)
                    .filter(|scene| !scene.is_empty())
                    .into_iter()
                    .collect(),
                ..SuitePrompt::default()
            })
            .collect();
        let text = prompts_file(&prompts)?;
        match &self.out {
            None => write!(std::io::stdout().lock(), "{}", escaped_json(&text))?,
            Some(path) => write(path, &text)?,
        }
        Ok(OK)
    }
}

/// The items of a file.
fn items(path: &Path) -> anyhow::Result<Vec<Item>> {
    let text =
        read_text_or_stdin(path).with_context(|| format!("cannot read {}", path.display()))?;
    read(&text).with_context(|| path.display().to_string())
}

/// Writes a file whole, and its folder if it is not there.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = parent(path);
    if !folder.as_os_str().is_empty() {
        prepare_folder(folder)?;
    }
    write_atomically(path, text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}
