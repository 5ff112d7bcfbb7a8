//! Choosing a detector.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prepose::check::detect::RcnnDetector;
use prepose::check::spatialbench::config::DetectorConfig;
use prepose_weights::DetectorWeights;

/// Names of torchvision's detectors here and there, and what ends the names of their weights for COCO.
const TORCHVISION: [(&str, &str, &str); 4] = [
    ("frcnn", "fasterrcnn_resnet50_fpn", "258fb6c6"),
    ("frcnn-v2", "fasterrcnn_resnet50_fpn_v2", "dd69338a"),
    ("mask-rcnn", "maskrcnn_resnet50_fpn", "bf2d0c1e"),
    ("mask-rcnn-v2", "maskrcnn_resnet50_fpn_v2", "73cbd019"),
];
/// Where torchvision downloads them from.
const ADDRESS: &str = "https://download.pytorch.org/models";

/// Opens the detector that `--checker` names: its weights are not read yet.
pub fn open(name: &str) -> anyhow::Result<DetectorWeights> {
    let known = (TORCHVISION.into_iter()).find(|(short, ..)| *short == name);
    let path = match known {
        Some((_, detector, hash)) => torchvision_file(detector, hash)
            .with_context(|| format!("cannot find the weights of --checker {name}"))?,
        None => PathBuf::from(name),
    };
    DetectorWeights::open(&path).with_context(|| match known {
        Some(_) => format!("cannot use {}", path.display()),
        None => format!(
            "cannot use --checker {name} (there are toybox, {}, and paths)",
            TORCHVISION.map(|(short, ..)| short).join(", ")
        ),
    })
}

/// Loads what was opened, with scores of at least `threshold`.
pub fn load(
    weights: &DetectorWeights,
    device: &burn::tensor::Device,
    threshold: Option<f64>,
) -> anyhow::Result<RcnnDetector> {
    let threshold = threshold.unwrap_or(RcnnDetector::SCORE_THRESHOLD);
    Ok(RcnnDetector::load(weights, device, threshold)?)
}

/// Writes into a checker's configuration who looks: what [`load`] would load with it.
pub fn name_in(config: &mut DetectorConfig, weights: &DetectorWeights) {
    let threshold = config.params.score_threshold;
    *config = DetectorConfig {
        kind: weights.name().to_string(),
        ..DetectorConfig::default()
    };
    config.params.score_threshold = Some(threshold.unwrap_or(RcnnDetector::SCORE_THRESHOLD));
}

/// The weights for COCO where torchvision keeps what it has downloaded.
fn torchvision_file(detector: &str, hash: &str) -> anyhow::Result<PathBuf> {
    let from = |variable: &str, below: &str| {
        let folder = std::env::var_os(variable).filter(|value| !value.is_empty())?;
        Some(Path::new(&folder).join(below))
    };
    let folder = from("TORCH_HOME", "hub/checkpoints")
        .or_else(|| from("XDG_CACHE_HOME", "torch/hub/checkpoints"))
        .or_else(|| from("HOME", ".cache/torch/hub/checkpoints"))
        .unwrap_or_else(|| PathBuf::from("."));
    let start = format!("{detector}_coco-");
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let found = files.map(|file| file.path()).find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&start)
    });
    let Some(found) = found else {
        bail!(
            "there is no {start}*.pth in {}; download {ADDRESS}/{start}{hash}.pth into that folder, or anywhere and give the \
             file itself: --checker PATH",
            folder.display()
        );
    };
    Ok(found)
}
