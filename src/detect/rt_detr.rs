//! RT-DETRv2 as a detector.

use burn::tensor::{Device, Tensor, TensorData};
use prepose_models::rt_detr::{Detected, RtDetr};
use prepose_weights::{RtDetrWeights, WeightsError};

use super::found::{above, around_middle, of_each, probability};
use super::prepare::{bytes, normalise};
use super::{DetectError, Detector, check_on_host, check_pictures};
use crate::check::Detection;
use crate::check::perturb::bilinear;
use crate::eyes::reading::Reading;
use crate::picture::Picture;

/// Pictures that go through the network together.
const TOGETHER: usize = 8;
/// COCO's classes under the names of older lists, which the published checkpoints have, and as COCO writes them.
const RENAMED: [(&str, &str); 6] = [
    ("motorbike", "motorcycle"),
    ("aeroplane", "airplane"),
    ("sofa", "couch"),
    ("pottedplant", "potted plant"),
    ("diningtable", "dining table"),
    ("tvmonitor", "tv"),
];

/// RT-DETRv2, with its closed vocabulary.
#[derive(Debug)]
pub struct RtDetrDetector {
    name: String,
    network: RtDetr,
    /// By class, lower case.
    labels: Vec<String>,
    size: [usize; 2],
    device: Device,
    threshold: f64,
}

impl RtDetrDetector {
    /// The score above which detections count, as in transformers' processor.
    pub const SCORE_THRESHOLD: f64 = 0.5;

    /// Loads the detector onto `device`. Detections have scores above `threshold`.
    ///
    /// # Errors
    /// [`WeightsError`], as loading the network.
    pub fn load(
        weights: &RtDetrWeights,
        device: &Device,
        threshold: f64,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            name: weights.name().to_string(),
            network: weights.load(device)?,
            labels: Self::labels(weights),
            size: weights.size(),
            device: device.clone(),
            threshold,
        })
    }

    /// The labels that it can give, lower case, as COCO writes them.
    pub fn labels(weights: &RtDetrWeights) -> Vec<String> {
        let label = |class: String| {
            let class = class.to_lowercase();
            let renamed = RENAMED.iter().find(|(old, _)| *old == class);
            renamed.map_or(class, |(_, new)| new.to_string())
        };
        weights.classes().into_iter().map(label).collect()
    }

    /// Everything that is found; the device is waited for once.
    fn seek(&self, pictures: &[&Picture]) -> Vec<Vec<Detection>> {
        let mut reading = Reading::default();
        for some in pictures.chunks(TOGETHER) {
            let Detected { logits, boxes, .. } = self.look(some);
            reading = reading.with(logits).with(boxes);
        }
        let read = reading.numbers();
        let mut found = Vec::with_capacity(pictures.len());
        for (some, numbers) in pictures.chunks(TOGETHER).zip(read.as_chunks::<2>().0) {
            let each = of_each(numbers, some.len()).zip(some);
            found.extend(each.map(|((logits, boxes), picture)| self.best(logits, boxes, picture)));
        }
        found
    }

    /// What the network says of pictures.
    fn look(&self, pictures: &[&Picture]) -> Detected {
        let [height, width] = self.size;
        let mut values = Vec::with_capacity(pictures.len() * 3 * height * width);
        for picture in pictures {
            normalise(
                &bilinear(picture, width, height),
                [0.0; 3],
                [1.0; 3],
                &mut values,
            );
        }
        let shape = [pictures.len(), 3, height, width];
        let data = TensorData::new(values, shape);
        self.network
            .forward(Tensor::<4>::from_data(data, &self.device))
    }

    /// The best pairs of query and class, as many as there are queries; one query may stand for several classes.
    fn best(&self, logits: &[f32], boxes: &[f32], picture: &Picture) -> Vec<Detection> {
        let (classes, queries) = (self.labels.len(), boxes.len() / 4);
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
        let detection = |place: usize| {
            let score = f64::from(probability(logits[place]));
            let at = boxes.get(4 * (place / classes)..)?.first_chunk::<4>()?;
            let label = || self.labels.get(place % classes).cloned();
            let bbox = around_middle(*at, [picture.width, picture.height]);
            above(self.threshold, score, label, bbox)
        };
        order
            .into_iter()
            .take(queries)
            .filter_map(detection)
            .collect()
    }
}

impl Detector for RtDetrDetector {
    fn name(&self) -> &str {
        &self.name
    }

    fn vocabulary(&self) -> Option<&[String]> {
        Some(&self.labels)
    }

    fn detect(
        &self,
        pictures: &[Tensor<3>],
        _queries: &[Vec<String>],
    ) -> Result<Vec<Vec<Detection>>, DetectError> {
        check_pictures(pictures)?;
        let pictures = bytes(pictures)?;
        Ok(self.seek(&pictures.iter().collect::<Vec<_>>()))
    }

    fn detect_on_host(
        &self,
        pictures: &[&Picture],
        _queries: &[Vec<String>],
        _masks: bool,
        _device: &Device,
    ) -> Result<Vec<Vec<Detection>>, DetectError> {
        check_on_host(pictures)?;
        Ok(self.seek(pictures))
    }
}
