//! Risk against coverage: how often the checker is wrong, and how much it decides, as the confidence asked of it grows.

use serde::Serialize;

use super::agreement::{Judgement, share};
use crate::spatialbench::Verdict;

/// What the risk is where nothing is decided. It has no value there; the released curves first had 1 and then 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ZeroCoverage {
    /// Who says nothing says nothing wrong: the released curves' later convention.
    #[default]
    Safe,
    /// The worst is assumed: the earlier convention, which keeps a search from choosing silence.
    Wrong,
}

/// The checker at one threshold of confidence; named as in the released `audit_metrics.json`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The threshold τ: verdicts of a lower confidence count as undecided.
    pub tau: f64,
    /// Decided pictures among all that were sampled.
    pub coverage: f64,
    /// 1 − accuracy. Where pictures are decided but none of them by people, the accuracy is 0.
    pub risk: f64,
    /// Right verdicts among the decided pictures that people decided too.
    pub accuracy: f64,
    /// Decided pictures.
    pub n_covered: usize,
    /// Decided pictures that people decided too.
    pub n_evaluated: usize,
}

/// The checker at threshold `tau`; `total` is how many pictures were sampled, with a verdict or not.
pub fn point(judgements: &[Judgement], total: usize, tau: f64, zero: ZeroCoverage) -> Point {
    let (mut covered, mut evaluated, mut right) = (0, 0, 0);
    for judgement in judgements.iter().filter(|j| j.is_decided(tau)) {
        covered += 1;
        if let Some(human @ (Verdict::Pass | Verdict::Fail)) = judgement.human {
            evaluated += 1;
            right += usize::from(human == judgement.verdict);
        }
    }
    let accuracy = match zero {
        ZeroCoverage::Safe if covered == 0 => 1.0,
        _ => share(right, evaluated),
    };
    Point {
        tau,
        coverage: share(covered, total),
        risk: 1.0 - accuracy,
        accuracy,
        n_covered: covered,
        n_evaluated: evaluated,
    }
}

/// Every threshold that makes a difference: 0, the confidences of all decided pictures, and 1, in rising order.
pub fn every_threshold(judgements: &[Judgement]) -> Vec<f64> {
    let confidences = judgements
        .iter()
        .filter(|judgement| judgement.is_decided(0.0) && judgement.conf <= 1.0)
        .map(|judgement| judgement.conf);
    let mut thresholds: Vec<f64> = confidences.chain([0.0, 1.0]).collect();
    thresholds.sort_by(f64::total_cmp);
    thresholds.dedup();
    thresholds
}

/// The least distance of [`even_thresholds`]: a curve has no use for more than ten thousand points.
pub const LEAST_STEP: f64 = 1e-4;

/// Thresholds from 0 to 1 at a distance of `step`, which is at most 1, and taken for [`LEAST_STEP`] if it is less; the last is
/// 1 whatever the step.
pub fn even_thresholds(step: f64) -> Vec<f64> {
    let step = step.max(LEAST_STEP);
    let steps = (1.0 / step).round_ties_even() as usize;
    let mut thresholds: Vec<f64> = (0..steps).map(|i| i as f64 * step).collect();
    thresholds.push(1.0);
    thresholds
}

/// The checker at each of the thresholds.
pub fn curve(
    judgements: &[Judgement],
    total: usize,
    thresholds: &[f64],
    zero: ZeroCoverage,
) -> Vec<Point> {
    thresholds
        .iter()
        .map(|&tau| point(judgements, total, tau, zero))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Fail, Pass, Undecidable};

    fn judgement(verdict: Verdict, conf: f64, human: Option<Verdict>) -> Judgement {
        Judgement {
            verdict,
            conf,
            human,
        }
    }

    #[test]
    fn risk_is_of_what_both_decide_and_coverage_of_all() {
        let all = [
            judgement(Pass, 0.9, Some(Pass)),
            judgement(Fail, 0.8, Some(Pass)),
            judgement(Pass, 0.7, Some(Undecidable)),
            judgement(Pass, 0.6, None),
            judgement(Undecidable, 0.95, Some(Pass)),
        ];
        let thresholds = every_threshold(&all);
        assert_eq!(thresholds, [0.0, 0.6, 0.7, 0.8, 0.9, 1.0]);
        let points = curve(&all, 8, &thresholds, ZeroCoverage::Safe);
        let risks: Vec<f64> = points.iter().map(|p| p.risk).collect();
        assert_eq!(risks, [0.5, 0.5, 0.5, 0.5, 0.0, 0.0]);
        let covered: Vec<usize> = points.iter().map(|p| p.n_covered).collect();
        assert_eq!(covered, [4, 4, 3, 2, 1, 0]);
        assert_eq!(points[0].coverage, 0.5);
        assert_eq!(points[0].n_evaluated, 2);
    }

    #[test]
    fn even_thresholds_end_at_one() {
        assert_eq!(even_thresholds(0.25), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(even_thresholds(0.3).len(), 4);
        assert_eq!(even_thresholds(0.3)[3], 1.0);
        assert_eq!(even_thresholds(0.05).len(), 21);
        assert_eq!(even_thresholds(1e-20).len(), 10_001);
    }

    #[test]
    fn nothing_decided_is_safe_or_wrong() {
        let safe = point(&[], 5, 0.5, ZeroCoverage::Safe);
        assert_eq!((safe.coverage, safe.risk, safe.accuracy), (0.0, 0.0, 1.0));
        let wrong = point(&[], 5, 0.5, ZeroCoverage::Wrong);
        assert_eq!(
            (wrong.coverage, wrong.risk, wrong.accuracy),
            (0.0, 1.0, 0.0)
        );
        // Decided, but people could not tell: nothing speaks for the checker.
        let unknown = [judgement(Pass, 0.9, Some(Undecidable))];
        assert_eq!(point(&unknown, 5, 0.5, ZeroCoverage::Safe).risk, 1.0);
    }
}
