//! What looks at pictures besides detectors: CLIP, DINOv2, Depth Anything, SAM, Inception and ImageReward, from the files of
//! transformers and of their authors.

mod keys;
mod load;
mod shapes;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prepose_formats::TensorFile;
use prepose_models::clip_dual::ClipConfig;
use prepose_models::clip_vision::ClipVisionConfig;
use prepose_models::depth_anything::DepthAnythingConfig;
use prepose_models::dinov2::Dinov2Config;
use prepose_models::image_reward::ImageRewardConfig;
use prepose_models::inception::InceptionConfig;
use prepose_models::sam::SamConfig;
use serde::Serialize;
use serde_json::Value;

use crate::error::WeightsError;
use crate::family;
use crate::files::{AUTHORS_WEIGHTS, Files, TRANSFORMERS_WEIGHTS, read_json, short_name};
use crate::hash::{FileHash, hash_file};
use crate::hub;
use crate::part::Part;
pub(crate) use keys::kind;
use keys::target;

const CONFIG: &str = "config.json";

/// A network that looks at pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EyeKind {
    /// Text and picture encoder.
    Clip,
    /// CLIP's picture encoder alone.
    ClipVision,
    /// Features.
    Dinov2,
    /// How far away things are.
    DepthAnything,
    /// Masks of what boxes and points mark.
    Sam,
    /// FID's features and classes.
    Inception,
    /// How people would like a picture for a prompt.
    ImageReward,
}

impl EyeKind {
    const ALL: [Self; 7] = [
        Self::Clip,
        Self::ClipVision,
        Self::Dinov2,
        Self::DepthAnything,
        Self::Sam,
        Self::Inception,
        Self::ImageReward,
    ];

    /// For messages: "this is {}".
    pub fn name(self) -> &'static str {
        match self {
            Self::Clip => "a CLIP (text and picture encoder)",
            Self::ClipVision => "a picture encoder of CLIP's kind",
            Self::Dinov2 => "a DINOv2",
            Self::DepthAnything => "a depth network (Depth Anything)",
            Self::Sam => "a segmenter (Segment Anything)",
            Self::Inception => "an Inception-v3 (FID's)",
            Self::ImageReward => "an ImageReward (what people like)",
        }
    }

    /// As messages call the network where it does not fit.
    fn part(self) -> &'static str {
        match self {
            Self::Clip => "CLIP",
            Self::ClipVision => "picture encoder",
            Self::Dinov2 => "DINOv2",
            Self::DepthAnything => "depth network",
            Self::Sam => "segmenter",
            Self::Inception => "Inception-v3",
            Self::ImageReward => "ImageReward",
        }
    }

    /// `model_type` in transformers' configurations.
    fn model_type(self) -> &'static str {
        match self {
            Self::Clip => "clip",
            Self::ClipVision => "clip_vision_model",
            Self::Dinov2 => "dinov2",
            Self::DepthAnything => "depth_anything",
            Self::Sam => "sam",
            // Nobody writes configurations for these.
            Self::Inception => "fid-inception-v3",
            Self::ImageReward => "image-reward",
        }
    }
}

impl fmt::Display for EyeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One of these networks, opened but not yet loaded.
#[derive(Debug)]
pub struct EyeWeights {
    name: String,
    kind: EyeKind,
    part: Part,
    file: Arc<TensorFile>,
    /// What lies beside its weights.
    files: Files,
}

impl EyeWeights {
    /// Opens `toybox-clip` (the toybox's, in the binary), a folder as transformers writes it, `OWNER/NAME` of the hub if any program has downloaded it, or a file
    /// of weights: transformers' own, or `sam_vit_b_01ec64.pth`, `depth_anything_v2_vits.pth`,
    /// `dinov2_vitl14_pretrain.pth`, `open_clip_pytorch_model.bin`, `ImageReward.pt` and
    /// `pt_inception-2015-12-05-6726825d.pth` as their authors published them. A file without a `config.json` next to it is of the published network whose sizes it has.
    ///
    /// # Errors
    /// [`WeightsError`] if there is nothing there, if it is damaged, none of these networks, or its configuration makes no
    /// sense.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let given = path.as_ref();
        #[cfg(feature = "toybox")]
        if given == Path::new(crate::TOYBOX_CLIP) {
            return Self::toybox();
        }
        let path = match given.symlink_metadata() {
            Ok(_) => given.to_path_buf(),
            Err(_) => hub::downloaded(&given.to_string_lossy()).unwrap_or(given.to_path_buf()),
        };
        let metadata = std::fs::metadata(&path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => WeightsError::NotFound {
                path: path.clone(),
                hint: hub::built_without(&given.to_string_lossy())
                    + "; give a folder with config.json and model.safetensors, or a file of weights",
            },
            _ => WeightsError::Io {
                path: path.clone(),
                source,
            },
        })?;
        let weights = match metadata.is_dir() {
            true => weights_of(&path).ok_or_else(|| WeightsError::Folder {
                path: path.clone(),
                what: format!(
                    "no weights here: none of {}",
                    [TRANSFORMERS_WEIGHTS, AUTHORS_WEIGHTS].concat().join(", ")
                ),
                hint: "give the folder of a network, or its file of weights".into(),
            })?,
            false => path.clone(),
        };
        let name = short_name(given, metadata.is_dir());
        let folder = weights.parent().unwrap_or(Path::new("")).to_path_buf();
        let file = Arc::new(TensorFile::open(&weights)?);
        Self::of(name, file, Files::Folder(folder))
    }

    /// The toybox's CLIP.
    #[cfg(feature = "toybox")]
    pub(crate) fn toybox() -> Result<Self, WeightsError> {
        let files = crate::toybox::clip_files();
        let file = files.tensors(TRANSFORMERS_WEIGHTS[0])?;
        Self::of(crate::TOYBOX_CLIP.to_owned(), file, files)
    }

    /// The network of `file`, which lies among `files`.
    fn of(name: String, file: Arc<TensorFile>, files: Files) -> Result<Self, WeightsError> {
        let path = &file.path().to_path_buf();
        let Some((kind, layout)) = keys::recognised(&file) else {
            return Err(WeightsError::Unsupported {
                path: path.clone(),
                what: family::kind(&file).name().to_string(),
                hint: "give a CLIP, a DINOv2, a Depth Anything, a SAM, an ImageReward or FID's Inception".into(),
            });
        };
        let mut part = Part::new(kind.part(), path, Value::Null, path);
        for key in file.names() {
            crate::folder::insert(&mut part, &file, key, target(kind, layout, key));
        }
        let config = match files.has(CONFIG) {
            true => Some(files.json(CONFIG)?).filter(|config| is_of(config, kind)),
            false => None,
        };
        match config {
            Some(config) => (part.config, part.config_path) = (config, files.path(CONFIG)),
            None => {
                part.config = shapes::config(kind, layout, &part, &files.path(""))?;
                part.config_path = PathBuf::from("the published one of these sizes");
            }
        }
        let weights = Self {
            name,
            kind,
            part,
            file,
            files,
        };
        weights.check()?;
        Ok(weights)
    }

    /// Refuses a configuration that cannot be built.
    fn check(&self) -> Result<(), WeightsError> {
        let checked = match self.kind {
            EyeKind::Clip => self.part.config::<ClipConfig>()?.check(),
            EyeKind::ClipVision => self.part.config::<ClipVisionConfig>()?.check(),
            EyeKind::Dinov2 => self.part.config::<Dinov2Config>()?.check(),
            EyeKind::DepthAnything => self.part.config::<DepthAnythingConfig>()?.check(),
            EyeKind::Sam => self.part.config::<SamConfig>()?.check(),
            EyeKind::Inception => self.part.config::<InceptionConfig>()?.check(),
            EyeKind::ImageReward => self.part.config::<ImageRewardConfig>()?.check(),
        };
        checked.map_err(|source| WeightsError::Config {
            path: self.part.config_path.clone(),
            source,
        })
    }

    /// What it is.
    pub fn kind(&self) -> EyeKind {
        self.kind
    }

    /// What records call it: its folder's name, or its file's without the ending.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file of its weights with its hash.
    ///
    /// # Errors
    /// [`WeightsError`] if it cannot be read.
    pub fn file_hash(&self) -> Result<FileHash, WeightsError> {
        hash_file(&self.file)
    }

    /// The file of its weights.
    pub fn path(&self) -> &Path {
        &self.part.path
    }

    /// How many parameters it has; of a CLIP its text encoder's are counted.
    pub fn parameters(&self) -> u64 {
        self.part.parameters(|_| true)
    }

    /// Whether a picture encoder projects its embedding.
    pub(crate) fn is_projected(&self) -> bool {
        self.part.entries.contains_key("visual_projection.weight")
    }

    /// The configuration of a CLIP's picture encoder, or of one alone.
    ///
    /// # Errors
    /// [`WeightsError`] if it is another network.
    pub fn clip_vision_config(&self) -> Result<ClipVisionConfig, WeightsError> {
        match self.kind {
            EyeKind::Clip => Ok(self.part.config::<ClipConfig>()?.vision()),
            _ => {
                self.expect(EyeKind::ClipVision)?;
                self.part.config()
            }
        }
    }

    /// Refuses to be taken for another network.
    fn expect(&self, wanted: EyeKind) -> Result<(), WeightsError> {
        if self.kind == wanted {
            return Ok(());
        }
        Err(WeightsError::Unsupported {
            path: self.part.path.clone(),
            what: self.kind.name().to_string(),
            hint: format!("give {} instead", wanted.name()),
        })
    }
}

/// The file of weights in a folder.
fn weights_of(folder: &Path) -> Option<PathBuf> {
    let names = TRANSFORMERS_WEIGHTS.into_iter().chain(AUTHORS_WEIGHTS);
    let mut files = names.map(|name| folder.join(name));
    files.find(|path| path.symlink_metadata().is_ok())
}

/// The file of weights in a folder that is one of these networks, as its configuration says; for descriptions.
pub(crate) fn described(folder: &Path) -> Option<PathBuf> {
    if folder.join("model_index.json").symlink_metadata().is_ok() {
        return None;
    }
    let config = read_json(&folder.join(CONFIG)).ok()?;
    let known = EyeKind::ALL.into_iter().any(|kind| is_of(&config, kind));
    weights_of(folder).filter(|_| known)
}

/// Whether a configuration is of such a network. Another one next to the weights says nothing of them.
fn is_of(config: &Value, kind: EyeKind) -> bool {
    config["model_type"].as_str() == Some(kind.model_type())
}
