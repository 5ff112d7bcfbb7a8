//! Adafactor (Shazeer and Stern 2018) as transformers computes it with a learning rate of one's own.

use serde::{Deserialize, Serialize};

/// The constants of Adafactor. Relative steps and the scaling by the weights are off, as trainers of diffusion models have it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adafactor {
    /// Added to squared gradients.
    pub eps: f64,
    /// The update's root mean square is at most this.
    pub clip_threshold: f64,
    /// The share of the squares that stays is `1 - step^decay_rate`.
    pub decay_rate: f64,
    /// As AdamW's.
    pub weight_decay: f64,
}

impl Default for Adafactor {
    /// transformers', but without weight decay's default of 0 being anything else.
    fn default() -> Self {
        Self {
            eps: 1e-30,
            clip_threshold: 1.0,
            decay_rate: -0.8,
            weight_decay: 0.0,
        }
    }
}

/// The root mean square of an update, summed in f64.
fn rms(values: &[f32]) -> f64 {
    let sum: f64 = values.iter().map(|v| f64::from(*v) * f64::from(*v)).sum();
    (sum / values.len().max(1) as f64).sqrt()
}

impl Adafactor {
    fn kept(&self, step: u64) -> f32 {
        (1.0 - (step as f64).powf(self.decay_rate)) as f32
    }

    /// Step number `step`, from 1, of a tensor of two or more axes: `rows` has a mean for each row of the last axis, `columns`
    /// one for each column of each matrix of the last two axes.
    pub(crate) fn step_factored(
        &self,
        weights: &mut [f32],
        gradient: &[f32],
        [rows, columns]: [&mut [f32]; 2],
        [height, width]: [usize; 2],
        rate: f64,
        step: u64,
    ) {
        let kept = self.kept(step);
        let eps = self.eps as f32;
        let mut update = Vec::with_capacity(weights.len());
        let matrices = gradient.chunks_exact(height * width);
        let factors = rows
            .chunks_exact_mut(height)
            .zip(columns.chunks_exact_mut(width));
        for (matrix, (rows, columns)) in matrices.zip(factors) {
            let square = |g: f32| g * g + eps;
            let mut sums = vec![0f64; width];
            for (row, gradients) in rows.iter_mut().zip(matrix.chunks_exact(width)) {
                let mut sum = 0f64;
                for (total, g) in sums.iter_mut().zip(gradients) {
                    sum += f64::from(square(*g));
                    *total += f64::from(square(*g));
                }
                *row = *row * kept + (sum / width as f64) as f32 * (1.0 - kept);
            }
            for (column, sum) in columns.iter_mut().zip(sums) {
                *column = *column * kept + (sum / height as f64) as f32 * (1.0 - kept);
            }
            let mean = rows.iter().map(|row| f64::from(*row)).sum::<f64>() / height as f64;
            let columns: Vec<f32> = columns.iter().map(|column| 1.0 / column.sqrt()).collect();
            for (row, gradients) in rows.iter().zip(matrix.chunks_exact(width)) {
                let row = 1.0 / (*row / mean as f32).sqrt();
                update.extend(
                    gradients
                        .iter()
                        .zip(&columns)
                        .map(|(g, column)| row * column * g),
                );
            }
        }
        self.apply(weights, update, rate);
    }

    /// As [`step_factored`](Self::step_factored) for a tensor of one axis.
    pub(crate) fn step_whole(
        &self,
        weights: &mut [f32],
        gradient: &[f32],
        squares: &mut [f32],
        rate: f64,
        step: u64,
    ) {
        let kept = self.kept(step);
        let eps = self.eps as f32;
        let update = squares.iter_mut().zip(gradient).map(|(square, g)| {
            *square = *square * kept + (g * g + eps) * (1.0 - kept);
            g / square.sqrt()
        });
        let update = update.collect();
        self.apply(weights, update, rate);
    }

    fn apply(&self, weights: &mut [f32], update: Vec<f32>, rate: f64) {
        let factor = (rate / (rms(&update) / self.clip_threshold).max(1.0)) as f32;
        let keep = (1.0 - self.weight_decay * rate) as f32;
        for (weight, update) in weights.iter_mut().zip(update) {
            *weight = *weight * keep - update * factor;
        }
    }
}
