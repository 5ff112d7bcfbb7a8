//! A detector with networks that look at pictures again: masks of its boxes (Grounded-SAM, if the detector is Grounding
//! DINO), and depth.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::{DetectError, Detector};
use crate::check::Detection;
use crate::check::rules::depth::DepthMap;
use crate::eyes::{DepthEstimator, Segmenter};
use crate::picture::{Picture, PictureTensor};

/// A detector, what finds the pixels of what it found, and what says how far away they are.
pub struct SeeingDetector {
    name: String,
    detector: Box<dyn Detector + Send>,
    segmenter: Option<Segmenter>,
    depth: Option<DepthEstimator>,
}

impl SeeingDetector {
    /// The detections of `detector`, with masks by `segmenter`, if it is given, whatever masks the detector has itself, and
    /// with depths by `depth`. Its name joins those of detector and segmenter.
    pub fn new(
        detector: Box<dyn Detector + Send>,
        segmenter: Option<Segmenter>,
        depth: Option<DepthEstimator>,
    ) -> Self {
        let name = match &segmenter {
            Some(segmenter) => format!("{}+{}", detector.name(), segmenter.name()),
            None => detector.name().to_string(),
        };
        Self {
            name,
            detector,
            segmenter,
            depth,
        }
    }

    /// Puts masks into what was found in a picture.
    fn fill(
        segmenter: &Segmenter,
        picture: Tensor<3>,
        found: &mut [Detection],
    ) -> Result<(), String> {
        let picture = Picture::from_tensor(picture).ok_or("it has NaN or infinite pixels")?;
        let boxes: Vec<_> = found.iter().map(|detection| detection.bbox).collect();
        let masks = segmenter.masks(&picture, &boxes);
        let masks = masks.map_err(|error| error.to_string())?;
        for (detection, mask) in found.iter_mut().zip(masks) {
            detection.mask = Some(Arc::new(mask));
        }
        Ok(())
    }
}

impl Detector for SeeingDetector {
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
        let Some(segmenter) = &self.segmenter else {
            return self.detector.detect(pictures, queries);
        };
        let mut found = self.detect_boxes(pictures, queries)?;
        for (index, (picture, found)) in pictures.iter().zip(&mut found).enumerate() {
            Self::fill(segmenter, picture.clone(), found)
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

    fn depths(&self, pictures: &[Tensor<3>]) -> Result<Option<Vec<Arc<DepthMap>>>, DetectError> {
        let Some(depth) = &self.depth else {
            return self.detector.depths(pictures);
        };
        let read = super::prepare::bytes(pictures)?;
        let maps = depth.estimate(&read.iter().collect::<Vec<_>>());
        let maps = maps.map_err(|error| DetectError::Depth(error.to_string()))?;
        Ok(Some(maps.into_iter().map(Arc::new).collect()))
    }
}
