//! Asks a judge, as often as is wanted, and keeps its answers.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use prepose::judge::ask::{Asked, Judge, Manner, Outcome, Questions, ask};
use prepose::judge::book::Book;
use prepose::judge::oracle::Oracle;
use prepose::judge::picture::Pictures;
use prepose::judge::question::{Answer, Invalid};
use prepose::output::files::prepare_folder;

use super::model::ModelArgs;
use crate::cli::progress::Progress;

/// What was asked and answered.
pub const BOOK: &str = "answers.jsonl";
/// What temporary files are called.
const TEMPORARY: &str = ".prepose-";

/// How often everything is asked.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Judge")]
pub struct RoundArgs {
    /// Ask everything this many times, each time with the next --judge-seed: the first round counts, and how often the others
    /// differ is reported.
    #[arg(long, value_name = "N", default_value_t = 1, hide_short_help = true,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100))]
    pub judge_rounds: usize,
}

/// Who is asked.
pub enum Who<'a> {
    /// A model on a server.
    Model(&'a ModelArgs),
    /// Somebody who knows the detections.
    Oracle(Box<Oracle>),
}

/// Opens the book in a folder, or begins one; what a kill has left of files that were being written goes.
///
/// # Errors
/// The folder or the book cannot be used.
pub fn open_book(folder: &Path) -> anyhow::Result<Book> {
    prepare_folder(folder)?;
    let book = Book::open(&folder.join(BOOK))?;
    let unreadable = || format!("cannot read {}", folder.display());
    // Whoever has the book is alone here.
    for entry in std::fs::read_dir(folder).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let left = entry.file_name().to_string_lossy().starts_with(TEMPORARY);
        if left && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            // If it stays it harms nobody.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(book)
}

/// Asks everything, round after round, until `stop` becomes true.
pub fn ask_all<P, Q>(
    who: &Who,
    rounds: RoundArgs,
    stop: &Arc<AtomicBool>,
    book: &mut Book,
    (pictures, questions): (&P, &Q),
    quiet: bool,
) -> anyhow::Result<Vec<Asked>>
where
    P: Pictures + ?Sized,
    Q: Questions + ?Sized,
{
    let count = questions.count().saturating_mul(rounds.judge_rounds);
    let bar = Mutex::new(Progress::new(count as u64, "questions", quiet));
    let advance = |_: usize| {
        bar.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .advance(1);
    };
    let one = |judge: &dyn Judge, concurrency: usize, book: &mut Book| {
        let manner = Manner {
            concurrency,
            progress: &advance,
            stop,
        };
        ask(judge, pictures, questions, book, &manner)
    };
    let mut all = Vec::with_capacity(rounds.judge_rounds);
    for round in 0..rounds.judge_rounds {
        let asked = match who {
            Who::Model(args) => {
                let judge = args.model_until(Arc::clone(stop), round as u64)?;
                one(&judge, args.concurrency, book)
            }
            Who::Oracle(oracle) => one(&**oracle, 1, book),
        };
        match asked {
            Ok(asked) => all.push(asked),
            Err(error) => {
                bar.lock().unwrap_or_else(PoisonError::into_inner).finish();
                return Err(error.into());
            }
        }
    }
    bar.into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .finish();
    Ok(all)
}

/// Why an answer is not the JSON object that it should be, and what helps.
pub fn no_object(answer: Answer) -> String {
    match answer {
        Answer::Invalid(why @ (Invalid::Thinking | Invalid::Cut)) => format!(
            "its tokens were gone before its end ({}); --max-tokens gives the model more of them, --thinking no, with the server's \
             --dialect, keeps it from thinking first",
            why.as_str()
        ),
        Answer::Invalid(why @ (Invalid::Empty | Invalid::Refused)) => {
            format!("there is no JSON object in the answer ({})", why.as_str())
        }
        _ => "the answer is not a JSON object".into(),
    }
}

/// The outcomes of each round.
pub fn outcomes(asked: Vec<Asked>) -> (Vec<Vec<Outcome>>, Totals) {
    let mut totals = Totals {
        rounds: asked.len(),
        ..Totals::default()
    };
    let mut outcomes = Vec::with_capacity(asked.len());
    for round in asked {
        totals.questions += round.outcomes.len();
        totals.new += round.new;
        totals.prompt_tokens += round.prompt_tokens;
        totals.answer_tokens += round.answer_tokens;
        totals.unanswered += round
            .outcomes
            .iter()
            .filter(|one| one.answer().is_none())
            .count();
        outcomes.push(round.outcomes);
    }
    (outcomes, totals)
}

/// What all rounds took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub rounds: usize,
    pub questions: usize,
    /// Asked now, and not known before.
    pub new: usize,
    pub unanswered: usize,
    pub prompt_tokens: u64,
    pub answer_tokens: u64,
}

impl Totals {
    /// Counts those of another judging as well, with the same rounds.
    pub fn add(&mut self, other: &Self) {
        self.questions += other.questions;
        self.new += other.new;
        self.unanswered += other.unanswered;
        self.prompt_tokens += other.prompt_tokens;
        self.answer_tokens += other.answer_tokens;
    }
}
