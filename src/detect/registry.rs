//! All detectors, by name or folder.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use prepose_weights::{
    DetectorWeights, DetrKind, FileHash, GroundingDinoWeights, OwlVitWeights, RtDetrWeights,
    WeightsError, detr_kind, hub,
};
use thiserror::Error;

use super::{Detector, GroundingDinoDetector, OwlVitDetector, RcnnDetector, RtDetrDetector};

/// A detector with a short name.
struct Named {
    name: &'static str,
    /// What records call it.
    record: &'static str,
    place: Place,
}

/// Where other programs keep what they have downloaded.
enum Place {
    /// In torch's folder, a file with this beginning and end of its name.
    Torch(&'static str),
    /// In the Hugging Face cache.
    Hub(&'static str),
}

const fn torch(name: &'static str, record: &'static str, hash: &'static str) -> Named {
    let place = Place::Torch(hash);
    Named {
        name,
        record,
        place,
    }
}

const fn on_hub(name: &'static str, repo: &'static str) -> Named {
    let place = Place::Hub(repo);
    let record = name;
    Named {
        name,
        record,
        place,
    }
}

const NAMED: [Named; 12] = [
    torch("frcnn", "fasterrcnn_resnet50_fpn", "258fb6c6"),
    torch("frcnn-v2", "fasterrcnn_resnet50_fpn_v2", "dd69338a"),
    torch("mask-rcnn", "maskrcnn_resnet50_fpn", "bf2d0c1e"),
    torch("mask-rcnn-v2", "maskrcnn_resnet50_fpn_v2", "73cbd019"),
    on_hub("grounding-dino-tiny", "IDEA-Research/grounding-dino-tiny"),
    on_hub("grounding-dino-base", "IDEA-Research/grounding-dino-base"),
    on_hub("rtdetr-v2-r18", "PekingU/rtdetr_v2_r18vd"),
    on_hub("rtdetr-v2-r34", "PekingU/rtdetr_v2_r34vd"),
    on_hub("rtdetr-v2-r50-m", "PekingU/rtdetr_v2_r50vd_m"),
    on_hub("rtdetr-v2-r50", "PekingU/rtdetr_v2_r50vd"),
    on_hub("rtdetr-v2-r101", "PekingU/rtdetr_v2_r101vd"),
    on_hub("owlvit-base-patch32", "google/owlvit-base-patch32"),
];

/// The detector in the binary.
const TOYBOX: &str = "toybox";
/// Where torchvision downloads its detectors from.
const TORCH: &str = "https://download.pytorch.org/models";

/// The short names of detectors, besides the toybox's.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMED.iter().map(|named| named.name)
}

/// Why a detector could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// One of [`names`] that nobody has downloaded.
    #[error("the weights of {name} are not on this machine; {hint}")]
    NotHere {
        /// Its short name.
        name: &'static str,
        /// Where to get it.
        hint: String,
    },
    /// What is there cannot be used.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

/// A detector of any kind, opened but not yet loaded.
#[derive(Debug)]
pub enum OpenDetector {
    /// torchvision's, or the toybox's.
    Rcnn(Box<DetectorWeights>),
    /// Takes any phrase.
    GroundingDino(Box<GroundingDinoWeights>),
    /// Fast, with COCO's classes.
    RtDetr(Box<RtDetrWeights>),
    /// Takes any phrase; VISOR's.
    OwlVit(Box<OwlVitWeights>),
}

impl OpenDetector {
    /// Opens the detector that `given` names: `toybox`, one of [`names`] where torch or transformers keep what they have
    /// downloaded, a folder as transformers writes it, or a folder or file as [`DetectorWeights::open`] takes it. Weights are not
    /// read yet.
    ///
    /// # Errors
    /// [`OpenError`] if there is nothing, or nothing that can be used.
    pub fn open(given: &str) -> Result<Self, OpenError> {
        if given == TOYBOX {
            return Ok(Self::Rcnn(Box::new(DetectorWeights::open(given)?)));
        }
        match NAMED.iter().find(|named| named.name == given) {
            Some(named) => Ok(Self::at(&named.path()?)?.named(named.record)),
            None => Ok(Self::at(Path::new(given))?),
        }
    }

    /// The detector in a folder or file, whatever it is.
    fn at(path: &Path) -> Result<Self, WeightsError> {
        Ok(match detr_kind(path) {
            Some((folder, DetrKind::GroundingDino)) => {
                Self::GroundingDino(Box::new(GroundingDinoWeights::open(&folder)?))
            }
            Some((folder, DetrKind::RtDetr)) => {
                Self::RtDetr(Box::new(RtDetrWeights::open(&folder)?))
            }
            Some((folder, DetrKind::OwlVit)) => {
                Self::OwlVit(Box::new(OwlVitWeights::open(&folder)?))
            }
            None => Self::Rcnn(Box::new(DetectorWeights::open(path)?)),
        })
    }

    /// The same under a name that does not depend on where it lies; R-CNNs have theirs from their configuration.
    fn named(self, name: &str) -> Self {
        match self {
            Self::Rcnn(weights) => Self::Rcnn(weights),
            Self::GroundingDino(weights) => Self::GroundingDino(Box::new(weights.named(name))),
            Self::RtDetr(weights) => Self::RtDetr(Box::new(weights.named(name))),
            Self::OwlVit(weights) => Self::OwlVit(Box::new(weights.named(name))),
        }
    }

    /// What records call it.
    pub fn name(&self) -> &str {
        match self {
            Self::Rcnn(weights) => weights.name(),
            Self::GroundingDino(weights) => weights.name(),
            Self::RtDetr(weights) => weights.name(),
            Self::OwlVit(weights) => weights.name(),
        }
    }

    /// The labels that it can give, lower case; none if it takes any phrase.
    pub fn vocabulary(&self) -> Option<Vec<String>> {
        match self {
            Self::Rcnn(weights) => Some(RcnnDetector::labels(weights.config())),
            Self::GroundingDino(_) | Self::OwlVit(_) => None,
            Self::RtDetr(weights) => Some(RtDetrDetector::labels(weights)),
        }
    }

    /// The least score of its detections, unless another is given.
    pub fn default_threshold(&self) -> f64 {
        match self {
            Self::Rcnn(_) => RcnnDetector::SCORE_THRESHOLD,
            Self::GroundingDino(_) => GroundingDinoDetector::BOX_THRESHOLD,
            Self::RtDetr(_) => RtDetrDetector::SCORE_THRESHOLD,
            Self::OwlVit(_) => OwlVitDetector::SCORE_THRESHOLD,
        }
    }

    /// The file of its weights with its hash.
    ///
    /// # Errors
    /// [`WeightsError`] if it cannot be read.
    pub fn file_hash(&self) -> Result<FileHash, WeightsError> {
        match self {
            Self::Rcnn(weights) => weights.file_hash(),
            Self::GroundingDino(weights) => weights.file_hash(),
            Self::RtDetr(weights) => weights.file_hash(),
            Self::OwlVit(weights) => weights.file_hash(),
        }
    }

    /// Reads the weights and builds the detector on `device`.
    ///
    /// # Errors
    /// [`WeightsError`], as loading the network.
    pub fn load(
        &self,
        device: &Device,
        thresholds: Thresholds,
    ) -> Result<Box<dyn Detector + Send>, WeightsError> {
        let score = thresholds.score.unwrap_or(self.default_threshold());
        Ok(match self {
            Self::Rcnn(weights) => Box::new(RcnnDetector::load(weights, device, score)?),
            Self::GroundingDino(weights) => {
                let text = thresholds
                    .text
                    .unwrap_or(GroundingDinoDetector::TEXT_THRESHOLD);
                let weak = thresholds.weak;
                Box::new(GroundingDinoDetector::load(
                    weights, device, score, text, weak,
                )?)
            }
            Self::RtDetr(weights) => Box::new(RtDetrDetector::load(weights, device, score)?),
            Self::OwlVit(weights) => Box::new(OwlVitDetector::load(weights, device, score)?),
        })
    }
}

/// A detector's own thresholds; those of its kind where there are none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Thresholds {
    /// The least score of a detection.
    pub score: Option<f64>,
    /// The least score of a word of a label, for detectors that take any phrase.
    pub text: Option<f64>,
    /// Whether a detection that has no such word is named by the words that it has its score from; otherwise it has no label.
    pub weak: bool,
}

impl Named {
    /// Where it lies on this machine.
    fn path(&self) -> Result<PathBuf, OpenError> {
        let name = self.name;
        let not_here = |hint| OpenError::NotHere { name, hint };
        match self.place {
            Place::Torch(hash) => {
                let (folder, start) = (torch_folder(), format!("{}_coco-", self.record));
                let found = torch_file(&folder, &start);
                found.ok_or_else(|| {
                    not_here(format!(
                        "there is no {start}*.pth in {}; download {TORCH}/{start}{hash}.pth into that folder, or anywhere and \
                         give the file itself",
                        folder.display()
                    ))
                })
            }
            Place::Hub(repo) => {
                let known = hub::catalog(name);
                let pinned = known.and_then(hub::cached);
                let newest = || hub::downloaded(repo).filter(|folder| is_whole(folder));
                pinned.or_else(newest).ok_or_else(|| {
                    let given = match known {
                        Some(_) => name.to_string(),
                        None => format!("{repo} --revision main"),
                    };
                    not_here(format!("`prepose pull {given}` fetches them"))
                })
            }
        }
    }
}

/// Whether a detector of transformers is there, and not only the beginning of a download.
fn is_whole(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).exists();
    has("config.json") && (has("model.safetensors") || has("pytorch_model.bin"))
}

/// Where torchvision keeps what it has downloaded.
fn torch_folder() -> PathBuf {
    let from = |variable: &str, below: &str| {
        let folder = std::env::var_os(variable).filter(|value| !value.is_empty())?;
        Some(Path::new(&folder).join(below))
    };
    from("TORCH_HOME", "hub/checkpoints")
        .or_else(|| from("XDG_CACHE_HOME", "torch/hub/checkpoints"))
        .or_else(|| from("HOME", ".cache/torch/hub/checkpoints"))
        .unwrap_or_else(|| PathBuf::from("."))
}

/// The file in `folder` whose name begins so and is that of a whole download, which torch gives a name of its own until then;
/// of several the first by name.
fn torch_file(folder: &Path, start: &str) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = files.map(|file| file.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(start) && name.ends_with(".pth")
    });
    files.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downloads_of_torch_that_have_ended() {
        let folder = tempfile::tempdir().unwrap();
        let found = || torch_file(folder.path(), "fasterrcnn_resnet50_fpn_v2_coco-");
        assert_eq!(found(), None);
        for name in [
            "fasterrcnn_resnet50_fpn_v2_coco-dd69338a.pth.0a1b2c.partial",
            "fasterrcnn_resnet50_fpn_v2_coco-dd69338a.pthabc",
            "fasterrcnn_resnet50_fpn_coco-258fb6c6.pth",
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(found(), None);
        for hash in ["ee69338a", "dd69338a"] {
            let name = format!("fasterrcnn_resnet50_fpn_v2_coco-{hash}.pth");
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let name = "fasterrcnn_resnet50_fpn_v2_coco-dd69338a.pth";
        assert_eq!(found(), Some(folder.path().join(name)));
    }

    #[test]
    fn downloads_of_the_hub_that_have_ended() {
        let folder = tempfile::tempdir().unwrap();
        for (file, whole) in [("config.json", false), ("model.safetensors", true)] {
            assert!(!is_whole(folder.path()));
            std::fs::write(folder.path().join(file), "").unwrap();
            assert_eq!(is_whole(folder.path()), whole);
        }
    }
}
