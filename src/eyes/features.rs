//! What a network sees in pictures, as the numbers that measures of quality compare.

use burn::tensor::{Device, FloatDType, Tensor};
use prepose_models::clip_vision::ClipVisionModel;
use prepose_models::dinov2::Dinov2;
use prepose_models::inception::Inception;
use prepose_models::pixels::Rgb;
use prepose_models::rcnn::Rcnn;
use prepose_weights::{DetectorWeights, EyeKind, EyeWeights, TOYBOX_CLIP, WeightsError};

use super::reading::Reading;
use super::{ClipScorer, EyeError, rgb};
use crate::picture::{Picture, PictureTensor};
use crate::quality::Features;
use crate::quality::figures::Seen;

/// The network in the binary.
pub const TOYBOX: &str = "toybox";
/// The side that DINOv2's pictures are squashed to, as measures of its features do.
const DINOV2_SIDE: usize = 224;
/// The side that pictures are reduced to for the toybox's detector, which has seen pictures of 128.
const TOYBOX_SIDE: usize = 128;

/// A network with features.
#[derive(Debug)]
enum Network {
    Inception(Box<Inception>),
    Dinov2(Box<Dinov2>),
    /// With its text encoder.
    Clip(Box<ClipScorer>),
    ClipVision(Box<ClipVisionModel>),
    Toybox(Box<Rcnn>),
}

/// What a network sees in some pictures, a row for each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Features of a picture.
    pub columns: usize,
    /// One row after the other.
    pub features: Vec<f32>,
    /// Classes of a picture; 0 if the network has none.
    pub classes: usize,
    /// One row after the other.
    pub logits: Vec<f32>,
}

/// A network of features on a device.
#[derive(Debug)]
pub struct FeatureExtractor {
    name: String,
    hash: String,
    network: Network,
    device: Device,
}

impl FeatureExtractor {
    /// Loads the network that `given` names: `toybox` (its detector), or what [`EyeWeights::open`] takes, if it is FID's Inception, a
    /// DINOv2 or a CLIP.
    ///
    /// # Errors
    /// [`WeightsError`] if there is none, or it is another network.
    pub fn load(given: &str, device: &Device, dtype: FloatDType) -> Result<Self, WeightsError> {
        if given == TOYBOX {
            let weights = DetectorWeights::open(given)?;
            return Ok(Self {
                name: TOYBOX.into(),
                hash: weights.file_hash()?.sha256,
                network: Network::Toybox(Box::new(weights.load(device)?)),
                device: device.clone(),
            });
        }
        let weights = EyeWeights::open(given)?;
        let network = match weights.kind() {
            EyeKind::Inception => {
                Network::Inception(Box::new(weights.load_inception(device, dtype)?))
            }
            EyeKind::Dinov2 => Network::Dinov2(Box::new(weights.load_dinov2(device, dtype)?)),
            EyeKind::Clip => Network::Clip(Box::new(ClipScorer::load(&weights, device, dtype)?)),
            EyeKind::ClipVision => {
                Network::ClipVision(Box::new(weights.load_clip_vision(device, dtype)?))
            }
            EyeKind::DepthAnything | EyeKind::Sam | EyeKind::ImageReward => {
                let hash = weights.file_hash()?;
                return Err(WeightsError::Unsupported {
                    path: hash.path,
                    what: weights.kind().name().into(),
                    hint: "features are those of FID's Inception, a DINOv2, a CLIP or the toybox"
                        .into(),
                });
            }
        };
        Ok(Self {
            name: weights.name().to_string(),
            hash: weights.file_hash()?.sha256,
            network,
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

    /// What its statistics are called.
    pub fn seen(&self) -> Seen {
        match self.network {
            Network::Inception(_) => Seen::ByInception,
            Network::Clip(_) | Network::ClipVision(_) => Seen::ByClip,
            Network::Dinov2(_) | Network::Toybox(_) => Seen::ByOther,
        }
    }

    /// How it looks at pictures, in words that go beside its figures.
    pub fn about(&self) -> &'static str {
        match self.network {
            Network::Inception(_) => "Inception-v3, resized as by pytorch-fid",
            Network::Dinov2(_) => "DINOv2's class token, pictures squashed to 224 x 224",
            Network::Clip(_) if self.name == TOYBOX_CLIP => {
                "the toybox's CLIP, which knows drawings only: figures to try things with, comparable with no other"
            }
            Network::Clip(_) | Network::ClipVision(_) => {
                "CLIP's picture embedding, the middle square"
            }
            Network::Toybox(_) => {
                "the toybox's detector, which knows drawings only: figures to try things with, comparable with no other"
            }
        }
    }

    /// The features of pictures of any sizes, and their classes if the network has some.
    ///
    /// # Errors
    /// [`EyeError`] if a picture cannot be looked at; nothing is known of the others then.
    pub fn look(&self, pictures: &[&Picture]) -> Result<Rows, EyeError> {
        if pictures.is_empty() {
            return Ok(Rows::default());
        }
        let bytes = || {
            let each = pictures.iter().map(|picture| rgb(picture));
            each.collect::<Result<Vec<_>, _>>()
        };
        let (features, logits) = match &self.network {
            Network::Inception(network) => {
                let output = network.forward(Inception::prepare(&bytes()?, &self.device)?);
                (output.features, Some(output.logits))
            }
            Network::Dinov2(network) => {
                let batch = Dinov2::prepare(&bytes()?, DINOV2_SIDE, &self.device)?;
                (network.features(batch), None)
            }
            Network::Clip(scorer) => (self.embedded(scorer.vision(), &bytes()?)?, None),
            Network::ClipVision(network) => (self.embedded(network, &bytes()?)?, None),
            Network::Toybox(network) => (self.drawn(network, pictures), None),
        };
        let read = Reading::default().with(features).with_all(logits);
        let mut rows = Rows::default();
        for (i, data) in read.read().iter().enumerate() {
            let width = data.shape()[1];
            let values: Vec<f32> = data.iter().collect();
            if !values.iter().all(|value| value.is_finite()) {
                return Err(EyeError::NonFinite);
            }
            match i {
                0 => (rows.columns, rows.features) = (width, values),
                _ => (rows.classes, rows.logits) = (width, values),
            }
        }
        Ok(rows)
    }

    /// The cosine between the features of each picture and its text; none if the network reads no texts.
    ///
    /// # Errors
    /// [`EyeError`] for a text that cannot be read.
    ///
    /// # Panics
    /// If there is not one text for each picture.
    pub fn cosines(
        &self,
        pictures: &Features,
        texts: &[&str],
    ) -> Result<Option<Vec<f64>>, EyeError> {
        let Network::Clip(scorer) = &self.network else {
            return Ok(None);
        };
        assert_eq!(pictures.rows(), texts.len(), "a text for each picture");
        let texts = scorer.texts(texts)?;
        let pictures = pictures.unit();
        let each = pictures.iter().zip(texts.chunks_exact(pictures.columns()));
        let product = |(picture, text): (&[f32], &[f32])| {
            let parts = picture.iter().zip(text);
            parts.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        Ok(Some(each.map(product).collect()))
    }

    fn embedded(&self, network: &ClipVisionModel, pictures: &[Rgb]) -> Result<Tensor<2>, EyeError> {
        let encoding = network.forward(network.prepare(pictures, &self.device)?, 0);
        Ok(encoding.embedding.unwrap_or(encoding.pooled))
    }

    /// The means of the toybox's finest and coarsest feature maps.
    fn drawn(&self, network: &Rcnn, pictures: &[&Picture]) -> Tensor<2> {
        let small = |picture: &&Picture| {
            let small = crate::check::perturb::bilinear(picture, TOYBOX_SIDE, TOYBOX_SIDE);
            small.to_tensor(&self.device)
        };
        let small: Vec<Tensor<3>> = pictures.iter().map(small).collect();
        let levels = network.features(&network.batch(&small));
        let mean = |map: &Tensor<4>| {
            let [batch, channels, ..] = map.dims();
            let mean = map.clone().mean_dim(3).mean_dim(2);
            mean.reshape([batch, channels])
        };
        // The last is every second pixel of the one before.
        let levels = &levels[..levels.len() - 1];
        Tensor::cat(levels.iter().map(mean).collect(), 1)
    }
}
