//! The kernels of a UNet call on a GPU: how often each is launched, and what it must read, write and compute, from shapes
//! alone.

use prepose_kernels::profile::{attention_flops, conv_flops, linear_flops};

use super::config::{LevelPlan, UNetConfig, UNetPlan};
use super::footprint::PassShape;
use crate::config::ConfigError;

/// Bytes of an element of weights and feature maps: f16 or bf16.
const ELEMENT: u64 = 2;
/// Bytes of a weight of the time embedding, which is f32.
const EXACT: u64 = 4;
/// Elements of 16 bytes: heads are as wide as some of them.
const PIECE: usize = 8;
/// The widest heads that attention takes to the tensor cores.
const WIDEST: usize = 160;

/// A kind of kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kernel {
    /// A 3×3 convolution with its bias.
    Convolution,
    /// A product of matrices, with the bias and the residual that it adds.
    Product,
    /// Attention on tensor cores.
    Attention,
    /// Attention on the units for f32: of heads that do not fit the tensor cores.
    PlainAttention,
    /// Group and layer norms, with SiLU.
    Norm,
    /// The gate of the feed-forward.
    Gate,
    /// A residual or the time's shift, where no product takes it.
    Sum,
    /// Skip connections joined.
    Join,
    /// Enlargement.
    Resize,
}

impl Kernel {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Convolution => "convolution",
            Self::Product => "product",
            Self::Attention => "attention (tensor cores)",
            Self::PlainAttention => "attention (f32)",
            Self::Norm => "norm",
            Self::Gate => "gate",
            Self::Sum => "sum",
            Self::Join => "join",
            Self::Resize => "enlargement",
        }
    }

    /// Whether its operations are those of tensor cores.
    pub fn on_tensor_cores(self) -> bool {
        matches!(self, Self::Convolution | Self::Product | Self::Attention)
    }
}

/// All launches of one kernel on one shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The kernel.
    pub kernel: Kernel,
    /// What it works on, of one row of the batch.
    pub shape: String,
    /// How often it is launched in a call.
    pub launches: u64,
    /// Multiplications and additions of products in all launches; other operations count nothing.
    pub flops: u64,
    /// Bytes of all operands, each read once a launch, and of all results, each written once. What a kernel reads again is
    /// taken to come from a cache.
    pub bytes: u64,
}

impl UNetConfig {
    /// The kernels of a call with prepared conditioning, in 16 bits, on an NVIDIA GPU from the A100 on. The embedding of the
    /// timestep counts as its three products; its activations, casts, and the copy of the latents (some ten launches of next
    /// to no bytes) do not count.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn work(&self, shape: PassShape) -> Result<Vec<Work>, ConfigError> {
        let plan = self.plan()?;
        let mut ledger = Ledger {
            shape,
            time_rows: if plan.added.is_some() { shape.rows } else { 1 },
            work: Vec::new(),
        };
        ledger.network(self, &plan);
        Ok(ledger.work)
    }
}

struct Ledger {
    shape: PassShape,
    /// One for all samples, unless added conditioning tells them apart.
    time_rows: usize,
    work: Vec<Work>,
}

impl Ledger {
    fn network(&mut self, config: &UNetConfig, plan: &UNetPlan) {
        let levels = &plan.levels;
        let last = levels.len() - 1;
        let first = levels[0].channels;
        self.time_embedding(plan, first);
        self.conv([0, 0], config.in_channels, first);
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
                self.conv([i, i + 1], level.channels, level.channels);
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
                let joined = self.elements(i, input + skip);
                let shape = self.picture(i, format!("{input} + {skip}"));
                self.add(Kernel::Join, shape, 0, ELEMENT * 2 * joined);
                self.resnet(i, input + skip, level.channels);
                input = level.channels;
                if level.cross_attention_up {
                    self.transformer(i, level);
                }
            }
            if i > 0 {
                let bytes = self.elements(i, level.channels) + self.elements(i - 1, level.channels);
                let shape = self.picture(i, level.channels);
                self.add(Kernel::Resize, shape, 0, ELEMENT * bytes);
                self.conv([i - 1; 2], level.channels, level.channels);
            }
        }
        self.norm(0, first);
        self.conv([0, 0], first, config.out_channels);
    }

    fn add(&mut self, kernel: Kernel, shape: String, flops: u64, bytes: u64) {
        let same = |work: &&mut Work| work.kernel == kernel && work.shape == shape;
        match self.work.iter_mut().find(same) {
            Some(work) => {
                work.launches += 1;
                work.flops += flops;
                work.bytes += bytes;
            }
            None => self.work.push(Work {
                kernel,
                shape,
                launches: 1,
                flops,
                bytes,
            }),
        }
    }

    /// Height and width at a level: each is half of the one above, rounded up.
    fn at(&self, level: usize) -> [usize; 2] {
        [self.shape.height, self.shape.width].map(|side| side.div_ceil(1 << level))
    }

    fn pixels(&self, level: usize) -> usize {
        self.at(level).iter().product()
    }

    /// Elements of feature maps of all rows.
    fn elements(&self, level: usize, channels: usize) -> u64 {
        (self.shape.rows * channels * self.pixels(level)) as u64
    }

    fn picture(&self, level: usize, channels: impl std::fmt::Display) -> String {
        let [height, width] = self.at(level);
        format!("{channels}, {height}×{width}")
    }

    /// From a level to the same or the next.
    fn conv(&mut self, [from, to]: [usize; 2], input: usize, output: usize) {
        let [height, width] = self.at(to);
        let flops = conv_flops([self.shape.rows, output, height, width], input, 3);
        let maps = self.elements(from, input) + self.elements(to, output);
        let weight = (9 * input * output) as u64;
        let shape = self.picture(to, format!("{input} → {output}"));
        self.add(Kernel::Convolution, shape, flops, ELEMENT * (maps + weight));
    }

    /// Of the tokens or pixels of a level, adding a residual if `onto`.
    fn product(&mut self, level: usize, input: usize, output: usize, onto: bool) {
        let rows = self.shape.rows * self.pixels(level);
        let results = if onto { 2 } else { 1 };
        let maps = rows * (input + results * output);
        let shape = self.picture(level, format!("{input} → {output}"));
        let flops = linear_flops(rows, input, output);
        let bytes = ELEMENT * (maps + input * output) as u64;
        self.add(Kernel::Product, shape, flops, bytes);
    }

    fn norm(&mut self, level: usize, channels: usize) {
        let shape = self.picture(level, channels);
        let bytes = ELEMENT * 2 * self.elements(level, channels);
        self.add(Kernel::Norm, shape, 0, bytes);
    }

    fn sum(&mut self, level: usize, channels: usize, terms: u64) {
        let shape = self.picture(level, channels);
        let bytes = ELEMENT * (terms + 1) * self.elements(level, channels);
        self.add(Kernel::Sum, shape, 0, bytes);
    }

    /// All samples are at one timestep, which is embedded once; what it adds to residual blocks is one product.
    fn time_embedding(&mut self, plan: &UNetPlan, width: usize) {
        let time = plan.time_dim;
        let shifts = plan.resnets().iter().map(|(_, channels)| channels).sum();
        for (input, output, rows, element) in [
            (width, time, 1, EXACT),
            (time, time, 1, EXACT),
            (time, shifts, self.time_rows, ELEMENT),
        ] {
            let flops = linear_flops(rows, input, output);
            let bytes = element * (input * output + rows * (input + output)) as u64;
            let shape = format!("{input} → {output}, time");
            self.add(Kernel::Product, shape, flops, bytes);
        }
    }

    fn resnet(&mut self, level: usize, input: usize, output: usize) {
        self.norm(level, input);
        self.conv([level; 2], input, output);
        // Otherwise it is the convolution's bias.
        if self.time_rows > 1 {
            self.sum(level, output, 1);
        }
        self.norm(level, output);
        self.conv([level; 2], output, output);
        match input == output {
            true => self.sum(level, output, 2),
            false => self.product(level, input, output, true),
        }
    }

    fn transformer(&mut self, level: usize, plan: &LevelPlan) {
        let (channels, pixels) = (plan.channels, self.pixels(level));
        self.norm(level, channels);
        self.product(level, channels, channels, false);
        for _ in 0..plan.depth {
            self.norm(level, channels);
            self.product(level, channels, 3 * channels, false);
            self.attention(level, plan, self.pixels(level));
            self.product(level, channels, channels, true);
            self.norm(level, channels);
            self.product(level, channels, channels, false);
            let text = self.shape.tokens;
            self.attention(level, plan, text);
            self.product(level, channels, channels, true);
            self.norm(level, channels);
            self.product(level, channels, 8 * channels, false);
            let gated = ELEMENT * (8 + 4) * (self.shape.rows * channels * pixels) as u64;
            let shape = self.picture(level, format!("{} → {}", 8 * channels, 4 * channels));
            self.add(Kernel::Gate, shape, 0, gated);
            self.product(level, 4 * channels, channels, true);
        }
        self.product(level, channels, channels, true);
    }

    fn attention(&mut self, level: usize, plan: &LevelPlan, keys: usize) {
        let (rows, heads, pixels) = (self.shape.rows, plan.heads, self.pixels(level));
        let (channels, width) = (plan.channels, plan.channels / heads);
        let kernel = match width.is_multiple_of(PIECE) && width <= WIDEST {
            true => Kernel::Attention,
            false => Kernel::PlainAttention,
        };
        let flops = attention_flops([rows, heads, pixels, width], keys, 2);
        let bytes = ELEMENT * (2 * rows * channels * (pixels + keys)) as u64;
        let shape = format!(
            "{} to {keys}",
            self.picture(level, format!("{heads} × {width}"))
        );
        self.add(kernel, shape, flops, bytes);
    }
}
