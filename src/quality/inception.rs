//! The Inception score (Salimans et al. 2016).

use crate::{Features, Measured, QualityError};

/// The score as it is published.
#[derive(Clone, Debug, PartialEq)]
pub struct InceptionScore {
    /// The mean over the splits, with each picture's part in the score of all.
    pub score: Measured,
    /// The splits' standard deviation, with their number as its divisor.
    pub deviation: f64,
    /// How many splits there were.
    pub splits: usize,
}

/// The exponential of the mean distance (Kullback-Leibler) of the pictures' classes from the mean of their split, over
/// `splits` equal parts of the pictures in their order; mean and standard deviation over the parts. `logits` are a
/// network's classes before the softmax, a row for each picture.
///
/// # Errors
/// Fewer pictures than splits, or no splits.
pub fn score(logits: &Features, splits: usize) -> Result<InceptionScore, QualityError> {
    if splits == 0 {
        return Err(QualityError::Setting {
            name: "the number of splits",
            value: 0.0,
            range: "at least 1",
        });
    }
    logits.at_least("the Inception score", splits)?;
    let classes: Vec<Vec<f64>> = logits.iter().map(softmax).collect();
    let count = classes.len();
    let parts = (0..splits).map(|i| &classes[i * count / splits..(i + 1) * count / splits]);
    let scores: Vec<f64> = parts.map(|part| mean(&distances(part)).exp()).collect();
    let value = mean(&scores);
    let squares: Vec<f64> = scores.iter().map(|one| (one - value).powi(2)).collect();
    let all = distances(&classes);
    let middle = mean(&all);
    let influences = all.iter().map(|one| value * (one - middle));
    Ok(InceptionScore {
        score: Measured::with_influences(value, influences),
        deviation: mean(&squares).sqrt(),
        splits,
    })
}

/// The shares of the classes.
fn softmax(logits: &[f32]) -> Vec<f64> {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers = logits
        .iter()
        .map(|x| (f64::from(*x) - f64::from(most)).exp());
    let powers: Vec<f64> = powers.collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

/// How far each picture's classes are from the mean of all.
fn distances(classes: &[Vec<f64>]) -> Vec<f64> {
    let width = classes.first().map_or(0, Vec::len);
    let mut middle = vec![0.0; width];
    for shares in classes {
        middle
            .iter_mut()
            .zip(shares)
            .for_each(|(sum, share)| *sum += share / classes.len() as f64);
    }
    let far = |shares: &Vec<f64>| {
        let parts = shares.iter().zip(&middle);
        let parts = parts.filter(|(share, _)| **share > 0.0);
        parts.map(|(share, mean)| share * (share / mean).ln()).sum()
    };
    classes.iter().map(far).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
