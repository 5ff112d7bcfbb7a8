//! OTS-Bench: does the order of mention decide where things stand? (arXiv 2603.03714)
//!
//! The benchmark's judge is a vision-language model, whose answers are numbers ([`Code`]). Where a picture has no such
//! label, the boxes of its detections answer, behind the gate that tables 15 and 16 and appendix F.4 put before the
//! judge's answer: both subjects and no second one of either, apart from each other, beside each other rather than above
//! each other, by a margin.

use thiserror::Error;

use super::{Case, Figure, Label, Options, Outcome, Report, Rule, RuleError, Task, Value};
use crate::spatialbench::config::GeometryConfig;
use prepose_scene::Relation;

/// Above what score a detection counts; ours, as the benchmark has no detector.
const MIN_SCORE: f64 = 0.5;
/// Boxes that overlap more than this are not apart; that of SpatialBench-UC's rule.
const MOST_IOU: f64 = 0.5;
const KNOWN: &[Relation] = &[Relation::LeftOf, Relation::RightOf];

/// Why boxes do not answer which of two subjects comes first: what the judge is told to call invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unclear {
    /// A subject was not found.
    #[error("no {0}")]
    Missing(String),
    /// "Exactly two subjects": one of them was found more than once.
    #[error("more than one {0}")]
    Several(String),
    /// The boxes cover each other.
    #[error("the boxes overlap")]
    Overlap,
    /// The subjects differ more along the other axis: they stand above each other rather than beside each other, or the
    /// other way round.
    #[error("along the other axis")]
    OtherAxis,
    /// The centres are nearer to each other than the margin.
    #[error("too close to tell")]
    Close,
}

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

/// On which side the first-mentioned object of a picture is, and why that is not clear.
///
/// # Errors
/// A label that means nothing; without a label, not two objects of different names.
pub fn side_or_why(case: &Case, options: &Options) -> Result<Result<Side, Unclear>, RuleError> {
    match case.label {
        Some(label) => Code(label.code).side().map(Ok),
        None => first_of_two(case, options, Axis::Across),
    }
}

/// On which side the first-mentioned object of a picture is.
///
/// # Errors
/// As [`side_or_why`].
pub fn side(case: &Case, options: &Options) -> Result<Side, RuleError> {
    side_or_why(case, options).map(|side| side.unwrap_or(Side::Invalid))
}

/// As [`side`], up and down: [`Side::Left`] is above, [`Side::Right`] below. By boxes only: the benchmark's judge was
/// not asked this.
///
/// # Errors
/// Not two objects of different names.
pub fn level(case: &Case, options: &Options) -> Result<Side, RuleError> {
    first_of_two(case, options, Axis::Down).map(|side| side.unwrap_or(Side::Invalid))
}

/// Along what two subjects are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
    /// From left to right.
    Across,
    /// From top to bottom.
    Down,
}

fn first_of_two(
    case: &Case,
    options: &Options,
    axis: Axis,
) -> Result<Result<Side, Unclear>, RuleError> {
    let [first, second] = case.objects.as_slice() else {
        let rule = Homogenization.name();
        let found = case.objects.len();
        return Err(RuleError::NotTwoObjects { rule, found });
    };
    if first.name.eq_ignore_ascii_case(&second.name) {
        return Err(RuleError::SameName(first.name.clone()));
    }
    ahead(case, [&first.name, &second.name], options, axis)
}

/// Which of two subjects comes first along an axis, by the centres of their boxes; [`Side::Left`] if it is the first one.
fn ahead(
    case: &Case,
    names: [&str; 2],
    options: &Options,
    axis: Axis,
) -> Result<Result<Side, Unclear>, RuleError> {
    let only = |name: &str| match case.found_with(name, options, MIN_SCORE).as_slice() {
        [] => Err(Unclear::Missing(name.to_owned())),
        [one] => Ok(one.bbox),
        _ => Err(Unclear::Several(name.to_owned())),
    };
    let (first, second) = match (only(names[0]), only(names[1])) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(why), _) | (_, Err(why)) => return Ok(Err(why)),
    };
    let (width, height) = case.extent()?;
    let ((ax, ay), (bx, by)) = (first.centre(), second.centre());
    let (along, across, side) = match axis {
        Axis::Across => (bx - ax, by - ay, width),
        Axis::Down => (by - ay, bx - ax, height),
    };
    // Also false for what is no number.
    let clear = along.abs() >= GeometryConfig::default().margin * side as f64 && along != 0.0;
    Ok(if first.iou(&second) > MOST_IOU {
        Err(Unclear::Overlap)
    } else if along.abs() < across.abs() {
        Err(Unclear::OtherAxis)
    } else if !clear {
        Err(Unclear::Close)
    } else if along > 0.0 {
        Ok(Side::Left)
    } else {
        Ok(Side::Right)
    })
}

/// Whether a picture is correct, and why that is not clear. Without a label, its relation is what is correct, whatever
/// the order of mention.
///
/// # Errors
/// A label that means nothing; without a label, not one relation of left or right.
pub fn verdict_or_why(
    case: &Case,
    options: &Options,
) -> Result<Result<Verdict, Unclear>, RuleError> {
    if let Some(Label { task, code }) = case.label {
        return Code(code).verdict(task).map(Ok);
    }
    let (subject, relation, object) = case.only_relation(Correctness.name(), KNOWN)?;
    let wanted = match relation {
        Relation::LeftOf => Side::Left,
        _ => Side::Right,
    };
    let found = ahead(case, [subject, object], options, Axis::Across)?;
    Ok(found.map(|found| match found == wanted {
        true => Verdict::Correct,
        false => Verdict::Wrong,
    }))
}

/// Whether a picture is correct.
///
/// # Errors
/// As [`verdict_or_why`].
pub fn verdict(case: &Case, options: &Options) -> Result<Verdict, RuleError> {
    verdict_or_why(case, options).map(|verdict| verdict.unwrap_or(Verdict::Invalid))
}

/// What is said of a picture that does not count.
fn invalid_outcome(why: Option<&Unclear>) -> Outcome {
    match why {
        Some(why) => Outcome::without_score(format!("invalid: {why}")),
        None => Outcome::without_score("invalid"),
    }
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
        let sides: Vec<_> = cases.map(|case| side_or_why(&case, options)).collect();
        let valid = |found: &Result<Side, Unclear>| found.clone().unwrap_or(Side::Invalid);
        let of = |side| {
            let all = sides.iter().flatten();
            all.filter(|found| valid(found) == side).count()
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
        let outcome = |side: Result<Side, Unclear>| match side {
            // The side is no merit; what counts is how the sides are divided.
            Ok(Side::Left) => Outcome::new(1.0, "left"),
            Ok(Side::Right) => Outcome::new(0.0, "right"),
            Ok(Side::Invalid) => invalid_outcome(None),
            Err(why) => invalid_outcome(Some(&why)),
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
        let verdicts: Vec<_> = cases.map(|case| verdict_or_why(&case, options)).collect();
        let valid = |found: &Result<Verdict, Unclear>| found.clone().unwrap_or(Verdict::Invalid);
        let of = |verdict| {
            let all = verdicts.iter().flatten();
            all.filter(|found| valid(found) == verdict).count()
        };
        let (correct, wrong) = (of(Verdict::Correct), of(Verdict::Wrong));
        let mut figures = vec![
            Figure::percent("accuracy", correct as f64, (correct + wrong) as f64),
            Figure::count("correct", correct),
            Figure::count("wrong", wrong),
        ];
        figures.extend(invalid(of(Verdict::Invalid), correct + wrong));
        let outcome = |verdict: Result<Verdict, Unclear>| match verdict {
            Ok(Verdict::Correct) => Outcome::new(1.0, "correct"),
            Ok(Verdict::Wrong) => Outcome::new(0.0, "wrong"),
            Ok(Verdict::Invalid) => invalid_outcome(None),
            Err(why) => invalid_outcome(Some(&why)),
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
    use crate::rules::Wanted;
    use crate::{BoundingBox, Detection};
    use prepose_scene::StatedRelation;

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

    /// A picture of 100 x 100 pixels with boxes of 20 x 20 around these centres.
    fn case(found: &[(&str, f64, f64)]) -> Case {
        let detection = |(label, x, y): &(&str, f64, f64)| Detection {
            label: (*label).to_owned(),
            score: 0.9,
            bbox: BoundingBox::new(x - 10.0, y - 10.0, x + 10.0, y + 10.0),
            mask: None,
        };
        Case {
            size: Some((100, 100)),
            objects: vec![Wanted::one("dog"), Wanted::one("cat")],
            detections: found.iter().map(detection).collect(),
            ..Case::default()
        }
    }

    #[test]
    fn boxes_answer_behind_the_gate() {
        let options = Options::default();
        let dog = ("dog", 30.0, 50.0);
        for (found, wanted) in [
            (vec![dog, ("cat", 70.0, 50.0)], Ok(Side::Left)),
            (vec![dog, ("cat", 10.0, 50.0)], Ok(Side::Right)),
            // Something else in the picture is no third subject.
            (
                vec![dog, ("cat", 70.0, 50.0), ("cup", 5.0, 5.0)],
                Ok(Side::Left),
            ),
            (vec![dog], Err(Unclear::Missing("cat".into()))),
            (
                vec![dog, ("cat", 70.0, 50.0), ("dog", 90.0, 50.0)],
                Err(Unclear::Several("dog".into())),
            ),
            (vec![dog, ("cat", 36.0, 50.0)], Err(Unclear::Overlap)),
            (vec![dog, ("cat", 40.0, 80.0)], Err(Unclear::OtherAxis)),
            (vec![dog, ("cat", 39.0, 57.0)], Err(Unclear::Close)),
            (vec![dog, ("cat", 40.0, 60.0)], Ok(Side::Left)),
        ] {
            assert_eq!(
                side_or_why(&case(&found), &options),
                Ok(wanted),
                "{found:?}"
            );
        }
        let above = case(&[dog, ("cat", 40.0, 80.0)]);
        assert_eq!(level(&above, &options), Ok(Side::Left));
        assert_eq!(side(&above, &options), Ok(Side::Invalid));
        let mut right = case(&[dog, ("cat", 70.0, 50.0)]);
        right.relations = vec![StatedRelation::of_two(1, Relation::RightOf, 0)];
        assert_eq!(verdict(&right, &options), Ok(Verdict::Correct));
        right.relations = vec![StatedRelation::of_two(1, Relation::LeftOf, 0)];
        assert_eq!(verdict(&right, &options), Ok(Verdict::Wrong));
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
