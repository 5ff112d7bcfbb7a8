//! How good sets of pictures are, by the features that networks see in them.
//!
//! Owns every figure of a set at once ([`figures`]), the Fréchet distance ([`frechet`]), distances of kernels ([`kernel`]), precision, recall, density and coverage
//! ([`neighbours`]), the Vendi score ([`diversity`]) and the Inception score ([`inception`]). Pure functions on features, in
//! f64; it knows no networks, tensors or pictures. Values are compared with those of pytorch-fid, torchmetrics, `prdc`,
//! `vendi-score` and `rke-score` (`scripts/reference/cases/quality.py`).

#![warn(clippy::unwrap_used)]

pub mod diversity;
mod eigen;
mod error;
mod features;
pub mod figures;
pub mod frechet;
pub mod inception;
pub mod kernel;
mod linear;
pub mod neighbours;

#[cfg(test)]
mod tests;

pub use error::QualityError;
pub use features::Features;
pub use frechet::Moments;

use prepose_statistics::bootstrap::{Bootstrap, Estimate};

/// A statistic of a set of pictures, with what each of them contributes.
///
/// `each` has a number for each picture, whose mean is the value: the value plus the picture's influence on it (Hampel
/// 1974), how fast the value would change if the picture were weighted more. The bootstrap of their mean is that of the
/// statistic to first order. Drawing pictures themselves again would repeat some, which all of these statistics take
/// for a lack of variety.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Of all pictures.
    pub value: f64,
    /// One for each picture, in their order.
    pub each: Vec<f64>,
}

impl Measured {
    /// The mean of `each`.
    pub fn mean(each: Vec<f64>) -> Self {
        let value = each.iter().sum::<f64>() / each.len().max(1) as f64;
        Self { value, each }
    }

    /// A value and the influences of the pictures on it, whose mean is 0 but for rounding.
    fn with_influences(value: f64, influences: impl IntoIterator<Item = f64>) -> Self {
        let each: Vec<f64> = influences.into_iter().map(|one| value + one).collect();
        Self { value, each }
    }

    /// The same contributions around another value, times `factor`.
    pub fn around(&self, value: f64, factor: f64) -> Self {
        let each = self.each.iter();
        Self {
            value,
            each: each
                .map(|one| value + factor * (one - self.value))
                .collect(),
        }
    }

    /// The value with its 95 % interval if other pictures had been made. `groups` names for each picture the group that
    /// it belongs to, such as its prompt: groups are drawn again, not pictures.
    ///
    /// # Panics
    /// If there is not one group for each picture.
    pub fn estimate(&self, groups: &[usize], bootstrap: &Bootstrap) -> Estimate {
        assert_eq!(groups.len(), self.each.len(), "a group for each picture");
        let count = groups.iter().max().map_or(0, |most| most + 1);
        let mut grouped = vec![Vec::new(); count];
        for (group, one) in groups.iter().zip(&self.each) {
            grouped[*group].push(*one);
        }
        grouped.retain(|group| !group.is_empty());
        let drawn = bootstrap.mean(&grouped);
        Estimate {
            value: self.value,
            ..drawn
        }
    }
}
