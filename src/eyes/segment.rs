//! Which pixels are those of what is in a box, by a network.

use burn::tensor::{Device, FloatDType, Int, Tensor};
use prepose_models::sam::{Prompt, Sam};
use prepose_weights::{EyeWeights, WeightsError};
use serde::{Deserialize, Serialize};

use super::{EyeError, rgb};
use crate::check::{BoundingBox, Mask};
use crate::picture::Picture;

/// Boxes whose masks are enlarged together, so that memory stays within bounds.
const TOGETHER: usize = 8;

/// Which of the masks that a box may mean are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum MaskChoice {
    /// The one that the network holds for the best, of three.
    #[default]
    Best,
    /// The one mask for a prompt that is clear.
    Only,
    /// What any of the three covers.
    Union,
    /// As the released script of PSE in depth: boxes without their fractions, what any of the three covers, and of that the
    /// largest part with its holes filled.
    Largest,
}

/// A segmenter on a device.
#[derive(Debug)]
pub struct Segmenter {
    name: String,
    network: Sam,
    device: Device,
    choice: MaskChoice,
}

impl Segmenter {
    /// Loads the network.
    ///
    /// # Errors
    /// [`WeightsError`] if the weights are of another network or do not fit.
    pub fn load(
        weights: &EyeWeights,
        device: &Device,
        dtype: FloatDType,
        choice: MaskChoice,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            name: weights.name().to_string(),
            network: weights.load_sam(device, dtype)?,
            device: device.clone(),
            choice,
        })
    }

    /// What records call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The mask of what each box marks, in pixels of the picture as the boxes are. The picture is looked at once, however
    /// many boxes there are. Masks may go beyond their boxes.
    ///
    /// # Errors
    /// [`EyeError`] if the picture or a box is none.
    pub fn masks(&self, picture: &Picture, boxes: &[BoundingBox]) -> Result<Vec<Mask>, EyeError> {
        if boxes.is_empty() {
            return Ok(Vec::new());
        }
        let original = [picture.height, picture.width];
        for corners in boxes.iter().map(|corners| <[f64; 4]>::from(*corners)) {
            let [x0, y0, x1, y1] = corners;
            // Also false for what is no number.
            if !(x0 <= x1 && y0 <= y1 && corners.iter().all(|edge| edge.is_finite())) {
                return Err(EyeError::Box { corners });
            }
        }
        let batch = self.network.prepare(&[rgb(picture)?], &self.device)?;
        let resized = batch.resized[0];
        let seen = self.network.encode(batch.pictures);
        let whole = |edge: f64| match self.choice {
            MaskChoice::Largest => edge.trunc(),
            _ => edge,
        };
        let prompt = |corners: &BoundingBox| {
            let corners = <[f64; 4]>::from(*corners).map(|edge| whole(edge) as f32);
            Prompt::of_box(corners).scaled(original, resized)
        };
        let prompts: Vec<Prompt> = boxes.iter().map(prompt).collect();
        let mut masks = Vec::with_capacity(boxes.len());
        for some in prompts.chunks(TOGETHER) {
            let logits = self.chosen(&seen, some);
            let inside = self
                .network
                .restore(logits, resized, original)
                .greater_elem(0.0);
            let covered = inside.int().max_dim(1).into_data();
            let covered: Vec<bool> = covered.iter::<i64>().map(|one| one > 0).collect();
            for covered in covered.chunks_exact(original[0] * original[1]) {
                // It has a value for each pixel.
                let mask = Mask::new(original[1], original[0], covered.to_vec()).ok();
                masks.extend(mask.map(|mask| match self.choice {
                    MaskChoice::Largest => mask.largest_part(),
                    _ => mask,
                }));
            }
        }
        Ok(masks)
    }

    /// The logits `[P, M, s, s]` of the masks that count.
    fn chosen(&self, seen: &Tensor<3>, prompts: &[Prompt]) -> Tensor<4> {
        let ambiguous = self.choice != MaskChoice::Only;
        let masks = self.network.segment(seen, prompts, ambiguous);
        if self.choice != MaskChoice::Best {
            return masks.logits;
        }
        let [count, each, height, width] = masks.logits.dims();
        let best: Tensor<1, Int> = masks.quality.argmax(1).reshape([count]);
        let first = Tensor::<1, Int>::arange(0..count as i64, &self.device) * each as i64;
        let rows = masks.logits.reshape([count * each, height * width]);
        rows.select(0, best + first)
            .reshape([count, 1, height, width])
    }
}
