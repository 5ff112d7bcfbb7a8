//! How well people would like pictures for their prompts, by ImageReward (Xu et al. 2023).

use burn::tensor::{Device, FloatDType};
use prepose_models::image_reward::ImageReward;
use prepose_weights::{BertTokenizer, EyeWeights, WeightsError};

use super::reading::Reading;
use super::{EyeError, rgb};
use crate::picture::Picture;

/// Pictures that are looked at together.
const TOGETHER: usize = 16;
/// Tokens of a prompt with its beginning and end; the authors cut off what is beyond.
const MOST_TOKENS: usize = 35;

/// An ImageReward on a device.
#[derive(Debug)]
pub struct RewardScorer {
    name: String,
    hash: String,
    network: ImageReward,
    tokenizer: BertTokenizer,
    device: Device,
}

impl RewardScorer {
    /// Loads the network, and BERT's tokenizer from beside it.
    ///
    /// # Errors
    /// [`WeightsError`] if the weights are of another network or do not fit, or there is no tokenizer.
    pub fn load(
        weights: &EyeWeights,
        device: &Device,
        dtype: FloatDType,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            name: weights.name().to_string(),
            hash: weights.file_hash()?.sha256,
            network: weights.load_image_reward(device, dtype)?,
            tokenizer: weights.bert_tokenizer()?,
            device: device.clone(),
        })
    }

    /// What records call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The SHA-256 of its weights.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The reward of each picture for its text: about 0 on average over what people were shown, with a deviation of about 1; no
    /// bounds. What is beyond 35 tokens of a text is cut off.
    ///
    /// # Errors
    /// [`EyeError`] if a picture or a text cannot be looked at; nothing is known of the others then.
    pub fn rewards(&self, pairs: &[(&Picture, &str)]) -> Result<Vec<f64>, EyeError> {
        let most = MOST_TOKENS.min(self.network.config().text_config.max_position_embeddings);
        let mut reading = Reading::default();
        for some in pairs.chunks(TOGETHER) {
            let pictures = some.iter().map(|(picture, _)| rgb(picture));
            let pictures = pictures.collect::<Result<Vec<_>, _>>()?;
            let texts = some.iter().map(|(_, text)| self.tokens(text, most));
            let texts = texts.collect::<Result<Vec<_>, _>>()?;
            let prepared = self.network.prepare(&pictures, &self.device)?;
            reading = reading.with(self.network.rewards(prepared, &texts));
        }
        let read = reading.numbers().into_iter().flatten();
        let rewards: Vec<f64> = read.map(f64::from).collect();
        match rewards.iter().all(|reward| reward.is_finite()) {
            true => Ok(rewards),
            false => Err(EyeError::NonFinite),
        }
    }

    /// The first tokens of a text, and its end.
    fn tokens(&self, text: &str, most: usize) -> Result<Vec<u32>, EyeError> {
        let mut tokens = self.tokenizer.encode(text)?;
        if let Some(end) = tokens.pop() {
            tokens.truncate(most.saturating_sub(1));
            tokens.push(end);
        }
        Ok(tokens)
    }
}
