//! Small statistics that tables and plots share.

use prepose_check::rules::visor::Found;
use prepose_check::sample::Scores;

/// The mean of what there is.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0usize);
    for value in values {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / count as f64)
}

/// What VISOR counts of a picture whose prompt states a relation.
pub(super) fn found(scored: &Scores) -> Found {
    let both = scored.found.is_some_and(|found| found >= scored.objects);
    Found {
        first: both,
        second: both,
        right: scored.centre == Some(true),
    }
}
