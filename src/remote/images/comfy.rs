//! ComfyUI: a graph of nodes is queued, its end waited for, and the picture fetched.

mod workflow;

use std::time::{Duration, Instant};

use prepose_untrusted::printable;
use serde_json::{Value, json};

use super::{Editing, ImageServer, MadePicture, PictureRequest, is_picture};
use crate::multipart::Form;
use crate::retry::chance;
use crate::{Ask, Client, RemoteError};

pub use workflow::{Workflow, WorkflowError};

/// What it should be, in messages.
const KIND: &str = "ComfyUI";

/// A ComfyUI and what it is to do.
#[derive(Debug)]
pub struct ComfyUi {
    client: Client,
    workflow: Workflow,
}

impl ComfyUi {
    /// The ComfyUI of `client`.
    pub fn new(client: Client, workflow: Workflow) -> Self {
        Self { client, workflow }
    }

    fn strange(&self, found: impl Into<String>) -> RemoteError {
        RemoteError::Strange {
            address: self.client.address().to_string(),
            expected: KIND.into(),
            found: printable(&found.into()).to_string(),
        }
    }

    /// What came of a graph, once it is done.
    fn history(&self, id: &str) -> Result<Option<Value>, RemoteError> {
        let path = format!("history/{id}");
        let (json, _) = self.client.json(&Ask::get(&path).of(KIND))?;
        Ok(json.get(id).filter(|entry| entry.is_object()).cloned())
    }

    /// Gives it the picture to begin with, and returns what it calls it.
    fn upload(&self, picture: &[u8], id: &str) -> Result<String, RemoteError> {
        let form = Form::default()
            .text("type", "input")
            .text("overwrite", "true")
            .file("image", &format!("prepose-{id}.png"), "image/png", picture);
        let (json, _) = self
            .client
            .json(&Ask::form("upload/image", &form).of(KIND))?;
        let of = |key: &str| json.get(key).and_then(Value::as_str).unwrap_or_default();
        match (of("subfolder"), of("name")) {
            (_, "") => Err(self.strange("an upload without a name")),
            ("", name) => Ok(name.to_owned()),
            (folder, name) => Ok(format!("{folder}/{name}")),
        }
    }

    /// Queues a graph under a name of ours, and returns the name that it has there.
    fn queue(&self, request: &PictureRequest, id: &str) -> Result<(String, u32), RemoteError> {
        let image = match request.init {
            Some(picture) => self.upload(picture, id)?,
            None => String::new(),
        };
        let graph = self.workflow.graph(request, &image);
        let body = json!({"prompt": graph, "client_id": "prepose", "prompt_id": id});
        let (json, answer) = self
            .client
            .json(&Ask::json("prompt", &body).of(KIND).once(request.name))?;
        let errors = json
            .get("node_errors")
            .filter(|errors| errors.as_object().is_some_and(|all| !all.is_empty()));
        if let Some(errors) = errors {
            return Err(self.strange(format!("it left out parts of the graph: {errors}")));
        }
        let given = json.get("prompt_id").and_then(Value::as_str).unwrap_or(id);
        if !given
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            return Err(self.strange("a prompt_id that is not a name"));
        }
        Ok((given.to_owned(), answer.attempts))
    }

    /// Has a graph worked through, and fetches its file; returns also how often it was asked for.
    fn work(&self, request: &PictureRequest, id: &str) -> Result<(Vec<u8>, u32), RemoteError> {
        let (id, attempts) = self.queue(request, id)?;
        Ok((self.file(&self.wait(&id)?)?, attempts))
    }

    /// The same once more, where a graph is remembered that failed or whose file is gone.
    fn work_again(
        &self,
        request: &PictureRequest,
        id: &str,
    ) -> Result<(Vec<u8>, u32), RemoteError> {
        // As long as it is remembered, it is taken for the end of the next graph of this name.
        let forget = json!({"delete": [id]});
        self.client.ask(&Ask::json("history", &forget).of(KIND))?;
        // A graph that differs in nothing is not worked through again: its files have another name each time.
        let number = (chance() * f64::from(u32::MAX)) as u32;
        let name = format!("{}-{number:08x}", request.name);
        let renamed = PictureRequest {
            name: &name,
            ..request.clone()
        };
        self.work(&renamed, id)
    }

    fn wait(&self, id: &str) -> Result<Value, RemoteError> {
        const LOOK_UP: [u64; 5] = [50, 100, 250, 500, 1000];
        let patience = self.client.settings().timeouts.answer;
        let began = Instant::now();
        let mut turn = 0;
        loop {
            if let Some(entry) = self.history(id)? {
                return Ok(entry);
            }
            if began.elapsed() > patience {
                return Err(RemoteError::Silent {
                    address: self.client.address().to_string(),
                    attempts: 1,
                    seconds: patience,
                });
            }
            turn += 1;
            let wait = LOOK_UP[LOOK_UP.len().min(turn) - 1];
            self.client.pause_for(Duration::from_millis(wait))?;
        }
    }

    /// The file that a finished graph has made.
    fn file(&self, entry: &Value) -> Result<Vec<u8>, RemoteError> {
        if has_failed(entry) {
            let messages = entry.pointer("/status/messages").and_then(Value::as_array);
            let error = messages
                .into_iter()
                .flatten()
                .find(|message| message.get(0).and_then(Value::as_str) == Some("execution_error"));
            let why = error
                .and_then(|error| error.pointer("/1/exception_message"))
                .and_then(Value::as_str);
            return Err(self.strange(format!(
                "the graph failed: {}",
                why.unwrap_or("no reason given")
            )));
        }
        let outputs = entry.get("outputs").and_then(Value::as_object);
        let mut images = (outputs.into_iter().flatten())
            .filter_map(|(_, output)| output.get("images")?.as_array())
            .flatten();
        let kept = |image: &&Value| image.get("type").and_then(Value::as_str) == Some("output");
        let first = images.clone().find(kept).or_else(|| images.next());
        let first = first.ok_or_else(|| {
            self.strange("a graph that made no picture: has it a SaveImage node?")
        })?;
        let of = |key: &str| escape(first.get(key).and_then(Value::as_str).unwrap_or_default());
        let path = format!(
            "view?filename={}&subfolder={}&type={}",
            of("filename"),
            of("subfolder"),
            of("type")
        );
        let file = self.client.ask(&Ask::get(&path).of(KIND))?.body;
        match is_picture(&file) {
            true => Ok(file),
            false => Err(self.strange("a file that is not a PNG, JPEG or WebP picture")),
        }
    }
}

impl ImageServer for ComfyUi {
    fn check(&self) -> Result<(), RemoteError> {
        let (json, _) = self.client.json(&Ask::get("system_stats").of(KIND))?;
        match json.get("system").or_else(|| json.get("devices")) {
            Some(_) => Ok(()),
            None => Err(self.strange("JSON without system")),
        }
    }

    fn editing(&self) -> Editing {
        match self.workflow.begins_with_picture() {
            true => Editing::Only,
            false => Editing::Never,
        }
    }

    fn make(&self, request: &PictureRequest) -> Result<MadePicture, RemoteError> {
        let id = as_uuid(request.name);
        // It may have been made for a run that was killed before it could fetch it.
        let remembered = self.history(&id)?.map(|entry| self.file(&entry));
        let (bytes, attempts) = match remembered {
            None => self.work(request, &id)?,
            Some(Ok(bytes)) => (bytes, 0),
            Some(Err(RemoteError::Strange { .. } | RemoteError::Status { status: 404, .. })) => {
                self.work_again(request, &id)?
            }
            Some(Err(error)) => return Err(error),
        };
        Ok(MadePicture {
            bytes,
            seed: Some(request.seed),
            request_id: Some(id),
            attempts,
            ..MadePicture::default()
        })
    }
}

fn has_failed(entry: &Value) -> bool {
    let status = entry.pointer("/status/status_str");
    status.and_then(Value::as_str) == Some("error")
}

/// A name of hexadecimal digits in the form of a UUID.
fn as_uuid(name: &str) -> String {
    let digits: String = name
        .chars()
        .filter(char::is_ascii_hexdigit)
        .chain("0".repeat(32).chars())
        .take(32)
        .collect();
    let parts = [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ];
    parts.join("-").to_ascii_lowercase()
}

/// For an address: everything but letters, digits and `-_.~` is escaped.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(byte.into())
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
