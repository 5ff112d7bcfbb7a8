//! Eigenvalues of symmetric matrices.

use rayon::prelude::*;

use crate::QualityError;
use crate::linear::{Matrix, ROWS, add, product};

/// Sweeps that an eigenvalue takes at most; two are usual.
const MOST_SWEEPS: usize = 100;
/// Sweeps of rotations that are remembered before the eigenvectors are turned by them.
const SWEEPS: usize = 32;
/// Components of eigenvectors that rotations go through together: so many columns stay in the processor's cache.
const PART: usize = 64;

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
    for (k, off) in beside.iter_mut().enumerate().take(count.saturating_sub(1)) {
        let from = k + 1;
        // The matrix is symmetric: its row is its column.
        let mut direction = a.row(k)[from..].to_vec();
        let length = product(&direction, &direction).sqrt();
        let rest = product(&direction[1..], &direction[1..]);
        if rest == 0.0 {
            *off = direction[0];
            continue;
        }
        let signed = -length.copysign(direction[0]);
        *off = signed;
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
    fn eigenvectors_are_only_stretched() {
        for count in [1, 2, 3, 17, 130] {
            let matrix = symmetric(count);
            let Eigen { values, vectors } = eigen(&matrix).unwrap();
            let stretched = vectors.times(&matrix);
            let unit = vectors.times_rows(&vectors);
            for (k, value) in values.iter().enumerate() {
                for i in 0..count {
                    let off = stretched.at(k, i) - value * vectors.at(k, i);
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
