//! `prepose ots propose`: more cases for correctness, by a language model.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use prepose::output::files::{parent, prepare_folder, write_atomically};
use prepose::remote::chat::{Chat, ChatRequest, Dialect, Message, Role};
use prepose::remote::{Client, Key, RemoteError, Settings, Timeouts};
use prepose::suite::plan::prompts_file;
use prepose::suite::propose::{Archive, Pair, Question};
use prepose_untrusted::{printable, read_text, read_text_or_stdin};

use crate::cli::OK;

/// Let a language model propose more cases for correctness: pairs of things whose left and right are settled in the world.
///
/// It takes the three roles of OTS-Bench in turn: a scout proposes, a critic reviews, a curator writes the pairs down.
///
/// The pairs go to --out, and what settles each of them to NAME.pairs.jsonl beside it. The same command continues from
/// there; a file that is something else is not overwritten. People should read the pairs before they are used: a model
/// may be sure of something that is not true.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose ots propose --chat http://localhost:8080/v1 --chat-model qwen3 --pairs 40 -o pairs.jsonl
  prepose ots propose --chat https://api.openai.com/v1 --chat-model gpt-5 --chat-key OPENAI_API_KEY -o pairs.jsonl
  prepose run pairs.jsonl --checkpoint sd15.safetensors --checker none --out runs/pairs")]
pub struct Args {
    /// A server that speaks OpenAI's chat/completions; its address ends in /v1.
    #[arg(long, value_name = "URL")]
    chat: String,
    /// The model's name on that server.
    #[arg(long, value_name = "NAME")]
    chat_model: String,
    /// The environment variable that holds the key, if the server wants one.
    #[arg(long, value_name = "VARIABLE")]
    chat_key: Option<String>,
    /// How many seconds the server has to answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    chat_timeout: u64,
    /// How many pairs there should be in all.
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pairs: u64,
    /// Run at most N rounds; each asks the model three times.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rounds: u64,
    /// The file of prompts, for `run`; it grows.
    #[arg(short, long, value_name = "FILE.jsonl")]
    out: PathBuf,
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    ensure!(
        args.out.extension().is_some_and(|ending| ending == "jsonl"),
        "{} must end in .jsonl, as the sets of prompts that `run` takes",
        args.out.display()
    );
    let notes = args.out.with_extension("pairs.jsonl");
    let mut archive = Archive::default();
    if notes.exists() {
        read(&notes, &mut archive)?;
    }
    if args.out.exists() {
        check_out(&args.out, &notes, &archive)?;
    }
    let chat = chat(args)?;
    let target = usize::try_from(args.pairs)?;
    for number in 1..=args.rounds {
        if archive.pairs().len() >= target {
            break;
        }
        let round = archive.round(usize::try_from(number)?, target, |question| {
            ask(&chat, question)
        })?;
        write(args, &notes, &archive)?;
        if !quiet {
            let have = archive.pairs().len();
            eprintln!(
                "round {number}: {} new pairs, {have} of {target}; {} refused",
                round.new,
                round.rejected.len()
            );
            for (prompt, fault) in &round.rejected {
                eprintln!(
                    "  {:?}: {}",
                    printable(prompt).to_string(),
                    printable(&fault.to_string())
                );
            }
        }
    }
    write(args, &notes, &archive)?;
    if !quiet {
        writeln!(
            std::io::stdout().lock(),
            "{} pairs of {} domains in {}",
            archive.pairs().len(),
            archive.domains().len(),
            args.out.display()
        )?;
    }
    Ok(OK)
}

fn chat(args: &Args) -> anyhow::Result<Chat> {
    let key = args
        .chat_key
        .as_deref()
        .map(Key::from_variable)
        .transpose()?;
    let timeouts = Timeouts {
        answer: Duration::from_secs(args.chat_timeout),
        ..Timeouts::default()
    };
    let settings = Settings {
        timeouts,
        ..Settings::default()
    };
    let client = Client::new(&args.chat, key, settings)?;
    Ok(Chat::new(client, &args.chat_model, Dialect::Plain))
}

fn ask(chat: &Chat, question: &Question) -> Result<String, RemoteError> {
    let mut request = ChatRequest::new(vec![
        Message::text(Role::System, question.system),
        Message::text(Role::User, question.text.clone()),
    ]);
    // Of a round's twenty pairs, and the thoughts before them.
    request.max_tokens = 16_384;
    // The likeliest answer would be the same in every round.
    request.temperature = Some(1.0);
    request.schema = Some(("answer".to_owned(), question.schema.clone()));
    chat.ask(&request).map(|answer| answer.text)
}

/// What an earlier call found.
fn read(path: &Path, archive: &mut Archive) -> anyhow::Result<()> {
    let text =
        read_text_or_stdin(path).with_context(|| format!("cannot read {}", path.display()))?;
    for (line, number) in text
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty())
    {
        let value = serde_json::from_str(line).map_err(anyhow::Error::from);
        let pair = value.and_then(|value| Ok(Pair::check(value)?));
        let pair =
            pair.with_context(|| format!("line {number} of {} is not a pair", path.display()))?;
        archive.add(pair);
    }
    Ok(())
}

/// Refuses to overwrite what is not of the archive. A call that was killed between its two files left --out with fewer pairs.
fn check_out(out: &Path, notes: &Path, archive: &Archive) -> anyhow::Result<()> {
    let text = read_text(out).with_context(|| format!("cannot read {}", out.display()))?;
    let whole = prompts_file(&archive.prompts())?;
    let is_start = whole.starts_with(&text) && (text.is_empty() || text.ends_with('\n'));
    if is_start {
        return Ok(());
    }
    let (out, notes) = (out.display(), notes.display());
    match archive.pairs() {
        [] => bail!(
            "{out} is there, but no pairs in {notes} that it came of; it would be overwritten: give another --out, or move it \
             away"
        ),
        _ => bail!(
            "{out} is not what comes of the pairs in {notes}, and would be overwritten: give another --out, or move it away, \
             and it is made again from {notes}. A pair that is not wanted is deleted there"
        ),
    }
}

fn write(args: &Args, notes: &Path, archive: &Archive) -> anyhow::Result<()> {
    let folder = parent(&args.out);
    if !folder.as_os_str().is_empty() {
        prepare_folder(folder)?;
    }
    let mut lines = String::new();
    for pair in archive.pairs() {
        lines += &serde_json::to_string(pair)?;
        lines.push('\n');
    }
    write_atomically(notes, lines.as_bytes())?;
    let prompts = prompts_file(&archive.prompts())?;
    Ok(write_atomically(&args.out, prompts.as_bytes())?)
}
