//! Faster R-CNN and Mask R-CNN as detectors.

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use prepose_models::rcnn::{Instance, Rcnn, RcnnConfig};
use prepose_weights::{DetectorWeights, WeightsError};

use super::{DetectError, Detector, alike, check_pictures};
use crate::check::{BoundingBox, Detection, Mask};

/// A label that stands for none in torchvision's list for COCO.
const NO_LABEL: &str = "n/a";
/// From this probability on a pixel is the object's.
const COVERED: f32 = 0.5;

/// Torchvision's Faster R-CNN or Mask R-CNN, with its closed vocabulary.
#[derive(Debug)]
pub struct RcnnDetector {
    name: String,
    network: Rcnn,
    /// By class, lower case.
    labels: Vec<String>,
    vocabulary: Vec<String>,
    threshold: f64,
}

impl RcnnDetector {
    /// The least score that SpatialBench-UC's wrapper passes on.
    pub const SCORE_THRESHOLD: f64 = 0.5;

    /// Loads the detector onto `device`. Detections have scores of at least `threshold`; below the
    /// network's own threshold (0.05 in torchvision's) there are none.
    ///
    /// # Errors
    /// [`WeightsError`], as loading the network.
    pub fn load(
        weights: &DetectorWeights,
        device: &Device,
        threshold: f64,
    ) -> Result<Self, WeightsError> {
        Ok(Self::new(weights.name(), weights.load(device)?, threshold))
    }

    /// The detector `network` under the name `name`; see [`Self::load`].
    pub fn new(name: impl Into<String>, network: Rcnn, threshold: f64) -> Self {
        let classes = network.config().classes.iter();
        Self {
            name: name.into(),
            vocabulary: Self::labels(network.config()),
            labels: classes.map(|class| class.to_lowercase()).collect(),
            network,
            threshold,
        }
    }

    /// The least score of its detections.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// The labels that a network with this configuration can give, lower case.
    pub fn labels(config: &RcnnConfig) -> Vec<String> {
        // The first is the background.
        let classes = config.classes.iter().skip(1);
        let labels = classes.map(|class| class.to_lowercase());
        labels.filter(|label| label != NO_LABEL).collect()
    }

    /// What is found in each picture, whatever the others are: a picture that is padded to the size of another is seen a little
    /// otherwise, so only those of one padded size go through the network together.
    fn seek(
        &self,
        pictures: &[Tensor<3>],
        masks: bool,
    ) -> Result<Vec<Vec<Detection>>, DetectError> {
        check_pictures(pictures)?;
        let sizes = pictures.iter().map(|picture| {
            let [_, height, width] = picture.dims();
            self.network.padded([height, width])
        });
        let mut found = vec![Vec::new(); pictures.len()];
        for places in alike(sizes.enumerate()).into_values() {
            let some: Vec<Tensor<3>> = places.iter().map(|i| pictures[*i].clone()).collect();
            let seen = match masks {
                true => self.network.detect(&some),
                false => self.network.detect_boxes(&some),
            };
            for (i, detections) in places.into_iter().zip(self.detections(seen, &some)) {
                found[i] = detections;
            }
        }
        Ok(found)
    }

    /// What was found, as records have it.
    fn detections(&self, found: Vec<Vec<Instance>>, pictures: &[Tensor<3>]) -> Vec<Vec<Detection>> {
        let of_picture = |(found, picture): (Vec<Instance>, &Tensor<3>)| {
            let [_, height, width] = picture.dims();
            let detection = |object| self.detection(object, [height, width]);
            found.into_iter().filter_map(detection).collect()
        };
        found.into_iter().zip(pictures).map(of_picture).collect()
    }

    /// The object as records have it; none if its score is too low or its class has no name.
    fn detection(&self, object: Instance, [height, width]: [usize; 2]) -> Option<Detection> {
        let score = f64::from(object.score);
        let label = self.labels.get(object.label)?;
        if score < self.threshold || label == NO_LABEL {
            return None;
        }
        let [x0, y0, x1, y1] = object.corners.map(f64::from);
        let mask = object.mask.and_then(|mask| {
            let values = mask.paste(object.corners, [height, width]);
            let covered = values.into_iter().map(|value| value >= COVERED).collect();
            // It has a value for each pixel.
            Mask::new(width, height, covered).ok().map(Arc::new)
        });
        Some(Detection {
            label: label.clone(),
            score,
            bbox: BoundingBox::new(x0, y0, x1, y1),
            mask,
        })
    }
}

impl Detector for RcnnDetector {
    fn name(&self) -> &str {
        &self.name
    }

    fn vocabulary(&self) -> Option<&[String]> {
        Some(&self.vocabulary)
    }

    fn detect(
        &self,
        pictures: &[Tensor<3>],
        _queries: &[Vec<String>],
    ) -> Result<Vec<Vec<Detection>>, DetectError> {
        self.seek(pictures, true)
    }

    fn detect_boxes(
        &self,
        pictures: &[Tensor<3>],
        _queries: &[Vec<String>],
    ) -> Result<Vec<Vec<Detection>>, DetectError> {
        self.seek(pictures, false)
    }
}
