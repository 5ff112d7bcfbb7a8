//! How well the checker agrees with people.

use prepose_statistics::agreement::{Weights, cohen_kappa};
use prepose_statistics::bootstrap::{Bootstrap, Interval, wilson};
use serde::Serialize;

use crate::spatialbench::Verdict;

/// What was said of one labelled picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// What the checker says.
    pub verdict: Verdict,
    /// How sure it is, in 0..=1.
    pub conf: f64,
    /// What a person says; nothing if nobody was asked.
    pub human: Option<Verdict>,
}

impl Judgement {
    /// Whether the checker decides at a confidence of `tau` or more.
    pub fn is_decided(&self, tau: f64) -> bool {
        self.verdict != Verdict::Undecidable && self.conf >= tau
    }
}

/// How often the checker and people said what, and what follows from it; named and computed as in the released
/// `audit_metrics.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// Pictures by the checker's verdict, then by the person's, where both decide.
    pub confusion_matrix: Rows<Decided>,
    /// Pictures that the checker leaves undecided.
    pub undecidable_checker: usize,
    /// Pictures that people leave undecided.
    pub undecidable_human: usize,
    /// Labelled pictures.
    pub total_samples: usize,
    /// Pictures that both decide.
    pub decided_samples: usize,
    /// Both say PASS.
    pub true_positives: usize,
    /// The checker says PASS, people FAIL.
    pub false_positives: usize,
    /// Both say FAIL.
    pub true_negatives: usize,
    /// The checker says FAIL, people PASS.
    pub false_negatives: usize,
    /// Right verdicts among those that both decide; 0 if there are none. So are the next three.
    pub accuracy: f64,
    /// Right among the checker's PASS.
    pub precision: f64,
    /// Found among people's PASS.
    pub recall: f64,
    /// The harmonic mean of precision and recall.
    pub f1: f64,
    /// Pictures that the checker decides, among the labelled.
    pub coverage: f64,
    /// All pictures by the checker's verdict, then by the person's.
    pub all_verdicts: [[usize; 3]; 3],
    /// The same verdict of the three, among the labelled.
    pub agreement: f64,
    /// Cohen's κ of the three verdicts (Cohen 1960): agreement beyond what chance would give; nothing if chance alone
    /// would give all of it.
    pub kappa: Option<f64>,
    /// How far these could be off.
    pub intervals: Intervals,
}

/// 95 % intervals: Wilson's of shares, the bootstrap's of κ. None where there is nothing to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Intervals {
    /// Of the accuracy.
    pub accuracy: Option<Interval>,
    /// Of the coverage.
    pub coverage: Option<Interval>,
    /// Of the agreement over all three verdicts.
    pub agreement: Option<Interval>,
    /// Of κ.
    pub kappa: Option<Interval>,
}

/// One value for the checker's PASS and one for its FAIL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub struct Rows<T> {
    /// Where the checker says PASS.
    pub pass: T,
    /// Where it says FAIL.
    pub fail: T,
}

/// Counts of what people say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub struct Decided {
    /// People say PASS.
    pub pass: usize,
    /// People say FAIL.
    pub fail: usize,
}

impl Agreement {
    /// Counts; pictures without a label do not take part.
    pub fn of(judgements: &[Judgement]) -> Self {
        let pairs: Vec<[usize; 2]> = (judgements.iter())
            .filter_map(|judgement| Some([place(judgement.verdict), place(judgement.human?)]))
            .collect();
        let all = counts(&pairs);
        let [[pp, pf, pu], [fp, ff, fu], [up, uf, uu]] = all;
        let total: usize = all.iter().flatten().sum();
        let decided = pp + pf + fp + ff;
        let covered = total - (up + uf + uu);
        let precision = share(pp, pp + pf);
        let recall = share(pp, pp + fp);
        let f1 = if precision + recall > 0.0 {
            2.0 * precision * recall / (precision + recall)
        } else {
            0.0
        };
        Self {
            confusion_matrix: Rows {
                pass: Decided { pass: pp, fail: pf },
                fail: Decided { pass: fp, fail: ff },
            },
            undecidable_checker: up + uf + uu,
            undecidable_human: pu + fu + uu,
            total_samples: total,
            decided_samples: decided,
            true_positives: pp,
            false_positives: pf,
            true_negatives: ff,
            false_negatives: fp,
            accuracy: share(pp + ff, decided),
            precision,
            recall,
            f1,
            coverage: share(covered, total),
            all_verdicts: all,
            agreement: share(pp + ff + uu, total),
            kappa: kappa(&all),
            intervals: Intervals {
                accuracy: wilson(pp + ff, decided),
                coverage: wilson(covered, total),
                agreement: wilson(pp + ff + uu, total),
                kappa: Bootstrap::default()
                    .interval(&pairs, |drawn| kappa(&counts(drawn.iter().copied()))),
            },
        }
    }
}

/// A table of pairs.
fn counts<'a>(pairs: impl IntoIterator<Item = &'a [usize; 2]>) -> [[usize; 3]; 3] {
    let mut all = [[0; 3]; 3];
    for [row, column] in pairs {
        all[*row][*column] += 1;
    }
    all
}

/// Cohen's κ of a table of counts.
fn kappa(counts: &[[usize; 3]; 3]) -> Option<f64> {
    cohen_kappa(&counts.map(Vec::from), Weights::None)
}

/// PASS, FAIL, UNDECIDABLE.
pub(super) fn place(verdict: Verdict) -> usize {
    match verdict {
        Verdict::Pass => 0,
        Verdict::Fail => 1,
        Verdict::Undecidable => 2,
    }
}

/// `part / whole`; 0 if the whole is.
pub(super) fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Fail, Pass, Undecidable};

    fn judgements(counts: &[(Verdict, Verdict, usize)]) -> Vec<Judgement> {
        let mut all = Vec::new();
        for &(verdict, human, n) in counts {
            let human = Some(human);
            all.extend(vec![
                Judgement {
                    verdict,
                    conf: 0.5,
                    human
                };
                n
            ]);
        }
        all
    }

    /// The released analysis of the uncalibrated checker.
    #[test]
    fn the_released_counts_give_the_released_metrics() {
        let mut all = judgements(&[
            (Pass, Pass, 55),
            (Pass, Fail, 2),
            (Fail, Pass, 2),
            (Fail, Fail, 17),
            (Pass, Undecidable, 24),
            (Fail, Undecidable, 19),
            (Undecidable, Pass, 26),
            (Undecidable, Fail, 3),
            (Undecidable, Undecidable, 52),
        ]);
        all.push(Judgement {
            verdict: Pass,
            conf: 1.0,
            human: None,
        });
        let agreement = Agreement::of(&all);
        assert_eq!(agreement.total_samples, 200);
        assert_eq!(
            (agreement.decided_samples, agreement.undecidable_checker),
            (76, 81)
        );
        assert_eq!(agreement.undecidable_human, 95);
        assert_eq!(agreement.accuracy, 0.9473684210526315);
        assert_eq!(agreement.precision, 0.9649122807017544);
        assert_eq!(agreement.f1, 0.9649122807017544);
        assert_eq!(agreement.coverage, 0.595);
        assert_eq!(agreement.agreement, 0.62);

        // And of the calibrated one.
        let agreement = Agreement::of(&judgements(&[
            (Pass, Pass, 51),
            (Pass, Fail, 1),
            (Fail, Pass, 2),
            (Fail, Fail, 17),
        ]));
        assert_eq!(agreement.accuracy, 0.9577464788732394);
        assert_eq!(agreement.precision, 0.9807692307692307);
        assert_eq!(agreement.recall, 0.9622641509433962);
        assert_eq!(agreement.f1, 0.9714285714285713);
    }

    #[test]
    fn kappa_is_cohens() {
        // Cohen's own layout with two used categories: 20 and 15 agree of 50.
        let counts = [[20, 5, 0], [10, 15, 0], [0, 0, 0]];
        assert!((kappa(&counts).unwrap() - 0.4).abs() < 1e-12);
        assert_eq!(kappa(&[[3, 0, 0], [0, 0, 0], [0, 0, 0]]), None);
        assert_eq!(kappa(&[[0; 3]; 3]), None);
    }

    #[test]
    fn nothing_gives_zeros() {
        let agreement = Agreement::of(&[]);
        assert_eq!(
            (agreement.accuracy, agreement.f1, agreement.coverage),
            (0.0, 0.0, 0.0)
        );
    }
}
