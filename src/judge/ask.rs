//! Asks many questions at once, none of them twice.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::Value;
use thiserror::Error;

use super::book::{Book, BookError, Entry, key};
use super::picture::{Named, PictureError, Seen, read};
use super::question::{Answer, End, Question};

/// Failures in a row, from the start, after which nobody expects an answer any more.
const HOPELESS: usize = 8;

/// Somebody who looks at pictures and answers questions.
pub trait Judge: Sync {
    /// Which one, for tables and for what is asked again.
    fn model(&self) -> &str;

    /// What an answer depends on besides picture, words and model.
    fn settings(&self) -> Value;

    /// The answer to a question, about a picture if it is about one.
    ///
    /// # Errors
    /// There is none, and asking once more would not help.
    fn reply(
        &self,
        question: &Question,
        shown: Option<(&Named, &Seen)>,
    ) -> Result<Reply, JudgeError>;
}

/// An answer as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The text.
    pub text: String,
    /// What was thought before, if it is shown.
    pub thoughts: Option<String>,
    /// How it ended.
    pub end: End,
    /// Tokens of the request, if they are counted.
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    pub answer_tokens: u64,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum JudgeError {
    /// The server, or the way to it.
    #[error(transparent)]
    Remote(#[from] prepose_remote::RemoteError),
    /// The picture.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// The book.
    #[error(transparent)]
    Book(#[from] BookError),
    /// The oracle has no detections of it.
    #[error("there are no detections of {0}")]
    Undetected(String),
}

impl JudgeError {
    /// Whether every other question would fail as well: a wrong key or address, no money, a stop.
    fn is_final(&self) -> bool {
        match self {
            Self::Remote(error) => !error.is_passing() && !error.is_of_request(),
            Self::Book(_) => true,
            Self::Picture(_) | Self::Undetected(_) => false,
        }
    }
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// An answer.
    Answered(Answer),
    /// None, and why; it is asked again next time.
    Failed(String),
    /// It was not asked: somebody stopped before.
    Unasked,
}

impl Outcome {
    /// The answer; none if there is none, valid or not.
    pub fn answer(&self) -> Option<Answer> {
        match self {
            Self::Answered(answer) => Some(*answer),
            Self::Failed(_) | Self::Unasked => None,
        }
    }
}

/// What came of all questions.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// In the order of the questions.
    pub outcomes: Vec<Outcome>,
    /// The texts of answers that are objects, in the same order.
    pub texts: Vec<Option<String>>,
    /// Answers that came now; the others were in the book.
    pub new: usize,
    /// Tokens of all requests that have an answer, earlier ones included.
    pub prompt_tokens: u64,
    /// Tokens of all answers.
    pub answer_tokens: u64,
}

/// How many are asked at a time, who watches, and who may stop it.
pub struct Manner<'a> {
    /// At least 1.
    pub concurrency: usize,
    /// Called after each question with how many are done.
    pub progress: &'a (dyn Fn(usize) + Sync),
    /// Once true, nothing new is asked.
    pub stop: &'a AtomicBool,
}

/// Asks all questions that have no answer in the book; the same question about the same picture is asked once. What fails
/// is told in its outcome, and the others are asked all the same, unless nothing but failures has come.
///
/// # Errors
/// The book cannot be written, or the first questions all failed.
pub fn ask(
    judge: &dyn Judge,
    pictures: &[Named],
    questions: &[Question],
    book: &mut Book,
    manner: &Manner,
) -> Result<Asked, JudgeError> {
    let files: Vec<OnceLock<Result<String, String>>> =
        pictures.iter().map(|_| OnceLock::new()).collect();
    let settings = judge.settings();
    let outcomes: Vec<OnceLock<(Outcome, Option<String>)>> =
        questions.iter().map(|_| OnceLock::new()).collect();
    let shared = Shared {
        judge,
        pictures,
        files: &files,
        settings: &settings,
        book: Mutex::new((book, HashMap::new())),
        turns: Mutex::default(),
        ended: Mutex::new(None),
        successes: AtomicUsize::new(0),
        failures: AtomicUsize::new(0),
        new: AtomicUsize::new(0),
    };
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let workers = manner.concurrency.clamp(1, questions.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while !manner.stop.load(Ordering::Relaxed) && !shared.has_ended() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(question) = questions.get(at) else {
                        return;
                    };
                    let outcome = shared.one(question);
                    // Each place is written once.
                    let _ = outcomes[at].set(outcome);
                    (manner.progress)(done.fetch_add(1, Ordering::Relaxed) + 1);
                }
            });
        }
    });
    if let Some(error) = shared
        .ended
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
    {
        return Err(error);
    }
    let (_, used) = shared
        .book
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let tokens = used.values();
    let (prompt_tokens, answer_tokens) =
        tokens.fold((0, 0), |(prompt, answer), (p, a)| (prompt + p, answer + a));
    let outcomes = outcomes.into_iter();
    let (outcomes, texts) = outcomes
        .map(|one| one.into_inner().unwrap_or((Outcome::Unasked, None)))
        .unzip();
    Ok(Asked {
        outcomes,
        texts,
        new: shared.new.into_inner(),
        prompt_tokens,
        answer_tokens,
    })
}

/// The book, and the tokens of each answer that was used, by its key.
type Books<'a> = (&'a mut Book, HashMap<String, (u64, u64)>);

struct Shared<'a> {
    judge: &'a dyn Judge,
    pictures: &'a [Named],
    /// The pictures' digests, so that a file is read no more often than it is sent.
    files: &'a [OnceLock<Result<String, String>>],
    settings: &'a Value,
    book: Mutex<Books<'a>>,
    /// Who asks what: the same question is asked once, though several wait for the answer.
    turns: Mutex<HashMap<String, Arc<Mutex<()>>>>,
    ended: Mutex<Option<JudgeError>>,
    successes: AtomicUsize,
    failures: AtomicUsize,
    new: AtomicUsize,
}

impl Shared<'_> {
    fn has_ended(&self) -> bool {
        locked(&self.ended).is_some()
    }

    fn end(&self, error: JudgeError) {
        locked(&self.ended).get_or_insert(error);
    }

    /// What came of a question; with the text, if that is an object.
    fn one(&self, question: &Question) -> (Outcome, Option<String>) {
        let failed = |why: String| (Outcome::Failed(why), None);
        let shown = match question.picture {
            None => None,
            Some(at) => match (self.pictures.get(at), self.files.get(at)) {
                (Some(named), Some(file)) => Some((named, file)),
                _ => return failed("there is no such picture".into()),
            },
        };
        let known = shown.map(|(named, file)| file.get_or_init(|| digest(&named.path)).clone());
        let digest = match known.transpose() {
            Ok(digest) => digest.unwrap_or_default(),
            Err(why) => return failed(why),
        };
        let digest = digest.as_str();
        let system = question.system.as_deref();
        let key = key(
            digest,
            system,
            &question.text,
            self.judge.model(),
            self.settings,
        );
        let turn = Arc::clone(locked(&self.turns).entry(key.clone()).or_default());
        let _mine = locked(&turn);
        if let Some(answered) = self.known(&key, question) {
            return answered;
        }
        let reply = match shown {
            None => self.judge.reply(question, None),
            Some((named, _)) => read(&named.path)
                .map_err(JudgeError::from)
                .and_then(|seen| self.judge.reply(question, Some((named, &seen)))),
        };
        match reply {
            Ok(reply) => {
                self.successes.fetch_add(1, Ordering::Relaxed);
                self.write(key, digest, question, reply)
            }
            Err(error) => {
                let why = error.to_string();
                if error.is_final() {
                    self.end(error);
                    return failed(why);
                }
                let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
                if failures >= HOPELESS && self.successes.load(Ordering::Relaxed) == 0 {
                    self.end(error);
                }
                failed(why)
            }
        }
    }

    fn known(&self, key: &str, question: &Question) -> Option<(Outcome, Option<String>)> {
        let mut books = locked(&self.book);
        let entry = books.0.get(key)?;
        let answer = question.form.read(&entry.answer, entry.end);
        let text = (answer == Answer::Object).then(|| entry.answer.clone());
        let tokens = (entry.prompt_tokens, entry.answer_tokens);
        books.1.insert(key.to_owned(), tokens);
        Some((Outcome::Answered(answer), text))
    }

    fn write(
        &self,
        key: String,
        picture: &str,
        question: &Question,
        reply: Reply,
    ) -> (Outcome, Option<String>) {
        let answer = question.form.read(&reply.text, reply.end);
        let text = (answer == Answer::Object).then(|| reply.text.clone());
        let entry = Entry {
            key: key.clone(),
            question: question.id.clone(),
            model: self.judge.model().to_owned(),
            picture: picture.to_owned(),
            system: question.system.clone(),
            text: question.text.clone(),
            settings: self.settings.clone(),
            answer: reply.text,
            thoughts: reply.thoughts,
            end: reply.end,
            prompt_tokens: reply.prompt_tokens,
            answer_tokens: reply.answer_tokens,
        };
        let mut books = locked(&self.book);
        if let Err(error) = books.0.add(entry) {
            drop(books);
            let why = error.to_string();
            self.end(error.into());
            return (Outcome::Failed(why), None);
        }
        books
            .1
            .insert(key, (reply.prompt_tokens, reply.answer_tokens));
        self.new.fetch_add(1, Ordering::Relaxed);
        (Outcome::Answered(answer), text)
    }
}

fn digest(path: &Path) -> Result<String, String> {
    read(path)
        .map(|seen| seen.digest)
        .map_err(|error| error.to_string())
}

/// What is behind a lock, also if somebody failed while holding it: nothing here is left half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
