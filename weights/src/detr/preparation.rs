//! How pictures are prepared for a detector, as transformers' image processors write it down.

use std::collections::BTreeMap;
use std::path::PathBuf;

use prepose_untrusted::printable;
use serde_json::{Value, json};

use crate::error::WeightsError;
use crate::files::Files;

const PREPROCESSOR: &str = "preprocessor_config.json";
/// Where transformers 5 writes it, among what else its processor does.
const PROCESSOR: &str = "processor_config.json";

/// What an image processor's configuration says; what it leaves out is as in the published ones.
#[derive(Debug)]
pub(super) struct Preparation {
    path: PathBuf,
    config: Value,
}

impl Preparation {
    /// The configuration in a folder: where there are both files, the one that transformers reads.
    ///
    /// # Errors
    /// [`WeightsError`] if a file cannot be read or is not JSON.
    pub fn open(files: &Files) -> Result<Self, WeightsError> {
        if files.has(PROCESSOR) {
            let mut processor = files.json(PROCESSOR)?;
            // Those of earlier versions say nothing of pictures.
            if let Some(config) = processor.get_mut("image_processor") {
                return Ok(Self {
                    path: files.path(PROCESSOR),
                    config: config.take(),
                });
            }
        }
        let config = match files.has(PREPROCESSOR) {
            true => files.json(PREPROCESSOR)?,
            false => Value::Null,
        };
        Ok(Self {
            path: files.path(PREPROCESSOR),
            config,
        })
    }

    /// Refuses a configuration that prepares pictures otherwise than it is done here: as all networks need it, and as `own` says
    /// of this one.
    ///
    /// # Errors
    /// [`WeightsError`] with the first key that has another value.
    pub fn check(&self, own: &[(&str, Value)]) -> Result<(), WeightsError> {
        let all = [
            ("do_resize", json!(true)),
            // Pillow's number for bilinear.
            ("resample", json!(2)),
            ("do_rescale", json!(true)),
            ("rescale_factor", json!(1.0 / 255.0)),
        ];
        for (key, value) in all.iter().chain(own) {
            let said = &self.config[*key];
            if !said.is_null() && said != value {
                return Err(self.refusal(format!(
                    "`{key}` is not {value}, but pictures of this network are prepared in no other way here; fine-tune it with \
                     `{key}` {value}, or use it with transformers"
                )));
            }
        }
        Ok(())
    }

    /// What `size` says of the two `keys` that it may have, in pixels.
    ///
    /// # Errors
    /// [`WeightsError`] if it has another key, or sides out of bounds.
    pub fn sizes(&self, keys: [&str; 2]) -> Result<[Option<usize>; 2], WeightsError> {
        let said: BTreeMap<String, Option<usize>> = match &self.config["size"] {
            Value::Null => BTreeMap::new(),
            size => serde_json::from_value(size.clone()).map_err(|source| WeightsError::Json {
                path: self.path.clone(),
                what: "`size` makes no sense".into(),
                source: Some(source),
            })?,
        };
        let mut given = said.iter().filter(|(_, side)| side.is_some());
        if let Some((key, _)) = given.find(|(key, _)| !keys.contains(&key.as_str())) {
            let [first, second] = keys;
            return Err(self.refusal(format!(
                "`size` has `{}`, but pictures of this network are resized by `{first}` and `{second}` only here; fine-tune it with \
                 these, or use it with transformers",
                printable(key)
            )));
        }
        let sides = keys.map(|key| said.get(key).copied().flatten());
        // Several times the published ones.
        let odd = |side: &usize| !(32..=8192).contains(side);
        match sides.into_iter().flatten().find(odd) {
            Some(side) => Err(self.refusal(format!(
                "`size` has a side of {side} pixels; it must be between 32 and 8192"
            ))),
            None => Ok(sides),
        }
    }

    /// The error that the configuration makes no sense here.
    pub fn refusal(&self, what: String) -> WeightsError {
        WeightsError::Json {
            path: self.path.clone(),
            what,
            source: None,
        }
    }
}
