//! The picture that image-to-image starts from.

use burn::tensor::{Device, Tensor};
use prepose_untrusted::{MAX_PICTURE, read_regular};
use sha2::{Digest, Sha256};

use super::error::EngineError;
use crate::picture::{Picture, PictureTensor};
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
    let bytes = read_regular(&init.path, MAX_PICTURE).map_err(|error| unusable(error.into()))?;
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
