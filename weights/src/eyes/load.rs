//! From opened files to networks on a device.

use burn::prelude::Device;
use burn::tensor::FloatDType;
use prepose_models::ConfigError;
use prepose_models::clip_dual::{Clip, ClipConfig};
use prepose_models::clip_vision::ClipVisionModel;
use prepose_models::depth_anything::DepthAnything;
use prepose_models::dinov2::Dinov2;
use prepose_models::image_reward::{ImageReward, ImageRewardConfig};
use prepose_models::inception::Inception;
use prepose_models::params::Params;
use prepose_models::sam::Sam;
use serde::de::DeserializeOwned;

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
    /// The network that `build` makes of its configuration and parameters, if that is what this is.
    fn load<C: DeserializeOwned, T>(
        &self,
        kind: EyeKind,
        device: &Device,
        dtype: FloatDType,
        build: impl Fn(&C, Params) -> Result<T, ConfigError>,
    ) -> Result<T, WeightsError> {
        self.expect(kind)?;
        let config = self.part.config()?;
        (self.part).load(device, dtype, false, |params| build(&config, params))
    }

    /// Both encoders of a CLIP.
    ///
    /// # Errors
    /// [`WeightsError`] if it is another network; with every tensor that is missing, left over or of another shape than
    /// the configuration says; or if weights are not finite.
    pub fn load_clip(&self, device: &Device, dtype: FloatDType) -> Result<Clip, WeightsError> {
        self.load(EyeKind::Clip, device, dtype, Clip::load)
    }

    /// The tokenizer of a CLIP's texts: its own, or the one of all published ones.
    ///
    /// # Errors
    /// [`WeightsError`] if its own cannot be used, or the text encoder has no place for all tokens.
    pub fn tokenizer(&self) -> Result<ClipTokenizer, WeightsError> {
        let own = tokenizer_files::own(&self.files, "")?;
        let tokenizer = own.unwrap_or_else(|| ClipTokenizer::clip(Padding::EndOfText));
        let config: ClipConfig = self.part.config()?;
        let remedy = "put vocab.json and merges.txt of this network next to its weights";
        self.refuse_tokens(
            tokenizer.vocabulary(),
            config.text_config.vocab_size,
            remedy,
        )?;
        Ok(tokenizer)
    }

    /// Refuses a tokenizer with more tokens than the text encoder has places.
    fn refuse_tokens(
        &self,
        tokens: usize,
        places: usize,
        remedy: &str,
    ) -> Result<(), WeightsError> {
        if tokens <= places {
            return Ok(());
        }
        Err(WeightsError::Folder {
            path: self.files.path(""),
            what: format!("the tokenizer has {tokens} tokens, and the text encoder knows {places}"),
            hint: remedy.into(),
        })
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
        self.load(EyeKind::Dinov2, device, dtype, Dinov2::load)
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
        self.load(EyeKind::DepthAnything, device, dtype, DepthAnything::load)
    }

    /// A SAM.
    ///
    /// # Errors
    /// As [`Self::load_clip`].
    pub fn load_sam(&self, device: &Device, dtype: FloatDType) -> Result<Sam, WeightsError> {
        self.load(EyeKind::Sam, device, dtype, Sam::load)
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
        self.load(EyeKind::ImageReward, device, dtype, ImageReward::load)
    }

    /// The tokenizer of ImageReward's texts, BERT's: `vocab.txt` or `tokenizer.json` next to the weights, or of the
    /// `bert-base-uncased` that some program has downloaded.
    ///
    /// # Errors
    /// [`WeightsError`] if there is none, it cannot be used, or the text encoder has no place for all tokens.
    pub fn bert_tokenizer(&self) -> Result<BertTokenizer, WeightsError> {
        let files = match ["tokenizer.json", "vocab.txt"].map(|name| self.files.has(name)) {
            [false, false] => (BERT.into_iter().find_map(hub::downloaded)).map(Files::Folder),
            _ => Some(self.files.clone()),
        };
        let files = files.ok_or_else(|| WeightsError::Folder {
            path: self.files.path(""),
            what: "neither vocab.txt nor tokenizer.json is next to the weights, and no bert-base-uncased was downloaded".into(),
            hint: "put bert-base-uncased's vocab.txt there, or run `prepose pull google-bert/bert-base-uncased/vocab.txt --revision main`".into(),
        })?;
        let tokenizer = BertTokenizer::open(&files)?;
        let config: ImageRewardConfig = self.part.config()?;
        let remedy = "put bert-base-uncased's vocab.txt next to the weights";
        self.refuse_tokens(
            tokenizer.vocabulary(),
            config.text_config.vocab_size,
            remedy,
        )?;
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
        self.load(EyeKind::Inception, device, dtype, Inception::load)
    }
}
