//! Whether texts describe pictures, by CLIP (Hessel et al. 2021, "CLIPScore").

use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use prepose_models::clip_dual::Clip;
use prepose_models::clip_vision::ClipVisionModel;
use prepose_weights::tokenizer::ClipTokenizer;
use prepose_weights::{EyeWeights, WeightsError};

use super::reading::Reading;
use super::{EyeError, rgb};
use crate::picture::Picture;

/// What the authors of CLIPScore put before each caption.
pub const PROMPT_OF_PAPER: &str = "A photo depicts ";

/// Pictures or texts that are looked at together.
const TOGETHER: usize = 16;

/// The authors' score of a cosine: 2.5 times it, and never below 0.
pub fn clip_score(cosine: f64) -> f64 {
    2.5 * cosine.max(0.0)
}

/// A CLIP on a device.
#[derive(Debug)]
pub struct ClipScorer {
    name: String,
    network: Clip,
    tokenizer: ClipTokenizer,
    device: Device,
}

impl ClipScorer {
    /// Loads both encoders.
    ///
    /// # Errors
    /// [`WeightsError`] if the weights are of another network or do not fit.
    pub fn load(
        weights: &EyeWeights,
        device: &Device,
        dtype: FloatDType,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            name: weights.name().to_string(),
            network: weights.load_clip(device, dtype)?,
            tokenizer: weights.tokenizer()?,
            device: device.clone(),
        })
    }

    /// What records call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many tokens a text may have, without its beginning and end; what is beyond is cut off.
    pub fn most_tokens(&self) -> usize {
        let positions = self.network.text().config().max_position_embeddings;
        positions.saturating_sub(2)
    }

    /// The cosine between the embeddings of each picture and its text.
    ///
    /// # Errors
    /// [`EyeError`] if a picture or a text cannot be looked at; nothing is known of the others then.
    pub fn cosines(&self, pairs: &[(&Picture, &str)]) -> Result<Vec<f64>, EyeError> {
        let mut reading = Reading::default();
        for some in pairs.chunks(TOGETHER) {
            let (pictures, texts): (Vec<&Picture>, Vec<&str>) = some.iter().copied().unzip();
            let pictures = pictures
                .into_iter()
                .map(rgb)
                .collect::<Result<Vec<_>, _>>()?;
            let prepared = self.network.vision().prepare(&pictures, &self.device)?;
            let pictures = self.network.embed_pictures(prepared);
            let texts = self.embed(&texts)?;
            reading = reading.with((pictures * texts).sum_dim(1));
        }
        let read = reading.numbers().into_iter().flatten();
        let cosines: Vec<f64> = read.map(f64::from).collect();
        match cosines.iter().all(|cosine| cosine.is_finite()) {
            true => Ok(cosines),
            false => Err(EyeError::NonFinite),
        }
    }

    /// The picture encoder.
    pub(super) fn vision(&self) -> &ClipVisionModel {
        self.network.vision()
    }

    /// Embeddings of texts at length 1, one row after the other.
    pub(super) fn texts(&self, texts: &[&str]) -> Result<Vec<f32>, EyeError> {
        let rows = texts.chunks(TOGETHER).map(|some| self.embed(some));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        Ok(Reading::default().with_all(rows).numbers().concat())
    }

    fn embed(&self, texts: &[&str]) -> Result<Tensor<2>, EyeError> {
        let length = self.network.text().config().max_position_embeddings;
        let mut ids = Vec::with_capacity(texts.len() * length);
        let mut ends = Vec::with_capacity(texts.len());
        for text in texts {
            let tokens = self.tokenizer.encode(text)?;
            let tokens = tokens
                .iter()
                .take(self.most_tokens())
                .map(|token| token.id as i32);
            let start = ids.len();
            ids.push(self.tokenizer.bos() as i32);
            ids.extend(tokens);
            ends.push(ids.len() - start);
            ids.push(self.tokenizer.eos() as i32);
            ids.resize(start + length, self.tokenizer.pad() as i32);
        }
        let data = TensorData::new(ids, [texts.len(), length]);
        let ids = Tensor::<2, Int>::from_data(data, &self.device);
        Ok(self.network.embed_texts(ids, &ends))
    }
}
