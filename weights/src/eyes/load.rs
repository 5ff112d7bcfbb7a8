//! From opened files to networks on a device.

use burn::prelude::Device;
use burn::tensor::FloatDType;
use prepose_models::clip_dual::{Clip, ClipConfig};
use prepose_models::clip_vision::ClipVisionModel;
use prepose_models::depth_anything::{DepthAnything, DepthAnythingConfig};
use prepose_models::dinov2::{Dinov2, Dinov2Config};
use prepose_models::image_reward::{ImageReward, ImageRewardConfig};
use prepose_models::inception::{Inception, InceptionConfig};
use prepose_models::sam::{Sam, SamConfig};

use super::{EyeKind, EyeWeights};
use crate::error::WeightsError;
use crate::files::Files;
use crate::hub;
use crate::tokenizer::{ClipTokenizer, Padding};
use crate::tokenizer_files;
use crate::wordpiece::BertTokenizer;

/// Where BERT's vocabulary may lie: ImageReward's file has none of its own.
const BERT: [&str; 2] = ["google-bert/bert-base-uncased", "bert-base-uncased"];

impl EyeWeights {
    /// Both encoders of a CLIP.
    ///
    /// # Errors
    /// [`WeightsError`] if it is another network; with every tensor that is missing, left over or of another shape than
    /// the configuration says; or if weights are not finite.
    pub fn load_clip(&self, device: &Device, dtype: FloatDType) -> Result<Clip, WeightsError> {
        self.expect(EyeKind::Clip)?;
        let config: ClipConfig = self.part.config()?;
        (self.part).load(device, dtype, false, |params| Clip::load(&config, params))
    }

    /// The tokenizer of a CLIP's texts: its own, or the one of all published ones.
    ///
    /// # Errors
    /// [`WeightsError`] if its own cannot be used, or the text encoder has no place for all tokens.
    pub fn tokenizer(&self) -> Result<ClipTokenizer, WeightsError> {
        let files = Files::Folder(self.folder.clone());
        let own = tokenizer_files::own(&files, ".")?;
        let tokenizer = own.unwrap_or_else(|| ClipTokenizer::clip(Padding::EndOfText));
        let config: ClipConfig = self.part.config()?;
        let (places, tokens) = (config.text_config.vocab_size, tokenizer.vocabulary());
        if tokens > places {
            return Err(WeightsError::Folder {
                path: self.folder.clone(),
                what: format!(
                    "the tokenizer has {tokens} tokens, and the text encoder knows {places}"
                ),
                hint: "put vocab.json and merges.txt of this network next to its weights".into(),
            });
        }
        Ok(tokenizer)
    }

    /// The picture encoder of a CLIP, or one alone.
    ///
    /// # Errors
    /// As [`Self::load_clip`].
    pub fn load_clip_vision(
        &self,
        device: &Device,
        dtype: FloatDType,
    ) -> Result<ClipVisionModel, WeightsError> {
        let config = self.clip_vision_config()?;
        let own = |name: &str| name.starts_with("visual_projection") || name.starts_with("vision_");
        (self.part).load_some(device, dtype, false, own, |params| {
            ClipVisionModel::load(&config, params)
        })
    }

    /// A DINOv2.
    ///
    /// # Errors
    /// As [`Self::load_clip`].
    pub fn load_dinov2(&self, device: &Device, dtype: FloatDType) -> Result<Dinov2, WeightsError> {
        self.expect(EyeKind::Dinov2)?;
        let config: Dinov2Config = self.part.config()?;
        (self.part).load(device, dtype, false, |params| Dinov2::load(&config, params))
    }

    /// A Depth Anything.
    ///
    /// # Errors
    /// As [`Self::load_clip`].
    pub fn load_depth(
        &self,
        device: &Device,
        dtype: FloatDType,
    ) -> Result<DepthAnything, WeightsError> {
        self.expect(EyeKind::DepthAnything)?;
        let config: DepthAnythingConfig = self.part.config()?;
        (self.part).load(device, dtype, false, |params| {
            DepthAnything::load(&config, params)
        })
    }

    /// A SAM.
    ///
    /// # Errors
    /// As [`Self::load_clip`].
    pub fn load_sam(&self, device: &Device, dtype: FloatDType) -> Result<Sam, WeightsError> {
        self.expect(EyeKind::Sam)?;
        let config: SamConfig = self.part.config()?;
        (self.part).load(device, dtype, false, |params| Sam::load(&config, params))
    }

    /// An ImageReward.
    ///
    /// # Errors
    /// As [`Self::load_clip`].
    pub fn load_image_reward(
        &self,
        device: &Device,
        dtype: FloatDType,
    ) -> Result<ImageReward, WeightsError> {
        self.expect(EyeKind::ImageReward)?;
        let config: ImageRewardConfig = self.part.config()?;
        (self.part).load(device, dtype, false, |params| {
            ImageReward::load(&config, params)
        })
    }

    /// The tokenizer of ImageReward's texts, BERT's: `vocab.txt` or `tokenizer.json` next to the weights, or of the
    /// `bert-base-uncased` that some program has downloaded.
    ///
    /// # Errors
    /// [`WeightsError`] if there is none, it cannot be used, or the text encoder has no place for all tokens.
    pub fn bert_tokenizer(&self) -> Result<BertTokenizer, WeightsError> {
        let beside = Files::Folder(self.folder.clone());
        let files = match ["tokenizer.json", "vocab.txt"].map(|name| beside.has(name)) {
            [false, false] => (BERT.into_iter().find_map(hub::downloaded)).map(Files::Folder),
            _ => Some(beside),
        };
        let files = files.ok_or_else(|| WeightsError::Folder {
            path: self.folder.clone(),
            what: "neither vocab.txt nor tokenizer.json is next to the weights, and no bert-base-uncased was downloaded".into(),
            hint: "put bert-base-uncased's vocab.txt there, or run `prepose pull google-bert/bert-base-uncased`".into(),
        })?;
        let tokenizer = BertTokenizer::open(&files)?;
        let config: ImageRewardConfig = self.part.config()?;
        let (places, tokens) = (config.text_config.vocab_size, tokenizer.vocabulary());
        if tokens > places {
            return Err(WeightsError::Folder {
                path: self.folder.clone(),
                what: format!(
                    "the tokenizer has {tokens} tokens, and the text encoder knows {places}"
                ),
                hint: "put bert-base-uncased's vocab.txt next to the weights".into(),
            });
        }
        Ok(tokenizer)
    }

    /// FID's Inception-v3.
    ///
    /// # Errors
    /// As [`Self::load_clip`].
    pub fn load_inception(
        &self,
        device: &Device,
        dtype: FloatDType,
    ) -> Result<Inception, WeightsError> {
        self.expect(EyeKind::Inception)?;
        let config: InceptionConfig = self.part.config()?;
        (self.part).load(device, dtype, false, |params| {
            Inception::load(&config, params)
        })
    }
}
