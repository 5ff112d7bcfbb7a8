//! Small statistics that tables and plots share.

use prepose_check::prompt::SuitePrompt;
use prepose_check::rules::visor::{self, Found};
use prepose_check::sample::Scores;
use prepose_scene::StatedRelation;

/// The mean of what there is.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0usize);
    for value in values {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / count as f64)
}

/// What VISOR counts of a picture; none of one that it does not score: nobody looked, or its prompt states no relation or one
/// that [`visor_scores`] says no to.
pub(super) fn found(prompt: &SuitePrompt, scored: &Scores) -> Option<Found> {
    let both = scored.found? >= scored.objects;
    let mut relations = prompt.relations.iter();
    let scores = |stated| visor_scores(stated, scored.centre, scored.pse);
    (!prompt.relations.is_empty() && relations.all(scores)).then_some(Found {
        first: both,
        second: both,
        right: scored.centre == Some(true),
    })
}

/// Whether VISOR scores a relation of a picture of which its rule says `centre` and PSE's `pse`: one to the left, to the
/// right, above or below, between objects with two labels. Both rules refuse objects with one label, where a missing object
/// makes PSE 0.
pub(super) fn visor_scores(
    stated: &StatedRelation,
    centre: Option<bool>,
    pse: Option<f64>,
) -> bool {
    visor::knows(stated.relation) && (centre.is_some() || pse.is_some())
}
