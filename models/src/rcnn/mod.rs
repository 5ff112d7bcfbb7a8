//! torchvision's Faster R-CNN (Ren et al. 2015) and Mask R-CNN (He et al. 2017) on a ResNet with a
//! feature pyramid: objects in pictures, with boxes, scores and masks. Parameters have the names of
//! torchvision's state dicts.

mod backbone;
mod boxes;
mod config;
mod heads;
pub(crate) mod layers;
mod masks;
mod proposals;
mod select;
mod sizes;
mod standard;
mod transform;

use burn::prelude::*;
use burn::tensor::activation::softmax;
use burn::tensor::{DType, TensorData, Transaction};
use prepose_kernels::{RoiAlign, keep_awake, roi_align};

pub use config::{Architecture, BackboneConfig, Block, BoxHead, MaskHead, RcnnConfig};
pub use masks::RoiMask;
pub use proposals::Proposals;
pub use standard::{COCO_CLASSES, STANDARD};
pub use transform::Batch;

use crate::config::ConfigError;
use crate::params::Params;
use backbone::Backbone;
use heads::{BoxNetwork, MaskNetwork};
use proposals::ProposalNetwork;
use select::{Candidate, Regions, select};

/// Regions that go through the heads together, so that memory stays within bounds.
const TOGETHER: usize = 2048;

/// An object in a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// Its class, an index into [`RcnnConfig::classes`]; never 0, the background.
    pub label: usize,
    /// The class's probability, above [`RcnnConfig::box_score_thresh`].
    pub score: f32,
    /// Corners `x0, y0, x1, y1` in pixels of the picture as it was given, inside it.
    pub corners: [f32; 4],
    /// Which part of the box it covers, from a Mask R-CNN.
    pub mask: Option<RoiMask>,
}

/// torchvision's `FasterRCNN` or `MaskRCNN`. Computes in f32. Batch norms use their running
/// statistics and are part of the convolutions.
#[derive(Module, Debug)]
pub struct Rcnn {
    backbone: Backbone,
    rpn: ProposalNetwork,
    boxes: BoxNetwork,
    masks: Option<MaskNetwork>,
    #[module(skip)]
    config: RcnnConfig,
}

impl Rcnn {
    /// Builds the network.
    ///
    /// # Errors
    /// [`ConfigError`] if no network can be built from the configuration. Problems with parameters are
    /// the source's to report.
    pub fn load(config: &RcnnConfig, params: Params) -> Result<Self, ConfigError> {
        config.check()?;
        let mut params = params.f32();
        let masks = config
            .mask_head()
            .map(|head| MaskNetwork::load(params.pp("roi_heads"), &head, config));
        Ok(Self {
            backbone: Backbone::load(params.pp("backbone"), config),
            rpn: ProposalNetwork::load(params.pp("rpn"), config),
            boxes: BoxNetwork::load(params.pp("roi_heads"), config),
            masks,
            config: config.clone(),
        })
    }

    /// The configuration that the network was built from.
    pub fn config(&self) -> &RcnnConfig {
        &self.config
    }

    /// Finds objects in pictures `[3, H, W]`, RGB in 0..=1, of any sizes: for each picture its
    /// objects, the highest score first. As in torchvision, pictures are padded to the largest of the
    /// batch, which changes what is seen at their lower and right borders a little.
    ///
    /// # Panics
    /// If a picture has other than three channels, or no pixels.
    pub fn detect(&self, pictures: &[Tensor<3>]) -> Vec<Vec<Instance>> {
        self.find(pictures, true)
    }

    /// As [`Self::detect`], without masks.
    pub fn detect_boxes(&self, pictures: &[Tensor<3>]) -> Vec<Vec<Instance>> {
        self.find(pictures, false)
    }

    fn find(&self, pictures: &[Tensor<3>], masks: bool) -> Vec<Vec<Instance>> {
        match pictures {
            [] => Vec::new(),
            [first, ..] => keep_awake(&first.device(), || self.find_awake(pictures, masks)),
        }
    }

    fn find_awake(&self, pictures: &[Tensor<3>], masks: bool) -> Vec<Vec<Instance>> {
        let batch = self.batch(pictures);
        let levels = self.features(&batch);
        let proposals = self.propose(&levels, &batch);
        let (probabilities, changes) = self.classify(&levels, &proposals);
        let found = self.select(proposals, probabilities, changes, &batch);
        let masks = masks.then(|| self.find_masks(&levels, &found));
        let mut masks = masks.unwrap_or_default().into_iter();
        let sizes = batch.resized.iter().zip(&batch.original);
        let instances = found.into_iter().zip(sizes).map(|(found, (from, to))| {
            let ratio = |axis: usize| to[axis] as f32 / from[axis] as f32;
            let ratios = [ratio(1), ratio(0), ratio(1), ratio(0)];
            let instance = |candidate: Candidate| Instance {
                label: candidate.label,
                score: candidate.score,
                corners: std::array::from_fn(|i| candidate.corners[i] * ratios[i]),
                mask: masks.next(),
            };
            found.into_iter().map(instance).collect()
        });
        instances.collect()
    }

    /// Height and width in pixels that a picture of this height and width has in the network when it goes through it by itself.
    /// Together with others of the same it sees no more padding than alone.
    pub fn padded(&self, size: [usize; 2]) -> [usize; 2] {
        transform::padded(size, &self.config)
    }

    /// Resizes, normalises and pads pictures as [`Self::detect`] does.
    pub fn batch(&self, pictures: &[Tensor<3>]) -> Batch {
        let pictures: Vec<_> = pictures
            .iter()
            .map(|p| p.clone().cast(DType::F32))
            .collect();
        transform::batch(&pictures, &self.config)
    }

    /// The levels of the feature pyramid, `[B, fpn_channels, H / stride, W / stride]`, finest first:
    /// those that regions are pooled from, and a subsampled one for proposals only.
    pub fn features(&self, batch: &Batch) -> Vec<Tensor<4>> {
        self.backbone.forward(batch.pictures.clone())
    }

    /// Regions that may hold objects.
    pub fn propose(&self, levels: &[Tensor<4>], batch: &Batch) -> Proposals {
        self.rpn.forward(levels, batch, &self.config)
    }

    /// The regions `[R, 5]`, each the number of its picture and its corners, pooled to
    /// `[R, fpn_channels, size, size]`.
    fn pool(&self, levels: &[Tensor<4>], rois: Tensor<2>, size: usize) -> Tensor<4> {
        let options = RoiAlign {
            size,
            sampling: self.config.sampling_ratio,
            finest: self.config.backbone.first() as u32 + 2,
            canonical_scale: self.config.canonical_scale,
            canonical_level: self.config.canonical_level,
        };
        roi_align(&levels[..self.config.levels()], rois, &options)
    }

    /// For each of `B · N` proposals the probabilities of the classes `[B · N, classes]` and the
    /// changes that would make the proposal a box of each class `[B · N, 4 · classes]`.
    pub fn classify(&self, levels: &[Tensor<4>], proposals: &Proposals) -> (Tensor<2>, Tensor<2>) {
        let [pictures, each, _] = proposals.boxes.dims();
        let device = proposals.boxes.device();
        let together = (TOGETHER / each).max(1);
        let parts = (0..pictures).step_by(together).map(|first| {
            let count = together.min(pictures - first);
            let levels = levels
                .iter()
                .map(|level| level.clone().narrow(0, first, count));
            let numbers = Tensor::<1, Int>::arange(0..count as i64, &device).float();
            let numbers = numbers.cast(DType::F32).reshape([count, 1, 1]);
            let boxes = proposals.boxes.clone().narrow(0, first, count);
            let rois = Tensor::cat(vec![numbers.expand([count, each, 1]), boxes], 2);
            let rois = rois.reshape([count * each, 5]);
            let regions = self.pool(&levels.collect::<Vec<_>>(), rois, self.config.box_roi_size);
            let (logits, changes) = self.boxes.forward(regions);
            (softmax(logits, 1), changes)
        });
        let (probabilities, changes) = parts.unzip::<_, _, Vec<_>, Vec<_>>();
        (Tensor::cat(probabilities, 0), Tensor::cat(changes, 0))
    }

    /// The detections of each picture in its resized form: the read-back of what the network found.
    fn select(
        &self,
        proposals: Proposals,
        probabilities: Tensor<2>,
        changes: Tensor<2>,
        batch: &Batch,
    ) -> Vec<Vec<Candidate>> {
        let [pictures, each, _] = proposals.boxes.dims();
        let data = Transaction::default()
            .register(proposals.boxes)
            .register(proposals.scores)
            .register(probabilities)
            .register(changes)
            .execute();
        let values: Vec<Vec<f32>> = data.iter().map(|data| data.iter().collect()).collect();
        let [corners, objectness, probabilities, changes] = &values[..] else {
            unreachable!("four tensors were read");
        };
        let corners = corners.as_chunks::<4>().0;
        let changes = changes.as_chunks::<4>().0;
        let classes = self.config.classes.len();
        let of_picture = |i: usize| {
            let range = i * each..(i + 1) * each;
            let of_classes = range.start * classes..range.end * classes;
            let regions = Regions {
                objectness: &objectness[range.clone()],
                corners: &corners[range],
                probabilities: &probabilities[of_classes.clone()],
                changes: &changes[of_classes],
            };
            select(&regions, batch.resized[i], &self.config)
        };
        (0..pictures).map(of_picture).collect()
    }

    /// The masks of all detections, one picture after the other; none without a network for them.
    fn find_masks(&self, levels: &[Tensor<4>], found: &[Vec<Candidate>]) -> Vec<RoiMask> {
        let (Some(network), Some(head)) = (&self.masks, self.config.mask_head()) else {
            return Vec::new();
        };
        let mut rois = Vec::new();
        let mut labels = Vec::new();
        for (picture, found) in found.iter().enumerate() {
            for Candidate { corners, label, .. } in found {
                rois.push(picture as f32);
                rois.extend(corners);
                labels.push(*label as i32);
            }
        }
        if labels.is_empty() {
            return Vec::new();
        }
        let device = levels[0].device();
        let count = labels.len();
        let rois = Tensor::<2>::from_data(TensorData::new(rois, [count, 5]), &device);
        let labels = Tensor::<1, Int>::from_data(labels.as_slice(), &device);
        let parts = rois.split(TOGETHER, 0).into_iter();
        let parts = parts
            .zip(labels.split(TOGETHER, 0))
            .map(|(rois, labels)| network.forward(self.pool(levels, rois, head.roi_size), labels));
        let masks = Tensor::cat(parts.collect(), 0);
        let size = masks.dims()[1];
        let values: Vec<f32> = masks.into_data().iter().collect();
        let mask = |values: &[f32]| RoiMask {
            size,
            values: values.to_vec(),
        };
        values.chunks(size * size).map(mask).collect()
    }
}
