//! `sdapi/v1`, as AUTOMATIC1111's web UI, Forge, SD.Next and others have it.

use base64::Engine as _;
use serde_json::{Value, json};

use super::{Extra, ImageServer, MadePicture, PictureRequest, decode_picture, until_whole};
use crate::{Ask, Client, RemoteError};

/// What it should be, in messages.
const KIND: &str = "AUTOMATIC1111's web UI (started with --api)";

/// A web UI.
#[derive(Debug)]
pub struct WebUi {
    client: Client,
    model: Option<String>,
    extra: Extra,
}

impl WebUi {
    /// The web UI of `client`, with the checkpoint `model` or the one that is loaded there.
    pub fn new(client: Client, model: Option<String>, extra: Extra) -> Self {
        Self {
            client,
            model,
            extra,
        }
    }

    fn body(&self, request: &PictureRequest) -> Value {
        let mut body = json!({
            "prompt": request.prompt,
            "negative_prompt": request.negative_prompt,
            "seed": request.seed,
            "batch_size": 1,
            "n_iter": 1,
            "send_images": true,
            "save_images": false,
            "do_not_save_grid": true,
        });
        if let Some([width, height]) = request.size {
            body["width"] = json!(width);
            body["height"] = json!(height);
        }
        if let Some(steps) = request.steps {
            body["steps"] = json!(steps);
        }
        if let Some(scale) = request.guidance_scale {
            body["cfg_scale"] = json!(scale);
        }
        if let Some(model) = &self.model {
            body["override_settings"] = json!({"sd_model_checkpoint": model});
            // Otherwise each picture would load two checkpoints.
            body["override_settings_restore_afterwards"] = json!(false);
        }
        if let Some(init) = request.init {
            let encoded = base64::engine::general_purpose::STANDARD.encode(init);
            body["init_images"] = json!([encoded]);
            if let Some(strength) = request.strength {
                body["denoising_strength"] = json!(strength);
            }
        }
        self.extra.add_to(&mut body, request);
        body
    }

    fn path(&self, name: &str) -> String {
        format!("sdapi/v1/{name}")
    }
}

impl ImageServer for WebUi {
    fn check(&self) -> Result<(), RemoteError> {
        let path = self.path("sd-models");
        let (json, _) = self.client.json(&Ask::get(&path).of(KIND))?;
        let strange = |found: String| RemoteError::Strange {
            address: self.client.address().to_string(),
            expected: KIND.into(),
            found,
        };
        let models = json
            .as_array()
            .ok_or_else(|| strange("no list of models".into()))?;
        let names = |model: &Value| {
            let of = |key: &str| model.get(key).and_then(Value::as_str).map(str::to_owned);
            [of("title"), of("model_name"), of("filename")]
        };
        let Some(wanted) = &self.model else {
            return Ok(());
        };
        let known = |model: &Value| {
            names(model)
                .into_iter()
                .flatten()
                .any(|name| name == *wanted)
        };
        match models.iter().any(known) {
            true => Ok(()),
            false => {
                let all: Vec<String> = models
                    .iter()
                    .filter_map(|model| names(model)[1].clone())
                    .take(10)
                    .collect();
                Err(strange(format!(
                    "it has no model {wanted:?}, but {}",
                    all.join(", ")
                )))
            }
        }
    }

    fn make(&self, request: &PictureRequest) -> Result<MadePicture, RemoteError> {
        let body = self.body(request);
        let path = self.path(match request.init {
            Some(_) => "img2img",
            None => "txt2img",
        });
        until_whole(&self.client.address().to_string(), || {
            let ask = Ask::json(&path, &body).of(KIND).once(request.name);
            let (json, answer) = self.client.json(&ask)?;
            // JSON in JSON.
            let info = json.get("info").and_then(Value::as_str);
            let info: Value = info
                .and_then(|info| serde_json::from_str(info).ok())
                .unwrap_or_default();
            // A grid may come first.
            let first = info
                .get("index_of_first_image")
                .and_then(Value::as_u64)
                .unwrap_or(0);
            let encoded = json
                .pointer(&format!("/images/{first}"))
                .and_then(Value::as_str);
            let Some(encoded) = encoded else {
                return Ok(Err("an answer without a picture".into()));
            };
            let Some(bytes) = decode_picture(encoded) else {
                return Ok(Err("a picture that is damaged".into()));
            };
            Ok(Ok(MadePicture {
                bytes,
                seed: info.pointer("/all_seeds/0").and_then(Value::as_u64),
                revised_prompt: None,
                model: info
                    .get("sd_model_name")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
                request_id: answer.request_id,
                attempts: answer.attempts,
            }))
        })
    }
}
