//! How strongly a LoRA changes a weight where its file has no alphas as tensors: peft's configuration, which diffusers writes
//! into the metadata and peft into `adapter_config.json`.

use std::collections::HashMap;

use prepose_formats::TensorFile;
use serde_json::Value;

use super::names::PEFT;
use crate::error::WeightsError;
use crate::files::read_json;

/// The most bytes of metadata that are looked at; those of any LoRA are a few thousand.
const MAX_METADATA: usize = 1 << 24;

/// Where peft keeps its configuration, in the folder of the weights.
const ADAPTER_CONFIG: &str = "adapter_config.json";

/// How a LoRA can begin with a part of the weights that it changes, which training takes out of them
/// (`init_lora_weights`: PiSSA, OLoRA, LoftQ, CorDA, LoRA-GA): its file fits what is left, and no checkpoint.
const TAKEN_OUT: [&str; 5] = ["pissa", "olora", "loftq", "corda", "lora_ga"];

/// The alphas of each network, by what its modules' names begin with.
#[derive(Debug, Default)]
pub(super) struct Alphas(HashMap<String, NetworkAlphas>);

#[derive(Debug, Default)]
struct NetworkAlphas {
    default: Option<f32>,
    /// Of the modules that a pattern fits. Of several patterns the first counts.
    patterns: Vec<(String, f32)>,
    rank_stabilized: bool,
}

impl Alphas {
    /// Reads `lora_adapter_metadata`, and if the names are `peft`'s own, the configuration beside the file.
    ///
    /// # Errors
    /// [`WeightsError::Lora`] if there is no such configuration, or one that cannot be followed, or if it was trained on other
    /// weights than a checkpoint's; what reading it can run into.
    pub fn read(file: &TensorFile, peft: bool) -> Result<Self, WeightsError> {
        let mut alphas = Self::default();
        let refused = |what| WeightsError::Lora {
            path: file.path().to_path_buf(),
            what,
            hint: "use a version of it in kohya's naming, which has its alphas as tensors".into(),
        };
        let mut note = |network: &str, setting: &str, value: &Value| {
            refuse_other_weights(file, setting, value)?;
            alphas.set(network, setting, value).map_err(refused)
        };
        let table = file
            .metadata()
            .and_then(|metadata| metadata.get("lora_adapter_metadata"))
            .filter(|text| text.len() <= MAX_METADATA)
            .and_then(|text| serde_json::from_str::<Value>(text).ok());
        for (key, value) in table.iter().filter_map(Value::as_object).flatten() {
            if let Some((network, setting)) = key.split_once('.') {
                note(network, setting, value)?;
            }
        }
        if peft {
            let config = adapter_config(file)?;
            for (setting, value) in config.as_object().into_iter().flatten() {
                note(PEFT, setting, value)?;
            }
        }
        Ok(alphas)
    }

    /// Notes one of peft's settings, or says why it cannot be followed.
    fn set(&mut self, network: &str, setting: &str, value: &Value) -> Result<(), String> {
        let number = |value: &Value| Some(value.as_f64()? as f32).filter(|alpha| alpha.is_finite());
        let alphas = self.0.entry(network.to_owned()).or_default();
        match (setting, value) {
            ("lora_alpha", value) => alphas.default = number(value),
            ("alpha_pattern", Value::Object(patterns)) => {
                for (pattern, alpha) in patterns {
                    let pattern = pattern.replace("\\.", ".");
                    let name = pattern.strip_prefix('^').unwrap_or(&pattern);
                    let plain = |c: char| c.is_alphanumeric() || "._-".contains(c);
                    if !name.chars().all(plain) {
                        return Err(format!(
                            "its alphas are for the modules of a regular expression, {pattern:?}"
                        ));
                    }
                    alphas
                        .patterns
                        .extend(number(alpha).map(|alpha| (pattern, alpha)));
                }
            }
            ("use_rslora", Value::Bool(on)) => alphas.rank_stabilized = *on,
            _ => {}
        }
        Ok(())
    }

    /// `alpha / rank` of `module`, or `alpha / √rank` for a rank-stabilized one (Kalajdzievski
    /// 2023); 1 where no alpha is given.
    pub fn scale(&self, module: &str, rank: usize) -> f32 {
        let (network, rest) = match module.strip_prefix(PEFT) {
            Some(rest) => (PEFT, rest),
            None => module.split_once('.').unwrap_or((module, "")),
        };
        let Some(alphas) = self.0.get(network) else {
            return 1.0;
        };
        let mut patterns = alphas.patterns.iter();
        let pattern = patterns.find(|(pattern, _)| fits(pattern, rest));
        match pattern.map(|(_, alpha)| *alpha).or(alphas.default) {
            None => 1.0,
            Some(alpha) if alphas.rank_stabilized => alpha / (rank as f32).sqrt(),
            Some(alpha) => alpha / rank as f32,
        }
    }
}

/// Refuses a LoRA that belongs to other weights than a checkpoint has, by one of peft's settings.
fn refuse_other_weights(
    file: &TensorFile,
    setting: &str,
    value: &Value,
) -> Result<(), WeightsError> {
    let begun = value.as_str().filter(|_| setting == "init_lora_weights");
    let begun = begun.unwrap_or_default().to_lowercase();
    if !TAKEN_OUT.iter().any(|kind| begun.starts_with(kind)) {
        return Ok(());
    }
    Err(WeightsError::Lora {
        path: file.path().to_path_buf(),
        what: format!(
            "this LoRA began with a part of the checkpoint's weights, which training took out of them \
             (init_lora_weights is {begun:?}), so it cannot be added to the whole ones"
        ),
        hint: "have peft convert it to a plain LoRA: save_pretrained with path_initial_model_for_weight_conversion"
            .into(),
    })
}

/// Whether peft's `pattern` is for the module of this name (`get_pattern_key`): it is the end of the name, from a dot on, or
/// after `^` the whole name.
fn fits(pattern: &str, module: &str) -> bool {
    match pattern.strip_prefix('^') {
        Some(whole) => module == whole,
        None => module
            .strip_suffix(pattern)
            .is_some_and(|before| before.is_empty() || before.ends_with('.')),
    }
}

/// The configuration that peft has written beside `file`.
fn adapter_config(file: &TensorFile) -> Result<Value, WeightsError> {
    let path = file.path().with_file_name(ADAPTER_CONFIG);
    if !path.exists() {
        return Err(WeightsError::Lora {
            path: file.path().to_path_buf(),
            what: format!(
                "this is a LoRA of peft, whose alpha is in a file {ADAPTER_CONFIG}, and there is none in its folder"
            ),
            hint: format!("put it there, as {}", path.display()),
        });
    }
    let config = read_json(&path)?;
    match config["lora_alpha"].is_number() {
        true => Ok(config),
        false => Err(WeightsError::Json {
            path,
            what: "there is no lora_alpha in it, the strength of a LoRA".into(),
            source: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn alphas(network: &str, config: &Value) -> Alphas {
        let mut alphas = Alphas::default();
        for (setting, value) in config.as_object().unwrap() {
            alphas.set(network, setting, value).unwrap();
        }
        alphas
    }

    /// As peft: `lora_alpha / r`, by `√r` with rsLoRA, and another alpha for the modules that a pattern names, where
    /// `re.match(rf"(.*\.)?({pattern})$", name)` says so.
    #[test]
    fn scales() {
        let mut config = json!({
            "r": 4,
            "lora_alpha": 8,
            "alpha_pattern": {"to_q": 2, "^mid_block.proj": 16, "up\\.to_k": 1, "to_k": 12},
            "use_rslora": false,
        });
        for (network, prefix) in [("unet", "unet."), (PEFT, PEFT)] {
            let plain = alphas(network, &config);
            let scale = |name: &str| plain.scale(&format!("{prefix}{name}"), 4);
            assert_eq!(scale("down.to_v"), 8.0 / 4.0);
            assert_eq!(scale("down.to_q"), 2.0 / 4.0);
            assert_eq!(scale("to_q"), 2.0 / 4.0);
            assert_eq!(scale("down.into_q"), 8.0 / 4.0);
            assert_eq!(scale("mid_block.proj"), 16.0 / 4.0);
            assert_eq!(scale("x.mid_block.proj"), 8.0 / 4.0);
            assert_eq!(scale("x.up.to_k"), 1.0 / 4.0);
            assert_eq!(scale("x.down.to_k"), 12.0 / 4.0);
        }
        // A module's own rank is that of its factors.
        assert_eq!(alphas("unet", &config).scale("unet.down.to_v", 16), 0.5);
        config["use_rslora"] = json!(true);
        assert_eq!(alphas("unet", &config).scale("unet.down.to_v", 16), 2.0);
        assert_eq!(alphas("unet", &config).scale("text_encoder.x", 16), 1.0);
    }

    #[test]
    fn expressions_are_refused() {
        let value = json!({"layers.[0-3].to_q": 2});
        let refused = Alphas::default().set("unet", "alpha_pattern", &value);
        assert!(refused.unwrap_err().contains("\"layers.[0-3].to_q\""));
    }

    #[test]
    fn loras_that_began_with_the_checkpoints_weights_are_refused() {
        let read = |value: Value| {
            let settings = json!({"unet.r": 4, "unet.init_lora_weights": value}).to_string();
            let header = json!({
                "__metadata__": {"lora_adapter_metadata": settings},
                "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
            });
            let header = header.to_string();
            let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
            bytes.extend_from_slice(header.as_bytes());
            bytes.push(0);
            Alphas::read(&TensorFile::from_bytes("x".into(), bytes).unwrap(), false)
        };
        for taken_out in [
            "pissa",
            "pissa_niter_16",
            "olora",
            "loftq",
            "corda",
            "lora_ga",
        ] {
            let error = read(json!(taken_out)).unwrap_err().to_string();
            assert!(error.contains(taken_out), "{error}");
        }
        for plain in [
            json!(true),
            json!(false),
            json!("gaussian"),
            json!("eva"),
            json!(null),
        ] {
            assert!(read(plain).is_ok());
        }
    }
}
