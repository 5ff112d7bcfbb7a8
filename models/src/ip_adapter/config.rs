//! The sizes of an adapter, which its file shows.

use crate::config::{Check, ConfigError, limit};

/// What an adapter makes tokens of, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdapterKind {
    /// Four tokens from the embedding of the picture.
    Plain,
    /// A token from each of the encoder's states.
    FullFace,
    /// A few learned queries that look at the encoder's states.
    Plus,
}

/// The resampler of "plus" adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResamplerConfig {
    /// Learned queries, each of which becomes a token.
    pub latents: usize,
    /// Channels inside.
    pub width: usize,
    /// Layers.
    pub depth: usize,
    /// Heads of 64 channels.
    pub heads: usize,
}

/// The cross-attention layer of a UNet that a pair of an adapter's matrices is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdapterLayer {
    /// Its number in the file. Files count all attention layers, the way down first, then the way up, then the middle.
    pub number: usize,
    /// Channels of its queries.
    pub channels: usize,
    /// Its heads.
    pub heads: usize,
    /// Whether it computes in f32 whatever the type of the weights.
    pub upcast: bool,
    /// The resolution, counted from 0 for that of the latents; each halves the one before.
    pub level: usize,
}

impl AdapterLayer {
    /// How many positions ask, with latents of this height and width.
    pub(super) fn positions(&self, latents: [usize; 2]) -> usize {
        let sides = latents.map(|side| side.div_ceil(1 << self.level));
        sides.iter().product()
    }
}

/// An adapter's sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpAdapterConfig {
    /// What it looks at.
    pub kind: AdapterKind,
    /// Channels of what the picture encoder gives.
    pub picture_dim: usize,
    /// Channels of the tokens: those of the UNet's texts.
    pub context_dim: usize,
    /// Of a [`AdapterKind::Plus`], and of no other.
    pub resampler: Option<ResamplerConfig>,
    /// In the UNet's order of execution.
    pub layers: Vec<AdapterLayer>,
}

impl ResamplerConfig {
    /// Its authors' for texts of `context_dim` channels: 16 tokens, four layers, and as many channels as the texts, at most 1280.
    pub fn usual(context_dim: usize) -> Self {
        let width = context_dim.min(1280);
        Self {
            latents: 16,
            width,
            depth: 4,
            heads: (width / 64).max(1),
        }
    }
}

impl IpAdapterConfig {
    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ConfigError`] names the first number that makes no sense.
    pub fn check(&self) -> Result<(), ConfigError> {
        const CHECK: Check = Check {
            network: "IP-Adapter",
        };
        CHECK.within("picture_dim", [self.picture_dim], limit::CHANNELS)?;
        CHECK.within("context_dim", [self.context_dim], limit::CHANNELS)?;
        if let Some(resampler) = &self.resampler {
            CHECK.within("latents", [resampler.latents], limit::LENGTH)?;
            CHECK.within("width", [resampler.width], limit::CHANNELS)?;
            CHECK.within("depth", [resampler.depth], limit::LAYERS)?;
            CHECK.within("heads", [resampler.heads], limit::CHANNELS)?;
        }
        Ok(())
    }

    /// Tokens of one picture, if the encoder gives `states` states of it.
    pub fn tokens(&self, states: usize) -> usize {
        match (self.kind, &self.resampler) {
            (AdapterKind::Plus, Some(resampler)) => resampler.latents,
            (AdapterKind::FullFace, _) => states,
            _ => PLAIN_TOKENS,
        }
    }
}

/// Tokens that plain adapters make of a picture.
pub(super) const PLAIN_TOKENS: usize = 4;
