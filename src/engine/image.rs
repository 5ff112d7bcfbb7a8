//! Pictures in and out of the autoencoder.

use burn::tensor::{Device, Tensor, TensorData};
use sha2::{Digest, Sha256};

use super::{Engine, EngineError};
use crate::output::png::Picture;
use crate::request::InitImage;

/// Start pictures beyond this many pixels a side are refused before they are decoded.
const MAX_SIDE: u32 = 16_384;

/// Makes sure that the start picture can be read and is the recorded one; returns its SHA-256.
pub(super) fn check(init: &InitImage) -> Result<String, EngineError> {
    decode(init).map(|(_, sha256)| sha256)
}

/// The start picture at `width` × `height`, f32 [1, 3, height, width] in [-1, 1]. A picture of
/// another size is resized, its shape included (Lanczos).
pub(super) fn load(
    init: &InitImage,
    width: usize,
    height: usize,
    device: &Device,
) -> Result<Tensor<4>, EngineError> {
    let (mut picture, _) = decode(init)?;
    let (width_px, height_px) = (width as u32, height as u32);
    if picture.dimensions() != (width_px, height_px) {
        let filter = image::imageops::FilterType::Lanczos3;
        picture = image::imageops::resize(&picture, width_px, height_px, filter);
    }
    let mut values = vec![0f32; 3 * width * height];
    for (position, pixel) in picture.pixels().enumerate() {
        for (channel, value) in pixel.0.into_iter().enumerate() {
            values[channel * width * height + position] = f32::from(value) / 255.0 * 2.0 - 1.0;
        }
    }
    Ok(Tensor::from_data(
        TensorData::new(values, [1, 3, height, width]),
        device,
    ))
}

fn decode(init: &InitImage) -> Result<(image::RgbImage, String), EngineError> {
    let unusable = |source: Box<dyn std::error::Error + Send + Sync>| EngineError::InitImage {
        path: init.path.clone(),
        source,
    };
    let bytes = std::fs::read(&init.path).map_err(|error| unusable(error.into()))?;
    let sha256 = format!("{:x}", Sha256::digest(&bytes));
    if init
        .sha256
        .as_ref()
        .is_some_and(|recorded| *recorded != sha256)
    {
        return Err(EngineError::InitImageChanged {
            path: init.path.clone(),
        });
    }
    let mut reader = image::ImageReader::new(std::io::Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|error| unusable(error.into()))?;
    let mut limits = image::Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    reader.limits(limits);
    let picture = reader.decode().map_err(|error| unusable(error.into()))?;
    Ok((picture.into_rgb8(), sha256))
}

impl Engine {
    /// Decodes latents, f32 [B, C, h, w] in the UNet's scaling, into pictures, one at a time so that
    /// a batch takes no more memory than a picture.
    ///
    /// # Errors
    /// A picture that is not finite.
    pub fn decode(&self, latents: Tensor<4>, tiling: bool) -> Result<Vec<Picture>, EngineError> {
        let latents = latents / self.vae.scaling_factor() + self.vae.shift_factor();
        (0..latents.dims()[0])
            .map(|index| {
                let one = latents.clone().narrow(0, index, 1);
                let decoded = match tiling {
                    true => self.vae.decode_tiled(one),
                    false => self.vae.decode(one),
                };
                self.picture(decoded, index)
            })
            .collect()
    }

    /// [1, 3, height, width] in [-1, 1] as bytes, rounded as diffusers rounds.
    fn picture(&self, decoded: Tensor<4>, index: usize) -> Result<Picture, EngineError> {
        let [_, _, height, width] = decoded.dims();
        let values: Vec<f32> = decoded.into_data().iter::<f32>().collect();
        if values.iter().any(|value| !value.is_finite()) {
            return Err(EngineError::NonFinitePicture {
                picture: index,
                dtype: self.dtype,
            });
        }
        let plane = width * height;
        let mut rgb = vec![0u8; 3 * plane];
        for (position, pixel) in rgb.chunks_exact_mut(3).enumerate() {
            for (channel, byte) in pixel.iter_mut().enumerate() {
                let value = values[channel * plane + position] / 2.0 + 0.5;
                *byte = (value.clamp(0.0, 1.0) * 255.0).round_ties_even() as u8;
            }
        }
        Ok(Picture { width, height, rgb })
    }
}
