//! Whether it matters which detector chooses the best picture and which one measures it (Why Settle for Mid,
//! arXiv 2506.23418, table 11).

use std::collections::BTreeMap;

use super::{Case, Options, RuleError, pse, visor};

/// The same pictures as several detectors see them.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Prompts with pictures.
    pub prompts: usize,
    /// Pictures of all prompts.
    pub pictures: usize,
    /// For each detector as the one that measures.
    pub measured: Vec<Measured>,
}

/// What one detector measures: means over the prompts, in 0..=1.
#[derive(Clone, Debug)]
pub struct Measured {
    /// PSE without a search: of all pictures of a prompt.
    pub plain: f64,
    /// PSE of the picture of each prompt that the PSE by each detector prefers, the first of several.
    pub chosen: Vec<f64>,
    /// Pictures in which all relations hold by the centres of boxes: of all, and of the chosen ones.
    pub centre_plain: f64,
    /// The same of the picture that each detector prefers.
    pub centre_chosen: Vec<f64>,
}

/// Both scores of a picture.
#[derive(Clone, Copy)]
struct Score {
    pse: f64,
    centre: f64,
}

/// Scores what several detectors see in the same pictures; each has the pictures in the same order.
///
/// # Errors
/// Which detector's view of which picture cannot be scored, and why not.
pub fn matrix(seen: &[Vec<Case>], options: &Options) -> Result<Matrix, ([usize; 2], RuleError)> {
    let mut scores: Vec<Vec<Score>> = Vec::with_capacity(seen.len());
    for (detector, cases) in seen.iter().enumerate() {
        let scored = cases.iter().enumerate().map(|(at, case)| {
            let of = || -> Result<Score, RuleError> {
                let centre = visor::judge(case, options)?.is_some_and(|found| found.right);
                Ok(Score {
                    pse: pse::of_case(case, options)?.score.unwrap_or(0.0),
                    centre: f64::from(u8::from(centre)),
                })
            };
            of().map_err(|error| ([detector, at], error))
        });
        scores.push(scored.collect::<Result<_, _>>()?);
    }
    let mut prompts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, case) in seen.first().into_iter().flatten().enumerate() {
        prompts.entry(&case.prompt_id).or_default().push(at);
    }
    let best = |by: &[Score], pictures: &[usize]| {
        let first_best = pictures
            .iter()
            .copied()
            .reduce(|best, at| if by[at].pse > by[best].pse { at } else { best });
        first_best.unwrap_or_default()
    };
    let over_prompts = |of: &dyn Fn(&[usize]) -> f64| {
        let sum: f64 = prompts.values().map(|pictures| of(pictures)).sum();
        sum / prompts.len().max(1) as f64
    };
    let measured = scores.iter().map(|measure| {
        let plain = |value: fn(&Score) -> f64| {
            over_prompts(&|pictures| {
                let all = pictures.iter().map(|at| value(&measure[*at]));
                all.sum::<f64>() / pictures.len().max(1) as f64
            })
        };
        let chosen = |value: fn(&Score) -> f64| {
            let by =
                |by: &Vec<Score>| over_prompts(&|pictures| value(&measure[best(by, pictures)]));
            scores.iter().map(by).collect()
        };
        Measured {
            plain: plain(|score| score.pse),
            chosen: chosen(|score| score.pse),
            centre_plain: plain(|score| score.centre),
            centre_chosen: chosen(|score| score.centre),
        }
    });
    Ok(Matrix {
        prompts: prompts.len(),
        pictures: seen.first().map_or(0, Vec::len),
        measured: measured.collect(),
    })
}

#[cfg(test)]
mod tests {
    use prepose_scene::Scene;

    use super::*;
    use crate::{BoundingBox, Detection};

    /// A dog at `dog` and a cat at `cat` from the left, in a picture 100 pixels wide.
    fn case(id: &str, prompt_id: &str, dog: f64, cat: f64) -> Case {
        let scene = Scene::parse("a dog to the left of a cat").unwrap();
        let found = |label: &str, x: f64| Detection {
            label: label.into(),
            score: 0.9,
            bbox: BoundingBox::from([x, 10.0, x + 20.0, 30.0]),
            mask: None,
        };
        Case {
            prompt_id: prompt_id.into(),
            size: Some((100, 100)),
            ..Case::of_scene(id, &scene, vec![found("dog", dog), found("cat", cat)])
        }
    }

    #[test]
    fn the_best_by_one_is_measured_by_the_other() {
        let first = vec![
            case("a", "p", 50.0, 0.0),
            case("b", "p", 0.0, 50.0),
            case("c", "q", 0.0, 50.0),
        ];
        let second = vec![
            case("a", "p", 0.0, 50.0),
            case("b", "p", 50.0, 0.0),
            case("c", "q", 0.0, 50.0),
        ];
        let options = Options {
            min_score: Some(0.5),
            ..Options::default()
        };
        let matrix = matrix(&[first, second], &options).unwrap();
        assert_eq!((matrix.prompts, matrix.pictures), (2, 3));
        let [a, b] = &matrix.measured[..] else {
            panic!("two detectors")
        };
        // Of p's pictures each sees one of two right, and chooses the one that the other sees wrong.
        assert_eq!((a.plain, b.plain), (0.75, 0.75));
        assert_eq!(
            (a.chosen.as_slice(), b.chosen.as_slice()),
            (&[1.0, 0.5][..], &[0.5, 1.0][..])
        );
        assert_eq!(a.centre_plain, 0.75);
        assert_eq!(b.centre_chosen, [0.5, 1.0]);
    }

    #[test]
    fn a_picture_that_cannot_be_scored_is_named() {
        let right = case("a", "p", 0.0, 50.0);
        let none = Case {
            relations: Vec::new(),
            ..right.clone()
        };
        let (at, error) = matrix(&[vec![right, none]], &Options::default()).unwrap_err();
        assert_eq!(at, [0, 1]);
        assert!(matches!(error, RuleError::NoRelation), "{error}");
    }
}
