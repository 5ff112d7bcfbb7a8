//! How much a UNet computes, from its shapes.

use prepose_kernels::profile::{attention_flops, conv_flops, linear_flops};

use super::config::{LevelPlan, UNetConfig, UNetPlan};
use crate::config::ConfigError;

/// Multiplications and additions of the matrix products in a UNet, counted as PyTorch's counter does it: biases,
/// norms, activations and softmax count nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UNetFlops {
    /// Convolutions, except those that are projections of transformers.
    pub convolution: u64,
    /// Affine layers, and the transformers' projections in either form.
    pub matmul: u64,
    /// Scores and their products with the values.
    pub attention: u64,
    /// What is computed once a prompt and not at every step: keys and values of the text, and the embedding of
    /// SDXL's added conditioning.
    pub preparation: u64,
}

impl UNetFlops {
    /// Of one call with prepared conditioning.
    pub fn step(&self) -> u64 {
        self.convolution + self.matmul + self.attention
    }

    /// Of one call that prepares nothing beforehand, as diffusers' are.
    pub fn total(&self) -> u64 {
        self.step() + self.preparation
    }
}

impl UNetConfig {
    /// What a call computes for `samples` latents of `size` (height and width) at one timestep, with `tokens`
    /// of text each. Classifier-free guidance has two samples a picture.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn flops(
        &self,
        samples: usize,
        size: [usize; 2],
        tokens: usize,
    ) -> Result<UNetFlops, ConfigError> {
        let plan = self.plan()?;
        let mut counter = Counter {
            flops: UNetFlops::default(),
            samples,
            size,
            tokens,
            time: plan.time_dim,
            time_rows: if plan.added.is_some() { samples } else { 1 },
        };
        counter.network(self, &plan);
        Ok(counter.flops)
    }
}

struct Counter {
    flops: UNetFlops,
    samples: usize,
    size: [usize; 2],
    tokens: usize,
    /// Width of the time embedding.
    time: usize,
    /// One for all samples, unless added conditioning tells them apart.
    time_rows: usize,
}

impl Counter {
    fn network(&mut self, config: &UNetConfig, plan: &UNetPlan) {
        let levels = &plan.levels;
        let last = levels.len() - 1;
        let first = levels[0].channels;
        self.time_embedding(first);
        if let Some((_, width)) = plan.added {
            let time = self.time;
            self.flops.preparation += linear_flops(self.samples, width, time);
            self.flops.preparation += linear_flops(self.samples, time, time);
        }
        self.conv(0, config.in_channels, first, 3);
        let mut input = first;
        for (i, level) in levels.iter().enumerate() {
            for _ in 0..level.layers {
                self.resnet(i, input, level.channels);
                input = level.channels;
                if level.cross_attention_down {
                    self.transformer(i, level);
                }
            }
            if i < last {
                self.conv(i + 1, level.channels, level.channels, 3);
            }
        }
        let bottom = levels[last];
        self.resnet(last, bottom.channels, bottom.channels);
        self.transformer(last, &bottom);
        self.resnet(last, bottom.channels, bottom.channels);
        for (i, level) in levels.iter().enumerate().rev() {
            let mut input = levels[(i + 1).min(last)].channels;
            for layer in 0..=level.layers {
                let skip = match layer == level.layers {
                    true => levels[i.saturating_sub(1)].channels,
                    false => level.channels,
                };
                self.resnet(i, input + skip, level.channels);
                input = level.channels;
                if level.cross_attention_up {
                    self.transformer(i, level);
                }
            }
            if i > 0 {
                self.conv(i - 1, level.channels, level.channels, 3);
            }
        }
        self.conv(0, first, config.out_channels, 3);
    }

    /// All samples are at one timestep, which is embedded once.
    fn time_embedding(&mut self, width: usize) {
        self.flops.matmul += linear_flops(1, width, self.time);
        self.flops.matmul += linear_flops(1, self.time, self.time);
    }

    /// Height and width at a level: each is half of the one above, rounded up.
    fn at(&self, level: usize) -> [usize; 2] {
        self.size.map(|side| side.div_ceil(1 << level))
    }

    /// A convolution whose result is at `level`.
    fn conv(&mut self, level: usize, input: usize, output: usize, kernel: usize) {
        let [height, width] = self.at(level);
        let out = [self.samples, output, height, width];
        self.flops.convolution += conv_flops(out, input, kernel);
    }

    fn resnet(&mut self, level: usize, input: usize, output: usize) {
        self.conv(level, input, output, 3);
        self.conv(level, output, output, 3);
        if input != output {
            self.conv(level, input, output, 1);
        }
        self.flops.matmul += linear_flops(self.time_rows, self.time, output);
    }

    fn transformer(&mut self, level: usize, plan: &LevelPlan) {
        let LevelPlan {
            channels,
            heads,
            context_dim,
            depth,
            ..
        } = *plan;
        let pixels = self.at(level).iter().product();
        let square = linear_flops(self.samples * pixels, channels, channels);
        let q = [self.samples, heads, pixels, channels / heads];
        // In and out.
        self.flops.matmul += 2 * square;
        for _ in 0..depth {
            // Four projections of self-attention, two of the attention to the text, and the feed-forward: eight
            // times as wide going in, four times coming out.
            self.flops.matmul += (4 + 2 + 8 + 4) * square;
            self.flops.attention += attention_flops(q, pixels, 2);
            self.flops.attention += attention_flops(q, self.tokens, 2);
            let text = self.samples * self.tokens;
            self.flops.preparation += 2 * linear_flops(text, context_dim, channels);
        }
    }
}
