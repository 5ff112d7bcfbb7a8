//! The region proposal network (Ren et al. 2015).

use burn::prelude::*;
use burn::tensor::activation::sigmoid;
use burn::tensor::{DType, TensorData};
use prepose_kernels as kernels;

use super::boxes::{anchors, decode};
use super::config::RcnnConfig;
use super::layers::{ConvNorm, Shape};
use super::transform::Batch;
use crate::params::Params;

/// Shorter boxes are no proposals, in pixels.
const SMALLEST: f32 = 1e-3;
/// The score of what is no proposal, below every probability.
const NONE: f32 = -1.0;
/// Above this number of boxes, torchvision suppresses each level by itself; below, it shifts the levels
/// apart, which rounds the corners.
const SHIFTED: f32 = 1000.0;

/// Regions that may hold objects.
#[derive(Debug, Clone)]
pub struct Proposals {
    /// Corners `x0, y0, x1, y1` in pixels of the resized picture, best first, `[B, N, 4]`.
    pub boxes: Tensor<3>,
    /// Probabilities that there is an object, `[B, N]`; negative where a picture has fewer proposals
    /// than `N`, whose boxes mean nothing.
    pub scores: Tensor<2>,
}

/// torchvision's `RegionProposalNetwork`.
#[derive(Module, Debug)]
pub(super) struct ProposalNetwork {
    convs: Vec<ConvNorm>,
    objectness: ConvNorm,
    changes: ConvNorm,
}

impl ProposalNetwork {
    pub fn load(mut params: Params, config: &RcnnConfig) -> Self {
        let (channels, anchors) = (config.fpn_channels, config.anchors());
        let mut head = params.pp("head");
        let convs = (0..config.rpn_conv_depth)
            .map(|i| {
                let shape = Shape::new(channels, channels, 3);
                ConvNorm::load_block(head.pp(format!("conv.{i}")), false, shape)
            })
            .collect();
        Self {
            convs,
            objectness: ConvNorm::load(head.pp("cls_logits"), Shape::new(channels, anchors, 1)),
            changes: ConvNorm::load(head.pp("bbox_pred"), Shape::new(channels, 4 * anchors, 1)),
        }
    }

    /// The best regions in all `levels` of the pyramid for the pictures of `batch`.
    pub fn forward(&self, levels: &[Tensor<4>], batch: &Batch, config: &RcnnConfig) -> Proposals {
        let [_, _, height, width] = batch.pictures.dims();
        let found: Vec<_> = levels
            .iter()
            .enumerate()
            .map(|(i, level)| self.best_of_level(i, level, [height, width], config))
            .collect();
        let widest = found.iter().map(|(scores, _)| scores.dims()[1]).max();
        let widest = widest.unwrap_or(0);
        // All levels alike: [B, L, K].
        let (scores, boxes) = found
            .into_iter()
            .map(|(scores, boxes)| {
                let missing = widest - scores.dims()[1];
                (
                    scores.pad([(0, 0), (0, missing)], NONE),
                    boxes.pad([(0, 0), (0, missing), (0, 0)], 0.0),
                )
            })
            .unzip();
        let (scores, boxes) = (Tensor::stack::<3>(scores, 1), Tensor::stack::<4>(boxes, 1));
        self.suppress(scores, boxes, batch, config)
    }

    /// The best anchors of a level, best first, before suppression: probabilities `[B, K]` and boxes
    /// `[B, K, 4]`.
    fn best_of_level(
        &self,
        i: usize,
        level: &Tensor<4>,
        padded: [usize; 2],
        config: &RcnnConfig,
    ) -> (Tensor<2>, Tensor<3>) {
        let [batch, _, height, width] = level.dims();
        let (count, positions) = (config.anchors(), height * width);
        let x = self
            .convs
            .iter()
            .fold(level.clone(), |x, conv| conv.forward_relu(x));
        let logits = self.objectness.forward(x.clone());
        let logits = logits.reshape([batch, count * positions]);
        let (logits, places) = kernels::top_k(logits, config.rpn_pre_nms_top_n, f32::NEG_INFINITY);
        let best = logits.dims()[1];
        let places = places.unsqueeze_dim::<3>(2).expand([batch, best, 4]);
        let changes = self.changes.forward(x);
        let changes = changes
            .reshape([batch, count, 4, positions])
            .swap_dims(2, 3)
            .reshape([batch, count * positions, 4]);
        let anchors = anchors(config, i, [height, width], padded, &level.device());
        let anchors = anchors
            .unsqueeze_dim::<3>(0)
            .expand([batch, count * positions, 4]);
        let from = anchors.gather(1, places.clone());
        let boxes = decode(from, changes.gather(1, places), [1.0; 4]);
        (sigmoid(logits), boxes)
    }

    /// What is left of `scores` `[B, L, K]` and `boxes` `[B, L, K, 4]` when boxes are clipped, small
    /// ones and those that better ones of their level cover are gone, and the best are taken.
    fn suppress(
        &self,
        scores: Tensor<3>,
        boxes: Tensor<4>,
        batch: &Batch,
        config: &RcnnConfig,
    ) -> Proposals {
        let [pictures, levels, widest] = scores.dims();
        let device = scores.device();
        let limits: Vec<f32> = batch
            .resized
            .iter()
            .flat_map(|[height, width]| [*width as f32, *height as f32].repeat(2))
            .collect();
        let limits = Tensor::<4>::from_data(TensorData::new(limits, [pictures, 1, 1, 4]), &device);
        let boxes = boxes.clamp_min(0.0);
        let shape = boxes.dims();
        let boxes = boxes.min_pair(limits.expand(shape));
        let corner = |i| boxes.clone().narrow(3, i, 1).squeeze_dim::<3>(3);
        let long = |low, high| (corner(high) - corner(low)).greater_equal_elem(SMALLEST);
        let mut valid = long(0, 2).bool_and(long(1, 3));
        valid = valid.bool_and(
            scores
                .clone()
                .greater_equal_elem(config.rpn_score_thresh.max(0.0)),
        );
        let scores = scores.mask_fill(valid.clone().bool_not(), NONE);
        // Boxes without area neither suppress nor are suppressed.
        let gone = valid.clone().bool_not().unsqueeze_dim::<4>(3).expand(shape);
        let boxes = boxes.mask_fill(gone, 0.0);

        let few = valid
            .float()
            .sum_dim(2)
            .sum_dim(1)
            .lower_equal_elem(SHIFTED)
            .float();
        let largest = boxes
            .clone()
            .max_dim(3)
            .squeeze_dim::<3>(3)
            .max_dim(2)
            .max_dim(1);
        let numbers = Tensor::<1, Int>::arange(0..levels as i64, &device).float();
        let shift = numbers.reshape([1, levels, 1]) * ((largest + 1.0) * few);
        let shifted = boxes.clone() + shift.unsqueeze_dim::<4>(3);
        let shifted = shifted.reshape([pictures * levels, widest, 4]);
        let keep = kernels::nms(shifted, config.rpn_nms_thresh);
        let keep = keep.reshape([pictures, levels, widest]);

        let scores = scores.mask_fill(keep.bool_not(), NONE);
        let scores = scores.reshape([pictures, levels * widest]);
        let (scores, places) = kernels::top_k(scores, config.rpn_post_nms_top_n, NONE);
        let best = scores.dims()[1];
        let places = places.unsqueeze_dim::<3>(2).expand([pictures, best, 4]);
        let boxes = boxes.reshape([pictures, levels * widest, 4]);
        Proposals {
            boxes: boxes.gather(1, places).cast(DType::F32),
            scores,
        }
    }
}
