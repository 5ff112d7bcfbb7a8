//! Several workers ask, and write answers down as they come.

use std::collections::hash_map::Entry as Place;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use prepose_remote::RemoteError;
use serde_json::Value;

use super::line::Line;
use super::remembered::Remembered;
use super::{Asked, Judge, JudgeError, Manner, Outcome, Questions, Reply, Turn};
use crate::book::{Book, Entry, Kept, Key, key};
use crate::picture::Pictures;
use crate::question::{Answer, Question};

/// Failures in a row, from the start, after which nobody expects an answer any more.
const HOPELESS: usize = 8;
/// So many questions wait for another try at most, for each that is asked at a time.
const WAITING: usize = 4;

/// See [`ask`](super::ask).
pub(super) fn all<P, Q>(
    judge: &dyn Judge,
    pictures: &P,
    questions: &Q,
    book: &mut Book,
    manner: &Manner,
) -> Result<Asked, JudgeError>
where
    P: Pictures + ?Sized,
    Q: Questions + ?Sized,
{
    let count = questions.count();
    let workers = manner.concurrency.clamp(1, count.max(1));
    let shared = Shared {
        judge,
        pictures,
        questions,
        manner,
        settings: judge.settings(),
        remembered: Remembered::new(pictures, 2 * workers),
        digests: (0..pictures.count()).map(|_| OnceLock::new()).collect(),
        outcomes: (0..count).map(|_| OnceLock::new()).collect(),
        ledger: Mutex::new(Ledger {
            book,
            asked: HashMap::new(),
            used: HashSet::new(),
            prompt_tokens: 0,
            answer_tokens: 0,
        }),
        line: Line::new(count, WAITING * workers),
        ended: Mutex::new(None),
        done: AtomicUsize::new(0),
        successes: AtomicUsize::new(0),
        failures: AtomicUsize::new(0),
        new: AtomicUsize::new(0),
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| shared.work());
        }
    });
    if let Some(error) = locked(&shared.ended).take() {
        return Err(error);
    }
    let ledger = locked(&shared.ledger);
    let (prompt_tokens, answer_tokens) = (ledger.prompt_tokens, ledger.answer_tokens);
    drop(ledger);
    let outcomes = shared.outcomes.into_iter();
    let (outcomes, texts) = outcomes
        .map(|one| one.into_inner().unwrap_or((Outcome::Unasked, None)))
        .unzip();
    Ok(Asked {
        outcomes,
        texts,
        new: shared.new.into_inner(),
        reads: shared.remembered.reads(),
        prompt_tokens,
        answer_tokens,
    })
}

/// The book, and what belongs to it.
struct Ledger<'a> {
    book: &'a mut Book,
    /// What is being asked now, by key, and the numbers of questions that wait for the same answer.
    asked: HashMap<String, Vec<usize>>,
    /// The keys of answers that were used, so that each counts once.
    used: HashSet<Key>,
    prompt_tokens: u64,
    answer_tokens: u64,
}

impl Ledger<'_> {
    fn use_up(&mut self, key: &str, prompt_tokens: u64, answer_tokens: u64) {
        if self.used.insert(Key::of(key)) {
            self.prompt_tokens = self.prompt_tokens.saturating_add(prompt_tokens);
            self.answer_tokens = self.answer_tokens.saturating_add(answer_tokens);
        }
    }
}

/// What came of a question; with the text, if that is an object.
type Settled = (Outcome, Option<String>);

struct Shared<'a, P: ?Sized, Q: ?Sized> {
    judge: &'a dyn Judge,
    pictures: &'a P,
    questions: &'a Q,
    manner: &'a Manner<'a>,
    settings: Value,
    remembered: Remembered<'a, P>,
    digests: Vec<OnceLock<Result<String, String>>>,
    outcomes: Vec<OnceLock<Settled>>,
    ledger: Mutex<Ledger<'a>>,
    line: Line,
    ended: Mutex<Option<JudgeError>>,
    done: AtomicUsize,
    /// Answers, new ones and those of the book.
    successes: AtomicUsize,
    /// Failures that say something of whoever is asked.
    failures: AtomicUsize,
    new: AtomicUsize,
}

impl<P: Pictures + ?Sized, Q: Questions + ?Sized> Shared<'_, P, Q> {
    fn work(&self) {
        let stopped = || self.manner.stop.load(Ordering::Relaxed) || locked(&self.ended).is_some();
        while let Some((at, failed)) = self.line.next(stopped) {
            let again = self.one(at, failed);
            self.line
                .done(again.map(|at_time| (at_time, (at, failed + 1))));
        }
    }

    /// Asks one question; returns when to ask it again, if that can help.
    fn one(&self, at: usize, failed: u32) -> Option<Instant> {
        let question = self.questions.question(at)?;
        let picture = match question
            .picture
            .map(|number| self.digest(number))
            .transpose()
        {
            Ok(digest) => digest.unwrap_or_default(),
            Err(why) => {
                self.settle(at, (Outcome::Failed(why), None));
                return None;
            }
        };
        let system = question.system.as_deref();
        let model = self.judge.model();
        let key = key(picture, system, &question.text, model, &self.settings);
        if failed == 0 && !self.claim(at, &key, &question) {
            return None;
        }
        match self.turn(&question, failed) {
            Ok(Turn::Later(_, wait)) => return Some(Instant::now() + wait),
            Ok(Turn::Done(reply)) => {
                self.successes.fetch_add(1, Ordering::Relaxed);
                self.write(at, &key, picture, &question, reply);
            }
            Err(error) => self.fail(at, &key, error),
        }
        None
    }

    /// Whether a question is to be asked now: not if its answer is in the book, and not if it is being asked already.
    fn claim(&self, at: usize, key: &str, question: &Question) -> bool {
        let mut ledger = locked(&self.ledger);
        if let Some(kept) = ledger.book.get(key) {
            ledger.use_up(key, kept.prompt_tokens, kept.answer_tokens);
            drop(ledger);
            // The same judge gave it, in the same manner: it does answer.
            self.successes.fetch_add(1, Ordering::Relaxed);
            self.settle(at, read(question, &kept));
            return false;
        }
        match ledger.asked.entry(key.to_owned()) {
            Place::Occupied(mut others) => {
                others.get_mut().push(at);
                false
            }
            Place::Vacant(place) => {
                place.insert(Vec::new());
                true
            }
        }
    }

    fn turn(&self, question: &Question, failed: u32) -> Result<Turn<Reply>, JudgeError> {
        let Some(number) = question.picture else {
            return self.judge.turn(question, None, failed);
        };
        let seen = self.remembered.get(number)?;
        let shown = self.pictures.named(number).map(|named| (named, &*seen));
        self.judge.turn(question, shown, failed)
    }

    /// The digest of a picture's file; the file is read once for it.
    fn digest(&self, number: usize) -> Result<&str, String> {
        let Some(digest) = self.digests.get(number) else {
            return Err("there is no such picture".into());
        };
        let digest = digest.get_or_init(|| match self.remembered.get(number) {
            Ok(seen) => Ok(seen.digest.clone()),
            Err(error) => Err(error.to_string()),
        });
        digest.as_deref().map_err(Clone::clone)
    }

    fn write(&self, at: usize, key: &str, picture: &str, question: &Question, reply: Reply) {
        let entry = Entry {
            key: key.to_owned(),
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
        let kept = Kept::from(entry.clone());
        let mut ledger = locked(&self.ledger);
        let added = ledger.book.add(entry);
        if added.is_ok() {
            ledger.use_up(key, kept.prompt_tokens, kept.answer_tokens);
        }
        let others = ledger.asked.remove(key).unwrap_or_default();
        drop(ledger);
        if let Err(error) = added {
            let why = error.to_string();
            locked(&self.ended).get_or_insert(error.into());
            self.settle(at, (Outcome::Failed(why), None));
            return;
        }
        self.new.fetch_add(1, Ordering::Relaxed);
        self.settle(at, read(question, &kept));
        for other in others {
            if let Some(question) = self.questions.question(other) {
                self.settle(other, read(&question, &kept));
            }
        }
    }

    fn fail(&self, at: usize, key: &str, error: JudgeError) {
        let why = error.to_string();
        let others = locked(&self.ledger).asked.remove(key).unwrap_or_default();
        for at in std::iter::once(at).chain(others) {
            self.settle(at, (Outcome::Failed(why.clone()), None));
        }
        // What was answered before says nothing of a server that nobody reaches now.
        let answered = match &error {
            JudgeError::Remote(RemoteError::NoAnswer { .. }) => &self.new,
            _ => &self.successes,
        };
        // A picture that cannot be used says nothing of whoever is asked.
        let hopeless = !matches!(error, JudgeError::Picture(_))
            && self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= HOPELESS
            && answered.load(Ordering::Relaxed) == 0;
        if hopeless || error.is_final() {
            locked(&self.ended).get_or_insert(error);
        }
    }

    fn settle(&self, at: usize, settled: Settled) {
        if let Some(outcome) = self.outcomes.get(at) {
            // Each place is written once.
            let _ = outcome.set(settled);
        }
        (self.manner.progress)(self.done.fetch_add(1, Ordering::Relaxed) + 1);
    }
}

fn read(question: &Question, kept: &Kept) -> Settled {
    let answer = question.form.read(&kept.answer, kept.end);
    let text = (answer == Answer::Object).then(|| kept.answer.clone());
    (Outcome::Answered(answer), text)
}

/// What is behind a lock, also if somebody failed while holding it: nothing here is left half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
