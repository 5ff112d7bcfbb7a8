//! `images/generations` and `images/edits`, as OpenAI has them and many servers understand them.

use serde_json::{Value, json};

use super::{
    Extra, ImageServer, MadePicture, PictureRequest, decode_picture, is_picture, text, until_whole,
};
use crate::multipart::Form;
use crate::{Ask, Client, RemoteError};

/// What it should be, in messages.
const KIND: &str = "a server with OpenAI's images/generations";

/// A model behind OpenAI's interface.
#[derive(Debug)]
pub struct OpenAiImages {
    client: Client,
    model: String,
    extra: Extra,
}

impl OpenAiImages {
    /// The model `model` of the server of `client`, whose address ends before `images/`.
    ///
    /// Only what every such server takes is sent: model, prompt, number and, if it is given, the size. OpenAI's own refuses
    /// anything that it does not know, seeds among it, so further fields are in `extra`.
    pub fn new(client: Client, model: impl Into<String>, extra: Extra) -> Self {
        Self {
            client,
            model: model.into(),
            extra,
        }
    }

    fn body(&self, request: &PictureRequest) -> Value {
        let mut body = json!({"model": self.model, "prompt": request.prompt, "n": 1});
        if let Some([width, height]) = request.size {
            body["size"] = json!(format!("{width}x{height}"));
        }
        if !request.negative_prompt.is_empty() {
            body["negative_prompt"] = json!(request.negative_prompt);
        }
        if let Some(steps) = request.steps {
            body["steps"] = json!(steps);
        }
        if let Some(scale) = request.guidance_scale {
            body["guidance_scale"] = json!(scale);
        }
        self.extra.add_to(&mut body, request);
        body
    }

    fn once(
        &self,
        request: &PictureRequest,
        body: &Value,
    ) -> Result<(Value, crate::Answer), RemoteError> {
        let Some(init) = request.init else {
            let ask = Ask::json("images/generations", body)
                .of(KIND)
                .once(request.name);
            return self.client.json(&ask);
        };
        let mut form = Form::default();
        for (name, value) in body.as_object().into_iter().flatten() {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            form = form.text(name, &value);
        }
        let form = form.file("image", "image.png", "image/png", init);
        let ask = Ask::form("images/edits", &form).of(KIND).once(request.name);
        self.client.json(&ask)
    }

    /// The picture in an answer, or what is wrong with it.
    fn picture(
        &self,
        json: &Value,
        answer: &crate::Answer,
    ) -> Result<Result<MadePicture, String>, RemoteError> {
        let address = self.client.address().to_string();
        let Some(data) = json.get("data").and_then(Value::as_array) else {
            return Err(RemoteError::Strange {
                address,
                expected: KIND.into(),
                found: "JSON without data".into(),
            });
        };
        let first = data.first().unwrap_or(&Value::Null);
        let bytes = match (text(first.get("b64_json")), text(first.get("url"))) {
            (Some(encoded), _) => decode_picture(&encoded).ok_or("a picture that is damaged"),
            (None, Some(url)) if url.starts_with("data:") => {
                decode_picture(&url).ok_or("a picture that is damaged")
            }
            (None, Some(url)) => {
                let file = self.client.download(&url)?.body;
                is_picture(&file)
                    .then_some(file)
                    .ok_or("a file that is not a PNG, JPEG or WebP picture")
            }
            // xAI's way of saying no.
            (None, None) => {
                return Err(RemoteError::Refused {
                    address,
                    code: "no_picture".into(),
                    message: "the answer has no picture".into(),
                });
            }
        };
        Ok(bytes.map_err(str::to_owned).map(|bytes| MadePicture {
            bytes,
            seed: first.get("seed").and_then(Value::as_u64),
            revised_prompt: text(first.get("revised_prompt")),
            model: text(json.get("model")),
            request_id: answer.request_id.clone(),
            attempts: answer.attempts,
        }))
    }
}

impl ImageServer for OpenAiImages {
    fn check(&self) -> Result<(), RemoteError> {
        // Nothing that all such servers have is free.
        Ok(())
    }

    fn make(&self, request: &PictureRequest) -> Result<MadePicture, RemoteError> {
        let body = self.body(request);
        until_whole(&self.client.address().to_string(), || {
            let (json, answer) = self.once(request, &body)?;
            self.picture(&json, &answer)
        })
    }
}
