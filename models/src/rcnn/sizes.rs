//! The numbers that a detector may have.

use std::ops::RangeInclusive;

use super::config::{BoxHead, CHECK, RcnnConfig};
use crate::config::{ConfigError, limit};

impl RcnnConfig {
    /// Refuses sizes that no detector has.
    pub(super) fn sizes(&self) -> Result<(), ConfigError> {
        /// Convolutions of a head.
        const FEW: usize = 64;
        /// Pixels along a side of a pooled region, and samples along a side of such a pixel.
        const REGION: usize = 32;
        const SAMPLES: usize = 8;
        /// Boxes.
        const MANY: usize = 1 << 14;
        let backbone = &self.backbone;
        let blocks = backbone.layers.iter().copied();
        CHECK.within("backbone.layers", blocks, limit::LAYERS)?;
        for (key, size, limit) in [
            ("backbone.width", backbone.width, limit::CHANNELS / 8),
            (
                "backbone.width_per_group",
                backbone.width_per_group,
                limit::CHANNELS / 8,
            ),
            ("fpn_channels", self.fpn_channels, limit::CHANNELS),
            ("rpn_conv_depth", self.rpn_conv_depth, FEW),
            ("box_roi_size", self.box_roi_size, REGION),
            ("sampling_ratio", self.sampling_ratio, SAMPLES),
            ("min_size", self.min_size, limit::SIDE / 4),
            ("max_size", self.max_size, limit::SIDE / 2),
            ("rpn_pre_nms_top_n", self.rpn_pre_nms_top_n, MANY),
            ("rpn_post_nms_top_n", self.rpn_post_nms_top_n, MANY),
            ("detections_per_img", self.detections_per_img, MANY),
        ] {
            CHECK.within(key, [size], limit)?;
        }
        let head = |key, channels: &[usize]| {
            if channels.len() > FEW {
                let reason = format!("at most {FEW} layers are possible");
                return Err(CHECK.invalid(key, channels.len(), reason));
            }
            CHECK.within(key, channels.iter().copied(), limit::CHANNELS)
        };
        match &self.box_head {
            BoxHead::Mlp { width } => head("box_head.width", &[*width])?,
            BoxHead::ConvFc { conv, fc, .. } => {
                head("box_head.conv", conv)?;
                head("box_head.fc", fc)?;
            }
        }
        if let Some(mask) = &self.mask_head {
            head("mask_head.conv", &mask.conv)?;
            head("mask_head.predictor", &[mask.predictor])?;
            CHECK.within("mask_head.roi_size", [mask.roi_size], REGION)?;
        }
        self.numbers()
    }

    /// Refuses fractions that no detector has.
    fn numbers(&self) -> Result<(), ConfigError> {
        /// Pixels.
        const LENGTHS: RangeInclusive<f64> = 1e-2..=1e5;
        const SHARES: RangeInclusive<f64> = 0.0..=1.0;
        // Some of torchvision's add nothing to the variance.
        let eps = 0.0..=*limit::EPS.end();
        CHECK.number("backbone.norm_eps", [self.backbone.norm_eps], eps)?;
        for (key, values, range) in [
            ("anchor_sizes", self.anchor_sizes.concat(), LENGTHS),
            ("aspect_ratios", self.aspect_ratios.clone(), 1e-2..=1e2),
            ("canonical_scale", vec![self.canonical_scale], LENGTHS),
            ("canonical_level", vec![self.canonical_level], 0.0..=16.0),
            ("image_mean", self.image_mean.to_vec(), -1e3..=1e3),
            ("image_std", self.image_std.to_vec(), 1e-4..=1e4),
            (
                "bbox_reg_weights",
                self.bbox_reg_weights.to_vec(),
                1e-3..=1e3,
            ),
        ] {
            CHECK.number(key, values.into_iter().map(f64::from), range)?;
        }
        for (key, share) in [
            ("rpn_nms_thresh", self.rpn_nms_thresh),
            ("rpn_score_thresh", self.rpn_score_thresh),
            ("box_score_thresh", self.box_score_thresh),
            ("box_nms_thresh", self.box_nms_thresh),
        ] {
            CHECK.number(key, [share], SHARES)?;
        }
        Ok(())
    }
}
