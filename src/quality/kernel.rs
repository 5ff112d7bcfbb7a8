//! Distances and variety by kernels: KID (Bińkowski et al. 2018), CMMD (Jayasumana et al. 2024) and RKE (Jalali et al.
//! 2023).

use prepose_statistics::python_random::PythonRandom;

use crate::linear::{Matrix, each_with_all, squares};
use crate::{Features, Measured, QualityError};

/// The width of CMMD's kernel.
pub const CMMD_SIGMA: f64 = 10.0;
/// What CMMD is multiplied by.
pub const CMMD_SCALE: f64 = 1000.0;

/// How KID draws its pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subsets {
    /// How often.
    pub count: usize,
    /// How many pictures of each set, at most all.
    pub size: usize,
    /// The same seed draws the same pictures.
    pub seed: u64,
}

impl Default for Subsets {
    fn default() -> Self {
        Self {
            count: 100,
            size: 1000,
            seed: 0,
        }
    }
}

/// KID as it is published.
#[derive(Clone, Debug, PartialEq)]
pub struct Kid {
    /// The mean over the subsets; can be negative.
    pub distance: Measured,
    /// The subsets' standard deviation, with their number as its divisor; 0 if all pictures are in each.
    pub deviation: f64,
}

/// The squared maximum mean discrepancy under the kernel (x·y / n + 1)³ of `n` features, without bias, as the mean over
/// subsets of both sets. Sets that are no larger than a subset are compared as a whole, once.
///
/// # Errors
/// Fewer than two pictures in a set, or different numbers of features.
pub fn kid(
    features: &Features,
    reference: &Features,
    subsets: &Subsets,
) -> Result<Kid, QualityError> {
    for set in [features, reference] {
        set.at_least("KID", 2)?;
    }
    features.like(reference.columns())?;
    let width = features.columns() as f64;
    let kernel = |product: f64, _: f64, _: f64| (product / width + 1.0).powi(3);
    let whole = discrepancy(&Matrix::of(features), &Matrix::of(reference), kernel, true);
    let size = subsets.size.max(2);
    if features.rows() <= size && reference.rows() <= size {
        return Ok(Kid {
            distance: whole,
            deviation: 0.0,
        });
    }
    let mut random = PythonRandom::new(subsets.seed);
    let mut draw = |set: &Features| {
        let some = random.sample(set.rows() as u32, size as u32);
        let rows = some.iter().flat_map(|row| set.row(*row as usize));
        Features::new(set.columns(), rows.copied().collect())
    };
    let mut values = Vec::with_capacity(subsets.count);
    for _ in 0..subsets.count.max(1) {
        let (some, others) = (draw(features)?, draw(reference)?);
        values.push(discrepancy(&Matrix::of(&some), &Matrix::of(&others), kernel, true).value);
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Ok(Kid {
        distance: whole.around(mean, 1.0),
        deviation: (squares / values.len() as f64).sqrt(),
    })
}

/// CMMD: 1000 times the squared maximum mean discrepancy of CLIP's embeddings at length 1, under a Gaussian kernel of
/// width 10, each picture compared with itself as well, as the authors' code does.
///
/// # Errors
/// No picture in a set, or different numbers of features.
pub fn cmmd(features: &Features, reference: &Features) -> Result<Measured, QualityError> {
    for set in [features, reference] {
        set.at_least("CMMD", 1)?;
    }
    features.like(reference.columns())?;
    // All values of the kernel are near 1; what is compared are their distances from it.
    let kernel = |product: f64, own: f64, other: f64| {
        let square = (own + other - 2.0 * product).max(0.0);
        (-square / (2.0 * CMMD_SIGMA * CMMD_SIGMA)).exp_m1()
    };
    let found = discrepancy(
        &Matrix::unit(features),
        &Matrix::unit(reference),
        kernel,
        false,
    );
    Ok(found.around(CMMD_SCALE * found.value, CMMD_SCALE))
}

/// RKE: the number of modes, 1 / mean K², K the Gaussian similarity of width `sigma` of each two pictures, each with
/// itself as well; from 1 to the number of pictures.
///
/// # Errors
/// No picture, or a width that is not above 0.
pub fn rke(features: &Features, sigma: f64) -> Result<Measured, QualityError> {
    features.at_least("RKE", 1)?;
    if !(sigma.is_finite() && sigma > 0.0) {
        return Err(QualityError::Setting {
            name: "the width of RKE's kernel",
            value: sigma,
            range: "above 0",
        });
    }
    let squared = |product: f64, own: f64, other: f64| {
        let square = (own + other - 2.0 * product).max(0.0);
        (-square / (sigma * sigma)).exp()
    };
    let all = Matrix::of(features);
    let means = means(&all, &all, squared, false);
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    let value = 1.0 / mean;
    let influences = means.iter().map(|one| -2.0 * (one - mean) / (mean * mean));
    Ok(Measured::with_influences(value, influences))
}

/// The median distance between two different pictures, of the first thousand: a width for RKE's kernel where no other is
/// asked for.
pub fn median_distance(features: &Features) -> f64 {
    let count = features.rows().min(1000);
    let values = features.iter().take(count).flatten().copied().collect();
    let Ok(some) = Features::new(features.columns(), values) else {
        return 0.0;
    };
    let some = Matrix::of(&some);
    let all = squares(&some);
    let rows = each_with_all(&some, &some, |picture, own, row| -> Vec<f64> {
        let before = row.iter().zip(&all).take(picture);
        before
            .map(|(product, other)| (own + other - 2.0 * product).max(0.0))
            .collect()
    });
    let mut distances = rows.concat();
    if distances.is_empty() {
        return 0.0;
    }
    let middle = distances.len() / 2;
    distances.select_nth_unstable_by(middle, f64::total_cmp);
    distances[middle].sqrt()
}

/// The squared maximum mean discrepancy under `kernel` of a product and both squares.
fn discrepancy(
    features: &Matrix,
    reference: &Matrix,
    kernel: impl Fn(f64, f64, f64) -> f64 + Sync,
    unbiased: bool,
) -> Measured {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let own = means(features, features, &kernel, unbiased);
    let across = means(features, reference, &kernel, false);
    let theirs = mean(&means(reference, reference, &kernel, unbiased));
    let (inside, between) = (mean(&own), mean(&across));
    let value = inside + theirs - 2.0 * between;
    let each = own.iter().zip(&across);
    let influences = each.map(|(own, across)| 2.0 * (own - inside) - 2.0 * (across - between));
    Measured::with_influences(value, influences)
}

/// For each picture of `a` the mean of `kernel` with all of `b`; without itself if `b` is `a` and it is to be left out.
fn means(
    a: &Matrix,
    b: &Matrix,
    kernel: impl Fn(f64, f64, f64) -> f64 + Sync,
    without_itself: bool,
) -> Vec<f64> {
    let others = squares(b);
    let divisor = (b.rows() - usize::from(without_itself)).max(1) as f64;
    each_with_all(a, b, |picture, own, row| {
        let values = row.iter().zip(&others).enumerate();
        let values = values.filter(|(other, _)| !(without_itself && *other == picture));
        let sum: f64 = values
            .map(|(_, (product, other))| kernel(*product, own, *other))
            .sum();
        sum / divisor
    })
}
