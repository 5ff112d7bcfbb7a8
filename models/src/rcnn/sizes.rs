//! The sizes that a detector may have.

use super::config::{BoxHead, CHECK, RcnnConfig};
use crate::config::{ConfigError, limit};

impl RcnnConfig {
    /// Refuses sizes that no detector has.
    pub(super) fn sizes(&self) -> Result<(), ConfigError> {
        /// Samples along a side of a region, and convolutions of a head.
        const FEW: usize = 64;
        /// Boxes.
        const MANY: usize = 1 << 20;
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
            ("box_roi_size", self.box_roi_size, FEW),
            ("sampling_ratio", self.sampling_ratio, FEW),
            ("min_size", self.min_size, limit::LENGTH),
            ("max_size", self.max_size, limit::LENGTH),
            ("rpn_pre_nms_top_n", self.rpn_pre_nms_top_n, MANY),
            ("rpn_post_nms_top_n", self.rpn_post_nms_top_n, MANY),
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
            CHECK.within("mask_head.roi_size", [mask.roi_size], FEW)?;
        }
        Ok(())
    }
}
