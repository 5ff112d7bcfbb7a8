//! Segment Anything (Kirillov et al. 2023): transformers' `SamModel`, which cuts out what a box or points mark.

mod config;
mod decoder;
mod encoder;
mod prompt;

use burn::prelude::*;
use burn::tensor::module;
use burn::tensor::ops::{InterpolateMode, InterpolateOptions};

pub use config::{SamConfig, SamDecoderConfig, SamPromptConfig, SamVisionConfig};
pub use prompt::Prompt;

use crate::config::ConfigError;
use crate::params::Params;
use crate::pixels::{self, Filter, Normalisation, PixelsError, Resized, Rgb};
use decoder::Decoder;
use encoder::Encoder;
use prompt::PromptEncoder;

/// Prompts that are answered together, so that memory stays within bounds.
const TOGETHER: usize = 16;

/// Normalised pictures, padded with zeros below and to the right.
#[derive(Debug, Clone)]
pub struct SamBatch {
    /// `[B, 3, S, S]`.
    pub pictures: Tensor<4>,
    /// Height and width of each picture in the batch.
    pub resized: Vec<[usize; 2]>,
    /// Height and width that each picture had before.
    pub original: Vec<[usize; 2]>,
}

/// What a SAM cut out, for each prompt.
#[derive(Debug, Clone)]
pub struct SamMasks {
    /// `[P, M, s, s]`, a quarter as many pixels along a side as the network saw; above 0 is inside. f32.
    pub logits: Tensor<4>,
    /// How well each mask covers its object as intersection over union, as the network thinks, `[P, M]`. f32.
    pub quality: Tensor<2>,
}

/// A SAM.
#[derive(Module, Debug)]
pub struct Sam {
    encoder: Encoder,
    prompts: PromptEncoder,
    decoder: Decoder,
    #[module(skip)]
    config: SamConfig,
}

impl Sam {
    /// Builds the network. What only given masks need is left out.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration asks for something that is not implemented or makes no sense. Problems with
    /// parameters are the source's to report.
    pub fn load(config: &SamConfig, mut params: Params) -> Result<Self, ConfigError> {
        config.check()?;
        let encoder = Encoder::load(params.pp("vision_encoder"), &config.vision_config);
        let decoder = Decoder::load(params.pp("mask_decoder"), &config.mask_decoder_config);
        Ok(Self {
            encoder,
            prompts: PromptEncoder::load(params, config),
            decoder,
            config: config.clone(),
        })
    }

    /// The configuration that the network was built from.
    pub fn config(&self) -> &SamConfig {
        &self.config
    }

    /// Pictures of any sizes as [`Self::encode`] wants them: resized (bilinear) so that the longer side fits, normalised,
    /// padded.
    ///
    /// # Errors
    /// [`PixelsError::Narrow`] for a picture of which nothing would be left.
    pub fn prepare(&self, pictures: &[Rgb], device: &Device) -> Result<SamBatch, PixelsError> {
        let side = self.config.vision_config.image_size;
        let resize = |picture: &Rgb| {
            let [height, width] = picture.size();
            let scale = side as f64 / height.max(width) as f64;
            let size = [height, width].map(|length| (length as f64 * scale + 0.5) as usize);
            picture.check_target(size)?;
            Ok(pixels::resize(picture, size, Filter::Bilinear))
        };
        let resized: Vec<Resized> = pictures.iter().map(resize).collect::<Result<_, _>>()?;
        let normalisation = Normalisation::IMAGENET;
        Ok(SamBatch {
            pictures: pixels::batch(&resized, [side; 2], &normalisation, device),
            resized: resized.iter().map(|one| [one.height, one.width]).collect(),
            original: pictures.iter().map(Rgb::size).collect(),
        })
    }

    /// Looks at pictures `[B, 3, S, S]`: `[B, N, C]`, f32, what [`Self::segment`] needs of each of them.
    ///
    /// # Panics
    /// If the pictures have another size than the configuration's.
    pub fn encode(&self, pictures: Tensor<4>) -> Tensor<3> {
        self.encode_seen(pictures, |_| ())
    }

    /// As [`Self::encode`]; `seen` gets the tokens `[B, N, C]` after each layer.
    ///
    /// # Panics
    /// As [`Self::encode`].
    pub fn encode_seen(&self, pictures: Tensor<4>, seen: impl FnMut(&Tensor<3>)) -> Tensor<3> {
        let side = self.config.vision_config.image_size;
        let [batch, ..] = pictures.dims();
        assert_eq!(pictures.dims(), [batch, 3, side, side], "segmenter");
        self.encoder.forward(pictures, seen)
    }

    /// Cuts out what each of some `prompts` marks in one picture, `[1, N, C]` of what [`Self::encode`] gave, prompts in
    /// pixels of the resized picture. `ambiguous` gives three masks of each prompt instead of one: the whole, a part, a
    /// part of that.
    ///
    /// # Panics
    /// Without a prompt, or with more than one picture.
    pub fn segment(&self, picture: &Tensor<3>, prompts: &[Prompt], ambiguous: bool) -> SamMasks {
        assert_eq!(picture.dims()[0], 1, "prompts are for one picture");
        let side = self.config.vision_config.side();
        let channels = picture.dims()[2];
        let no_mask = self.prompts.no_mask().reshape([1, 1, channels]);
        let picture = picture.clone() + no_mask;
        let grid: Tensor<3> = self.prompts.grid().unsqueeze();
        // Prompts of different lengths cannot go together.
        let alike = prompts.chunk_by(|a, b| a.tokens() == b.tokens());
        let parts = alike.flat_map(|alike| alike.chunks(TOGETHER)).map(|some| {
            let tokens = self.prompts.forward(some);
            let (masks, quality) =
                (self.decoder).forward(picture.clone(), grid.clone(), tokens, side);
            let count = masks.dims()[1];
            match ambiguous {
                true => (
                    masks.narrow(1, 1, count - 1),
                    quality.narrow(1, 1, count - 1),
                ),
                false => (masks.narrow(1, 0, 1), quality.narrow(1, 0, 1)),
            }
        });
        let (masks, quality) = parts.unzip::<_, _, Vec<_>, Vec<_>>();
        SamMasks {
            logits: Tensor::cat(masks, 0),
            quality: Tensor::cat(quality, 0),
        }
    }

    /// Masks `[P, M, s, s]` in the pixels of the original picture, `[P, M, H, W]`; still logits.
    pub fn restore(
        &self,
        logits: Tensor<4>,
        resized: [usize; 2],
        original: [usize; 2],
    ) -> Tensor<4> {
        let side = self.config.vision_config.image_size;
        let resize = |x, size| {
            let options = InterpolateOptions::new(InterpolateMode::Bilinear)
                .with_output_size(size)
                .with_align_corners(false);
            module::interpolate(x, options)
        };
        let [height, width] = resized;
        let inside = resize(logits, [side; 2])
            .narrow(2, 0, height)
            .narrow(3, 0, width);
        resize(inside, original)
    }
}
