//! OWL-ViT in folders as transformers writes them.

use std::path::Path;

use burn::prelude::Device;
use burn::tensor::FloatDType;
use prepose_models::owl_vit::{OwlVit, OwlVitConfig};

use crate::detr::Opened;
use crate::error::WeightsError;
use crate::family::FileKind;
use crate::hash::{FileHash, hash_file};
use crate::tokenizer::{ClipTokenizer, Padding};
use crate::tokenizer_files;

/// An OWL-ViT, opened but not yet loaded.
#[derive(Debug)]
pub struct OwlVitWeights {
    opened: Opened<OwlVitConfig>,
    tokenizer: ClipTokenizer,
}

impl OwlVitWeights {
    /// Opens the folder of a checkpoint.
    ///
    /// # Errors
    /// [`WeightsError`] if something is missing or damaged, it is another network, or its configuration makes no sense.
    pub fn open(folder: &Path) -> Result<Self, WeightsError> {
        let opened = Opened::new(folder, FileKind::OwlVit, |key, _: &OwlVitConfig| {
            parameter(key)
        })?;
        let config = &opened.config;
        config.check().map_err(|source| opened.refused(source))?;
        let own = tokenizer_files::own(&opened.files, ".")?;
        let tokenizer = own.unwrap_or_else(|| ClipTokenizer::clip(Padding::EndOfText));
        let (places, tokens) = (config.text_config.vocab_size, tokenizer.vocabulary());
        if tokens > places {
            return Err(WeightsError::Folder {
                path: folder.to_path_buf(),
                what: format!("the tokenizer has {tokens} tokens, but the network {places}"),
                hint: "give a folder whose tokenizer and weights belong together".into(),
            });
        }
        Ok(Self { opened, tokenizer })
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
    pub fn tokenizer(&self) -> &ClipTokenizer {
        &self.tokenizer
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
    pub fn load(&self, device: &Device) -> Result<OwlVit, WeightsError> {
        let Opened { part, config, .. } = &self.opened;
        part.load(device, FloatDType::F32, false, |params| {
            OwlVit::load(config, params)
        })
    }
}

/// The parameter that a tensor is; none for what only whole pictures need, and for tables of numbers.
fn parameter(key: &str) -> Option<String> {
    let unused = key.ends_with(".position_ids")
        || key == "owlvit.logit_scale"
        || key.starts_with("owlvit.visual_projection.");
    (!unused).then(|| key.to_string())
}
