//! Random numbers by their place: each depends on a seed, on what it is for and on its number, and on nothing that was drawn
//! before.

use serde::{Deserialize, Serialize};

/// What a number is drawn for; the same place has another number for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The order of samples in an epoch.
    Order,
    /// The order of batches in an epoch.
    Batches,
    /// A sample's timestep.
    Timestep,
    /// A sample's noise.
    Noise,
    /// A sample's offset noise.
    Offset,
    /// Whether a sample's caption is left out.
    Dropout,
    /// The first values of a trained tensor.
    Start,
    /// A sample of what the autoencoder says of a picture.
    Posterior,
    /// Whether a batch is told of no objects.
    Grounding,
    /// Which pictures are shown under the word of an object that is not there, and which one.
    Absent,
}

/// A seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Draws(pub u64);

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
fn mixed(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl Draws {
    /// 64 bits.
    pub fn bits(self, purpose: Purpose, number: u64) -> u64 {
        mixed(mixed(mixed(self.0) ^ (purpose as u64 + 1)) ^ number)
    }

    /// In `[0, 1)`.
    pub fn uniform(self, purpose: Purpose, number: u64) -> f64 {
        (self.bits(purpose, number) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `0..count` in an order that is drawn; `number` is which order.
    pub fn shuffled(self, purpose: Purpose, number: u64, count: usize) -> Vec<usize> {
        let own = Self(self.bits(purpose, number));
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            // Fisher and Yates; the bias of a remainder of 64 bits is below 2⁻⁴⁰ for any set of samples.
            let other = (own.bits(purpose, last as u64) % (last as u64 + 1)) as usize;
            order.swap(last, other);
        }
        order
    }
}

/// Which noise levels are trained how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timesteps {
    /// All as often.
    #[default]
    Uniform,
    /// This share of the samples is drawn with a bias to high noise, where layouts are decided (the share of timesteps above t
    /// is `1 − t^(5/3)`), and the others mostly in the middle, where it is decided what things are: as the toybox was trained.
    Layout(f64),
    /// `1 / (1 + e^−z)` of a normal z: mostly the middle, as the fine-tuning of Order Is Not Layout (arXiv 2603.03714, table 12)
    /// has it.
    Sigmoid,
}

fn sigmoid(value: f64) -> f64 {
    1.0 / (1.0 + (-value).exp())
}

/// A normal number of two uniform ones (Box and Muller 1958).
fn normal([radius, angle]: [f64; 2]) -> f64 {
    let radius = (-2.0 * (1.0 - radius).ln()).sqrt();
    radius * (std::f64::consts::TAU * angle).cos()
}

impl Timesteps {
    /// The timestep of the sample with this number, below `count`.
    pub fn draw(self, draws: Draws, number: u64, count: usize) -> usize {
        let uniform = |part: u64| draws.uniform(Purpose::Timestep, 4 * number + part);
        let place = match self {
            Self::Uniform => uniform(0),
            Self::Layout(share) if uniform(0) < share => uniform(1).powf(0.6),
            Self::Layout(_) => sigmoid(0.8 * normal([uniform(2), uniform(3)])),
            Self::Sigmoid => sigmoid(normal([uniform(2), uniform(3)])),
        };
        ((place * count as f64) as usize).min(count.saturating_sub(1))
    }
}
