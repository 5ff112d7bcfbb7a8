//! The Fréchet distance between two sets' features as if they were normally distributed: FID (Heusel et al. 2017), if
//! they are Inception's.

use crate::eigen::{Eigen, eigen, root};
use crate::linear::{Matrix, product};
use crate::{Features, Measured, QualityError};

/// The mean and the covariance of a set's features.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    mean: Vec<f64>,
    covariance: Matrix,
}

impl Moments {
    /// Those of `features`, the covariance with one less than their number as its divisor, as pytorch-fid's.
    ///
    /// # Errors
    /// [`QualityError::Few`] for fewer than two pictures.
    pub fn of(features: &Features) -> Result<Self, QualityError> {
        features.at_least("a covariance", 2)?;
        let (count, width) = (features.rows() as f64, features.columns());
        let mut mean = vec![0.0; width];
        for row in features.iter() {
            mean.iter_mut()
                .zip(row)
                .for_each(|(sum, value)| *sum += f64::from(*value));
        }
        mean.iter_mut().for_each(|sum| *sum /= count);
        let covariance = Matrix::centred(features, &mean).squared();
        let covariance = covariance.scaled(1.0 / (count - 1.0));
        Ok(Self { mean, covariance })
    }

    /// From a mean and a covariance `[n, n]`, row by row.
    ///
    /// # Errors
    /// [`QualityError::Covariance`] if the sizes do not fit, a number is none, the matrix is not symmetric or a variance
    /// is negative.
    pub fn new(mean: Vec<f64>, covariance: &[f64]) -> Result<Self, QualityError> {
        let width = mean.len();
        let wrong = |what: String| Err(QualityError::Covariance(what));
        if width == 0 || width.checked_mul(width) != Some(covariance.len()) {
            return wrong(format!(
                "it has {} numbers, and the mean has {width}",
                covariance.len()
            ));
        }
        if !mean.iter().chain(covariance).all(|value| value.is_finite()) {
            return wrong("it has NaN or infinite numbers".into());
        }
        let at = |i: usize, j: usize| covariance[i * width + j];
        let largest = (0..width).map(|i| at(i, i)).fold(0.0, f64::max);
        for i in 0..width {
            if at(i, i) < 0.0 {
                return wrong(format!("feature {i} has the variance {}", at(i, i)));
            }
            if let Some(j) = (0..i).find(|j| (at(i, *j) - at(*j, i)).abs() > 1e-6 * largest) {
                return wrong(format!("it is not symmetric in row {i}, column {j}"));
            }
        }
        Ok(Self {
            mean,
            covariance: Matrix::from_fn(width, width, at),
        })
    }

    /// The mean.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The covariance, row by row.
    pub fn covariance(&self) -> Vec<f64> {
        self.covariance.values().to_vec()
    }

    fn trace(&self) -> f64 {
        (0..self.mean.len()).map(|i| self.covariance.at(i, i)).sum()
    }
}

/// The distance of `features` from a set with these moments: the square of the means' distance, the traces of both
/// covariances, and less twice that of the root of their product.
///
/// With fewer pictures than features the covariance has no full rank; the distance is defined, but far above that of more
/// pictures.
///
/// # Errors
/// Fewer than two pictures, or another number of features than the reference has.
pub fn frechet(features: &Features, reference: &Moments) -> Result<Measured, QualityError> {
    features.at_least("the Fréchet distance", 2)?;
    features.like(reference.mean.len())?;
    let own = Moments::of(features)?;
    let shift: Vec<f64> = own
        .mean
        .iter()
        .zip(&reference.mean)
        .map(|(own, other)| own - other)
        .collect();
    let roots = match features.rows() <= features.columns() {
        true => roots_of_pictures(features, &own.mean, reference)?,
        false => roots_of_features(features, &own, reference)?,
    };
    let distance = product(&shift, &shift);
    let trace = own.trace();
    let root: f64 = roots.iter().sum();
    // Rounding may leave it a little below zero for equal sets.
    let value = (distance + trace + reference.trace() - 2.0 * root).max(0.0);
    let count = features.rows() as f64;
    let influence = |(row, root_of_it): (&[f32], &f64)| {
        let mut away = 0.0;
        let mut along = 0.0;
        for ((value, mean), shift) in row.iter().zip(&own.mean).zip(&shift) {
            let centred = f64::from(*value) - mean;
            away += centred * centred;
            along += centred * shift;
        }
        // The root's part is half its own of the product, for each of the two.
        2.0 * along + (away * count / (count - 1.0) - trace) - (count * root_of_it - root)
    };
    let influences: Vec<f64> = features.iter().zip(&roots).map(influence).collect();
    Ok(Measured::with_influences(value, influences))
}

/// For each picture its part of the trace of the root of both covariances' product, by the pictures' own matrix: for
/// fewer pictures than features.
fn roots_of_pictures(
    features: &Features,
    mean: &[f64],
    reference: &Moments,
) -> Result<Vec<f64>, QualityError> {
    let centred = Matrix::centred(features, mean);
    let product = centred.times(&reference.covariance).times_rows(&centred);
    let product = product.scaled(1.0 / (features.rows() as f64 - 1.0));
    let Eigen { values, vectors } = eigen(&product)?;
    let root = |i: usize| {
        let parts = values.iter().enumerate();
        parts
            .map(|(k, value)| value.max(0.0).sqrt() * vectors.at(k, i).powi(2))
            .sum()
    };
    Ok((0..features.rows()).map(root).collect())
}

/// The same by the features' matrix: for more pictures than features.
fn roots_of_features(
    features: &Features,
    own: &Moments,
    reference: &Moments,
) -> Result<Vec<f64>, QualityError> {
    let half = root(&reference.covariance)?;
    let product = half.times(&own.covariance).times(&half);
    let Eigen { values, vectors } = eigen(&product)?;
    let largest = values.iter().copied().fold(0.0, f64::max);
    let turned = Matrix::centred(features, &own.mean).times_rows(&vectors.times(&half));
    let root = |row: &[f64]| {
        let part = |(value, along): (&f64, &f64)| match *value > largest * 1e-15 {
            true => along.powi(2) / value.sqrt(),
            false => 0.0,
        };
        let sum: f64 = values.iter().zip(row).map(part).sum();
        sum / (features.rows() as f64 - 1.0)
    };
    Ok(turned.iter().map(root).collect())
}
