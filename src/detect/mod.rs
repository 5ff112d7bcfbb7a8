//! Detectors: from pictures on the device to labelled boxes. The only part of the checker with tensors.
//!
//! * [`checker`]: detectors, perturbations and the rule together;
//! * [`owl_vit`]: OWL-ViT, which takes any phrase as well;
//! * [`phrases`]: Grounding DINO, which takes any phrase;
//! * [`rcnn`]: torchvision's Faster R-CNN and Mask R-CNN, and the toybox's;
//! * [`registry`]: all of them, by name or folder;
//! * [`reward`]: a detector as the reward of a search;
//! * [`rt_detr`]: RT-DETRv2, which is fast;
//! * [`seeing`]: a detector whose boxes a segmenter fills, and that sees depth.

pub mod checker;
mod found;
pub mod owl_vit;
pub mod phrases;
mod prepare;
pub mod rcnn;
pub mod registry;
pub mod reward;
pub mod rt_detr;
pub mod seeing;

use std::collections::BTreeMap;
use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use thiserror::Error;

use crate::check::Detection;
use crate::check::rules::depth::DepthMap;
use crate::picture::{Picture, PictureTensor};

pub use owl_vit::OwlVitDetector;
pub use phrases::GroundingDinoDetector;
pub use rcnn::RcnnDetector;
pub use registry::{OpenDetector, OpenError, Thresholds};
pub use rt_detr::RtDetrDetector;

/// Finds objects in pictures.
pub trait Detector {
    /// What records call it, such as `fasterrcnn_resnet50_fpn_v2` or `toybox`.
    fn name(&self) -> &str;

    /// The labels that it can give, lower case; none if it takes any phrase.
    fn vocabulary(&self) -> Option<&[String]>;

    /// Looks at `pictures`: RGB in 0..=1, f32 `[3, H, W]` each, on the detector's device, of any sizes.
    /// `queries` are for each picture the objects that are looked for; a detector with a vocabulary
    /// ignores them. For each picture its detections, the best score first, with boxes and masks in
    /// pixels of that picture.
    ///
    /// # Errors
    /// [`DetectError`] if a picture cannot be looked at; nothing is known of the others then.
    fn detect(
        &self,
        pictures: &[Tensor<3>],
        queries: &[Vec<String>],
    ) -> Result<Vec<Vec<Detection>>, DetectError>;

    /// As [`Self::detect`], without masks where leaving them out saves time.
    ///
    /// # Errors
    /// As [`Self::detect`].
    fn detect_boxes(
        &self,
        pictures: &[Tensor<3>],
        queries: &[Vec<String>],
    ) -> Result<Vec<Vec<Detection>>, DetectError> {
        self.detect(pictures, queries)
    }

    /// As [`Self::detect`], or as [`Self::detect_boxes`] unless `masks`, of pictures on the host. Networks that prepare pictures
    /// there look at these; the others' are put on `device`, which is the detector's.
    ///
    /// # Errors
    /// As [`Self::detect`].
    fn detect_on_host(
        &self,
        pictures: &[&Picture],
        queries: &[Vec<String>],
        masks: bool,
        device: &Device,
    ) -> Result<Vec<Vec<Detection>>, DetectError> {
        let pictures = on_device(pictures, device);
        match masks {
            true => self.detect(&pictures, queries),
            false => self.detect_boxes(&pictures, queries),
        }
    }

    /// How far away each pixel of each picture is, larger being nearer; none if nothing here looks at that, as in detectors
    /// by themselves.
    ///
    /// # Errors
    /// As [`Self::detect`].
    fn depths(&self, _pictures: &[Tensor<3>]) -> Result<Option<Vec<Arc<DepthMap>>>, DetectError> {
        Ok(None)
    }

    /// As [`Self::depths`], of pictures on the host.
    ///
    /// # Errors
    /// As [`Self::detect`].
    fn depths_on_host(
        &self,
        pictures: &[&Picture],
        device: &Device,
    ) -> Result<Option<Vec<Arc<DepthMap>>>, DetectError> {
        self.depths(&on_device(pictures, device))
    }
}

fn on_device(pictures: &[&Picture], device: &Device) -> Vec<Tensor<3>> {
    let pictures = pictures.iter();
    pictures.map(|picture| picture.to_tensor(device)).collect()
}

/// Why pictures could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DetectError {
    /// Not an RGB picture.
    #[error(
        "picture {index} of the batch has {channels} channels and {width} × {height} pixels; a detector takes RGB \
         pictures of at least one pixel, so convert it or leave it out"
    )]
    Picture {
        /// Its place in the batch, from 0.
        index: usize,
        /// Its channels, of which there should be three.
        channels: usize,
        /// In pixels.
        width: usize,
        /// In pixels.
        height: usize,
    },
    /// A segmenter could not look at it.
    #[error("picture {index} of the batch has no masks: {reason}")]
    Masks {
        /// Its place in the batch, from 0.
        index: usize,
        /// Why not.
        reason: String,
    },
    /// A depth network could not look at the pictures.
    #[error("the pictures have no depths: {0}")]
    Depth(String),
    /// A picture with values that are no numbers.
    #[error("picture {index} of the batch has values that are not numbers; make it again")]
    Values {
        /// Its place in the batch, from 0.
        index: usize,
    },
    /// A thing without a word.
    #[error("{0:?} names nothing to look for; describe the thing in words")]
    EmptyPhrase(String),
    /// More words than the detector reads.
    #[error(
        "the text to look for has {tokens} tokens, but the detector reads at most {most}; ask for fewer things at a \
         time, or in fewer words"
    )]
    LongText {
        /// Of the whole question.
        tokens: usize,
        /// What the detector reads.
        most: usize,
    },
    /// The tokenizer refused the text.
    #[error("the text to look for cannot be split into tokens: {0}")]
    Text(String),
}

/// The places of pictures by what must be equal for a network to look at them together.
fn alike<K: Ord>(keys: impl IntoIterator<Item = (usize, K)>) -> BTreeMap<K, Vec<usize>> {
    let mut groups: BTreeMap<K, Vec<usize>> = BTreeMap::new();
    for (place, key) in keys {
        groups.entry(key).or_default().push(place);
    }
    groups
}

/// Refuses what is no picture.
fn check_pictures(pictures: &[Tensor<3>]) -> Result<(), DetectError> {
    check_shapes(pictures.iter().map(Tensor::dims))
}

/// Refuses what is no picture on the host.
fn check_on_host(pictures: &[&Picture]) -> Result<(), DetectError> {
    let pictures = pictures.iter();
    check_shapes(pictures.map(|picture| [3, picture.height, picture.width]))
}

/// Refuses channels, heights and widths of no pictures.
fn check_shapes(shapes: impl Iterator<Item = [usize; 3]>) -> Result<(), DetectError> {
    for (index, [channels, height, width]) in shapes.enumerate() {
        if channels != 3 || height == 0 || width == 0 {
            return Err(DetectError::Picture {
                index,
                channels,
                width,
                height,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_go_together_in_their_order() {
        let groups = alike([(0, [32, 64]), (2, [32, 32]), (3, [32, 64])]);
        let groups: Vec<_> = groups.into_iter().collect();
        assert_eq!(groups, [([32, 32], vec![2]), ([32, 64], vec![0, 3])]);
    }
}
