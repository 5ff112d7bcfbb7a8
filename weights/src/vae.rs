//! An autoencoder by itself, for a checkpoint to be used with.

use std::path::Path;
use std::sync::Arc;

use prepose_formats::TensorFile;
use serde_json::{Value, json};

use crate::configs::standard;
use crate::error::WeightsError;
use crate::family::{self, Family, FileKind, VAE};
use crate::files::{Files, read_json};
use crate::folder::{insert, insert_diffusers_vae, weight_files};
use crate::hub;
use crate::keys;
use crate::part::Part;

/// The files at `path`, a file or a folder, with the configuration that lies next to them.
fn files_and_config(path: &Path) -> Result<(Vec<Arc<TensorFile>>, Option<Value>), WeightsError> {
    let path = hub::resolve(path)?;
    let is_folder = std::fs::metadata(&path)
        .map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => WeightsError::NotFound {
                path: path.clone(),
                hint: "; give a file or a diffusers folder".into(),
            },
            _ => WeightsError::Io {
                path: path.clone(),
                source,
            },
        })?
        .is_dir();
    let folder = if is_folder {
        path.as_path()
    } else {
        path.parent().unwrap_or(Path::new(""))
    };
    let config = folder.join("config.json");
    let files = if is_folder {
        // Given a whole checkpoint, take its autoencoder.
        if folder.join("vae/config.json").exists() && !config.exists() {
            return files_and_config(&folder.join("vae"));
        }
        weight_files(&Files::Folder(folder.to_path_buf()), "")?
    } else {
        vec![Arc::new(TensorFile::open(&path)?)]
    };
    let config = if config.exists() {
        Some(read_json(&config)?)
    } else {
        None
    };
    Ok((files, config))
}

fn wrong(path: &Path, kind: FileKind, wanted: &str) -> WeightsError {
    WeightsError::Unsupported {
        path: path.to_path_buf(),
        what: format!("{}, not {wanted}", kind.name()),
        hint: format!("give {wanted} here"),
    }
}

/// Opens the autoencoder at `path` for a checkpoint of `family`: diffusers' or latent-diffusion's,
/// or the one inside a whole checkpoint.
pub(crate) fn open_vae(path: &Path, family: Family) -> Result<Part, WeightsError> {
    let (files, config) = files_and_config(path)?;
    let (config, config_path) = match config {
        Some(config) if config["_class_name"] == json!("AutoencoderKL") => {
            (config, path.to_path_buf())
        }
        Some(config) if config["_class_name"] == json!("AutoencoderTiny") => {
            return Err(wrong(path, FileKind::TinyVae, "an AutoencoderKL"));
        }
        _ => standard(family, "vae"),
    };
    let levels = keys::levels(&config);
    let mut part = Part::new("vae", path, config, &config_path);
    for file in &files {
        let kind = family::kind(file);
        match kind {
            FileKind::Vae | FileKind::Checkpoint(_) => {}
            _ => return Err(wrong(path, kind, "an AutoencoderKL")),
        }
        if file.count("encoder.down_blocks.") > 0 {
            insert_diffusers_vae(&mut part, file);
            continue;
        }
        let prefixed = file.count(VAE) > 0;
        for key in file.names() {
            match key.strip_prefix(VAE) {
                Some(rest) => insert(&mut part, file, key, keys::vae(rest, levels)),
                // The rest of a whole checkpoint.
                None if prefixed => {}
                None => insert(&mut part, file, key, keys::vae(key, levels)),
            }
        }
    }
    Ok(part)
}
