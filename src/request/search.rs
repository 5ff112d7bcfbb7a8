//! When a search drops candidates.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Some hundred times as many candidates as papers have.
const MOST_CANDIDATES: usize = 10_000;

/// What is wrong with a search.
#[derive(Debug, Error, PartialEq)]
pub enum SearchError {
    /// Nothing to choose from.
    #[error("best of 0 pictures is not possible; ask for at least 1")]
    NoCandidate,
    /// More than anybody waits for.
    #[error("best of {asked} pictures would take for ever; ask for at most {MOST_CANDIDATES}")]
    Candidates {
        /// Asked for.
        asked: usize,
    },
    /// Pruning needs an order of steps within the run.
    #[error(
        "cannot drop candidates after steps {at:?} of {steps}: the steps must ascend from 1 to at most {last}"
    )]
    Steps {
        /// Asked for.
        at: Vec<usize>,
        /// Of the run.
        steps: usize,
        /// The last step after which dropping saves anything.
        last: usize,
    },
    /// Nothing to tell candidates apart by.
    #[error(
        "cannot drop candidates after step {after}: the reward attention scores them by the words of the final prompt, \
         which first holds in step {first}; drop them after step {first} or later, or not at all, or use another reward"
    )]
    Unscored {
        /// Asked for, counted from 1.
        after: usize,
        /// The first step after which there are scores, counted from 1.
        first: usize,
    },
    /// Unfinished pictures are not shown to judges.
    #[error("a judge is asked only about finished pictures: use the reward judge without pruning")]
    Unfinished,
}

/// What makes a candidate good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RewardKind {
    /// How well the attention maps obey the prompt's relations; needs no detector.
    #[default]
    Attention,
    /// What the checker says of the picture.
    Checker,
    /// The probability of superiority of the masks of the objects in the picture.
    Pse,
    /// Each relation by its own rule: sides by PSE, near, far and between by centres, depth with --depth.
    Relations,
    /// SGScore, by the judge that a run names with `--judge`.
    #[value(skip)]
    Judge,
}

impl std::fmt::Display for RewardKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RewardKind::Attention => "attention",
            RewardKind::Checker => "checker",
            RewardKind::Pse => "pse",
            RewardKind::Relations => "relations",
            RewardKind::Judge => "judge",
        })
    }
}

/// What is asked of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchConfig {
    /// The number of candidates.
    pub best_of: usize,
    /// What makes one good.
    #[serde(default)]
    pub reward: RewardKind,
    /// When candidates are dropped; none finishes them all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruning: Option<Pruning>,
}

impl SearchConfig {
    /// Candidates have scores from `scored` steps on, at least 1.
    ///
    /// # Errors
    /// No candidate, or steps of pruning that a run of `steps` does not have, or after which there are no scores.
    pub fn check(&self, steps: usize, scored: usize) -> Result<(), SearchError> {
        if self.best_of == 0 {
            return Err(SearchError::NoCandidate);
        }
        if self.best_of > MOST_CANDIDATES {
            return Err(SearchError::Candidates {
                asked: self.best_of,
            });
        }
        if self.reward == RewardKind::Judge && self.pruning.is_some() {
            return Err(SearchError::Unfinished);
        }
        self.pruning
            .as_ref()
            .map_or(Ok(()), |pruning| pruning.check(steps, scored))
    }

    /// The rounds of pruning in a run of `steps`, where candidates have scores from `scored` steps on; none without pruning.
    pub fn rounds(&self, steps: usize, scored: usize) -> Vec<Round> {
        let rounds = |pruning: &Pruning| pruning.rounds(steps, scored, self.best_of);
        self.pruning.as_ref().map(rounds).unwrap_or_default()
    }

    /// Steps that all candidates take together through the UNet, in a run of `steps`, where they have scores from `scored`
    /// steps on.
    pub fn unet_calls(&self, steps: usize, scored: usize) -> usize {
        let (mut calls, mut alive, mut taken) = (0usize, self.best_of, 0);
        for round in self.rounds(steps, scored) {
            calls = calls.saturating_add(alive.saturating_mul(round.after - taken));
            (alive, taken) = (round.keep, round.after);
        }
        calls.saturating_add(alive.saturating_mul(steps - taken))
    }
}

/// Successive halving: after each of these steps the worse half of the candidates is dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pruning {
    /// After 15, 25 and 40 % of the steps, but not before candidates have scores.
    Auto,
    /// After these numbers of steps.
    After(Vec<usize>),
}

/// One round of pruning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Steps taken before it.
    pub after: usize,
    /// Candidates that go on.
    pub keep: usize,
}

impl Pruning {
    /// Shares of the steps after which candidates are dropped by default.
    const SHARES: [f64; 3] = [0.15, 0.25, 0.4];

    /// # Errors
    /// Steps that do not ascend, or lie outside the run of `steps`, or before candidates have scores: after `scored` steps.
    pub fn check(&self, steps: usize, scored: usize) -> Result<(), SearchError> {
        if let Pruning::After(at) = self {
            let last = steps.saturating_sub(1);
            let ascending = at.windows(2).all(|pair| pair[0] < pair[1]);
            let inside = at.iter().all(|step| (1..=last).contains(step));
            if at.is_empty() || !ascending || !inside {
                return Err(SearchError::Steps {
                    at: at.clone(),
                    steps,
                    last,
                });
            }
            if let Some(&after) = at.iter().find(|after| **after < scored) {
                return Err(SearchError::Unscored {
                    after,
                    first: scored,
                });
            }
        }
        Ok(())
    }

    /// The rounds for `candidates` over `steps`, which have scores from `scored` steps on; each keeps half, rounded up.
    pub fn rounds(&self, steps: usize, scored: usize, candidates: usize) -> Vec<Round> {
        let mut after: Vec<usize> = match self {
            Pruning::After(at) => at.clone(),
            Pruning::Auto => Self::SHARES
                .iter()
                .map(|share| (share * steps as f64).round() as usize)
                .filter(|step| (scored.max(1)..steps).contains(step))
                .collect(),
        };
        after.dedup();
        let mut keep = candidates;
        let rounds = after.into_iter().map(|after| {
            keep = keep.div_ceil(2);
            Round { after, keep }
        });
        rounds.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_leaves_an_eighth_for_a_third_of_the_cost() {
        let rounds = Pruning::Auto.rounds(20, 1, 32);
        let expected = [(3, 16), (5, 8), (8, 4)];
        assert_eq!(rounds, expected.map(|(after, keep)| Round { after, keep }));
        // Short runs have fewer rounds, and one candidate stays one.
        let short = Pruning::Auto.rounds(2, 1, 1);
        assert_eq!(short, [Round { after: 1, keep: 1 }]);
        assert!(Pruning::Auto.rounds(1, 1, 8).is_empty());
    }

    #[test]
    fn candidates_without_scores_are_not_dropped() {
        // The final prompt holds from the fifth step on.
        let rounds = Pruning::Auto.rounds(20, 5, 32);
        let expected = [(5, 16), (8, 8)];
        assert_eq!(rounds, expected.map(|(after, keep)| Round { after, keep }));
        assert!(Pruning::Auto.rounds(20, 9, 32).is_empty());
        let refused = Pruning::After(vec![4, 8]).check(20, 5);
        assert_eq!(refused, Err(SearchError::Unscored { after: 4, first: 5 }));
        assert!(Pruning::After(vec![5, 8]).check(20, 5).is_ok());
    }

    #[test]
    fn calls_are_those_of_the_candidates_that_are_left() {
        let search = |pruning| SearchConfig {
            best_of: 32,
            reward: RewardKind::Attention,
            pruning,
        };
        assert_eq!(search(None).unet_calls(20, 1), 640);
        let pruned = search(Some(Pruning::Auto)).unet_calls(20, 1);
        assert_eq!(pruned, 32 * 3 + 16 * 2 + 8 * 3 + 4 * 12);
    }

    #[test]
    fn impossible_steps_are_refused() {
        for at in [vec![], vec![0], vec![20], vec![5, 5], vec![6, 5]] {
            let refused = Pruning::After(at.clone()).check(20, 1);
            assert!(matches!(refused, Err(SearchError::Steps { .. })), "{at:?}");
        }
        assert!(Pruning::After(vec![1, 19]).check(20, 1).is_ok());
    }
}
