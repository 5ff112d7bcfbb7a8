//! Pictures that a request names: the one that image-to-image starts from, and those that are shown to the network.

use std::path::Path;

use burn::tensor::{Device, Tensor};
use prepose_dataset::look::BACKGROUND;
use prepose_store::reading;
use prepose_untrusted::MAX_PICTURE;
use sha2::{Digest, Sha256};

use super::error::EngineError;
use crate::picture::{Picture, PictureTensor};
use crate::request::InitImage;

/// What a picture is to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Image-to-image starts from it.
    Start,
    /// It is shown to the network.
    Prompt,
    /// It says where another one acts.
    Mask,
}

impl Role {
    /// For messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start picture",
            Self::Prompt => "picture prompt",
            Self::Mask => "mask",
        }
    }
}

/// Makes sure that the start picture can be read and is the recorded one; returns its SHA-256.
pub(super) fn check(init: &InitImage) -> Result<String, EngineError> {
    read(&init.path, init.sha256.as_deref(), Role::Start).map(|(_, sha256)| sha256)
}

/// The start picture at `width` × `height`, f32 [1, 3, height, width] in [-1, 1]. A picture of
/// another size is resized, its shape included (Lanczos).
pub(super) fn load(
    init: &InitImage,
    width: usize,
    height: usize,
    device: &Device,
) -> Result<Tensor<4>, EngineError> {
    let (mut picture, _) = read(&init.path, init.sha256.as_deref(), Role::Start)?;
    if (picture.width, picture.height) != (width, height) {
        picture = picture.resized(width, height);
    }
    Ok(picture.to_tensor(device).unsqueeze() * 2.0 - 1.0)
}

/// The start picture at its own size, less what is no whole latent of `factor` pixels, and at most `width` × `height`;
/// f32 [1, 3, …] in [-1, 1].
pub(super) fn load_within(
    init: &InitImage,
    factor: usize,
    [width, height]: [usize; 2],
    device: &Device,
) -> Result<Tensor<4>, EngineError> {
    let (picture, _) = read(&init.path, init.sha256.as_deref(), Role::Start)?;
    let whole = |side: usize, most: usize| (side.min(most) / factor).max(1) * factor;
    let size = (whole(picture.width, width), whole(picture.height, height));
    let picture = match (picture.width, picture.height) == size {
        true => picture,
        false => picture.resized(size.0, size.1),
    };
    Ok(picture.to_tensor(device).unsqueeze() * 2.0 - 1.0)
}

/// The picture at `path` the right way up, which is the one that was `recorded` if one was, with its SHA-256. A
/// [`Role::Prompt`] is seen as when adapters are trained, what is transparent over white.
pub(super) fn read(
    path: &Path,
    recorded: Option<&str>,
    role: Role,
) -> Result<(Picture, String), EngineError> {
    let unusable = |source: Box<dyn std::error::Error + Send + Sync>| EngineError::Picture {
        which: role.name(),
        path: path.to_path_buf(),
        source,
    };
    let bytes = reading::read(path, MAX_PICTURE).map_err(|error| unusable(error.into()))?;
    let sha256 = format!("{:x}", Sha256::digest(&bytes));
    if recorded.is_some_and(|recorded| *recorded != sha256) {
        return Err(EngineError::PictureChanged {
            path: path.to_path_buf(),
        });
    }
    let picture = match role {
        Role::Prompt => Picture::decode_as_seen(&bytes, BACKGROUND),
        Role::Start | Role::Mask => Picture::decode_upright(&bytes),
    };
    let picture = picture.map_err(|error| unusable(error.into()))?;
    Ok((picture, sha256))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use prepose_dataset::Place;

    use super::*;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures")
            .join(name)
    }

    #[test]
    fn photos_are_turned_as_their_exif_data_say() {
        // 24 × 16 in the file, a quarter turn from upright.
        for role in [Role::Start, Role::Prompt, Role::Mask] {
            let path = fixture("training-data/turned.jpg");
            let (picture, _) = read(&path, None, role).unwrap();
            assert_eq!((picture.width, picture.height), (16, 24), "{role:?}");
        }
    }

    #[test]
    fn picture_prompts_are_seen_as_in_training() {
        let path = fixture("pictures/transparent.png");
        let trained = Place::File(path.clone()).picture().unwrap();
        assert_eq!(read(&path, None, Role::Prompt).unwrap().0, trained);
        // Elsewhere transparency is dropped, as Pillow does it.
        let (rgb, _) = read(&fixture("pictures/rgb.png"), None, Role::Start).unwrap();
        assert_ne!(rgb, trained);
        assert_eq!(read(&path, None, Role::Start).unwrap().0, rgb);
    }
}
