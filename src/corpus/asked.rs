//! On which side the first of a pair is, by a vision-language model: the two stages of appendix F.4.
//!
//! The second stage's question is the paper's. Of the first it says what is asked: whether both are there, are apart from each
//! other, and are arranged from left to right; its words are ours. The second is asked in both orders, which the paper does not do.

use prepose_judge::ask::{Judge, JudgeError, Manner, Outcome, ask};
use prepose_judge::book::Book;
use prepose_judge::picture::Named;
use prepose_judge::question::{About, Answer, Form, Question, object};

use crate::layout::Seen;
use crate::survey::Found;

/// What came of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// By the question with the first-named as A.
    pub published: Seen,
    /// With the first-named as B.
    pub exchanged: Seen,
}

/// What was asked and answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Questions.
    pub questions: usize,
    /// Of these, those that were answered now.
    pub new: usize,
    /// Those that have no answer.
    pub unanswered: usize,
    /// Why the first that failed has none.
    pub failure: Option<String>,
    /// Tokens of all questions.
    pub prompt_tokens: u64,
    /// Tokens of all answers.
    pub answer_tokens: u64,
}

impl Cost {
    fn add(&mut self, asked: &prepose_judge::ask::Asked) {
        self.questions += asked.outcomes.len();
        self.new += asked.new;
        for outcome in &asked.outcomes {
            self.unanswered += usize::from(outcome.answer().is_none());
            if let Outcome::Failed(why) = outcome {
                self.failure.get_or_insert_with(|| why.clone());
            }
        }
        self.prompt_tokens += asked.prompt_tokens;
        self.answer_tokens += asked.answer_tokens;
    }
}

/// Asks about pairs with their pictures.
///
/// # Errors
/// As [`ask`].
pub fn sides(
    judge: &dyn Judge,
    pairs: &[(Found, Named)],
    book: &mut Book,
    manner: &Manner,
    cost: &mut Cost,
) -> Result<Vec<Told>, JudgeError> {
    let pictures: Vec<Named> = pairs.iter().map(|(_, named)| named.clone()).collect();
    let gates: Vec<Question> = (pairs.iter().enumerate())
        .map(|(at, (found, named))| gate(found, named, at))
        .collect();
    let gated = ask(judge, &pictures, &gates, book, manner)?;
    cost.add(&gated);
    let all = |seen: Seen| Told {
        published: seen,
        exchanged: seen,
    };
    let mut told = Vec::with_capacity(pairs.len());
    let (mut questions, mut of) = (Vec::new(), Vec::new());
    let answers = gated.outcomes.iter().zip(&gated.texts).enumerate();
    for (at, (outcome, text)) in answers {
        told.push(all(match (outcome, text) {
            (Outcome::Answered(_), Some(text)) => match passes(text) {
                Some(true) => {
                    let (found, named) = &pairs[at];
                    questions
                        .extend([false, true].map(|exchanged| side(found, named, at, exchanged)));
                    of.push(at);
                    Seen::Unanswered
                }
                Some(false) => Seen::Gated,
                None => Seen::Invalid,
            },
            (Outcome::Answered(_), None) => Seen::Invalid,
            (Outcome::Failed(_) | Outcome::Unasked, _) => Seen::Unanswered,
        }));
    }
    let sides = ask(judge, &pictures, &questions, book, manner)?;
    cost.add(&sides);
    for (at, both) in of.into_iter().zip(sides.outcomes.chunks(2)) {
        let seen =
            |exchanged: bool| match both.get(usize::from(exchanged)).and_then(Outcome::answer) {
                Some(Answer::Letter(place)) if (place == 0) != exchanged => Seen::Left,
                Some(Answer::Letter(_)) => Seen::Right,
                Some(_) => Seen::Invalid,
                None => Seen::Unanswered,
            };
        told[at] = Told {
            published: seen(false),
            exchanged: seen(true),
        };
    }
    Ok(told)
}

/// The first stage.
fn gate(found: &Found, named: &Named, picture: usize) -> Question {
    let [a, b] = &found.phrases;
    let text = format!(
        "Entity A: {a}\nEntity B: {b}\nCheck three things about the image. Existence: both entities are clearly visible. Separation: they \
         are apart from each other, and it is clear where one ends and the other begins. Topology: they are arranged mainly from left to \
         right, not above each other and not one behind the other. Answer ONLY with a JSON object: {{\"existence\": true or false, \
         \"separation\": true or false, \"topology\": true or false}}"
    );
    Question {
        id: format!("{}#gate", named.id),
        picture: Some(picture),
        system: None,
        text,
        form: Form::Object,
        about: About::Unseen,
    }
}

/// Whether all three hold; none if one of them is not said.
fn passes(text: &str) -> Option<bool> {
    let fields = object(text)?;
    let mut all = true;
    for name in ["existence", "separation", "topology"] {
        all &= fields.get(name)?.as_bool()?;
    }
    Some(all)
}

/// The second stage.
fn side(found: &Found, named: &Named, picture: usize, exchanged: bool) -> Question {
    let [first, second] = &found.phrases;
    let (a, b) = match exchanged {
        false => (first, second),
        true => (second, first),
    };
    Question {
        id: format!("{}#{}", named.id, if exchanged { "ba" } else { "ab" }),
        picture: Some(picture),
        system: None,
        text: format!(
            "A: {a}\nB: {b}\nReferring to the image, which object is located on the left side? Answer ONLY with A or B."
        ),
        form: Form::Letter(2),
        about: About::Side([a.clone(), b.clone()]),
    }
}
