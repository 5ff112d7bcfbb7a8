//! Single-file checkpoints, as latent-diffusion and generative-models write them: all networks in
//! one file, told apart by the beginnings of the names.

use std::path::Path;
use std::sync::Arc;

use prepose_formats::TensorFile;
use serde_json::{Value, json};

use crate::checkpoint::LoadOptions;
use crate::configs::Configs;
use crate::error::{Mismatch, WeightsError};
use crate::family::{
    self, Family, FileKind, SD1_TEXT, SD2_TEXT, SDXL_TEXT, SDXL_TEXT_2, SGM_TEXT, UNET, VAE,
    canonical,
};
use crate::files::Files;
use crate::folder::{has_projection, insert, projection_view};
use crate::keys::{self, Target, UnetBlocks, is_gligen};
use crate::part::{Part, Parts};
use crate::prediction::Prediction;

/// Opens the single file at `path`. That it has no autoencoder is no error if the options give one.
pub(crate) fn open_single(path: &Path, options: &LoadOptions) -> Result<Parts, WeightsError> {
    let file = Arc::new(TensorFile::open(path)?);
    let kind = family::kind(&file);
    let unsupported = |what: &str, hint: &str| WeightsError::Unsupported {
        path: path.to_path_buf(),
        what: what.into(),
        hint: hint.into(),
    };
    let FileKind::Checkpoint(family) = kind else {
        return Err(unsupported(kind.name(), kind.way_out()));
    };
    let mut names = file.names().map(|key| canonical(&file, key));
    if options.vae.is_none() && !names.any(|name| name.starts_with(VAE)) {
        return Err(unsupported(
            "a checkpoint without an autoencoder",
            "give one with --vae",
        ));
    }
    let files = options.config.clone().map(Files::Folder);
    let configs = files
        .clone()
        .map_or(Configs::Embedded(family), Configs::Folder);
    let mut networks = Networks::new(family, path, &configs)?;
    if file.names().any(is_gligen) {
        networks.unet.config["attention_type"] = json!("gated");
    }
    networks.sort(&file);
    let Networks {
        mut unet,
        vae,
        text,
        strays,
        ..
    } = networks;
    if !options.allow_mismatch {
        refuse_strays(path, strays)?;
    }
    let own_scheduler = files.as_ref().is_some_and(|files| files.has("scheduler"));
    let mut scheduler = match own_scheduler {
        true => configs.get("scheduler")?.0,
        false => Configs::Embedded(family).get("scheduler")?.0,
    };
    // How fine-tuned SDXL checkpoints say that their noise schedule ends in pure noise.
    if file.info("ztsnr").is_some() {
        scheduler["rescale_betas_zero_snr"] = json!(true);
    }
    let prediction = prediction(path, &file, options)?;
    if family == Family::Sd2 && !own_scheduler && prediction.is_none() {
        return Err(WeightsError::Prediction {
            path: path.to_path_buf(),
        });
    }
    // Noise is what a file is said to predict where nothing is written: no reason against a configuration that says v.
    if prediction == Some(Prediction::V) {
        Prediction::V.mark(&mut scheduler);
        if family == Family::Sd2 && files.is_none() {
            unet.config["sample_size"] = json!(96);
        }
    }
    let index = match &files {
        Some(files) if files.has("model_index.json") => files.json("model_index.json")?,
        _ => Value::Null,
    };
    let tokenizers = vec![files; text.len()];
    Ok(Parts {
        family,
        unet,
        vae,
        text,
        scheduler,
        index,
        tokenizers,
    })
}

/// The networks of a single file, and the tensors that belong to none.
struct Networks {
    family: Family,
    unet: Part,
    vae: Part,
    text: Vec<Part>,
    strays: Vec<String>,
}

impl Networks {
    /// Those of the family, without parameters.
    fn new(family: Family, path: &Path, configs: &Configs) -> Result<Self, WeightsError> {
        let part = |name| -> Result<Part, WeightsError> {
            let (config, config_path) = configs.get(name)?;
            Ok(Part::new(name, path, config, &config_path))
        };
        let (unet, vae) = (part("unet")?, part("vae")?);
        let mut text = vec![part("text_encoder")?];
        if family == Family::Sdxl {
            text.push(part("text_encoder_2")?);
        }
        Ok(Self {
            family,
            unet,
            vae,
            text,
            strays: Vec::new(),
        })
    }

    /// Gives each tensor of `file` to its network.
    fn sort(&mut self, file: &Arc<TensorFile>) {
        let blocks = UnetBlocks::of(&self.unet.config);
        let levels = keys::levels(&self.vae.config);
        let projected = has_projection(&self.text[0]);
        let text_prefixes: &[&str] = match self.family {
            Family::Sdxl => &[SDXL_TEXT],
            Family::Sd1 => &[SD1_TEXT],
            Family::Sd2 => &[SD2_TEXT, SGM_TEXT],
        };
        let layers = &self.text[0].config["num_hidden_layers"];
        let layers = layers.as_u64().unwrap_or_default();
        for key in file.names() {
            let name = canonical(file, key);
            if keys::ignored_in_checkpoint(&name) {
                continue;
            }
            if let Some(rest) = name.strip_prefix(UNET) {
                let mut target = keys::unet(rest, &blocks);
                if let Target::Parameters(parameters) = &mut target {
                    for (name, view) in parameters {
                        *view = projection_view(name, &self.unet.config);
                    }
                }
                insert(&mut self.unet, file, key, target);
            } else if let Some(rest) = name.strip_prefix(VAE) {
                insert(&mut self.vae, file, key, keys::vae(rest, levels));
            } else if let Some(rest) = text_prefixes
                .iter()
                .find_map(|prefix| name.strip_prefix(prefix))
            {
                let target = match self.family {
                    Family::Sd2 => keys::open_clip_penultimate(rest, layers),
                    _ => keys::clip(rest, projected),
                };
                insert(&mut self.text[0], file, key, target);
            } else if let (Some(text), Some(rest)) =
                (self.text.get_mut(1), name.strip_prefix(SDXL_TEXT_2))
            {
                insert(text, file, key, keys::open_clip(rest));
            } else if !beside_text_encoder(&name) {
                self.strays.push(key.to_string());
            }
        }
    }
}

/// Refuses tensors that belong to no network.
fn refuse_strays(path: &Path, strays: Vec<String>) -> Result<(), WeightsError> {
    if strays.is_empty() {
        return Ok(());
    }
    Err(Mismatch {
        path: path.to_path_buf(),
        part: "checkpoint".into(),
        unused: strays,
        hint: "they belong to no network of this family; use a clean version of this checkpoint"
            .into(),
        ..Mismatch::default()
    }
    .into())
}

/// What tools leave next to the text encoders' networks: CLIP's training temperature, and OpenAI's
/// projection of an encoder that is used without one.
fn beside_text_encoder(key: &str) -> bool {
    ["cond_stage_model.", "conditioner.embedders.0."]
        .iter()
        .any(|prefix| {
            matches!(
                key.strip_prefix(prefix),
                Some("logit_scale" | "text_projection" | "text_projection.weight")
            )
        })
}

/// What a checkpoint predicts, where the options or the file say so: the wrong one gives grey noise. Fine-tuned SDXL
/// checkpoints say with an empty tensor that it is v.
fn prediction(
    path: &Path,
    file: &TensorFile,
    options: &LoadOptions,
) -> Result<Option<Prediction>, WeightsError> {
    let marked = file.info("v_pred").map(|_| Prediction::V);
    match options.prediction.or(marked) {
        Some(known) => Ok(Some(known)),
        None => Prediction::stated(path, file),
    }
}
