//! Detectors in folders as transformers writes them: what they have in common, Grounding DINO and RT-DETRv2.

mod preparation;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::prelude::Device;
use burn::tensor::FloatDType;
use prepose_formats::TensorFile;
use prepose_models::grounding_dino::{GroundingDino, GroundingDinoConfig};
use prepose_models::rt_detr::{RtDetr, RtDetrConfig};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::error::WeightsError;
use crate::family::{self, FileKind};
use crate::files::{Files, TRANSFORMERS_WEIGHTS as WEIGHTS, short_name};
use crate::hash::{FileHash, hash_file};
use crate::hub;
use crate::part::{Part, View};
use crate::wordpiece::BertTokenizer;
use preparation::Preparation;

const CONFIG: &str = "config.json";

/// A detector that transformers writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetrKind {
    /// Takes any phrase.
    GroundingDino,
    /// Has closed classes.
    RtDetr,
    /// Takes any phrase; a CLIP and no DETR.
    OwlVit,
}

/// The folder of a DETR that `path`, a folder or the weights or the configuration in it, names, and which network it is by its `config.json`; none if it is
/// anything else.
pub fn detr_kind(path: &Path) -> Option<(PathBuf, DetrKind)> {
    let path = hub::resolve(path).ok()?;
    let folder = match std::fs::metadata(&path).ok()?.is_dir() {
        true => path,
        false => {
            let name = path.file_name()?.to_str()?;
            let known = name == CONFIG || WEIGHTS.contains(&name);
            path.parent().filter(|_| known)?.to_path_buf()
        }
    };
    let config = Files::Folder(folder.clone()).json(CONFIG).ok()?;
    let kind = match config["model_type"].as_str()? {
        "grounding-dino" => DetrKind::GroundingDino,
        "rt_detr_v2" => DetrKind::RtDetr,
        "owlvit" => DetrKind::OwlVit,
        _ => return None,
    };
    Some((folder, kind))
}

/// The weights in the folder of a DETR; none if it is anything else.
pub(crate) fn weights_in(folder: &Path) -> Option<PathBuf> {
    detr_kind(folder)?;
    let mut files = WEIGHTS.into_iter().map(|name| folder.join(name));
    files.find(|path| path.exists())
}

/// What is in a folder, before any weight is read.
#[derive(Debug)]
pub(crate) struct Opened<C> {
    pub name: String,
    pub config: C,
    pub part: Part,
    pub file: Arc<TensorFile>,
    pub files: Files,
}

impl<C: DeserializeOwned> Opened<C> {
    /// Opens `folder`, whose tensors must be of a `kind`; those for which `parameter` gives no name are only of use in training.
    pub fn new(
        folder: &Path,
        kind: FileKind,
        parameter: impl Fn(&str, &C) -> Option<String>,
    ) -> Result<Self, WeightsError> {
        let files = Files::Folder(folder.to_path_buf());
        let Some(weights) = WEIGHTS.into_iter().find(|name| files.has(name)) else {
            return Err(WeightsError::Folder {
                path: folder.to_path_buf(),
                what: format!("no weights here: none of {}", WEIGHTS.join(", ")),
                hint: "give the whole folder of the detector".into(),
            });
        };
        let file = files.tensors(weights)?;
        let found = family::kind(&file);
        if found != kind {
            return Err(WeightsError::Unsupported {
                path: files.path(weights),
                what: format!("{}, not {}", found.name(), kind.name()),
                hint: format!("{CONFIG} beside it is of {}", kind.name()),
            });
        }
        let (path, place) = (files.path(weights), files.path(CONFIG));
        let mut part = Part::new("detector", &path, files.json(CONFIG)?, &place);
        let config: C = part.config()?;
        for key in file.names() {
            if let Some(name) = parameter(key, &config) {
                part.insert(name, &file, key, View::Whole);
            }
        }
        Ok(Self {
            name: short_name(folder, true),
            config,
            part,
            file,
            files,
        })
    }

    /// The configuration cannot be built.
    pub fn refused(&self, source: prepose_models::ConfigError) -> WeightsError {
        WeightsError::Config {
            path: self.part.config_path.clone(),
            source,
        }
    }
}

/// A Grounding DINO, opened but not yet loaded.
#[derive(Debug)]
pub struct GroundingDinoWeights {
    opened: Opened<GroundingDinoConfig>,
    tokenizer: BertTokenizer,
    sides: [usize; 2],
}

impl GroundingDinoWeights {
    /// Opens the folder of a checkpoint.
    ///
    /// # Errors
    /// [`WeightsError`] if something is missing or damaged, it is another network, or its configuration makes no sense.
    pub fn open(folder: &Path) -> Result<Self, WeightsError> {
        let opened = Opened::new(folder, FileKind::GroundingDino, |key, _| {
            grounding_parameter(key)
        })?;
        let config: &GroundingDinoConfig = &opened.config;
        config.check().map_err(|source| opened.refused(source))?;
        let tokenizer = BertTokenizer::open(&opened.files)?;
        let rows = config.text_config.vocab_size;
        if tokenizer.vocabulary() > rows {
            return Err(WeightsError::Folder {
                path: folder.to_path_buf(),
                what: format!(
                    "the tokenizer has {} tokens, but the network {rows}",
                    tokenizer.vocabulary()
                ),
                hint: "give a folder whose tokenizer and weights belong together".into(),
            });
        }
        let preparation = Preparation::open(&opened.files)?;
        // ImageNet's. Whether a batch is padded does not matter: nothing is seen in the padding.
        preparation.check(&[
            ("do_normalize", json!(true)),
            ("image_mean", json!([0.485, 0.456, 0.406])),
            ("image_std", json!([0.229, 0.224, 0.225])),
        ])?;
        let [shortest, longest] = preparation.sizes(["shortest_edge", "longest_edge"])?;
        let shortest = shortest.unwrap_or(800);
        let longest = longest.unwrap_or(1333).max(shortest);
        Ok(Self {
            sides: [shortest, longest],
            opened,
            tokenizer,
        })
    }

    /// What records call it: its folder.
    pub fn name(&self) -> &str {
        &self.opened.name
    }

    /// The same under another name.
    pub fn named(mut self, name: &str) -> Self {
        self.opened.name = name.to_string();
        self
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &BertTokenizer {
        &self.tokenizer
    }

    /// What the shorter side of pictures becomes, and what the longer one does at most.
    pub fn sides(&self) -> [usize; 2] {
        self.sides
    }

    /// The file of its weights with its hash.
    ///
    /// # Errors
    /// [`WeightsError`] if it cannot be read.
    pub fn file_hash(&self) -> Result<FileHash, WeightsError> {
        hash_file(&self.opened.file)
    }

    /// Reads the weights and builds the network, in f32.
    ///
    /// # Errors
    /// [`WeightsError`] with every tensor that is missing, left over or of another shape than the
    /// configuration says, or if weights are not finite.
    pub fn load(&self, device: &Device) -> Result<GroundingDino, WeightsError> {
        let Opened { part, config, .. } = &self.opened;
        part.load(device, FloatDType::F32, false, |params| {
            GroundingDino::load(config, params)
        })
    }
}

/// An RT-DETRv2, opened but not yet loaded.
#[derive(Debug)]
pub struct RtDetrWeights {
    opened: Opened<RtDetrConfig>,
    size: [usize; 2],
}

impl RtDetrWeights {
    /// Opens the folder of a checkpoint.
    ///
    /// # Errors
    /// [`WeightsError`] if something is missing or damaged, it is another network, or its configuration makes no sense.
    pub fn open(folder: &Path) -> Result<Self, WeightsError> {
        let opened = Opened::new(folder, FileKind::RtDetr, rt_detr_parameter)?;
        let config: &RtDetrConfig = &opened.config;
        config.check().map_err(|source| opened.refused(source))?;
        let preparation = Preparation::open(&opened.files)?;
        preparation.check(&[("do_normalize", json!(false)), ("do_pad", json!(false))])?;
        let size = preparation.sizes(["height", "width"])?;
        let size = size.map(|side| side.unwrap_or(640));
        if let Some(side) = size.iter().find(|side| !side.is_multiple_of(32)) {
            return Err(preparation.refusal(format!(
                "`size` has a side of {side} pixels; 32 must divide it"
            )));
        }
        Ok(Self { opened, size })
    }

    /// What records call it: its folder.
    pub fn name(&self) -> &str {
        &self.opened.name
    }

    /// The same under another name.
    pub fn named(mut self, name: &str) -> Self {
        self.opened.name = name.to_string();
        self
    }

    /// The names of its classes.
    pub fn classes(&self) -> Vec<String> {
        self.opened.config.classes()
    }

    /// The height and width that pictures are squashed to.
    pub fn size(&self) -> [usize; 2] {
        self.size
    }

    /// The file of its weights with its hash.
    ///
    /// # Errors
    /// [`WeightsError`] if it cannot be read.
    pub fn file_hash(&self) -> Result<FileHash, WeightsError> {
        hash_file(&self.opened.file)
    }

    /// Reads the weights and builds the network, in f32.
    ///
    /// # Errors
    /// [`WeightsError`] with every tensor that is missing, left over or of another shape than the
    /// configuration says, or if weights are not finite.
    pub fn load(&self, device: &Device) -> Result<RtDetr, WeightsError> {
        let Opened { part, config, .. } = &self.opened;
        part.load(device, FloatDType::F32, false, |params| {
            RtDetr::load(config, params)
        })
    }
}

/// The parameter that a tensor of a Grounding DINO is; none for tables that are computed, for copies of the head for boxes, and
/// for what only training or other uses of the parts need.
fn grounding_parameter(key: &str) -> Option<String> {
    const COMPUTED: [&str; 2] = ["relative_position_index", "embeddings.position_ids"];
    let unused = COMPUTED.iter().any(|end| key.ends_with(end))
        || key.contains(".conv_encoder.model.swin.layernorm.")
        || key.starts_with("model.text_backbone.pooler.")
        || key.starts_with("model.decoder.bbox_embed.");
    // All layers have the same head.
    let copy = key.starts_with("bbox_embed.") && !key.starts_with("bbox_embed.0.");
    (!unused && !copy).then(|| key.to_string())
}

/// The parameter that a tensor of an RT-DETRv2 is; none for what only training uses: the classes behind all layers but the last,
/// the embedding of noisy boxes, counters.
fn rt_detr_parameter(key: &str, config: &RtDetrConfig) -> Option<String> {
    let last = config.decoder_layers.saturating_sub(1).to_string();
    let between = key
        .strip_prefix("model.decoder.class_embed.")
        .is_some_and(|rest| rest.split('.').next() != Some(last.as_str()));
    let unused = between
        || key.ends_with(".num_batches_tracked")
        || key.ends_with(".n_points_scale")
        || key.starts_with("model.denoising_class_embed.")
        || key.starts_with("class_embed.")
        || key.starts_with("bbox_embed.")
        || ["model.anchors", "model.valid_mask"].contains(&key);
    (!unused).then(|| key.to_string())
}
