//! Small changes of a picture under which a verdict should hold.

use serde::{Deserialize, Serialize};

/// One change, equal to Pillow's on 8-bit RGB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Perturbation {
    /// Every channel times a factor: `ImageEnhance.Brightness(image).enhance(factor)`.
    Brightness {
        /// More than 0; 1 changes nothing.
        factor: f64,
    },
    /// `image.filter(ImageFilter.GaussianBlur(radius=sigma))`.
    GaussianBlur {
        /// The standard deviation, in pixels.
        sigma: f64,
    },
    /// Lanczos to `int(size × scale)` and back to the size.
    Resize {
        /// More than 0; 1 changes nothing.
        scale: f64,
    },
}

impl Perturbation {
    /// The name in configurations.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Brightness { .. } => "brightness",
            Self::GaussianBlur { .. } => "gaussian_blur",
            Self::Resize { .. } => "resize",
        }
    }
}
