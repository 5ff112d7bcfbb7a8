//! OTS-Bench: does the order of mention decide where things stand? (arXiv 2603.03714)
//!
//! The benchmark's judge is a vision-language model, whose answers are numbers ([`Code`]). Where a picture has no such
//! label, the boxes of its detections answer.

use super::{Case, Figure, Label, Options, Outcome, Report, Rule, RuleError, Task, Value};
use crate::BoundingBox;
use prepose_scene::Relation;

/// Above what score a detection counts; ours, as the benchmark has no detector.
const MIN_SCORE: f64 = 0.5;
const KNOWN: &[Relation] = &[Relation::LeftOf, Relation::RightOf];

/// What a judge's answer means for homogenization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first-mentioned is on the left; image to image: the left one does what is asked.
    Left,
    /// It is on the right.
    Right,
    /// One is missing, or it is not clear.
    Invalid,
}

/// What a judge's answer means for correctness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it is in the world, or as the prompt says.
    Correct,
    /// The other way round.
    Wrong,
    /// One is missing, or it is not clear.
    Invalid,
}

/// The judge's answers as numbers. 1 and 2 are answers; 3 is invalid, and 0 is in some of the paper's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u8);

impl Code {
    /// Which side, the same for both tasks: 1 left, 2 right.
    ///
    /// # Errors
    /// It is more than 3.
    pub fn side(self) -> Result<Side, RuleError> {
        match self.0 {
            1 => Ok(Side::Left),
            2 => Ok(Side::Right),
            0 | 3 => Ok(Side::Invalid),
            code => Err(RuleError::Code(code)),
        }
    }

    /// Whether it is correct. Text to image: 1 correct, 2 wrong. Image to image is the other way round: 1 is "reversed",
    /// 2 "aligned".
    ///
    /// # Errors
    /// It is more than 3.
    pub fn verdict(self, task: Task) -> Result<Verdict, RuleError> {
        match (self.0, task) {
            (1, Task::TextToImage) | (2, Task::ImageToImage) => Ok(Verdict::Correct),
            (2, Task::TextToImage) | (1, Task::ImageToImage) => Ok(Verdict::Wrong),
            (0 | 3, _) => Ok(Verdict::Invalid),
            (code, _) => Err(RuleError::Code(code)),
        }
    }
}

/// Homogenization in percent: 100 · |left − right| / (left + right). None without a valid picture.
pub fn homogenization(left: usize, right: usize) -> Option<f64> {
    let valid = left + right;
    (valid > 0).then(|| 100.0 * left.abs_diff(right) as f64 / valid as f64)
}

/// On which side the first-mentioned object of a picture is.
///
/// # Errors
/// A label that means nothing; without a label, not two objects of different names.
pub fn side(case: &Case, options: &Options) -> Result<Side, RuleError> {
    match case.label {
        Some(label) => Code(label.code).side(),
        None => first_of_two(case, options, |(x, _)| x),
    }
}

/// As [`side`], up and down: [`Side::Left`] is above, [`Side::Right`] below. By boxes only: the benchmark's judge was
/// not asked this.
///
/// # Errors
/// Not two objects of different names.
pub fn level(case: &Case, options: &Options) -> Result<Side, RuleError> {
    first_of_two(case, options, |(_, y)| y)
}

/// Whether the first-mentioned object comes first along an axis, by the centres of the best boxes.
fn first_of_two(
    case: &Case,
    options: &Options,
    axis: impl Fn((f64, f64)) -> f64,
) -> Result<Side, RuleError> {
    let [first, second] = case.objects.as_slice() else {
        let rule = Homogenization.name();
        let found = case.objects.len();
        return Err(RuleError::NotTwoObjects { rule, found });
    };
    if first.name.eq_ignore_ascii_case(&second.name) {
        return Err(RuleError::SameName(first.name.clone()));
    }
    let Some(centres) = centres(case, [&first.name, &second.name], options) else {
        return Ok(Side::Invalid);
    };
    Ok(match centres.map(axis) {
        [a, b] if a < b => Side::Left,
        [a, b] if a > b => Side::Right,
        _ => Side::Invalid,
    })
}

/// Whether a picture is correct. Without a label, its relation is what is correct, whatever the order of mention.
///
/// # Errors
/// A label that means nothing; without a label, not one relation of left or right.
pub fn verdict(case: &Case, options: &Options) -> Result<Verdict, RuleError> {
    if let Some(Label { task, code }) = case.label {
        return Code(code).verdict(task);
    }
    let (subject, relation, object) = case.only_relation(Correctness.name(), KNOWN)?;
    let Some(centres) = centres(case, [subject, object], options) else {
        return Ok(Verdict::Invalid);
    };
    let [a, b] = centres.map(|(x, _)| x);
    Ok(if a == b {
        Verdict::Invalid
    } else if (a < b) == (relation == Relation::LeftOf) {
        Verdict::Correct
    } else {
        Verdict::Wrong
    })
}

/// The best boxes' centres; none if an object is missing.
fn centres(case: &Case, names: [&str; 2], options: &Options) -> Option<[(f64, f64); 2]> {
    let best = |name| case.found_with(name, options, MIN_SCORE).first().copied();
    let [a, b] = names.map(|name| best(name).map(|d| BoundingBox::centre(&d.bbox)));
    Some([a?, b?])
}

/// The bias that the order of mention leaves in where things stand.
#[derive(Clone, Copy, Debug)]
pub struct Homogenization;

impl Rule for Homogenization {
    fn name(&self) -> &'static str {
        "homogenization"
    }

    fn about(&self) -> &'static str {
        "OTS-Bench: is the first-mentioned object always on the same side?"
    }

    fn score(&self, cases: &mut dyn Iterator<Item = Case>, options: &Options) -> Report {
        let sides: Vec<_> = cases.map(|case| side(&case, options)).collect();
        let of = |side| {
            sides
                .iter()
                .flatten()
                .filter(|found| **found == side)
                .count()
        };
        let (left, right) = (of(Side::Left), of(Side::Right));
        let mut figures = vec![
            Figure::new(
                "homogenization",
                Value::Percent(homogenization(left, right)),
            ),
            Figure::count("first-mentioned left", left),
            Figure::count("first-mentioned right", right),
        ];
        figures.extend(invalid(of(Side::Invalid), left + right));
        let outcome = |side: Side| match side {
            // The side is no merit; what counts is how the sides are divided.
            Side::Left => Outcome::new(1.0, "left"),
            Side::Right => Outcome::new(0.0, "right"),
            Side::Invalid => Outcome::without_score("invalid"),
        };
        Report {
            outcomes: sides.into_iter().map(|side| side.map(outcome)).collect(),
            figures,
        }
    }
}

/// Whether things stand as they do in the world.
#[derive(Clone, Copy, Debug)]
pub struct Correctness;

impl Rule for Correctness {
    fn name(&self) -> &'static str {
        "ots-correctness"
    }

    fn about(&self) -> &'static str {
        "OTS-Bench: correct of correct and wrong, invalid ones left out"
    }

    fn score(&self, cases: &mut dyn Iterator<Item = Case>, options: &Options) -> Report {
        let verdicts: Vec<_> = cases.map(|case| verdict(&case, options)).collect();
        let of = |verdict| {
            verdicts
                .iter()
                .flatten()
                .filter(|found| **found == verdict)
                .count()
        };
        let (correct, wrong) = (of(Verdict::Correct), of(Verdict::Wrong));
        let mut figures = vec![
            Figure::percent("accuracy", correct as f64, (correct + wrong) as f64),
            Figure::count("correct", correct),
            Figure::count("wrong", wrong),
        ];
        figures.extend(invalid(of(Verdict::Invalid), correct + wrong));
        let outcome = |verdict: Verdict| match verdict {
            Verdict::Correct => Outcome::new(1.0, "correct"),
            Verdict::Wrong => Outcome::new(0.0, "wrong"),
            Verdict::Invalid => Outcome::without_score("invalid"),
        };
        Report {
            outcomes: verdicts
                .into_iter()
                .map(|verdict| verdict.map(outcome))
                .collect(),
            figures,
        }
    }
}

/// How many pictures do not count, also in percent.
fn invalid(invalid: usize, valid: usize) -> [Figure; 2] {
    [
        Figure::count("invalid", invalid),
        Figure::percent("invalid of all", invalid as f64, (valid + invalid) as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homogenization_is_how_far_from_half_and_half() {
        assert_eq!(homogenization(5, 5), Some(0.0));
        assert_eq!(homogenization(9, 1), homogenization(1, 9));
        assert_eq!(homogenization(9, 1), Some(80.0));
        assert_eq!(homogenization(0, 3), Some(100.0));
        assert_eq!(homogenization(0, 0), None);
        // The paper's other form: |2p − 100| for p percent on one side.
        assert_eq!(homogenization(3, 1), Some(2.0 * 75.0 - 100.0));
    }

    #[test]
    fn codes_of_the_judge() {
        let verdicts = |task| [1, 2, 3, 0].map(|code| Code(code).verdict(task).unwrap());
        use Verdict::{Correct, Invalid, Wrong};
        assert_eq!(
            verdicts(Task::TextToImage),
            [Correct, Wrong, Invalid, Invalid]
        );
        assert_eq!(
            verdicts(Task::ImageToImage),
            [Wrong, Correct, Invalid, Invalid]
        );
        let sides = [1, 2, 3, 0].map(|code| Code(code).side().unwrap());
        assert_eq!(
            sides,
            [Side::Left, Side::Right, Side::Invalid, Side::Invalid]
        );
        assert_eq!(Code(4).side(), Err(RuleError::Code(4)));
        assert!(Code(9).verdict(Task::TextToImage).is_err());
    }
}
