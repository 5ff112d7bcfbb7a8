//! The networks that look at pictures besides a command's detector: `--masks` and `--depth`.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use burn::tensor::{Device, FloatDType};
use prepose::detect::Detector;
use prepose::detect::seeing::SeeingDetector;
use prepose::eyes::{DepthEstimator, MaskChoice, Segmenter};
use prepose_weights::{EyeKind, EyeWeights};

/// Networks that look at pictures besides the detector (docs/eyes.md).
#[derive(Clone, Debug, Default, clap::Args)]
pub struct LookingArgs {
    /// A SAM model, for masks of what the detector finds [default: the detector's own masks, or boxes].
    ///
    /// A folder as transformers writes it, or a file such as sam_vit_b_01ec64.pth.
    #[arg(
        long,
        value_name = "PATH",
        help_heading = "Checker",
        hide_short_help = true
    )]
    masks: Option<PathBuf>,
    /// A Depth Anything model, for "in front of" and "behind".
    ///
    /// A folder as transformers writes it, or a file such as depth_anything_v2_vits.pth.
    #[arg(
        long,
        value_name = "PATH",
        help_heading = "Checker",
        hide_short_help = true
    )]
    depth: Option<PathBuf>,
    /// Which of the possible masks of a box to use [default: best].
    #[arg(
        long,
        value_name = "CHOICE",
        requires = "masks",
        help_heading = "Checker",
        hide_short_help = true
    )]
    mask_choice: Option<MaskChoice>,
}

impl LookingArgs {
    /// Opens what they name; no weights are read.
    ///
    /// # Errors
    /// A network that cannot be opened, or is another.
    pub fn open(&self) -> anyhow::Result<Looking> {
        let choice = self.mask_choice.unwrap_or_default();
        Looking::open(self.masks.as_deref(), self.depth.as_deref(), choice)
    }
}

/// Networks that are opened and not loaded.
#[derive(Debug, Default)]
pub struct Looking {
    masks: Option<EyeWeights>,
    depth: Option<EyeWeights>,
    choice: MaskChoice,
}

impl Looking {
    /// Opens a segmenter and a depth network.
    ///
    /// # Errors
    /// One that cannot be opened, or is another.
    pub fn open(
        masks: Option<&Path>,
        depth: Option<&Path>,
        choice: MaskChoice,
    ) -> anyhow::Result<Self> {
        let open = |option: &str, path: &Path, kind: EyeKind| {
            let weights = EyeWeights::open(path);
            let weights =
                weights.with_context(|| format!("cannot use {option} {}", path.display()))?;
            ensure!(
                weights.kind() == kind,
                "cannot use {option} {}: this is {}, not {kind}",
                path.display(),
                weights.kind()
            );
            anyhow::Ok(weights)
        };
        Ok(Self {
            masks: masks
                .map(|path| open("--masks", path, EyeKind::Sam))
                .transpose()?,
            depth: depth
                .map(|path| open("--depth", path, EyeKind::DepthAnything))
                .transpose()?,
            choice,
        })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.masks.is_none() && self.depth.is_none()
    }

    /// Whether depths are looked at.
    pub fn sees_depth(&self) -> bool {
        self.depth.is_some()
    }

    /// Which of the masks of a box are taken.
    pub fn choice(&self) -> MaskChoice {
        self.choice
    }

    /// SHA-256 of the weights of the segmenter and of the depth network.
    ///
    /// # Errors
    /// Weights that cannot be read.
    pub fn hashes(&self) -> anyhow::Result<[Option<String>; 2]> {
        let hash = |weights: &Option<EyeWeights>| {
            let file = weights.as_ref().map(EyeWeights::file_hash).transpose()?;
            anyhow::Ok(file.map(|file| file.sha256))
        };
        Ok([hash(&self.masks)?, hash(&self.depth)?])
    }

    /// The detector with what looks besides it; itself if there is nothing.
    ///
    /// # Errors
    /// Weights that cannot be loaded.
    pub fn complete(
        &self,
        detector: Box<dyn Detector + Send>,
        device: &Device,
    ) -> anyhow::Result<Box<dyn Detector + Send>> {
        if self.is_empty() {
            return Ok(detector);
        }
        let dtype = FloatDType::F32;
        let segmenter = self
            .masks
            .as_ref()
            .map(|weights| Segmenter::load(weights, device, dtype, self.choice))
            .transpose()?;
        let depth = self
            .depth
            .as_ref()
            .map(|weights| DepthEstimator::load(weights, device, dtype))
            .transpose()?;
        Ok(Box::new(SeeingDetector::new(detector, segmenter, depth)))
    }
}
