//! Pictures in and out of the autoencoder.

use burn::tensor::{Device, Tensor};
use sha2::{Digest, Sha256};

use super::{Engine, EngineError};
use crate::picture::Picture;
use crate::request::InitImage;

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
    if (picture.width, picture.height) != (width, height) {
        picture = picture.resized(width, height);
    }
    Ok(picture.to_tensor(device).unsqueeze() * 2.0 - 1.0)
}

fn decode(init: &InitImage) -> Result<(Picture, String), EngineError> {
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
    let picture = Picture::decode(&bytes).map_err(|error| unusable(error.into()))?;
    Ok((picture, sha256))
}

impl Engine {
    /// Decodes latents, f32 [B, C, h, w] in the UNet's scaling, into pictures, one at a time so that
    /// a batch takes no more memory than a picture.
    ///
    /// # Errors
    /// A picture that is not finite.
    pub fn decode(&self, latents: Tensor<4>, tiling: bool) -> Result<Vec<Picture>, EngineError> {
        self.decode_on_device(latents, tiling)
            .enumerate()
            .map(|(picture, decoded)| {
                Picture::from_tensor(decoded).ok_or(EngineError::NonFinitePicture {
                    picture,
                    dtype: self.dtype,
                })
            })
            .collect()
    }

    /// As [`decode`](Self::decode), but the pictures stay on the device: f32 [3, height, width] each, where 0..=1 is
    /// what can be shown. Each is decoded when it is asked for.
    pub fn decode_on_device(
        &self,
        latents: Tensor<4>,
        tiling: bool,
    ) -> impl Iterator<Item = Tensor<3>> {
        let latents = latents / self.vae.scaling_factor() + self.vae.shift_factor();
        (0..latents.dims()[0]).map(move |index| {
            let one = latents.clone().narrow(0, index, 1);
            let decoded = match tiling {
                true => self.vae.decode_tiled(one),
                false => self.vae.decode(one),
            };
            decoded.squeeze_dim::<3>(0) / 2.0 + 0.5
        })
    }
}
