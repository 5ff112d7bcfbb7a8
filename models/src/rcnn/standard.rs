//! torchvision's detectors for the classes of COCO.

use serde_json::json;

use super::config::RcnnConfig;

/// torchvision's category list for COCO: 80 classes among 91 labels.
#[rustfmt::skip]
pub const COCO_CLASSES: [&str; 91] = [
    "__background__", "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck",
    "boat", "traffic light", "fire hydrant", "N/A", "stop sign", "parking meter", "bench", "bird",
    "cat", "dog", "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe", "N/A", "backpack",
    "umbrella", "N/A", "N/A", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard",
    "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard",
    "tennis racket", "bottle", "N/A", "wine glass", "cup", "fork", "knife", "spoon", "bowl",
    "banana", "apple", "sandwich", "orange", "broccoli", "carrot", "hot dog", "pizza", "donut",
    "cake", "chair", "couch", "potted plant", "bed", "N/A", "dining table", "N/A", "N/A", "toilet",
    "N/A", "tv", "laptop", "mouse", "remote", "keyboard", "cell phone", "microwave", "oven",
    "toaster", "sink", "refrigerator", "N/A", "book", "clock", "vase", "scissors", "teddy bear",
    "hair drier", "toothbrush",
];

/// Names of the detectors that [`RcnnConfig::standard`] knows: torchvision's.
pub const STANDARD: [&str; 4] = [
    "fasterrcnn_resnet50_fpn",
    "fasterrcnn_resnet50_fpn_v2",
    "maskrcnn_resnet50_fpn",
    "maskrcnn_resnet50_fpn_v2",
];

impl RcnnConfig {
    /// The configuration of torchvision's detector `name`, one of [`STANDARD`], with its weights for
    /// COCO. The first versions were trained with batch norms that add nothing to the variance
    /// (`overwrite_eps` in torchvision); the second ones (Li et al. 2021) have more norms and deeper
    /// heads.
    pub fn standard(name: &str) -> Option<Self> {
        let name = STANDARD.into_iter().find(|known| *known == name)?;
        let second = name.ends_with("_v2");
        let masks = name.starts_with("mask");
        let mut config = json!({
            "name": name,
            "architecture": if masks { "mask_rcnn" } else { "faster_rcnn" },
            "backbone": {
                "block": "bottleneck",
                "layers": [3, 4, 6, 3],
                "norm_eps": if second { 1e-5 } else { 0.0 },
            },
            "classes": COCO_CLASSES[..],
        });
        if second {
            config["fpn_norm"] = json!(true);
            config["rpn_conv_depth"] = json!(2);
            config["box_head"] =
                json!({"kind": "conv_fc", "conv": [256, 256, 256, 256], "fc": [1024]});
            if masks {
                config["mask_head"] = json!({"norm": true});
            }
        }
        serde_json::from_value(config).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_configurations_can_be_built() {
        for name in STANDARD {
            let config = RcnnConfig::standard(name).unwrap();
            assert_eq!(
                (config.name.as_deref(), config.check()),
                (Some(name), Ok(()))
            );
        }
        assert_eq!(RcnnConfig::standard("retinanet"), None);
    }
}
