//! Matrices of features in f64, row by row, and their products.
//!
//! Libraries of linear algebra for this and for [`crate::eigen`] would be twenty crates more, and have Burn's own
//! dependencies built with other features; what is needed here is a product and a decomposition.

use rayon::prelude::*;

use crate::Features;

/// Rows that are multiplied together, so that what they are multiplied with is read from memory less often.
pub const ROWS: usize = 8;

/// A matrix, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) values: Vec<f64>,
}

impl Matrix {
    /// The matrix with these elements.
    pub fn from_fn(rows: usize, columns: usize, of: impl Fn(usize, usize) -> f64) -> Self {
        let at = |i| (0..columns).map(move |j| (i, j));
        let values = (0..rows).flat_map(at).map(|(i, j)| of(i, j)).collect();
        Self {
            rows,
            columns,
            values,
        }
    }

    /// Features, a picture each row, less `mean`.
    pub fn centred(features: &Features, mean: &[f64]) -> Self {
        let row = |row: &[f32]| -> Vec<f64> {
            row.iter()
                .zip(mean)
                .map(|(value, mean)| f64::from(*value) - mean)
                .collect()
        };
        Self {
            rows: features.rows(),
            columns: features.columns(),
            values: features.iter().flat_map(row).collect(),
        }
    }

    /// Features, a picture each row.
    pub fn of(features: &Features) -> Self {
        Self::centred(features, &vec![0.0; features.columns()])
    }

    /// Features, a picture each row, divided by its length; rows of zeros stay.
    pub fn unit(features: &Features) -> Self {
        let mut unit = Self::of(features);
        for row in unit.values.chunks_exact_mut(features.columns().max(1)) {
            let square = product(row, row);
            if square > 0.0 {
                row.iter_mut().for_each(|value| *value /= square.sqrt());
            }
        }
        unit
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.values.chunks_exact(self.columns.max(1))
    }

    /// A row.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.columns..][..self.columns]
    }

    /// All elements, row by row.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The element in this row and column.
    pub fn at(&self, i: usize, j: usize) -> f64 {
        self.values[i * self.columns + j]
    }

    /// Every element times `factor`.
    pub fn scaled(mut self, factor: f64) -> Self {
        self.values
            .par_iter_mut()
            .for_each(|value| *value *= factor);
        self
    }

    /// Rows and columns exchanged.
    pub fn transposed(&self) -> Self {
        Self::from_fn(self.columns, self.rows, |i, j| self.at(j, i))
    }

    /// The product with `other`.
    pub fn times(&self, other: &Self) -> Self {
        debug_assert_eq!(self.columns, other.rows);
        let (depth, width) = (self.columns.max(1), other.columns.max(1));
        let mut values = vec![0.0; self.rows * other.columns];
        let blocks = values.par_chunks_mut(ROWS * width);
        blocks
            .zip(self.values.par_chunks(ROWS * depth))
            .for_each(|(to, from)| {
                for (k, row) in other.iter().enumerate() {
                    for (to, from) in to.chunks_exact_mut(width).zip(from.chunks_exact(depth)) {
                        add(to, from[k], row);
                    }
                }
            });
        Self {
            rows: self.rows,
            columns: other.columns,
            values,
        }
    }

    /// The product with `other` transposed: of each row here with each row there.
    pub fn times_rows(&self, other: &Self) -> Self {
        debug_assert_eq!(self.columns, other.columns);
        let (depth, width) = (self.columns.max(1), other.rows.max(1));
        let mut values = vec![0.0; self.rows * other.rows];
        let blocks = values.par_chunks_mut(ROWS * width);
        blocks
            .zip(self.values.par_chunks(ROWS * depth))
            .for_each(|(to, from)| {
                for (j, row) in other.iter().enumerate() {
                    for (to, from) in to.chunks_exact_mut(width).zip(from.chunks_exact(depth)) {
                        to[j] = product(from, row);
                    }
                }
            });
        Self {
            rows: self.rows,
            columns: other.rows,
            values,
        }
    }

    /// The product of this transposed with itself.
    pub fn squared(&self) -> Self {
        let turned = self.transposed();
        turned.times_rows(&turned)
    }
}

/// Adds `factor` times `from`.
pub fn add(to: &mut [f64], factor: f64, from: &[f64]) {
    to.iter_mut()
        .zip(from)
        .for_each(|(to, from)| *to += factor * from);
}

/// The sum of products, in eight sums that the processor forms at once.
pub fn product(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let (a_whole, a_rest) = a.as_chunks::<LANES>();
    let (b_whole, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_whole.iter().zip(b_whole) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

/// Calls `of` for each picture of `a` with its own square and its products with all pictures of `b`, and gives the results in
/// their order.
pub fn each_with_all<R: Send>(
    a: &Matrix,
    b: &Matrix,
    of: impl Fn(usize, f64, &[f64]) -> R + Sync,
) -> Vec<R> {
    let depth = a.columns.max(1);
    let blocks = a.values.par_chunks(ROWS * depth).enumerate();
    let results = blocks.flat_map_iter(|(block, rows)| {
        let count = rows.len() / depth;
        let mut products = vec![0.0; count * b.rows];
        for (j, other) in b.iter().enumerate() {
            for (i, row) in rows.chunks_exact(depth).enumerate() {
                products[i * b.rows + j] = product(row, other);
            }
        }
        let each = (0..count).map(|i| {
            let row = a.row(block * ROWS + i);
            let own = &products[i * b.rows..][..b.rows];
            of(block * ROWS + i, product(row, row), own)
        });
        each.collect::<Vec<_>>()
    });
    results.collect()
}

/// The squares of all rows' lengths.
pub fn squares(matrix: &Matrix) -> Vec<f64> {
    matrix.iter().map(|row| product(row, row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_sums_of_products() {
        let a = Matrix::from_fn(11, 21, |i, j| (i as f64 - 3.0) * (j as f64).cos());
        let b = Matrix::from_fn(21, 13, |i, j| (i + 2 * j) as f64 * 0.1);
        let want = Matrix::from_fn(11, 13, |i, j| {
            (0..21).map(|k| a.at(i, k) * b.at(k, j)).sum()
        });
        for got in [a.times(&b), a.times_rows(&b.transposed())] {
            assert_eq!((got.rows, got.columns), (11, 13));
            let off = got.values().iter().zip(want.values());
            assert!(off.fold(0.0, |most: f64, (a, b)| most.max((a - b).abs())) < 1e-10);
        }
    }
}
