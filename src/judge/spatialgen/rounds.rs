//! Five valid answers of at most 25, and what at least four of them say.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::QUESTIONS;
use crate::ask::{Judge, JudgeError, Manner, Outcome, Reply, ask};
use crate::book::Book;
use crate::picture::{Named, Seen};
use crate::question::{Answer, Invalid, Question};

/// How often all is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Valid answers that are wanted.
    pub rounds: usize,
    /// How often a picture is asked about at most; at least as many as `rounds`.
    pub attempts: usize,
    /// How many of the valid ones must have the right letter.
    pub right: usize,
}

impl Default for Rules {
    /// As the benchmark has them.
    fn default() -> Self {
        Self {
            rounds: 5,
            attempts: 25,
            right: 4,
        }
    }
}

/// What came of asking about one picture again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Votes {
    /// The valid answers, as letters' places.
    pub valid: Vec<[u8; QUESTIONS]>,
    /// The others, by why.
    pub invalid: BTreeMap<Invalid, usize>,
    /// Why there is no answer at all to one of them, and so no end; it is asked again next time.
    pub failed: Option<String>,
}

impl Votes {
    /// Whether there are as many valid ones as there shall be.
    pub fn is_whole(&self, rules: &Rules) -> bool {
        self.valid.len() >= rules.rounds
    }

    /// Whether a question's letter is the same in enough valid answers; none if they are too few.
    pub fn is_right(&self, at: usize, right: u8, rules: &Rules) -> Option<bool> {
        let same = |answer: &&[u8; QUESTIONS]| answer.get(at) == Some(&right);
        self.is_whole(rules)
            .then(|| self.valid.iter().filter(same).count() >= rules.right)
    }

    /// Whether all valid answers have the same letter.
    pub fn is_unanimous(&self, at: usize) -> bool {
        let mut letters = self.valid.iter().map(|answer| answer.get(at));
        let first = letters.next();
        letters.all(|letter| Some(letter) == first)
    }
}

/// What came of all of it.
#[derive(Clone, Debug, Default)]
pub struct Voted {
    /// In the order of the questions.
    pub votes: Vec<Votes>,
    /// Answers that are used, new and old.
    pub answers: usize,
    /// Answers that came now.
    pub new: usize,
    /// Tokens of all requests that have an answer.
    pub prompt_tokens: u64,
    /// Tokens of all answers.
    pub answer_tokens: u64,
}

/// Somebody who is asked the same once more: what was answered in another round does not count.
struct Round<'a> {
    judge: &'a dyn Judge,
    number: usize,
}

impl Judge for Round<'_> {
    fn model(&self) -> &str {
        self.judge.model()
    }

    fn settings(&self) -> Value {
        json!({ "round": self.number, "settings": self.judge.settings() })
    }

    fn reply(
        &self,
        question: &Question,
        shown: Option<(&Named, &Seen)>,
    ) -> Result<Reply, JudgeError> {
        self.judge.reply(question, shown)
    }
}

/// Asks each question until there are enough valid answers, or no attempts are left.
///
/// # Errors
/// As [`ask`].
pub fn vote(
    judge: &dyn Judge,
    pictures: &[Named],
    questions: &[Question],
    book: &mut Book,
    manner: &Manner,
    rules: &Rules,
) -> Result<Voted, JudgeError> {
    let mut voted = Voted {
        votes: vec![Votes::default(); questions.len()],
        ..Voted::default()
    };
    for number in 1..=rules.attempts {
        let open = |(at, votes): (usize, &Votes)| {
            (votes.failed.is_none() && !votes.is_whole(rules)).then_some(at)
        };
        let open: Vec<usize> = voted.votes.iter().enumerate().filter_map(open).collect();
        if open.is_empty() {
            break;
        }
        let asked: Vec<Question> = open.iter().map(|at| questions[*at].clone()).collect();
        let result = ask(&Round { judge, number }, pictures, &asked, book, manner)?;
        voted.new += result.new;
        voted.prompt_tokens += result.prompt_tokens;
        voted.answer_tokens += result.answer_tokens;
        for (at, outcome) in open.into_iter().zip(result.outcomes) {
            let votes = &mut voted.votes[at];
            match outcome {
                Outcome::Answered(answer) => {
                    voted.answers += 1;
                    match answer {
                        Answer::Ten(letters) => votes.valid.push(letters),
                        Answer::Invalid(why) => *votes.invalid.entry(why).or_default() += 1,
                        _ => *votes.invalid.entry(Invalid::Other).or_default() += 1,
                    }
                }
                Outcome::Failed(why) => votes.failed = Some(why),
                Outcome::Unasked => votes.failed = Some("it was not asked".into()),
            }
        }
        if manner.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(voted)
}
