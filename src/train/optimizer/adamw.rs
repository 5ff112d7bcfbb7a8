//! AdamW (Loshchilov and Hutter 2019) as PyTorch computes it, and with moments of 8 bits as bitsandbytes does.

use serde::{Deserialize, Serialize};

use crate::blockwise::{Blocks, Map};

/// The constants of AdamW.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdamW {
    /// Share of the mean of gradients that stays.
    pub beta1: f64,
    /// Share of the mean of squared gradients that stays.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay: weights lose this share of themselves, times the learning rate.
    pub weight_decay: f64,
}

impl Default for AdamW {
    /// PyTorch's.
    fn default() -> Self {
        Self {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 1e-2,
        }
    }
}

impl AdamW {
    /// `1 - beta^step` of both.
    fn corrections(&self, step: u64) -> [f64; 2] {
        let step = step.min(i32::MAX as u64) as i32;
        [self.beta1, self.beta2].map(|beta| 1.0 - beta.powi(step))
    }

    /// PyTorch's step number `step`, from 1.
    pub(crate) fn step(
        &self,
        weights: &mut [f32],
        gradient: &[f32],
        [mean, square]: [&mut [f32]; 2],
        rate: f64,
        step: u64,
    ) {
        let [first, second] = self.corrections(step);
        let keep = (1.0 - rate * self.weight_decay) as f32;
        let (mix, beta2, new) = (
            (1.0 - self.beta1) as f32,
            self.beta2 as f32,
            (1.0 - self.beta2) as f32,
        );
        let (size, root, eps) = ((rate / first) as f32, second.sqrt() as f32, self.eps as f32);
        let moments = mean.iter_mut().zip(square);
        for ((weight, g), (mean, square)) in weights.iter_mut().zip(gradient).zip(moments) {
            *mean += mix * (g - *mean);
            *square = *square * beta2 + new * g * g;
            *weight = *weight * keep - size * (*mean / (square.sqrt() / root + eps));
        }
    }

    /// bitsandbytes' step with moments of f32, which it takes for tensors of fewer than 4096 elements: the same up to
    /// rounding, but that weights decay after they moved.
    pub(crate) fn step_small(
        &self,
        weights: &mut [f32],
        gradient: &[f32],
        [mean, square]: [&mut [f32]; 2],
        rate: f64,
        step: u64,
    ) {
        let moments = mean.iter_mut().zip(square);
        let apply = self.bitsandbytes(rate, step);
        for ((weight, g), (mean, square)) in weights.iter_mut().zip(gradient).zip(moments) {
            [*mean, *square] = apply(weight, *g, [*mean, *square]);
        }
    }

    /// What bitsandbytes' CUDA kernels do with an element: moves the weight, and gives the new moments.
    fn bitsandbytes(
        &self,
        rate: f64,
        step: u64,
    ) -> impl Fn(&mut f32, f32, [f32; 2]) -> [f32; 2] + Sync {
        let [first, second] = self.corrections(step);
        let root = second.sqrt() as f32;
        let size = (-rate * second.sqrt() / first) as f32;
        let (beta1, beta2, eps) = (self.beta1 as f32, self.beta2 as f32, self.eps as f32);
        let decay = (rate * self.weight_decay) as f32;
        move |weight, g, [mean, square]| {
            if !g.is_finite() {
                return [0.0, 0.0];
            }
            let square = square * beta2 + (1.0 - beta2) * g * g;
            let mean = mean * beta1 + (1.0 - beta1) * g;
            *weight += size * (mean / (square.sqrt() + root * eps));
            if decay > 0.0 {
                *weight *= 1.0 - decay;
            }
            [mean, square]
        }
    }

    /// bitsandbytes' step with blocks of 8-bit moments. Weights move by the moments before these are rounded.
    pub(crate) fn step_blocks(
        &self,
        weights: &mut [f32],
        gradient: &[f32],
        [mean, square]: [&mut Blocks; 2],
        rate: f64,
        step: u64,
    ) {
        let apply = self.bitsandbytes(rate, step);
        let (signed, unsigned) = (Map::signed(), Map::unsigned());
        let mut new = [[0f32; Blocks::SIZE]; 2];
        let blocks = weights
            .chunks_mut(Blocks::SIZE)
            .zip(gradient.chunks(Blocks::SIZE));
        for (block, (weights, gradient)) in blocks.enumerate() {
            let length = weights.len();
            for (at, (weight, g)) in weights.iter_mut().zip(gradient).enumerate() {
                let old = [
                    mean.value(signed, block, at),
                    square.value(unsigned, block, at),
                ];
                [new[0][at], new[1][at]] = apply(weight, *g, old);
            }
            mean.store(signed, block, &new[0][..length]);
            square.store(unsigned, block, &new[1][..length]);
        }
    }
}
