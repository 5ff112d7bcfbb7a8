//! `prepose completions`

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::CommandFactory;
use clap_complete::Shell;
use prepose::output::files::prepare_folder;

use super::{Cli, OK};

/// Completions for a shell, on standard output, or manual pages.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose completions bash > ~/.local/share/bash-completion/completions/prepose
  prepose completions zsh > ~/.zfunc/_prepose       # with `fpath+=~/.zfunc` before compinit in ~/.zshrc
  prepose completions fish > ~/.config/fish/completions/prepose.fish
  prepose completions --man ~/.local/share/man/man1")]
pub struct Args {
    /// The shell [default: the one that SHELL names].
    #[arg(value_enum, conflicts_with = "man")]
    shell: Option<Shell>,
    /// Write a manual page for each command into this folder instead.
    #[arg(long, value_name = "FOLDER")]
    man: Option<PathBuf>,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let mut command = Cli::command();
    if let Some(folder) = &args.man {
        prepare_folder(folder)?;
        clap_mangen::generate_to(command, folder)
            .with_context(|| format!("cannot write into {}", folder.display()))?;
        return Ok(OK);
    }
    let Some(shell) = args.shell.or_else(Shell::from_env) else {
        bail!(
            "SHELL does not name a known shell; say which one: bash, elvish, fish, powershell or zsh"
        );
    };
    // The generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "prepose", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(OK)
}
