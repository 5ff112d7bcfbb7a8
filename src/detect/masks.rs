//! A detector whose boxes a segmenter fills: Grounded-SAM, if the detector is Grounding DINO.

use burn::tensor::Tensor;
use std::sync::Arc;

use super::{DetectError, Detector};
use crate::check::Detection;
use crate::eyes::Segmenter;
use crate::picture::{Picture, PictureTensor};

/// A detector, and what finds the pixels of what it found.
pub struct MaskedDetector {
    name: String,
    detector: Box<dyn Detector + Send>,
    segmenter: Segmenter,
}

impl MaskedDetector {
    /// The detections of `detector` with masks by `segmenter`, whatever masks the detector has itself. Its name joins both.
    pub fn new(detector: impl Detector + Send + 'static, segmenter: Segmenter) -> Self {
        Self {
            name: format!("{}+{}", detector.name(), segmenter.name()),
            detector: Box::new(detector),
            segmenter,
        }
    }

    /// Puts masks into what was found in a picture.
    fn fill(&self, picture: Tensor<3>, found: &mut [Detection]) -> Result<(), String> {
        let picture = Picture::from_tensor(picture).ok_or("it has NaN or infinite pixels")?;
        let boxes: Vec<_> = found.iter().map(|detection| detection.bbox).collect();
        let masks = self.segmenter.masks(&picture, &boxes);
        let masks = masks.map_err(|error| error.to_string())?;
        for (detection, mask) in found.iter_mut().zip(masks) {
            detection.mask = Some(Arc::new(mask));
        }
        Ok(())
    }
}

impl Detector for MaskedDetector {
    fn name(&self) -> &str {
        &self.name
    }

    fn vocabulary(&self) -> Option<&[String]> {
        self.detector.vocabulary()
    }

    fn detect(
        &self,
        pictures: &[Tensor<3>],
        queries: &[Vec<String>],
    ) -> Result<Vec<Vec<Detection>>, DetectError> {
        let mut found = self.detect_boxes(pictures, queries)?;
        for (index, (picture, found)) in pictures.iter().zip(&mut found).enumerate() {
            self.fill(picture.clone(), found)
                .map_err(|reason| DetectError::Masks { index, reason })?;
        }
        Ok(found)
    }

    fn detect_boxes(
        &self,
        pictures: &[Tensor<3>],
        queries: &[Vec<String>],
    ) -> Result<Vec<Vec<Detection>>, DetectError> {
        self.detector.detect_boxes(pictures, queries)
    }
}
