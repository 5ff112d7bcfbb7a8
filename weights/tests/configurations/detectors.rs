//! Configurations of detectors full of numbers that nobody should believe.

use std::fs;

use burn::tensor::Tensor;
use prepose_weights::DetectorWeights;

use super::{Accepted, changed, numbers, refusal};
use crate::support::{device, fixture};
use crate::wrong_input::{Bad, copy_folder};

/// The numbers of a detector, and those of its masks.
const KEYS: &[&str] = &[
    "backbone.layers",
    "backbone.width",
    "backbone.width_per_group",
    "backbone.returned_layers",
    "backbone.norm_eps",
    "fpn_channels",
    "rpn_conv_depth",
    "anchor_sizes",
    "aspect_ratios",
    "box_head.width",
    "box_head.conv",
    "box_head.fc",
    "box_roi_size",
    "sampling_ratio",
    "canonical_scale",
    "canonical_level",
    "min_size",
    "max_size",
    "image_mean",
    "image_std",
    "rpn_pre_nms_top_n",
    "rpn_post_nms_top_n",
    "rpn_nms_thresh",
    "rpn_score_thresh",
    "bbox_reg_weights",
    "box_score_thresh",
    "box_nms_thresh",
    "detections_per_img",
    "classes",
];
const MASK_KEYS: &[&str] = &[
    "mask_head.conv",
    "mask_head.predictor",
    "mask_head.roi_size",
];

/// Every number of the configuration of a detector replaced by others, as with a checkpoint.
#[test]
fn numbers_in_a_detector() {
    let bad = Bad::new();
    let mut accepted = Accepted::default();
    for (case, keys) in [("faster-v2", KEYS), ("mask-v1", MASK_KEYS)] {
        let folder = bad.0.path().join(case);
        copy_folder(&fixture(&format!("rcnn/{case}")), &folder);
        let path = folder.join("config.json");
        let sound = fs::read(&path).unwrap();
        for key in keys {
            for value in numbers() {
                let Some(text) = changed(&path, key, &value) else {
                    continue;
                };
                fs::write(&path, text).unwrap();
                let run = || {
                    let network = DetectorWeights::open(&folder)?.load(&device())?;
                    network.detect(&[Tensor::ones([3, 40, 30], &device()) * 0.5]);
                    Ok(())
                };
                if refusal(run, "config.json").is_none() {
                    accepted.add(case, key, &value);
                }
                fs::write(&path, &sound).unwrap();
            }
        }
    }
    assert_eq!(accepted.lines(), ACCEPTED_IN_DETECTORS);
}

const ACCEPTED_IN_DETECTORS: &str = "\
faster-v2: backbone.norm_eps = 0 1e-30
faster-v2: aspect_ratios = [1,1,1]
faster-v2: sampling_ratio = 1 3
faster-v2: canonical_scale = 1 3 100 0.5
faster-v2: canonical_level = 0 1 3 1e-30 0.5
faster-v2: min_size = 1 3 100
faster-v2: max_size = 1 3 100
faster-v2: image_mean = [0,0,0] [1,1,1]
faster-v2: image_std = [1,1,1]
faster-v2: rpn_pre_nms_top_n = 1 3 100
faster-v2: rpn_post_nms_top_n = 1 3 100
faster-v2: rpn_nms_thresh = 0 1 1e-30 0.5
faster-v2: rpn_score_thresh = 0 1 1e-30 0.5
faster-v2: box_score_thresh = 0 1 1e-30 0.5
faster-v2: box_nms_thresh = 0 1 1e-30 0.5
faster-v2: detections_per_img = 1 3 100
mask-v1: mask_head.roi_size = 1 3
";
