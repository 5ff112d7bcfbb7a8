//! Who won a search, by how much, and what that means.

use prepose::make::FinishedBatch;
use prepose::request::{FoundBy, RewardKind, SearchConfig};
use prepose::search::Candidate;
use serde_json::{Value, json};

/// For people: the winner, the next best, and what the noise of the plain picture came to.
pub fn told(search: &SearchConfig, batch: &FinishedBatch) -> String {
    let Some(found) = batch
        .pictures
        .first()
        .and_then(|best| best.request.found.as_ref())
    else {
        return String::new();
    };
    let mut text = format!(
        "best of {} by {}: candidate {} with {:.3}{}",
        search.best_of,
        search.reward,
        found.candidate,
        found.score,
        meaning(search.reward, found.score)
    );
    if let Some(next) = runner_up(found, &batch.candidates) {
        text += &format!("; the next best has {:.3}", next.score);
    }
    if let Some(first) = batch.candidates.first().filter(|_| found.candidate > 0) {
        let dropped = match first.steps < steps(&batch.candidates) {
            true => format!(" when it was dropped after {} steps", first.steps),
            false => String::new(),
        };
        text += &format!(
            "; seed {} itself had {:.3}{dropped}",
            found.seed, first.score
        );
    }
    text
}

/// All candidates, for programs.
pub fn candidates(candidates: &[Candidate]) -> Value {
    let of = |candidate: &Candidate| {
        json!({
            "candidate": candidate.index,
            "seed": candidate.seed,
            "score": Some(candidate.score).filter(|score| score.is_finite()),
            "steps": candidate.steps,
        })
    };
    candidates.iter().map(of).collect()
}

/// The best of the others that went as far.
fn runner_up<'a>(found: &FoundBy, candidates: &'a [Candidate]) -> Option<&'a Candidate> {
    let all = steps(candidates);
    let others = candidates.iter().filter(|other| {
        other.index != found.candidate && other.steps == all && !other.score.is_nan()
    });
    others.max_by(|a, b| a.score.total_cmp(&b.score))
}

/// How many steps the longest took.
fn steps(candidates: &[Candidate]) -> usize {
    candidates.iter().map(|one| one.steps).max().unwrap_or(0)
}

/// A score in words, where the scale is not obvious (`prepose_check::reward`).
fn meaning(reward: RewardKind, score: f64) -> String {
    match reward {
        RewardKind::Checker if score >= 1.0 => format!(" (PASS, confidence {:.2})", score - 1.0),
        RewardKind::Checker if score < 0.0 => format!(" (FAIL, confidence {:.2})", -score),
        RewardKind::Checker => " (UNDECIDABLE)".into(),
        RewardKind::Pse | RewardKind::Relations if score < 0.0 => " (an object is missing)".into(),
        RewardKind::Attention | RewardKind::Pse | RewardKind::Relations | RewardKind::Judge => {
            " of 1".into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read_from_scores() {
        let checker = |score| meaning(RewardKind::Checker, score);
        assert_eq!(checker(1.98), " (PASS, confidence 0.98)");
        assert_eq!(checker(-0.5), " (FAIL, confidence 0.50)");
        assert_eq!(checker(0.3), " (UNDECIDABLE)");
    }

    #[test]
    fn the_next_best_went_all_the_way() {
        let candidate = |index, score, steps| Candidate {
            index,
            seed: 0,
            score,
            steps,
        };
        let all = [
            candidate(0, 0.5, 9),
            candidate(1, 0.99, 3),
            candidate(2, 0.9, 9),
        ];
        let found = FoundBy {
            search: SearchConfig {
                best_of: 3,
                reward: RewardKind::Attention,
                pruning: None,
            },
            seed: 7,
            candidate: 2,
            score: 0.9,
            rank: 1,
        };
        assert_eq!(runner_up(&found, &all).unwrap().index, 0);
    }
}
