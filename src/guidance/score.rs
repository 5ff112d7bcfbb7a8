//! How well maps obey the relations of a scene, for search: no gradient, no detector.

use burn::tensor::Tensor;

use super::maps::{MapGroup, object_maps, selector, smooth};
use super::pos::{Clause, arrangements};
use super::{GuidanceError, Target};

/// What [`pos_scores`] makes of the maps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreOptions {
    /// Whether maps are smoothed first.
    pub smoothing: bool,
    /// What is near and what is far, as a share of the maps' shorter side.
    pub distance: f64,
}

impl Default for ScoreOptions {
    fn default() -> Self {
        Self {
            smoothing: true,
            distance: 5.0 / 16.0,
        }
    }
}

/// The PoS of each sample's relations on mean maps ([`Pooling::Mean`](super::maps::Pooling::Mean)), in [0, 1]: 1 if the
/// maps lie just as the scene says, ½ if they are alike. `None` for a sample without relations.
///
/// Order along an axis counts as P(A > B) + ½ P(A = B), near and far by equation 9 of the paper over its range. A scene
/// is as good as its worst relation, a relation of several parts (a diagonal, between) as its worst part, and what can
/// be fulfilled in several ways as the best of them. Several groups of maps are averaged. Reads the profiles back from
/// the device.
///
/// # Errors
/// [`GuidanceError::NotInThePlane`] for relations of depth.
pub fn pos_scores(
    groups: &[MapGroup],
    targets: &[Target],
    options: ScoreOptions,
) -> Result<Vec<Option<f32>>, GuidanceError> {
    let relations = (targets.iter())
        .map(|target| target.relations.iter().map(arrangements).collect())
        .collect::<Result<Vec<Vec<Vec<Vec<Clause>>>>, _>>()?;
    let mut totals = vec![0f32; targets.len()];
    for group in groups {
        let profiles = Profiles::read(group, targets, options);
        for (b, (total, relations)) in totals.iter_mut().zip(&relations).enumerate() {
            let part = |clause: &Clause| profiles.score(b, *clause);
            let way = |clauses: &Vec<Clause>| clauses.iter().map(part).fold(1f32, f32::min);
            let relation = |ways: &Vec<Vec<Clause>>| ways.iter().map(way).fold(0f32, f32::max);
            *total += relations.iter().map(relation).fold(1f32, f32::min);
        }
    }
    let scores = totals.into_iter().zip(&relations);
    Ok(scores
        .map(|(total, relations)| (!relations.is_empty()).then(|| total / groups.len() as f32))
        .collect())
}

/// Distributions over x and y on the host.
struct Profiles {
    /// By axis, sample, object and cell.
    values: [Vec<f32>; 2],
    cells: [usize; 2],
    most: usize,
    distance: i64,
}

impl Profiles {
    fn read(group: &MapGroup, targets: &[Target], options: ScoreOptions) -> Self {
        let [rows, columns] = group.size;
        let objects: Vec<Vec<Vec<usize>>> = (targets.iter()).map(Target::positions).collect();
        let selector = selector(&objects, group.maps.dims()[3], &group.maps.device());
        let most = selector.dims()[2];
        let mut images = object_maps(group.maps.clone(), group.size, selector);
        if options.smoothing {
            images = smooth(images);
        }
        let read = |profile: Tensor<4>| -> Vec<f32> { profile.to_data().iter().collect() };
        Self {
            values: [read(images.clone().sum_dim(2)), read(images.sum_dim(3))],
            cells: [columns, rows],
            most,
            distance: (options.distance * rows.min(columns) as f64).round_ties_even() as i64,
        }
    }

    fn score(&self, sample: usize, clause: Clause) -> f32 {
        let distance = self.distance;
        let close = |pair| {
            let beyond = |offset: i64| f32::from(offset.abs() > distance);
            1.0 - (self.expect(sample, 0, pair, beyond) + self.expect(sample, 1, pair, beyond))
                / 2.0
        };
        match clause {
            Clause::Order(axis, pair) => self.expect(sample, axis, pair, |offset| match offset {
                ..0 => 1.0,
                0 => 0.5,
                1.. => 0.0,
            }),
            Clause::Near(pair) => close(pair),
            Clause::Far(pair) => 1.0 - close(pair),
        }
    }

    /// The expectation of `value` of the offset from a cell of the pair's second object to one of its first.
    fn expect(
        &self,
        sample: usize,
        axis: usize,
        pair: [usize; 2],
        value: impl Fn(i64) -> f32,
    ) -> f32 {
        let cells = self.cells[axis];
        let [first, second] = pair.map(|object| {
            let start = (sample * self.most + object) * cells;
            &self.values[axis][start..start + cells]
        });
        let (mut total, mut sum) = (0f64, 0f64);
        for (i, p) in first.iter().enumerate() {
            for (j, q) in second.iter().enumerate() {
                let weight = f64::from(*p) * f64::from(*q);
                sum += weight;
                total += weight * f64::from(value(i as i64 - j as i64));
            }
        }
        (total / (sum + f64::MIN_POSITIVE)) as f32
    }
}
