//! Which pixels are those of what is in a box, by a network.

use burn::tensor::{Bool, Device, FloatDType, Int, Tensor, TensorData};
use prepose_models::sam::{Prompt, Sam};
use prepose_weights::{EyeWeights, WeightsError};
use serde::{Deserialize, Serialize};

use super::reading::Reading;
use super::{EyeError, rgb};
use crate::check::{BoundingBox, Mask};
use crate::picture::Picture;

/// Boxes whose masks are enlarged together, so that memory stays within bounds.
const TOGETHER: usize = 8;

/// Pixels of masks that stay on the device before they are read.
const MOST_PIXELS: usize = 1 << 28;

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
        let all = self.masks_of(&[(picture, boxes)]);
        let all = all.map_err(|(_, error)| error)?;
        Ok(all.into_iter().flatten().collect())
    }

    /// The same for several pictures, whose masks are read from the device together, as far as they are not too large.
    ///
    /// # Errors
    /// [`EyeError`] with the place of a picture that is none or has a box that is none; nothing is known of the others then.
    pub fn masks_of(
        &self,
        pictures: &[(&Picture, &[BoundingBox])],
    ) -> Result<Vec<Vec<Mask>>, (usize, EyeError)> {
        let mut all: Vec<Vec<Mask>> = vec![Vec::new(); pictures.len()];
        // The pictures of the tensors to be read, and how much there is in them.
        let (mut open, mut pixels) = (Vec::new(), 0);
        let mut reading = Reading::default();
        for (place, (picture, boxes)) in pictures.iter().enumerate() {
            let seen = self.covered(picture, boxes);
            for covered in seen.map_err(|error| (place, error))? {
                pixels += covered.shape().num_elements();
                open.push(place);
                reading = reading.with(covered);
            }
            if pixels >= MOST_PIXELS || place + 1 == pictures.len() {
                let read = std::mem::take(&mut reading).read();
                for (place, covered) in open.drain(..).zip(read) {
                    all[place].extend(self.read_masks(&covered, pictures[place].0));
                }
                pixels = 0;
            }
        }
        Ok(all)
    }

    /// Which pixels each box marks, `[P, 1, h, w]` for so many boxes at a time.
    fn covered(
        &self,
        picture: &Picture,
        boxes: &[BoundingBox],
    ) -> Result<Vec<Tensor<4, Bool>>, EyeError> {
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
        let some = prompts.chunks(TOGETHER).map(|some| {
            let logits = self.chosen(&seen, some);
            let restored = self.network.restore(logits, resized, original);
            restored.max_dim(1).greater_elem(0.0)
        });
        Ok(some.collect())
    }

    /// The masks of one picture's boxes.
    fn read_masks(&self, covered: &TensorData, picture: &Picture) -> Vec<Mask> {
        let covered: Vec<bool> = covered.iter().collect();
        let each = covered.chunks_exact(picture.width * picture.height);
        // Each has a value for each pixel.
        let masks =
            each.filter_map(|own| Mask::new(picture.width, picture.height, own.to_vec()).ok());
        let masks = masks.map(|mask| match self.choice {
            MaskChoice::Largest => mask.largest_part(),
            _ => mask,
        });
        masks.collect()
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
