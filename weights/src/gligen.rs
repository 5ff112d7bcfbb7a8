//! GLIGEN's layers from a file of their own, put into a checkpoint of Stable Diffusion 1.x.
//!
//! The authors publish whole checkpoints; ComfyUI's users pass around the added layers alone. Both are taken here, in
//! latent-diffusion's names or diffusers'. The rest of a whole checkpoint is passed over. Layers that were trained here are
//! written in either naming, in f16.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prepose_formats::TensorFile;
use prepose_models::params::outline;
use prepose_models::unet::{UNet, UNetConfig};
use serde_json::json;

use crate::error::{WeightsError, list};
use crate::family::{self, Family, FileKind};
use crate::folder::insert;
use crate::hub;
use crate::keys::{self, Target, UnetBlocks, is_gligen};
use crate::part::{Part, Parts, View};
use crate::trained::{TrainedTensor, half_file};

/// Whose names a file of GLIGEN's layers has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GligenFormat {
    /// latent-diffusion's, as the published file of the layers alone, which ComfyUI reads.
    Original,
    /// diffusers', for a UNet whose `attention_type` is `gated`.
    Diffusers,
}

/// Puts the layers in the file at `path` into the UNet of `parts`.
///
/// # Errors
/// It holds none for boxes with phrases, or those of another network; the checkpoint is not of SD 1.x or has its own.
pub(crate) fn apply(path: &Path, parts: &mut Parts) -> Result<(), WeightsError> {
    let (path, file) = open(path)?;
    let wrong = |what: String, hint: &str| WeightsError::Unsupported {
        path: path.clone(),
        what,
        hint: hint.into(),
    };
    if parts.family != Family::Sd1 {
        return Err(wrong(
            format!(
                "a file of GLIGEN layers for a checkpoint of {}",
                parts.family
            ),
            "they were published for Stable Diffusion 1.x alone; use such a checkpoint",
        ));
    }
    if let Some(other) = family::other_gligen(&file) {
        return Err(wrong(other.into(), BOXES));
    }
    if !file.names().any(is_gligen) {
        let what = format!("{}, not GLIGEN's layers", family::kind(&file).name());
        return Err(wrong(what, BOXES));
    }
    if parts.unet.entries.keys().any(|name| is_gligen(name)) {
        return Err(wrong(
            "a second set of GLIGEN layers: the checkpoint has its own".into(),
            "leave out --gligen",
        ));
    }
    let only_layers = family::kind(&file) == FileKind::Gligen;
    let blocks = UnetBlocks::of(&parts.unet.config);
    let mut layers = Part::new("unet", &path, json!({}), &path);
    for key in file.names() {
        let name = family::canonical(&file, key);
        let name = name.strip_prefix(family::UNET).unwrap_or(&name);
        let target = match keys::unet(name, &blocks) {
            Target::Unknown if DIFFUSERS.iter().any(|begin| name.starts_with(begin)) => {
                Target::Parameters(vec![(name.to_string(), View::Whole)])
            }
            target => target,
        };
        if is_gligen(key) || only_layers {
            insert(&mut layers, &file, key, target);
        }
    }
    parts.unet.config["attention_type"] = json!("gated");
    fits(&parts.unet.config()?, &layers).map_err(|what| {
        wrong(
            format!("a file of GLIGEN layers for another network ({what})"),
            "use it with a checkpoint of the size that it was made for: those of SD 1.4 fit SD 1.x",
        )
    })?;
    parts.unet.entries.append(&mut layers.entries);
    Ok(())
}

/// The file at `path`, or the toybox's own.
fn open(path: &Path) -> Result<(PathBuf, Arc<TensorFile>), WeightsError> {
    #[cfg(feature = "toybox")]
    if path == Path::new(crate::TOYBOX) {
        return Ok((path.to_path_buf(), crate::toybox::gligen()?));
    }
    let path = hub::resolve(path)?;
    let file = TensorFile::open(&path)?;
    Ok((path, Arc::new(file)))
}

/// As [`crate::Checkpoint::gligen_file`].
pub(crate) fn file(
    parts: &Parts,
    format: GligenFormat,
    tensors: &[TrainedTensor],
    about: &BTreeMap<String, String>,
) -> Result<Vec<u8>, WeightsError> {
    let refused = |what: String| WeightsError::Unsupported {
        path: parts.unet.path.clone(),
        what,
        hint: "GLIGEN's layers are those of the transformers, and the position network".into(),
    };
    let modules: Vec<(String, String)> = UnetBlocks::of(&parts.unet.config).modules().collect();
    let original = |name: &str| {
        if name.starts_with("position_net.") {
            return Some(name.to_owned());
        }
        modules.iter().find_map(|(ldm, diffusers)| {
            let rest = name.strip_prefix(diffusers.as_str())?;
            rest.starts_with('.').then(|| format!("{ldm}{rest}"))
        })
    };
    let named = tensors.iter().map(|tensor| {
        let name = &tensor.name;
        let key = match format {
            GligenFormat::Original => original(name),
            GligenFormat::Diffusers => Some(name.clone()),
        };
        let key = key.filter(|_| is_gligen(name));
        let key = key.ok_or_else(|| refused(format!("a layer {name} among GLIGEN's")))?;
        Ok((key, tensor))
    });
    let named: Vec<_> = named.collect::<Result<_, WeightsError>>()?;
    half_file(&named, about).map_err(|error| refused(error.to_string()))
}

const BOXES: &str = "give GLIGEN's layers for boxes with phrases (gligen_sd14_textbox_pruned, or the \
                     checkpoint for generation with text boxes)";

/// How diffusers' names of layers begin.
const DIFFUSERS: [&str; 3] = ["down_blocks.", "mid_block.", "up_blocks."];

/// Whether `layers` are those that a network of `config` wants; else what is amiss.
fn fits(config: &UNetConfig, layers: &Part) -> Result<(), String> {
    let wanted = outline(|params| UNet::load(config, params)).map_err(|error| error.to_string())?;
    let wanted: Vec<_> = (wanted.iter()).filter(|one| is_gligen(&one.name)).collect();
    let (mut missing, mut other) = (Vec::new(), layers.strays.clone());
    for one in &wanted {
        match layers
            .entries
            .get(&one.name)
            .map(|entry| (&entry.key, entry.shape()))
        {
            None => missing.push(one.name.clone()),
            Some((key, shape)) if shape != one.shape => {
                return Err(format!("{key} is {shape:?}, expected {:?}", one.shape));
            }
            Some(_) => {}
        }
    }
    let known = |name: &String| wanted.iter().any(|one| one.name == *name);
    let unknown = layers.entries.iter().filter(|(name, _)| !known(name));
    other.extend(unknown.map(|(_, entry)| entry.key.clone()));
    match (missing.is_empty(), other.is_empty()) {
        (true, true) => Ok(()),
        (false, _) => Err(format!("{} missing: {}", missing.len(), list(&missing))),
        (true, false) => Err(format!("{} unknown: {}", other.len(), list(&other))),
    }
}
