//! How many different pictures there are in effect: the Vendi score (Friedman and Dieng 2023).

use crate::eigen::{Eigen, eigen};
use crate::linear::Matrix;
use crate::{Features, Measured, QualityError};

/// The exponential of the entropy of the eigenvalues of the pictures' similarity matrix, divided by their number: from 1,
/// all alike, to their number. Pictures are as similar as the cosine of their features.
///
/// # Errors
/// No picture at all, or features that are all zero in one.
pub fn vendi(features: &Features) -> Result<Measured, QualityError> {
    features.at_least("the Vendi score", 1)?;
    let unit = Matrix::unit(features);
    let count = unit.rows();
    // Both matrices have the same eigenvalues but for zeros; the smaller is less work.
    let logarithms = match count <= features.columns() {
        true => by_pictures(&unit)?,
        false => by_features(&unit)?,
    };
    let entropy = -logarithms.iter().sum::<f64>() / count as f64;
    let value = entropy.exp();
    let influences = logarithms.iter().map(|one| value * (-one - entropy));
    Ok(Measured::with_influences(value, influences))
}

/// For each picture what it contributes to the eigenvalues' mean logarithm.
fn by_pictures(unit: &Matrix) -> Result<Vec<f64>, QualityError> {
    let count = unit.rows();
    let similar = unit.times_rows(unit).scaled(1.0 / count as f64);
    let Eigen { values, vectors } = eigen(&similar)?;
    let of = |i: usize| {
        let parts = values.iter().enumerate();
        let parts = parts.filter(|(_, value)| **value > 0.0);
        let sum: f64 = parts
            .map(|(k, value)| value * value.ln() * vectors.at(k, i).powi(2))
            .sum();
        sum * count as f64
    };
    Ok((0..count).map(of).collect())
}

fn by_features(unit: &Matrix) -> Result<Vec<f64>, QualityError> {
    let similar = unit.squared().scaled(1.0 / unit.rows() as f64);
    let Eigen { values, vectors } = eigen(&similar)?;
    let turned = unit.times_rows(&vectors);
    let of = |row: &[f64]| {
        let parts = values.iter().zip(row);
        let parts = parts.filter(|(value, _)| **value > 0.0);
        parts.map(|(value, along)| value.ln() * along.powi(2)).sum()
    };
    Ok(turned.iter().map(of).collect())
}
