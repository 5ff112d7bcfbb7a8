//! From the names in a file to diffusers' and transformers' names, which the networks use.
//!
//! The rules follow the structure of CompVis' latent-diffusion and Stability's generative-models
//! modules, which number their blocks, and OpenCLIP's text transformer, which fuses query, key and
//! value. They are checked against checkpoints that diffusers converted.

mod ldm;
mod text;

pub(crate) use ldm::{UnetBlocks, unet, vae, vae_attention};
pub(crate) use text::{clip, open_clip};

use crate::part::View;

/// Where a stored tensor goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// The parameters that it holds: mostly one.
    Parameters(Vec<(String, View)>),
    /// Nowhere, and rightly so.
    Ignored,
    /// No rule knows it.
    Unknown,
}

impl Target {
    fn whole(name: impl Into<String>) -> Self {
        Self::Parameters(vec![(name.into(), View::Whole)])
    }
}

/// Tensors of a full checkpoint that belong to no network that is run: the noise schedule's tables,
/// running averages kept for training, losses, buffers that hold 0, 1, 2, ….
pub(crate) fn ignored_in_checkpoint(key: &str) -> bool {
    const PREFIXES: &[&str] = &[
        "model_ema.",
        "loss.",
        "first_stage_model.loss.",
        "first_stage_model.model_ema.",
        "embedding_manager.",
        "alphas_cumprod",
        "sqrt_alphas_cumprod",
        "sqrt_one_minus_alphas_cumprod",
        "sqrt_recip_alphas_cumprod",
        "sqrt_recipm1_alphas_cumprod",
        "log_one_minus_alphas_cumprod",
        "posterior_",
        "denoiser.",
    ];
    const NAMES: &[&str] = &["betas", "logvar", "scale_factor", "v_pred", "ztsnr"];
    PREFIXES.iter().any(|prefix| key.starts_with(prefix)) || NAMES.contains(&key)
}
