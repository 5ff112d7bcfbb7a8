//! Detectors: torchvision's state dicts, folders with a configuration, and the one in the binary.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::prelude::Device;
use burn::tensor::FloatDType;
use prepose_formats::TensorFile;
use prepose_models::rcnn::{Rcnn, RcnnConfig};
use serde_json::json;

use crate::error::WeightsError;
use crate::family;
use crate::files::{Files, read_json, short_name};
use crate::hash::{FileHash, hash_file};
use crate::hub;
use crate::part::{Part, View};

/// The files that a detector's folder may have its weights in, the first that is there.
const WEIGHTS: [&str; 3] = ["model.safetensors", "model.pth", "model.pt"];

/// A Faster R-CNN or Mask R-CNN, opened but not yet loaded.
#[derive(Debug)]
pub struct DetectorWeights {
    name: String,
    config: RcnnConfig,
    part: Part,
    file: Arc<TensorFile>,
}

impl DetectorWeights {
    /// Opens `toybox` (the detector in the binary), a folder with `config.json` and
    /// `model.safetensors` or `model.pth`, or a state dict of torchvision's. A state dict without a
    /// `config.json` next to it is one of [`prepose_models::rcnn::STANDARD`], which its tensors tell
    /// apart.
    ///
    /// # Errors
    /// [`WeightsError`] if there is nothing there, if it is damaged, no R-CNN of torchvision's, or its
    /// configuration makes no sense.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let path = path.as_ref();
        #[cfg(feature = "toybox")]
        if path == Path::new(crate::TOYBOX) {
            return Self::from_folder(&crate::toybox::detector_files(), crate::TOYBOX);
        }
        let path = hub::resolve(path)?;
        let kind = std::fs::metadata(&path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => WeightsError::NotFound {
                path: path.clone(),
                hint: hub::built_without(&path.to_string_lossy())
                    + "; give a detector's folder, or a state dict of torchvision's",
            },
            _ => WeightsError::Io {
                path: path.clone(),
                source,
            },
        })?;
        if kind.is_dir() {
            return Self::from_folder(&Files::Folder(path.clone()), &short_name(&path, true));
        }
        let file = Arc::new(TensorFile::open(&path)?);
        let config = path.with_file_name("config.json");
        if config.exists() {
            let folder = path.parent().map(|folder| short_name(folder, true));
            let folder = folder.unwrap_or_default();
            let part = Part::new("detector", &path, read_json(&config)?, &config);
            return Self::new(part, file, &folder);
        }
        let standard = standard(&file).ok_or_else(|| not_a_detector(&path, &file))?;
        let place = PathBuf::from(format!("torchvision's {standard}"));
        let config = json!(RcnnConfig::standard(standard));
        Self::new(Part::new("detector", &path, config, &place), file, standard)
    }

    fn from_folder(files: &Files, name: &str) -> Result<Self, WeightsError> {
        const CONFIG: &str = "config.json";
        let Some(weights) = WEIGHTS.into_iter().find(|name| files.has(name)) else {
            return Err(WeightsError::Folder {
                path: files.path(""),
                what: format!("no weights here: none of {}", WEIGHTS.join(", ")),
                hint: "give the folder of a detector, or its file of weights".into(),
            });
        };
        if !files.has(CONFIG) {
            return Err(WeightsError::Folder {
                path: files.path(""),
                what: format!("there is no {CONFIG} next to {weights}"),
                hint: format!(
                    "write one, or give the file {weights} if it is one of torchvision's own"
                ),
            });
        }
        let file = files.tensors(weights)?;
        let config = files.json(CONFIG)?;
        let part = Part::new(
            "detector",
            &files.path(weights),
            config,
            &files.path(CONFIG),
        );
        Self::new(part, file, name)
    }

    fn new(mut part: Part, file: Arc<TensorFile>, name: &str) -> Result<Self, WeightsError> {
        if file.count("roi_heads.") == 0 {
            return Err(not_a_detector(&part.path, &file));
        }
        let config: RcnnConfig = part.config()?;
        config.check().map_err(|source| WeightsError::Config {
            path: part.config_path.clone(),
            source,
        })?;
        for key in file.names() {
            if let Some(name) = parameter(key) {
                part.insert(name, &file, key, View::Whole);
            }
        }
        Ok(Self {
            name: config.name.clone().unwrap_or_else(|| name.to_string()),
            config,
            part,
            file,
        })
    }

    /// What records call it: the name in its configuration, or its folder's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its configuration.
    pub fn config(&self) -> &RcnnConfig {
        &self.config
    }

    /// The file of its weights with its hash.
    ///
    /// # Errors
    /// [`WeightsError`] if it cannot be read.
    pub fn file_hash(&self) -> Result<FileHash, WeightsError> {
        hash_file(&self.file)
    }

    /// Reads the weights and builds the network, in f32.
    ///
    /// # Errors
    /// [`WeightsError`] with every tensor that is missing, left over or of another shape than the
    /// configuration says, or if weights are not finite.
    pub fn load(&self, device: &Device) -> Result<Rcnn, WeightsError> {
        self.part.load(device, FloatDType::F32, false, |params| {
            Rcnn::load(&self.config, params)
        })
    }
}

/// Which of torchvision's detectors the tensors belong to.
fn standard(file: &TensorFile) -> Option<&'static str> {
    let has = |prefix: &str| file.count(prefix) > 0;
    // ResNet-50 and its siblings have bottlenecks, which have a third convolution.
    if !has("backbone.body.layer1.0.conv3.") || !has("roi_heads.box_head.") {
        return None;
    }
    let second = has("roi_heads.box_head.0.0.");
    Some(match (has("roi_heads.mask_predictor."), second) {
        (false, false) => "fasterrcnn_resnet50_fpn",
        (false, true) => "fasterrcnn_resnet50_fpn_v2",
        (true, false) => "maskrcnn_resnet50_fpn",
        (true, true) => "maskrcnn_resnet50_fpn_v2",
    })
}

fn not_a_detector(path: &Path, file: &TensorFile) -> WeightsError {
    WeightsError::Unsupported {
        path: path.to_path_buf(),
        what: format!("{}, not a detector", family::kind(file).name()),
        hint: "give a state dict of torchvision's Faster R-CNN or Mask R-CNN on ResNet-50-FPN, or the \
               folder of a detector with config.json"
            .into(),
    }
}

/// The parameter that a tensor of a state dict is, in the names of torchvision since 0.13; none for
/// what only training uses.
fn parameter(key: &str) -> Option<String> {
    let parts: Vec<&str> = key.split('.').collect();
    match parts[..] {
        [.., "num_batches_tracked"] => None,
        ["rpn", "head", "conv", kind @ ("weight" | "bias")] => {
            Some(format!("rpn.head.conv.0.0.{kind}"))
        }
        ["backbone", "fpn", blocks, i, kind @ ("weight" | "bias")] => {
            Some(format!("backbone.fpn.{blocks}.{i}.0.{kind}"))
        }
        ["roi_heads", "mask_head", layer, kind] => {
            let number = layer.strip_prefix("mask_fcn")?.parse::<usize>().ok()?;
            let i = number.checked_sub(1)?;
            Some(format!("roi_heads.mask_head.{i}.0.{kind}"))
        }
        _ => Some(key.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_are_understood() {
        let cases = [
            ("backbone.body.bn1.num_batches_tracked", None),
            (
                "backbone.fpn.inner_blocks.2.weight",
                Some("backbone.fpn.inner_blocks.2.0.weight"),
            ),
            (
                "backbone.fpn.layer_blocks.0.1.bias",
                Some("backbone.fpn.layer_blocks.0.1.bias"),
            ),
            ("rpn.head.conv.bias", Some("rpn.head.conv.0.0.bias")),
            ("rpn.head.conv.1.0.bias", Some("rpn.head.conv.1.0.bias")),
            (
                "roi_heads.mask_head.mask_fcn4.weight",
                Some("roi_heads.mask_head.3.0.weight"),
            ),
            (
                "roi_heads.mask_head.3.0.weight",
                Some("roi_heads.mask_head.3.0.weight"),
            ),
            (
                "roi_heads.box_head.fc6.weight",
                Some("roi_heads.box_head.fc6.weight"),
            ),
        ];
        for (key, name) in cases {
            assert_eq!(parameter(key).as_deref(), name, "{key}");
        }
    }
}
