//! How a start picture is made larger before it is drawn over: the second pass of AUTOMATIC1111's web UI ("hires fix").

use serde::{Deserialize, Serialize};

/// What makes a start picture larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Upscaler {
    /// Its pixels, by Lanczos' filter.
    Lanczos,
    /// Its latents, between their two neighbours along each axis.
    Latent,
    /// As `Latent`, with a filter that widens where latents become fewer.
    LatentAntialiased,
    /// Its latents, by cubics through four neighbours (Keys, 1981; a = −0.75).
    LatentBicubic,
    /// As `LatentBicubic`, with a filter that widens where latents become fewer (a = −0.5).
    LatentBicubicAntialiased,
    /// Its latents, each the one whose corner is nearest.
    LatentNearest,
    /// Its latents, each the one whose middle is nearest.
    LatentNearestExact,
}

impl Upscaler {
    /// As the web UI calls it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Lanczos => "Lanczos",
            Self::Latent => "Latent",
            Self::LatentAntialiased => "Latent (antialiased)",
            Self::LatentBicubic => "Latent (bicubic)",
            Self::LatentBicubicAntialiased => "Latent (bicubic antialiased)",
            Self::LatentNearest => "Latent (nearest)",
            Self::LatentNearestExact => "Latent (nearest-exact)",
        }
    }
}

/// A start picture made larger. Of what comes out larger than the request's picture the middle is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upscale {
    /// What makes it larger.
    pub by: Upscaler,
    /// To this width in pixels, less what is no whole latent.
    pub width: usize,
    /// To this height in pixels, likewise.
    pub height: usize,
}
