//! Answers from detections, by geometry: what a judge that sees perfectly well would say, if detections were all there is to
//! see. It costs nothing and needs no network.

use std::collections::HashMap;

use prepose_check::BoundingBox;
use prepose_check::rules::ots::{Side, Verdict, side, verdict};
use prepose_check::rules::{Case, Options, Wanted};
use prepose_scene::{Relation, StatedRelation};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::ask::{Judge, JudgeError, Reply};
use super::book::hex;
use super::picture::{Named, Seen};
use super::question::{About, End, Question};

/// Above what score a detection counts, as for the box rule of OTS-Bench.
const MIN_SCORE: f64 = 0.5;

/// A judge that knows the detections of all pictures.
#[derive(Clone, Debug)]
pub struct Oracle {
    cases: HashMap<String, Case>,
    options: Options,
    digest: String,
}

impl Oracle {
    /// Who knows the detections of these cases, by their ids.
    pub fn new(cases: impl IntoIterator<Item = Case>, options: Options) -> Self {
        let cases: Vec<Case> = cases.into_iter().collect();
        let mut hash = Sha256::new();
        for case in &cases {
            hash.update(format!("{:?}{:?}", case.id, case.detections));
        }
        Self {
            cases: cases
                .into_iter()
                .map(|case| (case.id.clone(), case))
                .collect(),
            options,
            digest: hex(&hash.finalize()),
        }
    }

    fn best(&self, case: &Case, name: &str) -> Option<BoundingBox> {
        self.all(case, name).first().copied()
    }

    fn all(&self, case: &Case, name: &str) -> Vec<BoundingBox> {
        let cut = self.options.min_score.unwrap_or(MIN_SCORE);
        let found = case.found(name, cut);
        found.iter().map(|found| found.bbox).collect()
    }

    /// The boxes that stand for two names: the surest of each, and of one name its two surest, in either order. None if one is
    /// missing.
    fn pairs(&self, case: &Case, [a, b]: &[String; 2]) -> Vec<[BoundingBox; 2]> {
        if a.to_lowercase() == b.to_lowercase() {
            return match self.all(case, a)[..] {
                [first, second, ..] => vec![[first, second], [second, first]],
                _ => Vec::new(),
            };
        }
        let both = self.best(case, a).zip(self.best(case, b));
        both.map(|(a, b)| [a, b]).into_iter().collect()
    }

    /// Which of the two is seen to do it: a detector of phrases can find a "sleeping cat".
    fn acting(&self, case: &Case, names: &[String; 2], action: &str) -> [bool; 2] {
        names.each_ref().map(|name| {
            let phrases = [format!("{action} {name}"), format!("{name} {action}")];
            phrases
                .iter()
                .any(|phrase| self.best(case, phrase).is_some())
        })
    }

    fn answer(&self, question: &Question, case: &Case) -> Option<String> {
        let asked = |names: &[String; 2]| Case {
            objects: names.iter().map(Wanted::one).collect(),
            relations: Vec::new(),
            label: None,
            ..case.clone()
        };
        let digit = match &question.about {
            About::Side(names) => match side(&asked(names), &self.options).ok()? {
                Side::Left => "1",
                Side::Right => "2",
                Side::Invalid => "3",
            },
            About::Placed(names) => {
                let mut asked = asked(names);
                asked.relations = vec![StatedRelation::of_two(0, Relation::LeftOf, 1)];
                match verdict(&asked, &self.options).ok()? {
                    Verdict::Correct => "1",
                    Verdict::Wrong => "2",
                    Verdict::Invalid => "3",
                }
            }
            About::Object(name) => match self.best(case, name) {
                Some(_) => "Yes",
                None => "No",
            },
            About::Objects(name, count) => match self.all(case, name).len() >= *count {
                true => "Yes",
                false => "No",
            },
            About::Relation(names, options, right) => {
                let pairs = self.pairs(case, names);
                let none = options.len().saturating_sub(1);
                let holds = |option: &String| pairs.iter().any(|[a, b]| holds(option, a, b));
                // Of two options that hold, such as above and left of, the one that was asked for is meant.
                let right = usize::from(*right);
                let place = match options.get(right).is_some_and(holds) {
                    true => right,
                    false => options[..none].iter().position(holds).unwrap_or(none),
                };
                return Some(
                    char::from(b'A'.saturating_add(u8::try_from(place).ok()?)).to_string(),
                );
            }
            About::Acting(names, action) => match self.acting(case, names, action) {
                [true, false] => "1",
                [false, true] => "2",
                _ => "3",
            },
            About::Acts(names, action, who) => match self.acting(case, names, action) {
                // The paper's codes: 1 is reversed.
                [true, false] => ["2", "1"][usize::from(*who)],
                [false, true] => ["1", "2"][usize::from(*who)],
                _ => "3",
            },
            About::Unseen => return None,
        };
        Some(digit.to_owned())
    }
}

impl Judge for Oracle {
    fn model(&self) -> &str {
        "oracle"
    }

    fn settings(&self) -> Value {
        json!({ "detections": self.digest, "min_score": self.options.min_score })
    }

    fn reply(
        &self,
        question: &Question,
        shown: Option<(&Named, &Seen)>,
    ) -> Result<Reply, JudgeError> {
        let id = shown.map_or("", |(named, _)| named.id.as_str());
        let case = (self.cases.get(id)).ok_or_else(|| JudgeError::Undetected(id.to_owned()))?;
        let answer = self.answer(question, case);
        Ok(Reply {
            end: if answer.is_some() {
                End::Stop
            } else {
                End::Refused
            },
            text: answer.unwrap_or_default(),
            ..Reply::default()
        })
    }
}

/// Whether a relation in words holds between two boxes: sides and heights by the centres; near, if the centres are no
/// farther apart than both boxes' diagonals are long on average. Diagonals are a side
/// and a height. Of all other words no box can tell.
fn holds(relation: &str, a: &BoundingBox, b: &BoundingBox) -> bool {
    let ((ax, ay), (bx, by)) = (a.centre(), b.centre());
    let words = relation.trim().to_lowercase();
    let words = words.strip_prefix("to the ").unwrap_or(&words);
    match words {
        "left of" | "left_of" | "on the left of" => ax < bx,
        "right of" | "right_of" | "on the right of" => ax > bx,
        "above" | "over" | "on top of" => ay < by,
        "below" | "under" | "beneath" => ay > by,
        "above left of" => ax < bx && ay < by,
        "above right of" => ax > bx && ay < by,
        "below left of" => ax < bx && ay > by,
        "below right of" => ax > bx && ay > by,
        "near" | "next to" | "beside" | "by" => near(a, b),
        "far from" => !near(a, b),
        _ => false,
    }
}

fn near(a: &BoundingBox, b: &BoundingBox) -> bool {
    let ((ax, ay), (bx, by)) = (a.centre(), b.centre());
    let diagonal = |of: &BoundingBox| (of.x1 - of.x0).hypot(of.y1 - of.y0);
    (ax - bx).hypot(ay - by) <= (diagonal(a) + diagonal(b)) / 2.0
}
