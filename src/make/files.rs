//! Finished pictures as files: PNGs with their request, attention maps beside them, and a manifest.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::finished::FinishedPicture;
use crate::check::clock;
use crate::output::attention::MapsError;
use crate::output::files::{WriteError, append_line, parent, prepare_folder, slug};
use crate::output::manifest::{self, ManifestLine, Place};
use crate::output::png::{self, PngError, Sampled};

/// Why a picture could not be written.
#[derive(Debug, Error)]
pub enum SaveError {
    /// The picture.
    #[error(transparent)]
    Picture(#[from] PngError),
    /// Its attention maps.
    #[error(transparent)]
    Maps(#[from] MapsError),
    /// A folder for it, or its line in the manifest.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A number that JSON does not have.
    #[error("cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

impl FinishedPicture {
    /// Writes it to `path` with its request inside; `device` says where it was made
    /// ([`OpenDevice::title`](crate::device::OpenDevice::title)). [`PictureWriter`] keeps a manifest besides.
    ///
    /// # Errors
    /// It cannot be encoded or written; nothing is left then.
    pub fn save(&self, path: impl AsRef<Path>, device: &str) -> Result<(), PngError> {
        let sampled = self.sampled();
        png::save(path.as_ref(), &self.picture, &self.request, sampled, device)
    }

    fn sampled(&self) -> Sampled<'_> {
        Sampled {
            scheduler: &self.scheduler,
            calls: Some(self.calls),
        }
    }

    /// Its line in a manifest; `device` is where it was made, `place` where it stands in its run.
    pub fn manifest_line(&self, device: &str, place: &Place) -> ManifestLine {
        manifest::line(&self.request, &self.scheduler, device, place)
    }

    /// The bytes of its PNG, with its request inside.
    ///
    /// # Errors
    /// The encoder's.
    pub fn to_png(&self, device: &str) -> Result<Vec<u8>, ::png::EncodingError> {
        png::encode(&self.picture, &self.request, self.sampled(), device)
    }
}

/// Writes finished pictures: each whole or not at all, and then its line in a manifest.
pub struct PictureWriter {
    device: String,
    manifest: Option<PathBuf>,
    maps: Option<PathBuf>,
    run_id: String,
}

impl PictureWriter {
    /// Writes pictures that were made on `device`. Their lines go to `manifest` (none: `manifest.jsonl` beside each
    /// picture), their attention maps into the folder `maps` (none: nowhere).
    pub fn new(
        device: impl Into<String>,
        manifest: Option<PathBuf>,
        maps: Option<PathBuf>,
    ) -> Self {
        Self {
            device: device.into(),
            manifest,
            maps,
            run_id: format!("prepose-{}", clock::now()),
        }
    }

    /// Writes the maps, the picture to `path`, then its line.
    ///
    /// # Errors
    /// Whatever cannot be written; of the picture nothing is left then.
    pub fn save(&self, picture: &FinishedPicture, path: &Path) -> Result<(), SaveError> {
        if let Some(folder) = &self.maps {
            prepare_folder(folder)?;
            write_maps(picture, folder, &stem(path))?;
        }
        picture.save(path, &self.device)?;
        let manifest = match &self.manifest {
            Some(path) => path.clone(),
            None => parent(path).join("manifest.jsonl"),
        };
        let place = Place {
            run_id: &self.run_id,
            prompt_id: &slug(&picture.request.prompt),
            image_path: &relative(path, parent(&manifest)),
        };
        let mut line = picture.manifest_line(&self.device, &place);
        // Unlike the prompt and the seed, the file is another one for each picture.
        line.sample_id = format!("{}_{}", self.run_id, stem(path));
        append_line(&manifest, &serde_json::to_string(&line)?)?;
        Ok(())
    }
}

/// Writes what [`ObjectMaps::write`](crate::output::attention::ObjectMaps::write) does for each size of map, which is
/// in the files' names if there are several.
fn write_maps(picture: &FinishedPicture, folder: &Path, stem: &str) -> Result<(), MapsError> {
    let several = picture.maps.len() > 1;
    for maps in &picture.maps {
        let stem = match maps.maps.first().and_then(|step| step.first()) {
            Some(map) if several => format!("{stem}-{}x{}", map.width, map.height),
            _ => stem.to_string(),
        };
        maps.write(folder, &stem, &picture.picture)?;
    }
    Ok(())
}

/// The file's name without its ending.
fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// `path` as seen from `folder` if it lies below it.
fn relative(path: &Path, folder: &Path) -> String {
    path.strip_prefix(folder)
        .unwrap_or(path)
        .display()
        .to_string()
}
