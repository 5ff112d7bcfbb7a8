//! How many different pictures there are in effect: the Vendi score (Friedman and Dieng 2023).

use faer::Mat;

use crate::linear::{blocks, columns, eigen};
use crate::{Features, Measured, QualityError};

/// The exponential of the entropy of the eigenvalues of the pictures' similarity matrix, divided by their number: from 1,
/// all alike, to their number. Pictures are as similar as the cosine of their features.
///
/// # Errors
/// No picture at all, or features that are all zero in one.
pub fn vendi(features: &Features) -> Result<Measured, QualityError> {
    features.at_least("the Vendi score", 1)?;
    let unit = features.unit();
    let count = unit.rows();
    // Both matrices have the same eigenvalues but for zeros; the smaller is less work.
    let logarithms = match count <= unit.columns() {
        true => by_pictures(&unit)?,
        false => by_features(&unit)?,
    };
    let entropy = -logarithms.iter().sum::<f64>() / count as f64;
    let value = entropy.exp();
    let influences = logarithms.iter().map(|one| value * (-one - entropy));
    Ok(Measured::with_influences(value, influences))
}

/// For each picture what it contributes to the eigenvalues' mean logarithm.
fn by_pictures(unit: &Features) -> Result<Vec<f64>, QualityError> {
    let count = unit.rows();
    let all = columns(unit, 0..count);
    let similar = all.transpose() * &all;
    let similar = Mat::from_fn(count, count, |i, j| similar[(i, j)] / count as f64);
    let (values, vectors) = eigen(&similar)?;
    let of = |i: usize| {
        let parts = values.iter().enumerate();
        let parts = parts.filter(|(_, value)| **value > 0.0);
        let sum: f64 = parts
            .map(|(k, value)| value * value.ln() * vectors[(i, k)].powi(2))
            .sum();
        sum * count as f64
    };
    Ok((0..count).map(of).collect())
}

fn by_features(unit: &Features) -> Result<Vec<f64>, QualityError> {
    let (count, width) = (unit.rows(), unit.columns());
    let mut similar = Mat::<f64>::zeros(width, width);
    for pictures in blocks(count) {
        let some = columns(unit, pictures);
        similar += &some * some.transpose();
    }
    let similar = Mat::from_fn(width, width, |i, j| similar[(i, j)] / count as f64);
    let (values, vectors) = eigen(&similar)?;
    let mut logarithms = Vec::with_capacity(count);
    for pictures in blocks(count) {
        let turned = vectors.transpose() * &columns(unit, pictures);
        for j in 0..turned.ncols() {
            let parts = values.iter().enumerate();
            let parts = parts.filter(|(_, value)| **value > 0.0);
            logarithms.push(parts.map(|(k, value)| value.ln() * turned[(k, j)].powi(2)).sum());
        }
    }
    Ok(logarithms)
}
