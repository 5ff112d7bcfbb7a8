//! `prepose merge`: joins the shards of a run.

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use prepose::check::json;
use prepose::store;
use prepose::suite::merge::{find, merge};
use prepose_untrusted::escaped;
use serde_json::json;

use super::OK;
use super::input::count;
use super::progress::Progress;

/// Join the shards of a run into the run that one machine would have made.
///
/// Shards that are unfinished, missing, damaged or of another run are refused, and then nothing is written. Pictures
/// are linked where shards and run are on the same disk. A checker's records of a second look and a judge's answers are
/// joined as well; what is of a part alone, such as figures of picture quality, is left out and named. The command
/// can be killed and run again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders of shards, or of runs that hold some (RUN for RUN/shard-000-of-004 and the others); s3://, gs:// and az:// too
    #[arg(required = true, value_name = "SHARD")]
    shards: Vec<String>,
    /// Folder of the joined run; RUN itself is fine
    #[arg(short, long, alias = "output", value_name = "RUN")]
    out: String,
    /// Print what was done as a line of JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let shards = find(&args.shards)?;
    let out = store::open(&args.out)?;
    let bar: Mutex<Option<(Progress, usize)>> = Mutex::new(None);
    let progress = |done: usize, total: usize| {
        let mut bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || (Progress::new(total as u64, "files", quiet || total == 0), 0);
        let (progress, shown) = bar.get_or_insert_with(new);
        progress.advance(done.saturating_sub(*shown) as u64);
        *shown = done.max(*shown);
    };
    let merged = merge(shards, out, &progress)?;
    if let Some((progress, _)) = &*bar.lock().unwrap_or_else(PoisonError::into_inner) {
        progress.finish();
    }
    let mut stdout = std::io::stdout().lock();
    if args.json {
        let summary = json!({
            "out": args.out,
            "shards": merged.shards,
            "pictures": merged.pictures,
            "copied": merged.copied,
            "answers": merged.answers,
            "left_out": merged.left.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        writeln!(stdout, "{}", json::to_line(&summary)?)?;
    } else if !quiet {
        for left in &merged.left {
            eprintln!("note: {}", escaped(&left.to_string()));
        }
        let answers = match merged.answers {
            0 => String::new(),
            new => format!(", and {} of a judge", count(new, "answer")),
        };
        writeln!(
            stdout,
            "joined {} of {} in {}; files put there: {}{answers}",
            count(merged.pictures, "picture"),
            count(merged.shards, "shard"),
            args.out,
            merged.copied
        )?;
    }
    Ok(OK)
}
