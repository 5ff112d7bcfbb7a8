//! What a detector is made of: the `config.json` next to its weights.

use serde::{Deserialize, Serialize};

use crate::config::{Check, ConfigError};

pub(super) const CHECK: Check = Check { network: "R-CNN" };

/// The tasks that the network has heads for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// Boxes (Ren et al. 2015).
    FasterRcnn,
    /// Boxes and masks (He et al. 2017).
    MaskRcnn,
}

/// The residual block of the backbone (He et al. 2016).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Two 3 × 3 convolutions.
    Basic,
    /// 1 × 1, 3 × 3 with the stride, 1 × 1 to four times the channels.
    Bottleneck,
}

impl Block {
    /// Channels that leave a block for each of its `planes`.
    pub(super) fn expansion(self) -> usize {
        match self {
            Self::Basic => 1,
            Self::Bottleneck => 4,
        }
    }
}

/// torchvision's `ResNet`, as far as a feature pyramid uses it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackboneConfig {
    /// The kind of block.
    pub block: Block,
    /// Blocks of each stage, `layer1` first: 1 to 4 stages.
    pub layers: Vec<usize>,
    /// Channels of the stem and `planes` of the first stage; doubled at each further one.
    #[serde(default = "default::width")]
    pub width: usize,
    /// torchvision's `width_per_group`: a bottleneck is `planes · width_per_group / 64` wide.
    #[serde(default = "default::width")]
    pub width_per_group: usize,
    /// The stages that the pyramid stands on, counted from 1, without gaps; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned_layers: Option<Vec<usize>>,
    /// What the batch norms add to the variance.
    #[serde(default = "default::norm_eps")]
    pub norm_eps: f64,
}

impl BackboneConfig {
    /// The first stage that the pyramid stands on, counted from 0.
    pub(super) fn first(&self) -> usize {
        match &self.returned_layers {
            Some(layers) => layers.first().map_or(0, |layer| layer - 1),
            None => 0,
        }
    }

    /// `planes` of the stage counted from 0.
    pub(super) fn planes(&self, stage: usize) -> usize {
        self.width << stage
    }

    /// The part of [`RcnnConfig::check`] that looks at the backbone alone.
    fn check(&self) -> Result<(), ConfigError> {
        let stages = self.layers.len();
        if !(1..=4).contains(&stages) || self.layers.contains(&0) {
            let reason = "it must list the blocks of 1 to 4 stages";
            return Err(CHECK.invalid("backbone.layers", &self.layers, reason));
        }
        if let Some(returned) = &self.returned_layers {
            let first = returned.first().copied().unwrap_or(0);
            let expected: Vec<usize> = (first..=stages).collect();
            if first == 0 || *returned != expected {
                let reason = format!(
                    "it must count up to {stages}, the number of stages in `backbone.layers`"
                );
                return Err(CHECK.invalid("backbone.returned_layers", returned, reason));
            }
        }
        if self.block == Block::Basic && self.width_per_group != 64 {
            let reason = "basic blocks have 64";
            return Err(CHECK.invalid("backbone.width_per_group", self.width_per_group, reason));
        }
        Ok(())
    }
}

/// What turns a pooled region into the features for its class and box.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum BoxHead {
    /// torchvision's `TwoMLPHead`.
    Mlp {
        /// Outputs of both layers.
        width: usize,
    },
    /// torchvision's `FastRCNNConvFCHead`.
    ConvFc {
        /// Channels of each 3 × 3 convolution.
        conv: Vec<usize>,
        /// Outputs of each linear layer, at least one.
        fc: Vec<usize>,
        /// Whether batch norms follow the convolutions, which then have no biases.
        #[serde(default = "default::yes")]
        norm: bool,
    },
}

/// torchvision's `MaskRCNNHeads` and `MaskRCNNPredictor`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MaskHead {
    /// Channels of each 3 × 3 convolution.
    pub conv: Vec<usize>,
    /// Whether batch norms follow the convolutions, which then have no biases.
    pub norm: bool,
    /// Channels of the enlarging convolution.
    pub predictor: usize,
    /// Pixels along each side of a pooled region; masks have twice as many.
    pub roi_size: usize,
}

impl Default for MaskHead {
    fn default() -> Self {
        Self {
            conv: vec![256; 4],
            norm: false,
            predictor: 256,
            roi_size: 14,
        }
    }
}

/// A Faster R-CNN or Mask R-CNN of torchvision's: a ResNet with a feature pyramid (Lin et al. 2017),
/// a region proposal network and heads. Fields that have a default may be left out of `config.json`;
/// defaults are torchvision's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RcnnConfig {
    /// What records call the detector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which heads there are.
    pub architecture: Architecture,
    /// The residual network that the feature pyramid stands on.
    pub backbone: BackboneConfig,
    /// Channels of every level of the pyramid.
    #[serde(default = "default::channels")]
    pub fpn_channels: usize,
    /// Whether batch norms follow the pyramid's convolutions, which then have no biases.
    #[serde(default)]
    pub fpn_norm: bool,
    /// Convolutions before the proposal network's predictions.
    #[serde(default = "default::one")]
    pub rpn_conv_depth: usize,
    /// Sides of the anchors' squares in pixels of the resized picture, for each level: the returned
    /// layers and the subsampled last one.
    #[serde(default = "default::anchor_sizes")]
    pub anchor_sizes: Vec<Vec<f32>>,
    /// Height over width of the anchors, the same at all levels.
    #[serde(default = "default::aspect_ratios")]
    pub aspect_ratios: Vec<f32>,
    /// The head for boxes.
    #[serde(default = "default::box_head")]
    pub box_head: BoxHead,
    /// Pixels along each side of the regions pooled for boxes.
    #[serde(default = "default::box_roi_size")]
    pub box_roi_size: usize,
    /// The head for masks, of Mask R-CNN only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask_head: Option<MaskHead>,
    /// Samples along each side of a pixel of a pooled region.
    #[serde(default = "default::sampling_ratio")]
    pub sampling_ratio: usize,
    /// Side of a region, in pixels of the resized picture, that is pooled from the canonical level.
    #[serde(default = "default::canonical_scale")]
    pub canonical_scale: f32,
    /// The level, as the power of two of its stride.
    #[serde(default = "default::canonical_level")]
    pub canonical_level: f32,
    /// The shorter side of a resized picture,
    #[serde(default = "default::min_size")]
    pub min_size: usize,
    /// unless the longer one were above this.
    #[serde(default = "default::max_size")]
    pub max_size: usize,
    /// Means of the channels that pictures are normalised with.
    #[serde(default = "default::image_mean")]
    pub image_mean: [f32; 3],
    /// Standard deviations of the channels that pictures are normalised with.
    #[serde(default = "default::image_std")]
    pub image_std: [f32; 3],
    /// Anchors of each level that go on to non-maximum suppression.
    #[serde(default = "default::thousand")]
    pub rpn_pre_nms_top_n: usize,
    /// Regions of a picture that go on to the heads.
    #[serde(default = "default::thousand")]
    pub rpn_post_nms_top_n: usize,
    /// Overlap above which the lesser region goes.
    #[serde(default = "default::rpn_nms_thresh")]
    pub rpn_nms_thresh: f64,
    /// Least probability of a region.
    #[serde(default)]
    pub rpn_score_thresh: f64,
    /// What the head's box changes are divided by: `x`, `y`, width, height.
    #[serde(default = "default::bbox_reg_weights")]
    pub bbox_reg_weights: [f32; 4],
    /// Detections have scores above this.
    #[serde(default = "default::box_score_thresh")]
    pub box_score_thresh: f64,
    /// Overlap above which the lesser detection of a class goes.
    #[serde(default = "default::box_nms_thresh")]
    pub box_nms_thresh: f64,
    /// Most detections of a picture.
    #[serde(default = "default::detections_per_img")]
    pub detections_per_img: usize,
    /// Names of the labels: `__background__` first; `N/A` are never reported.
    pub classes: Vec<String>,
}

mod default {
    use super::BoxHead;

    pub fn width() -> usize {
        64
    }
    pub fn norm_eps() -> f64 {
        1e-5
    }
    pub fn yes() -> bool {
        true
    }
    pub fn one() -> usize {
        1
    }
    pub fn channels() -> usize {
        256
    }
    pub fn anchor_sizes() -> Vec<Vec<f32>> {
        [32.0, 64.0, 128.0, 256.0, 512.0].map(|s| vec![s]).into()
    }
    pub fn aspect_ratios() -> Vec<f32> {
        vec![0.5, 1.0, 2.0]
    }
    pub fn box_head() -> BoxHead {
        BoxHead::Mlp { width: 1024 }
    }
    pub fn box_roi_size() -> usize {
        7
    }
    pub fn sampling_ratio() -> usize {
        2
    }
    pub fn canonical_scale() -> f32 {
        224.0
    }
    pub fn canonical_level() -> f32 {
        4.0
    }
    pub fn min_size() -> usize {
        800
    }
    pub fn max_size() -> usize {
        1333
    }
    pub fn image_mean() -> [f32; 3] {
        [0.485, 0.456, 0.406]
    }
    pub fn image_std() -> [f32; 3] {
        [0.229, 0.224, 0.225]
    }
    pub fn thousand() -> usize {
        1000
    }
    pub fn rpn_nms_thresh() -> f64 {
        0.7
    }
    pub fn bbox_reg_weights() -> [f32; 4] {
        [10.0, 10.0, 5.0, 5.0]
    }
    pub fn box_score_thresh() -> f64 {
        0.05
    }
    pub fn box_nms_thresh() -> f64 {
        0.5
    }
    pub fn detections_per_img() -> usize {
        100
    }
}

impl RcnnConfig {
    /// Levels of the pyramid from which regions are pooled.
    pub(super) fn levels(&self) -> usize {
        self.backbone.layers.len() - self.backbone.first()
    }

    /// The mask head, if there is one.
    pub(super) fn mask_head(&self) -> Option<MaskHead> {
        match self.architecture {
            Architecture::FasterRcnn => None,
            Architecture::MaskRcnn => Some(self.mask_head.clone().unwrap_or_default()),
        }
    }

    /// Anchors at each position of a level.
    pub(super) fn anchors(&self) -> usize {
        self.anchor_sizes.first().map_or(0, Vec::len) * self.aspect_ratios.len()
    }

    /// Refuses what no network can be built from.
    ///
    /// # Errors
    /// [`ConfigError`] with the field, its value and the reason.
    pub fn check(&self) -> Result<(), ConfigError> {
        let backbone = &self.backbone;
        backbone.check()?;
        self.sizes()?;
        let levels = self.levels() + 1;
        let anchors = self.anchors();
        if self.anchor_sizes.len() != levels
            || anchors == 0
            || self
                .anchor_sizes
                .iter()
                .any(|sizes| sizes.len() != self.anchor_sizes[0].len())
        {
            let reason = format!(
                "there must be equally many sizes for each of {levels} levels (the returned layers and one more), and aspect ratios"
            );
            return Err(CHECK.invalid("anchor_sizes", &self.anchor_sizes, reason));
        }
        if let BoxHead::ConvFc { fc, .. } = &self.box_head
            && fc.is_empty()
        {
            return Err(CHECK.invalid("box_head.fc", fc, "there must be at least one layer"));
        }
        if self.architecture == Architecture::FasterRcnn && self.mask_head.is_some() {
            return Err(CHECK.unsupported(
                "mask_head",
                "given",
                "a mask_head in a mask_rcnn, or none",
            ));
        }
        if self.classes.len() < 2 {
            let reason = "there must be the background and at least one class";
            return Err(CHECK.invalid("classes", &self.classes, reason));
        }
        Ok(())
    }
}
