//! Matrices of features in f64: pictures are columns.

use std::ops::Range;

use faer::{Mat, Side};

use crate::{Features, QualityError};

/// Pictures that are multiplied with all others at a time.
pub const BLOCK: usize = 256;

/// Some pictures as the columns of a matrix `[features, pictures]`.
pub fn columns(features: &Features, pictures: Range<usize>) -> Mat<f64> {
    let from = pictures.start;
    Mat::from_fn(features.columns(), pictures.len(), |i, j| {
        f64::from(features.row(from + j)[i])
    })
}

/// Ranges of at most [`BLOCK`] pictures.
pub fn blocks(count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count)
        .step_by(BLOCK)
        .map(move |from| from..(from + BLOCK).min(count))
}

/// Calls `take` with each picture of `a` and its products with all pictures of `b`, and with the picture's own square.
pub fn products(
    a: &Features,
    b: &Features,
    mut take: impl FnMut(usize, f64, &mut dyn Iterator<Item = f64>),
) {
    let others = columns(b, 0..b.rows());
    for pictures in blocks(a.rows()) {
        let some = columns(a, pictures.clone());
        // A column for each picture of `a`, which lies contiguously.
        let products = others.transpose() * &some;
        for (j, picture) in pictures.enumerate() {
            let square = square(a.row(picture));
            let mut column = (0..products.nrows()).map(|i| products[(i, j)]);
            take(picture, square, &mut column);
        }
    }
}

/// The square of a row's length.
pub fn square(row: &[f32]) -> f64 {
    row.iter().map(|value| f64::from(*value).powi(2)).sum()
}

/// The squares of all rows' lengths.
pub fn squares(features: &Features) -> Vec<f64> {
    features.iter().map(square).collect()
}

/// The eigenvalues and eigenvectors (columns) of a symmetric matrix, of which the lower half counts.
pub fn eigen(matrix: &Mat<f64>) -> Result<(Vec<f64>, Mat<f64>), QualityError> {
    let found = matrix
        .self_adjoint_eigen(Side::Lower)
        .map_err(|_| QualityError::Eigenvalues)?;
    let values = found.S().column_vector();
    let values: Vec<f64> = (0..matrix.nrows()).map(|i| values[i]).collect();
    match values.iter().all(|value| value.is_finite()) {
        true => Ok((values, found.U().to_owned())),
        false => Err(QualityError::Eigenvalues),
    }
}

/// The square root of a symmetric matrix without negative eigenvalues but for rounding.
pub fn root(matrix: &Mat<f64>) -> Result<Mat<f64>, QualityError> {
    let (values, vectors) = eigen(matrix)?;
    let scaled = Mat::from_fn(vectors.nrows(), vectors.ncols(), |i, j| {
        vectors[(i, j)] * values[j].max(0.0).sqrt()
    });
    Ok(&scaled * vectors.transpose())
}
