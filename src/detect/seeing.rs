//! A detector with networks that look at pictures again: masks of its boxes (Grounded-SAM, if the detector is Grounding
//! DINO), and depth.

use std::sync::Arc;

use burn::tensor::{Device, Tensor};

use super::prepare::bytes;
use super::{DetectError, Detector};
use crate::check::rules::depth::DepthMap;
use crate::check::{BoundingBox, Detection};
use crate::eyes::{DepthEstimator, Segmenter};
use crate::picture::Picture;

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
}

/// Puts masks into what was found in the pictures.
fn fill(
    segmenter: &Segmenter,
    pictures: &[&Picture],
    found: &mut [Vec<Detection>],
) -> Result<(), DetectError> {
    let boxes: Vec<Vec<BoundingBox>> = (found.iter())
        .map(|found| found.iter().map(|detection| detection.bbox).collect())
        .collect();
    let asked = pictures
        .iter()
        .copied()
        .zip(boxes.iter().map(Vec::as_slice));
    let masks = segmenter.masks_of(&asked.collect::<Vec<_>>());
    let masks = masks.map_err(|(index, error)| DetectError::Masks {
        index,
        reason: error.to_string(),
    })?;
    for (found, masks) in found.iter_mut().zip(masks) {
        for (detection, mask) in found.iter_mut().zip(masks) {
            detection.mask = Some(Arc::new(mask));
        }
    }
    Ok(())
}

/// How far away things are in the pictures.
fn estimate(
    depth: &DepthEstimator,
    pictures: &[&Picture],
) -> Result<Vec<Arc<DepthMap>>, DetectError> {
    let maps = depth.estimate(pictures);
    let maps = maps.map_err(|error| DetectError::Depth(error.to_string()))?;
    Ok(maps.into_iter().map(Arc::new).collect())
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
        let read = bytes(pictures)?;
        fill(segmenter, &read.iter().collect::<Vec<_>>(), &mut found)?;
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
        let read = bytes(pictures)?;
        estimate(depth, &read.iter().collect::<Vec<_>>()).map(Some)
    }

    fn detect_on_host(
        &self,
        pictures: &[&Picture],
        queries: &[Vec<String>],
        masks: bool,
        device: &Device,
    ) -> Result<Vec<Vec<Detection>>, DetectError> {
        let segmenter = self.segmenter.as_ref();
        let own = masks && segmenter.is_none();
        let mut found = (self.detector).detect_on_host(pictures, queries, own, device)?;
        if let Some(segmenter) = segmenter.filter(|_| masks) {
            fill(segmenter, pictures, &mut found)?;
        }
        Ok(found)
    }

    fn depths_on_host(
        &self,
        pictures: &[&Picture],
        device: &Device,
    ) -> Result<Option<Vec<Arc<DepthMap>>>, DetectError> {
        match &self.depth {
            Some(depth) => estimate(depth, pictures).map(Some),
            None => self.detector.depths_on_host(pictures, device),
        }
    }
}
