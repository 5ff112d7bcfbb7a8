//! Whether pictures lie among those of the other set: improved precision and recall (Kynkäänniemi et al. 2019), density
//! and coverage (Naeem et al. 2020).

use crate::linear::{Matrix, each_with_all, squares};
use crate::{Features, Measured, QualityError};

/// Four shares, as the package `prdc` computes them.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifold {
    /// How many pictures lie within a ball around a picture of the reference; by picture.
    pub precision: Measured,
    /// How many pictures of the reference lie within a ball around a picture; by picture of the reference.
    pub recall: Measured,
    /// How many balls of the reference a picture lies in, of those that it would lie in if it was one of them; may
    /// exceed 1; by picture.
    pub density: Measured,
    /// Around how many pictures of the reference the ball has a picture in it; by picture of the reference.
    pub coverage: Measured,
}

/// Compares both sets by balls around their pictures, that reach to the `neighbours`-th nearest of the same set. A picture
/// at the very edge lies outside.
///
/// # Errors
/// No neighbours, a set that has no more pictures than that, or different numbers of features.
pub fn manifold(
    features: &Features,
    reference: &Features,
    neighbours: usize,
) -> Result<Manifold, QualityError> {
    if neighbours == 0 {
        return Err(QualityError::Setting {
            name: "the number of neighbours",
            value: 0.0,
            range: "at least 1",
        });
    }
    features.like(reference.columns())?;
    for set in [features, reference] {
        set.at_least("precision and recall", neighbours + 1)?;
    }
    let (features, reference) = (Matrix::of(features), Matrix::of(reference));
    let (own_radii, radii) = (radii(&features, neighbours), radii(&reference, neighbours));
    let theirs = squares(&reference);
    let balls = each_with_all(&features, &reference, |_, own, row| {
        let squares = row.iter().zip(&theirs).map(distance(own));
        squares
            .zip(&radii)
            .filter(|(square, radius)| square < radius)
            .count()
    });
    let ours = squares(&features);
    let found = each_with_all(&reference, &features, |at, own, row| {
        let (mut inside, mut nearest) = (false, f64::INFINITY);
        let squares = row.iter().zip(&ours).map(distance(own));
        for (square, radius) in squares.zip(&own_radii) {
            inside |= square < *radius;
            nearest = nearest.min(square);
        }
        [inside, nearest < radii[at]].map(|yes| f64::from(u8::from(yes)))
    });
    let (recalled, covered) = found.into_iter().map(|[a, b]| (a, b)).unzip();
    let hit = |count: &usize| f64::from(u8::from(*count > 0));
    let share = |count: &usize| *count as f64 / neighbours as f64;
    Ok(Manifold {
        precision: Measured::mean(balls.iter().map(hit).collect()),
        recall: Measured::mean(recalled),
        density: Measured::mean(balls.iter().map(share).collect()),
        coverage: Measured::mean(covered),
    })
}

/// The squared distance from a picture with this square, by the product with another and the other's square.
fn distance(own: f64) -> impl Fn((&f64, &f64)) -> f64 {
    move |(product, other)| (own + other - 2.0 * product).max(0.0)
}

/// For each picture the squared distance of its `neighbours`-th nearest, not counting itself.
fn radii(features: &Matrix, neighbours: usize) -> Vec<f64> {
    let all = squares(features);
    each_with_all(features, features, |_, own, row| {
        let mut distances: Vec<f64> = row.iter().zip(&all).map(distance(own)).collect();
        // The nearest is the picture itself.
        let (_, radius, _) = distances.select_nth_unstable_by(neighbours, f64::total_cmp);
        *radius
    })
}
