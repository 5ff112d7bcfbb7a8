//! The command line: one file a command; each parses, calls and prints.

// Help texts, which clap prints as they stand: they are no Markdown.
#![allow(rustdoc::bare_urls, rustdoc::broken_intra_doc_links)]

mod agree;
mod audit;
mod bench;
pub mod check;
mod checker;
mod colour;
mod completions;
mod corpus;
mod detect;
mod detecting;
mod devices;
mod experiment;
mod extract;
pub mod generate;
mod given;
mod info;
mod input;
mod interrupt;
pub mod judge;
mod looking;
pub mod memory;
mod merge;
pub mod model;
mod opse;
mod ots;
pub mod parse;
mod progress;
mod psg;
mod pull;
mod report;
mod run;
mod sampling;
mod scene;
pub mod score;
mod selftest;
mod serve;
mod spatialgen;
pub mod suites;
mod toybox;
mod train;
mod values;
mod verify;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use prepose_untrusted::message;
use tracing_subscriber::EnvFilter;

/// Everything went well.
const OK: u8 = 0;
/// It was done, and the answer is no.
const NO: u8 = 1;
/// Wrong input, a missing file or device, a failed write.
const ERROR: u8 = 2;
/// Nobody reads standard output any more: 128 and SIGPIPE's number, as shells have it.
const NO_READER: u8 = 141;

/// Stable Diffusion that puts things where the prompt says.
///
/// Exit codes: 0 success, 1 the answer is no (`check --strict`, `selftest`, `verify`), 2 an error, 130 ended by Ctrl-C,
/// 143 ended by `kill`, 129 by a hang-up, 141 standard output was not read to its end.
#[derive(Debug, Parser)]
#[command(name = "prepose", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Log to standard error what is being done; -vv logs more detail.
    ///
    /// RUST_LOG overrides it.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Print only errors on standard error.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Generate(Box<generate::Args>),
    #[command(mut_args(judge::prompted::of_named_judge))]
    Check(Box<check::Args>),
    Detect(detect::Args),
    /// Score detections by a published rule: PSE, VISOR, GenEval, T2I-CompBench, HRS-Bench, OTS-Bench
    #[command(mut_arg("mask_choice", |choice| choice.requires("masks")))]
    Score(Box<score::Args>),
    #[command(mut_args(judge::prompted::of_named_judge))]
    Run(Box<run::Args>),
    Merge(merge::Args),
    Verify(verify::Args),
    Report(Box<report::Args>),
    Opse(Box<opse::Args>),
    /// Does the order of mention decide where things stand? The experiments of OTS-Bench
    Ots(Box<ots::Args>),
    /// What guidance and search do for relations: the experiments of Why Settle for Mid
    Psg(Box<psg::Args>),
    Train(Box<train::Args>),
    /// Measure the checker against people: sample, label, analyze, calibrate
    Audit(Box<audit::Args>),
    Judge(Box<judge::Args>),
    /// Scene graphs: make prompts and texts from them, and graphs from captions and pictures (Scene-Bench)
    Scene(Box<scene::Args>),
    /// Tests and training data for spatial intelligence (SpatialGenEval)
    Spatialgen(Box<spatialgen::Args>),
    Corpus(Box<corpus::Args>),
    /// How far people, judges and metrics agree: correlation, kappa, precision, ratings
    Agree(agree::Args),
    /// List the sets of prompts, or show the prompts of one
    Suites(suites::Args),
    Parse(parse::Args),
    /// Describe a checkpoint, a LoRA or a picture
    Info(info::Args),
    /// List the devices that can be used, and why the others cannot
    Devices(devices::Args),
    Pull(pull::Args),
    Selftest(selftest::Args),
    /// Measure speed
    Bench(bench::Args),
    Serve(Box<serve::Args>),
    /// Completions for a shell, or manual pages
    Completions(completions::Args),
}

/// `prepose help --help` is `prepose help`, whose command clap makes, and which takes no options.
fn without_help_of_help(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|first| first == "help") {
        arguments.retain(|one| one != "--help" && one != "-h");
    }
    arguments
}

/// Runs the program on its own arguments and returns its exit code.
pub fn main() -> ExitCode {
    ExitCode::from(main_with(std::env::args_os().collect()))
}

/// Runs the program on these arguments, its name first, and returns its exit code. Logging and the handling of panics and
/// signals are the program's own from then on, so it is for processes that do nothing else.
pub fn main_with(arguments: Vec<OsString>) -> u8 {
    let cli = match Cli::try_parse_from(without_help_of_help(arguments)) {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    start_log(&cli);
    prepose_kernels::keep_freed_memory();
    prepose::memory::silence_panics();
    if let Err(error) = prepose_kernels::instructions() {
        return failed(&error.into());
    }
    let result = match &cli.command {
        Command::Generate(args) => generate::run(args, cli.quiet),
        Command::Check(args) => check::run(args, cli.quiet),
        Command::Run(args) => run::run(args, cli.quiet),
        Command::Merge(args) => merge::run(args, cli.quiet),
        Command::Verify(args) => verify::run(args, cli.quiet),
        Command::Opse(args) => opse::run(args, cli.quiet),
        Command::Ots(args) => ots::run(args, cli.quiet),
        Command::Psg(args) => psg::run(args, cli.quiet),
        Command::Train(args) => train::run(args, cli.quiet),
        Command::Info(args) => info::run(args),
        Command::Parse(args) => parse::run(args),
        Command::Devices(args) => devices::run(args),
        Command::Pull(args) => pull::run(args, cli.quiet),
        Command::Report(args) => report::run(args, cli.quiet),
        Command::Audit(args) => audit::run(args),
        Command::Judge(args) => judge::run(args, cli.quiet),
        Command::Scene(args) => scene::run(args, cli.quiet),
        Command::Spatialgen(args) => spatialgen::run(args, cli.quiet),
        Command::Corpus(args) => corpus::run(args, cli.quiet),
        Command::Agree(args) => agree::run(args),
        Command::Detect(args) => detect::run(args, cli.quiet),
        Command::Score(args) => score::run(args, cli.quiet),
        Command::Suites(args) => suites::run(args),
        Command::Selftest(args) => selftest::run(args),
        Command::Bench(args) => bench::run(args, cli.quiet),
        Command::Serve(args) => serve::run(args, cli.quiet),
        Command::Completions(args) => completions::run(args),
    };
    result.unwrap_or_else(|error| failed(&error))
}

/// Prints the error, unless nobody reads what the program says, and returns the exit code.
fn failed(error: &anyhow::Error) -> u8 {
    // `| head` has seen enough, and the work is not done.
    if is_closed_output(error) {
        return NO_READER;
    }
    // Names and texts in it may come from files and servers.
    let message = message(error.chain().map(ToString::to_string));
    anstream::eprintln!("{} {message}", colour::paint(colour::ERROR, "error:"));
    interrupt::exit_code().unwrap_or(ERROR)
}

/// Prints what clap says instead of arguments: help, the version, or what is wrong. What it quotes may be long or hold
/// control characters.
fn refused(error: &clap::Error) -> u8 {
    let plain = error.render().to_string();
    let shown = message([plain.clone()]);
    if !error.use_stderr() || shown == plain {
        // Nobody may be reading it, and nothing more can be said then.
        let _ = error.print();
    } else {
        anstream::eprintln!("{shown}");
    }
    match error.use_stderr() {
        true => ERROR,
        false => OK,
    }
}

fn start_log(cli: &Cli) {
    let level = match (cli.quiet, cli.verbose) {
        (true, _) => "error",
        // CubeCL complains of a file that it cannot keep kernels in at every kernel; the device says it once.
        (false, 0) => "warn,cubecl_environment=error",
        (false, 1) => {
            "prepose=info,prepose_weights=info,prepose_models=info,warn,cubecl_environment=error"
        }
        (false, _) => "prepose=debug,prepose_weights=debug,prepose_models=debug,info",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours_the_log())
        .with_target(false)
        .without_time()
        .init();
}

/// Whether it is a write to standard output that failed, because nobody reads it any more. Errors of files and
/// connections have a context.
fn is_closed_output(error: &anyhow::Error) -> bool {
    let outermost: &(dyn std::error::Error + 'static) = error.as_ref();
    outermost
        .downcast_ref::<std::io::Error>()
        .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Whether the log is coloured.
fn colours_the_log() -> bool {
    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::CommandFactory as _;

    use super::Cli;

    /// clap itself looks for this in debug builds alone.
    fn without_twins(command: &clap::Command) {
        let mut names = HashSet::new();
        for argument in command.get_arguments() {
            let name = argument.get_id();
            assert!(names.insert(name), "{}: {name} twice", command.get_name());
        }
        let long: Vec<_> = command
            .get_arguments()
            .filter_map(clap::Arg::get_long)
            .collect();
        let unique: HashSet<_> = long.iter().collect();
        assert_eq!(unique.len(), long.len(), "{}: {long:?}", command.get_name());
        command.get_subcommands().for_each(without_twins);
    }

    /// clap prints a line break in the place of `{n}`.
    fn without_breaks(command: &clap::Command) {
        let about = [
            command.get_about(),
            command.get_long_about(),
            command.get_after_help(),
            command.get_after_long_help(),
        ];
        let arguments = command
            .get_arguments()
            .flat_map(|argument| [argument.get_help(), argument.get_long_help()]);
        for text in about.into_iter().chain(arguments).flatten() {
            let text = text.to_string();
            assert!(!text.contains("{n}"), "{}: {text}", command.get_name());
        }
        command.get_subcommands().for_each(without_breaks);
    }

    #[test]
    fn no_help_text_is_broken_by_a_placeholder() {
        without_breaks(&Cli::command());
    }

    #[test]
    fn no_command_has_an_option_twice() {
        let mut command = Cli::command();
        command.build();
        without_twins(&command);
    }
}
