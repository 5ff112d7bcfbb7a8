//! Asks many questions at once, none of them twice.

mod line;
mod remembered;
mod work;

use std::borrow::Cow;
use std::sync::atomic::AtomicBool;

pub use prepose_remote::Turn;
use serde_json::Value;
use thiserror::Error;

use super::book::{Book, BookError};
use super::picture::{Named, PictureError, Pictures, Seen};
use super::question::{Answer, End, Question};

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

    /// Tries to answer, once, after so many tries that failed: what has to wait for the next try should not keep others from
    /// being asked meanwhile. Where nothing has to wait it is [`reply`](Self::reply).
    ///
    /// # Errors
    /// There is no answer, and asking once more would not help.
    fn turn(
        &self,
        question: &Question,
        shown: Option<(&Named, &Seen)>,
        _failed: u32,
    ) -> Result<Turn<Reply>, JudgeError> {
        self.reply(question, shown).map(Turn::Done)
    }
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
    /// The model takes words alone.
    #[error(
        "the model {model} at {address} does not take pictures (it says: {message}); name one that does with \
         --judge-model, and make sure that its server was started for pictures (llama.cpp: --mmproj)"
    )]
    NoPictures {
        /// Which.
        model: String,
        /// Where.
        address: String,
        /// What the server says.
        message: String,
    },
    /// The oracle has no detections of it.
    #[error("there are no detections of {0}")]
    Undetected(String),
}

impl JudgeError {
    /// Whether every other question would fail as well: a wrong key or address, no money, a stop.
    fn is_final(&self) -> bool {
        match self {
            Self::Remote(error) => !error.is_passing() && !error.is_of_request(),
            Self::Book(_) | Self::NoPictures { .. } => true,
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
    /// How often a picture's file was read and made ready: once each, if the questions about it come one after the other.
    pub reads: usize,
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

/// Questions by their numbers. Long lists of them need not all be in memory: see [`Made`].
pub trait Questions: Sync {
    /// How many there are.
    fn count(&self) -> usize;

    /// One of them; none if there are not so many.
    fn question(&self, at: usize) -> Option<Cow<'_, Question>>;
}

impl Questions for [Question] {
    fn count(&self) -> usize {
        self.len()
    }

    fn question(&self, at: usize) -> Option<Cow<'_, Question>> {
        self.get(at).map(Cow::Borrowed)
    }
}

impl Questions for Vec<Question> {
    fn count(&self) -> usize {
        self.len()
    }

    fn question(&self, at: usize) -> Option<Cow<'_, Question>> {
        self.as_slice().question(at)
    }
}

impl<const N: usize> Questions for [Question; N] {
    fn count(&self) -> usize {
        N
    }

    fn question(&self, at: usize) -> Option<Cow<'_, Question>> {
        self.as_slice().question(at)
    }
}

/// Questions that are made when they are asked.
pub struct Made<F> {
    /// How many there are.
    pub count: usize,
    /// Makes the one with this number; the same each time.
    pub make: F,
}

impl<F: Fn(usize) -> Question + Sync> Questions for Made<F> {
    fn count(&self) -> usize {
        self.count
    }

    fn question(&self, at: usize) -> Option<Cow<'_, Question>> {
        (at < self.count).then(|| Cow::Owned((self.make)(at)))
    }
}

/// Asks all questions that have no answer in the book; the same question about the same picture is asked once. What fails
/// is told in its outcome, and the others are asked all the same, unless nothing but failures has come, now or before. While
/// a question waits for its next try, others are asked.
///
/// # Errors
/// The book cannot be written, or the first questions all failed, for other reasons than their pictures, before any answer was
/// given or found in the book. Those of the book do not count where the server cannot be reached.
pub fn ask<P, Q>(
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
    work::all(judge, pictures, questions, book, manner)
}
