//! Matrices of features in f64, row by row: products, and eigenvalues of symmetric ones.
//!
//! Libraries of linear algebra for this would be twenty crates more, and have Burn's own dependencies built with other
//! features; what is needed here is a product and a decomposition.

use rayon::prelude::*;

use crate::{Features, QualityError};

/// Rows that are multiplied together, so that what they are multiplied with is read from memory less often.
const ROWS: usize = 8;
/// Components of eigenvectors that rotations go through together: so many columns stay in the processor's cache.
const PART: usize = 64;
/// Sweeps of rotations that are remembered before the eigenvectors are turned by them.
const SWEEPS: usize = 32;
/// Sweeps that an eigenvalue takes at most; two are usual.
const MOST_SWEEPS: usize = 100;

/// A matrix, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    values: Vec<f64>,
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
fn add(to: &mut [f64], factor: f64, from: &[f64]) {
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
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
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

/// Eigenvalues, in no order, and the eigenvector of each as a row.
pub struct Eigen {
    /// One for each row.
    pub values: Vec<f64>,
    /// Of length 1.
    pub vectors: Matrix,
}

/// A reflection: what it leaves out at the beginning, its direction, and 2 divided by the direction's square.
struct Reflection {
    from: usize,
    direction: Vec<f64>,
    factor: f64,
}

/// A rotation of the eigenvectors `at` and `at + 1`.
#[derive(Clone, Copy)]
struct Rotation {
    at: usize,
    sine: f64,
    cosine: f64,
}

/// The eigenvalues and eigenvectors of a symmetric matrix: Householder's reduction to three diagonals, and the QL iteration
/// with implicit shifts (Golub and Van Loan, Matrix Computations, sections 8.3.1 and 8.3.3).
///
/// # Errors
/// [`QualityError::Eigenvalues`] if numbers overflow.
pub fn eigen(matrix: &Matrix) -> Result<Eigen, QualityError> {
    if !matrix.values.iter().all(|value| value.is_finite()) {
        return Err(QualityError::Eigenvalues);
    }
    let (mut diagonal, mut beside, reflections) = reduced(matrix.clone());
    let mut turning = Turning::new(matrix.rows);
    solve(&mut diagonal, &mut beside, &mut turning)?;
    let mut vectors = turning.finish();
    // Back from the reduced matrix to the whole one.
    let width = matrix.rows.max(1);
    vectors
        .values
        .par_chunks_mut(ROWS * width)
        .for_each(|rows| {
            for reflection in reflections.iter().rev() {
                for row in rows.chunks_exact_mut(width) {
                    let part = &mut row[reflection.from..];
                    let along = product(part, &reflection.direction);
                    add(part, -reflection.factor * along, &reflection.direction);
                }
            }
        });
    match diagonal.iter().all(|value| value.is_finite()) {
        true => Ok(Eigen {
            values: diagonal,
            vectors,
        }),
        false => Err(QualityError::Eigenvalues),
    }
}

/// The diagonal, what is beside it, and the reflections that lead there.
fn reduced(mut a: Matrix) -> (Vec<f64>, Vec<f64>, Vec<Reflection>) {
    let count = a.rows;
    let mut reflections = Vec::new();
    let mut beside = vec![0.0; count];
    for k in 0..count.saturating_sub(1) {
        let from = k + 1;
        // The matrix is symmetric: its row is its column.
        let mut direction = a.row(k)[from..].to_vec();
        let length = product(&direction, &direction).sqrt();
        let rest = product(&direction[1..], &direction[1..]);
        if rest == 0.0 {
            beside[k] = direction[0];
            continue;
        }
        let signed = -length.copysign(direction[0]);
        beside[k] = signed;
        direction[0] -= signed;
        let factor = 2.0 / product(&direction, &direction);
        let inner = &a.values[from * count..];
        let mut across: Vec<f64> = inner
            .par_chunks(count)
            .map(|row| factor * product(&row[from..], &direction))
            .collect();
        let middle = 0.5 * factor * product(&across, &direction);
        add(&mut across, -middle, &direction);
        let inner = a.values[from * count..].par_chunks_mut(count);
        inner.enumerate().for_each(|(i, row)| {
            add(&mut row[from..], -direction[i], &across);
            add(&mut row[from..], -across[i], &direction);
        });
        reflections.push(Reflection {
            from,
            direction,
            factor,
        });
    }
    let diagonal = (0..count).map(|i| a.at(i, i)).collect();
    (diagonal, beside, reflections)
}

/// Makes the diagonal the eigenvalues; the rotations go into `turning`.
fn solve(
    diagonal: &mut [f64],
    beside: &mut [f64],
    turning: &mut Turning,
) -> Result<(), QualityError> {
    let count = diagonal.len();
    let size = |value: f64, other: &f64| value.max(other.abs());
    let largest = diagonal.iter().chain(&*beside).fold(0.0, size);
    for first in 0..count {
        for sweep in 0.. {
            let is_small = |i: &usize| {
                let around = diagonal[*i].abs() + diagonal[i + 1].abs();
                beside[*i].abs() <= f64::EPSILON * around.max(f64::EPSILON * largest)
            };
            let last = (first..count - 1).find(is_small).unwrap_or(count - 1);
            if last == first {
                break;
            }
            if sweep == MOST_SWEEPS {
                return Err(QualityError::Eigenvalues);
            }
            step(diagonal, beside, first..last, turning);
        }
    }
    Ok(())
}

/// One sweep over a part of the three diagonals, from its end to its beginning.
fn step(
    diagonal: &mut [f64],
    beside: &mut [f64],
    part: std::ops::Range<usize>,
    turning: &mut Turning,
) {
    let (first, last) = (part.start, part.end);
    let half = (diagonal[first + 1] - diagonal[first]) / (2.0 * beside[first]);
    let shift = beside[first] / (half + half.hypot(1.0).copysign(half));
    let mut ahead = diagonal[last] - diagonal[first] + shift;
    let (mut sine, mut cosine, mut moved) = (1.0, 1.0, 0.0);
    for i in part.rev() {
        let (out, inside) = (sine * beside[i], cosine * beside[i]);
        let length = out.hypot(ahead);
        beside[i + 1] = length;
        if length == 0.0 {
            diagonal[i + 1] -= moved;
            beside[last] = 0.0;
            return;
        }
        (sine, cosine) = (out / length, ahead / length);
        let middle = diagonal[i + 1] - moved;
        let turn = (diagonal[i] - middle) * sine + 2.0 * cosine * inside;
        moved = sine * turn;
        diagonal[i + 1] = middle + moved;
        ahead = cosine * turn - inside;
        turning.add(Rotation {
            at: i,
            sine,
            cosine,
        });
    }
    diagonal[first] -= moved;
    beside[first] = ahead;
    beside[last] = 0.0;
}

/// Eigenvectors as rows, in parts of some components each, and rotations that they have not gone through yet.
struct Turning {
    count: usize,
    /// `[count, width]` each, the last one narrower.
    parts: Vec<(usize, Vec<f64>)>,
    waiting: Vec<Rotation>,
}

impl Turning {
    fn new(count: usize) -> Self {
        let part = |from: usize| {
            let width = PART.min(count - from);
            let mut values = vec![0.0; count * width];
            for i in 0..width {
                values[(from + i) * width + i] = 1.0;
            }
            (width, values)
        };
        Self {
            count,
            parts: (0..count).step_by(PART).map(part).collect(),
            waiting: Vec::new(),
        }
    }

    fn add(&mut self, rotation: Rotation) {
        self.waiting.push(rotation);
        if self.waiting.len() >= SWEEPS * self.count {
            self.turn();
        }
    }

    fn turn(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.parts.par_iter_mut().for_each(|(width, values)| {
            for Rotation { at, sine, cosine } in &waiting {
                let (before, after) = values.split_at_mut((at + 1) * *width);
                let upper = &mut before[at * *width..];
                let lower = &mut after[..*width];
                for (a, b) in upper.iter_mut().zip(lower) {
                    let old = *b;
                    *b = sine * *a + cosine * old;
                    *a = cosine * *a - sine * old;
                }
            }
        });
    }

    fn finish(mut self) -> Matrix {
        self.turn();
        let mut values = Vec::with_capacity(self.count * self.count);
        for i in 0..self.count {
            for (width, part) in &self.parts {
                values.extend_from_slice(&part[i * width..][..*width]);
            }
        }
        Matrix {
            rows: self.count,
            columns: self.count,
            values,
        }
    }
}

/// The square root of a symmetric matrix without negative eigenvalues but for rounding.
pub fn root(matrix: &Matrix) -> Result<Matrix, QualityError> {
    let Eigen { values, vectors } = eigen(matrix)?;
    // Vᵀ diag(√λ) V as the square of the fourth roots' rows.
    let scaled = Matrix::from_fn(vectors.rows, vectors.columns, |k, i| {
        vectors.at(k, i) * values[k].max(0.0).sqrt().sqrt()
    });
    Ok(scaled.squared())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symmetric(count: usize) -> Matrix {
        let wave = |i: usize, j: usize| ((i * 7 + j * 13) as f64).sin();
        Matrix::from_fn(count, count, |i, j| wave(i, j) + wave(j, i))
    }

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

    #[test]
    fn eigenvectors_are_only_stretched() {
        for count in [1, 2, 3, 17, 130] {
            let matrix = symmetric(count);
            let Eigen { values, vectors } = eigen(&matrix).unwrap();
            let stretched = vectors.times(&matrix);
            let unit = vectors.times_rows(&vectors);
            for k in 0..count {
                for i in 0..count {
                    let off = stretched.at(k, i) - values[k] * vectors.at(k, i);
                    assert!(off.abs() < 1e-11 * count as f64, "{count}: {off:e}");
                    let identity = f64::from(u8::from(i == k));
                    assert!((unit.at(k, i) - identity).abs() < 1e-12 * count as f64);
                }
            }
            let trace: f64 = (0..count).map(|i| matrix.at(i, i)).sum();
            assert!((values.iter().sum::<f64>() - trace).abs() < 1e-10);
        }
    }

    #[test]
    fn matrices_without_full_rank_have_eigenvalues() {
        // Of rank 2, of zeros, and diagonal.
        let thin = Matrix::from_fn(2, 40, |i, j| ((i + 3) * j) as f64 % 7.0 - 2.0);
        let values = eigen(&thin.squared()).unwrap().values;
        let large = values.iter().filter(|value| value.abs() > 1e-9);
        assert_eq!(large.count(), 2);
        let zeros = Matrix::from_fn(9, 9, |_, _| 0.0);
        assert_eq!(eigen(&zeros).unwrap().values, [0.0; 9]);
        let diagonal = Matrix::from_fn(5, 5, |i, j| if i == j { i as f64 } else { 0.0 });
        assert_eq!(eigen(&diagonal).unwrap().values, [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert!(eigen(&zeros.scaled(f64::NAN)).is_err());
    }

    #[test]
    fn roots_squared_are_the_matrix() {
        let matrix = symmetric(30).squared();
        let root = root(&matrix).unwrap();
        let again = root.times(&root);
        let off = again.values().iter().zip(matrix.values());
        let worst = off.fold(0.0, |most: f64, (a, b)| most.max((a - b).abs()));
        assert!(worst < 1e-10, "{worst:e}");
    }
}
