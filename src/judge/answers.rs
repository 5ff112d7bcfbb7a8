//! What answers were like, whatever was asked: how many are valid, why others are not, which one is said most, and how far
//! rounds of the same questions go together.

use std::collections::BTreeMap;

use prepose_draw::table::{Cell, Table};
use prepose_statistics::bootstrap::wilson;

use crate::ask::Outcome;
use crate::question::{Answer, Invalid};

/// So many answers are needed before one that is said nearly always means something.
const ENOUGH: usize = 20;

/// Rounds of the same questions, with the kind of each.
#[derive(Clone, Copy, Debug)]
pub struct Rounds<'a> {
    /// Of each question.
    pub kinds: &'a [&'static str],
    /// What came of it each time; the first round counts in all other tables.
    pub outcomes: &'a [Vec<Outcome>],
    /// What is known besides of whether there is anything else to say.
    pub beside: Beside<'a>,
}

/// What is known besides of the same questions. A judge that says the same nearly always may look very well: where all objects
/// are there, "yes" is what there is to say.
#[derive(Clone, Copy, Debug, Default)]
pub enum Beside<'a> {
    /// Nothing: whoever says the same nearly always is told.
    #[default]
    Nothing,
    /// The answers are by geometry and can be no habit.
    Geometry,
    /// What somebody else who looked would answer to each question, none where that is not known: whoever says the same nearly
    /// always is told if they also say it mostly where that one says something else; and as with [`Nothing`](Self::Nothing)
    /// where the other is known of too few.
    Answers(&'a [Option<Answer>]),
}

/// The letter at a place from 0.
fn letter(place: u8) -> char {
    char::from(b'A'.saturating_add(place))
}

/// An answer in words.
fn word(answer: Answer) -> Option<String> {
    Some(match answer {
        Answer::Digit(digit) => digit.to_string(),
        Answer::Yes(true) => "yes".into(),
        Answer::Yes(false) => "no".into(),
        Answer::Letter(place) => letter(place).to_string(),
        Answer::Ten(places) => places.map(letter).iter().collect(),
        Answer::Object => "an object".into(),
        Answer::Invalid(_) => return None,
    })
}

#[derive(Default)]
struct Counts {
    questions: usize,
    unanswered: usize,
    invalid: BTreeMap<Invalid, usize>,
    said: BTreeMap<String, usize>,
    /// Questions with a valid answer in at least two rounds, and those whose answers differ.
    repeated: [usize; 2],
}

impl Counts {
    fn valid(&self) -> usize {
        self.said.values().sum()
    }

    fn answers(&self) -> usize {
        self.valid() + self.invalid.values().sum::<usize>()
    }

    /// What is said most, and how often.
    fn most(&self) -> Option<(&str, usize)> {
        let most = self.said.iter().max_by_key(|(_, count)| **count);
        most.map(|(word, count)| (word.as_str(), *count))
    }
}

impl Rounds<'_> {
    fn counts(&self) -> BTreeMap<&'static str, Counts> {
        let mut all: BTreeMap<&'static str, Counts> = BTreeMap::new();
        for (at, kind) in self.kinds.iter().enumerate() {
            let counts = all.entry(kind).or_default();
            counts.questions += 1;
            let answers = self.outcomes.iter().map(|round| round.get(at)?.answer());
            let answers: Vec<Option<Answer>> = answers.collect();
            match answers.first().copied().flatten() {
                None => counts.unanswered += 1,
                Some(Answer::Invalid(why)) => *counts.invalid.entry(why).or_default() += 1,
                Some(answer) => {
                    *counts
                        .said
                        .entry(word(answer).unwrap_or_default())
                        .or_default() += 1;
                }
            }
            let words: Vec<String> = answers.into_iter().flatten().filter_map(word).collect();
            if words.len() > 1 {
                counts.repeated[0] += 1;
                counts.repeated[1] += usize::from(words.windows(2).any(|pair| pair[0] != pair[1]));
            }
        }
        all
    }

    /// A row for each kind of question: questions, those without an answer, invalid answers by their reasons, the valid answer
    /// that is said most, and of questions that were asked in several rounds the share whose valid answers are not all
    /// the same, with Wilson's 95 % interval.
    pub fn table(&self) -> Table {
        let percent =
            |value: Option<f64>| value.map_or(Cell::Empty, |share| Cell::Percent(100.0 * share));
        let rows = self.counts().into_iter().map(|(kind, counts)| {
            let mut row = vec![
                Cell::Name(kind.to_owned()),
                Cell::Count(counts.questions),
                Cell::Count(counts.unanswered),
            ];
            row.extend(
                REASONS
                    .map(|why| Cell::Count(counts.invalid.get(&why).copied().unwrap_or_default())),
            );
            let most = counts.most();
            let share = |(_, count)| count as f64 / counts.valid().max(1) as f64;
            row.push(most.map_or(Cell::Empty, |(word, _)| Cell::Name(word.to_owned())));
            row.push(percent(most.map(share)));
            row.push(Cell::Count(self.outcomes.len()));
            let [repeated, differ] = counts.repeated;
            let ends = wilson(differ, repeated);
            let share = (repeated > 0).then(|| differ as f64 / repeated as f64);
            row.extend([share, ends.map(|[low, _]| low), ends.map(|[_, high]| high)].map(percent));
            row
        });
        let columns = [
            "kind",
            "questions",
            "unanswered",
            "empty",
            "thinking",
            "cut",
            "refused",
            "other",
            "most_said",
            "most_said_percent",
            "rounds",
            "rounds_differ",
            "rounds_differ_low",
            "rounds_differ_high",
        ];
        Table::new("answers", &columns, rows)
    }

    /// What a reader should know: the same answer nearly always, invalid ones and why, and what failed.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (kind, counts) in self.counts() {
            if let Some((word, count)) = counts.most()
                && counts.valid() >= ENOUGH
                && count * 20 >= counts.valid() * 19
            {
                notes.extend(self.habit(kind, word).map(|why| {
                    format!(
                        "the judge says \"{word}\" in {count} of {} answers ({kind}): {why}",
                        counts.valid()
                    )
                }));
            }
            let invalid: usize = counts.invalid.values().sum();
            if invalid > 0 {
                let each: Vec<String> = (counts.invalid.iter())
                    .map(|(why, count)| format!("{count} {}", why.as_str()))
                    .collect();
                notes.push(format!(
                    "{invalid} of {} answers are invalid and do not count ({kind}): {}",
                    counts.answers(),
                    each.join(", ")
                ));
            }
        }
        notes.extend(self.thoughts());
        notes.extend(self.failure());
        notes
    }

    /// Why an answer that is said nearly always is a habit and not what there is to see; none if it is not.
    fn habit(&self, kind: &str, word: &str) -> Option<String> {
        let blind = || Some("it may not look at the pictures".to_owned());
        let others = match self.beside {
            Beside::Nothing => return blind(),
            Beside::Geometry => return None,
            Beside::Answers(others) => others,
        };
        let first = self.outcomes.first().map_or(&[][..], Vec::as_slice);
        let (mut compared, mut differ, mut all_the_same) = (0, 0, 0);
        for ((of, outcome), other) in self.kinds.iter().zip(first).zip(others) {
            let said = outcome.answer().and_then(self::word);
            let (Some(said), Some(other)) = (said, other.and_then(self::word)) else {
                continue;
            };
            if *of == kind {
                compared += 1;
                differ += usize::from(other != word);
                all_the_same += usize::from(other != word && said == word);
            }
        }
        if compared < ENOUGH {
            return blind();
        }
        // Where nothing else was to be said, nothing tells.
        (2 * all_the_same > differ).then(|| {
            format!("also in {all_the_same} of {differ} where boxes say something else, so it may not look at the pictures")
        })
    }

    /// What to do about a model that thinks until its tokens are gone.
    fn thoughts(&self) -> Option<String> {
        let outcomes = || self.outcomes.iter().flatten();
        let thinking = Outcome::Answered(Answer::Invalid(Invalid::Thinking));
        let count = outcomes().filter(|outcome| **outcome == thinking).count();
        (count > 0).then(|| {
            format!(
                "the model thought until its tokens were gone, {count} of {} times, and answered nothing; --max-tokens gives it \
                 more of them, --thinking no keeps it from thinking",
                outcomes().count()
            )
        })
    }

    fn failure(&self) -> Option<String> {
        let mut outcomes = self.outcomes.iter().flatten();
        let failed = outcomes.find_map(|outcome| match outcome {
            Outcome::Failed(why) => Some(why),
            Outcome::Answered(_) | Outcome::Unasked => None,
        });
        failed.map(|why| format!("some questions have no answer, the first because of this: {why}"))
    }
}

const REASONS: [Invalid; 5] = [
    Invalid::Empty,
    Invalid::Thinking,
    Invalid::Cut,
    Invalid::Refused,
    Invalid::Other,
];
