//! SpatialBench-UC's grid search: which margin, detection threshold and confidence threshold go best with what people
//! say.

use serde::Serialize;

use super::agreement::{Judgement, share};
use super::curve::{ZeroCoverage, point};
use crate::spatialbench::Verdict;

/// The values that are tried, each list in the order of trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grid {
    /// Margins m: shares of the picture's width or height by which centres must differ.
    pub margins: Vec<f64>,
    /// Detection thresholds t_det: scores from which an object counts as found.
    pub detection_scores: Vec<f64>,
    /// Confidence thresholds τ: verdicts of a lower confidence count as undecided.
    pub taus: Vec<f64>,
}

impl Default for Grid {
    /// The published grid.
    fn default() -> Self {
        Self {
            margins: vec![0.03, 0.05, 0.07, 0.10],
            detection_scores: vec![0.2, 0.3, 0.4],
            taus: vec![0.3, 0.5, 0.7],
        }
    }
}

/// One place of the grid, and how good it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// m.
    pub margin: f64,
    /// t_det.
    pub detection_score: f64,
    /// τ.
    pub confidence_threshold: f64,
    /// People's FAIL among the checker's PASS at confidence τ or more, people's UNDECIDABLE among them; 1 if there is no
    /// such PASS.
    pub false_pass_rate: f64,
    /// 1 − accuracy where both decide.
    pub risk: f64,
    /// Decided pictures among all.
    pub coverage: f64,
    /// The objective J = 10 · false pass rate + 2 · risk + 0.5 · (1 − coverage); lower is better.
    pub score: f64,
    /// Pictures that the checker decides.
    pub n_covered: usize,
    /// Pictures that people decide too.
    pub n_evaluated: usize,
    /// The checker's PASS.
    pub n_pass: usize,
}

impl Grid {
    /// Tries every place: margins in the outer loop, then detection thresholds, then confidence thresholds.
    ///
    /// `judge` says what the checker and people say of the labelled pictures at a margin and a detection threshold;
    /// `total` is how many pictures were sampled, with a verdict or not. Its errors are `judge`'s.
    pub fn trials<E>(
        &self,
        total: usize,
        zero: ZeroCoverage,
        mut judge: impl FnMut(f64, f64) -> Result<Vec<Judgement>, E>,
    ) -> Result<Vec<Trial>, E> {
        let mut trials = Vec::new();
        for &margin in &self.margins {
            for &detection_score in &self.detection_scores {
                let judgements = judge(margin, detection_score)?;
                for &tau in &self.taus {
                    trials.push(trial(
                        (margin, detection_score, tau),
                        &judgements,
                        total,
                        zero,
                    ));
                }
            }
        }
        Ok(trials)
    }
}

fn trial(
    (margin, detection_score, tau): (f64, f64, f64),
    judgements: &[Judgement],
    total: usize,
    zero: ZeroCoverage,
) -> Trial {
    let passes = judgements
        .iter()
        .filter(|j| j.verdict == Verdict::Pass && j.conf >= tau);
    let (mut n_pass, mut false_passes) = (0, 0);
    for human in passes.filter_map(|j| j.human) {
        n_pass += 1;
        false_passes += usize::from(human == Verdict::Fail);
    }
    let false_pass_rate = match n_pass {
        0 => 1.0,
        _ => share(false_passes, n_pass),
    };
    let at = point(judgements, total, tau, zero);
    Trial {
        margin,
        detection_score,
        confidence_threshold: tau,
        false_pass_rate,
        risk: at.risk,
        coverage: at.coverage,
        score: false_pass_rate * 10.0 + at.risk * 2.0 + (1.0 - at.coverage) * 0.5,
        n_covered: at.n_covered,
        n_evaluated: at.n_evaluated,
        n_pass,
    }
}

/// The first of the trials with the lowest objective.
pub fn best(trials: &[Trial]) -> Option<&Trial> {
    // `min_by` gives the first of equals, as the original's strict comparison does.
    trials.iter().min_by(|a, b| a.score.total_cmp(&b.score))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Fail, Pass, Undecidable};

    fn judgement(verdict: Verdict, conf: f64, human: Verdict) -> Judgement {
        let human = Some(human);
        Judgement {
            verdict,
            conf,
            human,
        }
    }

    fn given(all: &[Judgement]) -> Result<Vec<Judgement>, std::convert::Infallible> {
        Ok(all.to_vec())
    }

    #[test]
    fn the_objective_counts_what_people_cannot_tell_among_the_passes() {
        let all = [
            judgement(Pass, 0.9, Pass),
            judgement(Pass, 0.8, Fail),
            judgement(Pass, 0.7, Undecidable),
            judgement(Pass, 0.71, Undecidable),
            judgement(Fail, 0.75, Fail),
            judgement(Fail, 0.2, Pass),
        ];
        let grid = Grid {
            margins: vec![0.1],
            detection_scores: vec![0.2],
            taus: vec![0.7],
        };
        let trials = grid
            .trials(10, ZeroCoverage::Safe, |_, _| given(&all))
            .unwrap();
        let trial = trials[0];
        assert_eq!(trial.false_pass_rate, 0.25);
        assert_eq!(trial.risk, 1.0 - 2.0 / 3.0);
        assert_eq!(trial.coverage, 0.5);
        assert_eq!(trial.score, 2.5 + 2.0 * (1.0 - 2.0 / 3.0) + 0.25);
        assert_eq!(
            (trial.n_covered, trial.n_evaluated, trial.n_pass),
            (5, 3, 4)
        );
    }

    /// The released search: 66 of 72 decided pictures judged by people, one of them wrong, no false PASS.
    #[test]
    fn the_released_terms_give_the_released_objective() {
        let mut all = vec![judgement(Pass, 0.9, Pass); 50];
        all.extend(vec![judgement(Fail, 0.9, Fail); 15]);
        all.push(judgement(Fail, 0.9, Pass));
        all.extend(vec![judgement(Pass, 0.9, Undecidable); 6]);
        let trials = Grid::default()
            .trials(200, ZeroCoverage::Safe, |_, _| given(&all))
            .unwrap();
        let best = best(&trials).unwrap();
        assert_eq!(best.risk, 0.015151515151515138);
        assert_eq!(best.coverage, 0.36);
        assert_eq!(best.score, 0.3503030303030303);
    }

    #[test]
    fn the_first_of_equals_is_chosen() {
        let all = [judgement(Pass, 0.9, Pass)];
        let trials = Grid::default()
            .trials(1, ZeroCoverage::Safe, |_, _| given(&all))
            .unwrap();
        assert_eq!(trials.len(), 36);
        let best = best(&trials).unwrap();
        assert_eq!(
            (best.margin, best.detection_score, best.confidence_threshold),
            (0.03, 0.2, 0.3)
        );
    }

    #[test]
    fn silence_costs_the_false_pass_rate() {
        let silent = Grid::default()
            .trials(5, ZeroCoverage::Safe, |_, _| given(&[]))
            .unwrap();
        assert_eq!(silent[0].score, 10.5);
        let wrong = Grid::default()
            .trials(5, ZeroCoverage::Wrong, |_, _| given(&[]))
            .unwrap();
        assert_eq!(wrong[0].score, 12.5);
    }
}
