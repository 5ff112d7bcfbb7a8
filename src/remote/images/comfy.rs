//! ComfyUI: a graph of nodes is queued, its end waited for, and the picture fetched.

use std::time::{Duration, Instant};

use prepose_untrusted::printable;
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::{Editing, ImageServer, MadePicture, PictureRequest, is_picture};
use crate::multipart::Form;
use crate::{Ask, Client, RemoteError};

/// What it should be, in messages.
const KIND: &str = "ComfyUI";

/// A graph in the form that ComfyUI's "Export (API)" writes, with places for what changes from picture to picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Workflow(Map<String, Value>);

/// Why a file is no graph that can be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WorkflowError {
    /// No JSON.
    #[error("it is not JSON: {0}")]
    Json(String),
    /// What the program saves for itself.
    #[error(
        "it is a workflow in the form that ComfyUI saves for itself; export it with \"Export (API)\" in ComfyUI's menu"
    )]
    Interface,
    /// Something else.
    #[error(
        "it is not a graph in ComfyUI's API format, which is an object of nodes, each with a class_type"
    )]
    NoGraph,
    /// Nothing says where the prompt goes.
    #[error(
        "no node has {{prompt}} in it: write {{prompt}} into the text of the node for the prompt, and export the workflow again"
    )]
    NoPrompt,
    /// Nothing says where the seed goes, so that all pictures would be the same one.
    #[error("no node has a seed: a number called seed or noise_seed, or {{seed}} in its place")]
    NoSeed,
}

impl Workflow {
    /// Reads a file's text.
    ///
    /// # Errors
    /// [`WorkflowError`].
    pub fn parse(text: &str) -> Result<Self, WorkflowError> {
        let json: Value =
            serde_json::from_str(text).map_err(|error| WorkflowError::Json(error.to_string()))?;
        let Value::Object(nodes) = json else {
            return Err(WorkflowError::NoGraph);
        };
        if nodes.contains_key("nodes") && nodes.contains_key("links") {
            return Err(WorkflowError::Interface);
        }
        let is_node = |node: &Value| node.get("class_type").is_some_and(Value::is_string);
        if nodes.is_empty() || !nodes.values().all(is_node) {
            return Err(WorkflowError::NoGraph);
        }
        let workflow = Self(nodes);
        let text = workflow
            .0
            .values()
            .map(Value::to_string)
            .collect::<String>();
        if !text.contains("{prompt}") {
            return Err(WorkflowError::NoPrompt);
        }
        if !text.contains("\"{seed}\"") && workflow.seeds().next().is_none() {
            return Err(WorkflowError::NoSeed);
        }
        Ok(workflow)
    }

    /// The inputs that are seeds by their names.
    fn seeds(&self) -> impl Iterator<Item = (&str, &str)> {
        let inputs = self.0.iter().flat_map(|(id, node)| {
            let inputs = node.get("inputs").and_then(Value::as_object);
            inputs
                .into_iter()
                .flatten()
                .map(move |(name, value)| (id.as_str(), name.as_str(), value))
        });
        inputs.filter_map(|(id, name, value)| {
            (matches!(name, "seed" | "noise_seed") && value.is_number()).then_some((id, name))
        })
    }

    /// Whether it begins with a picture: `{image}` is in one of its nodes.
    pub fn begins_with_picture(&self) -> bool {
        let mut inputs = self.0.values().filter_map(|node| node.get("inputs"));
        inputs.any(|inputs| inputs.to_string().contains("{image}"))
    }

    /// The graph of one picture; `image` is what the server calls the picture that it begins with.
    pub fn graph(&self, request: &PictureRequest, image: &str) -> Value {
        let mut nodes = self.0.clone();
        for (id, name) in self.seeds() {
            nodes[id]["inputs"][name] = json!(request.seed);
        }
        for node in nodes.values_mut() {
            let class = node
                .get("class_type")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            let Some(inputs) = node.get_mut("inputs").and_then(Value::as_object_mut) else {
                continue;
            };
            let latent = class.contains("Latent") && inputs.contains_key("width");
            for (name, value) in inputs.iter_mut() {
                match (name.as_str(), request.size) {
                    ("width", Some([width, _])) if latent && value.is_number() => {
                        *value = json!(width)
                    }
                    ("height", Some([_, height])) if latent && value.is_number() => {
                        *value = json!(height)
                    }
                    // Otherwise a graph that was made before is not made again, and gives no picture.
                    ("filename_prefix", _) => *value = json!(format!("prepose-{}", request.name)),
                    ("steps", _) if value.is_number() => {
                        if let Some(steps) = request.steps {
                            *value = json!(steps);
                        }
                    }
                    ("cfg", _) if value.is_number() => {
                        if let Some(scale) = request.guidance_scale {
                            *value = json!(scale);
                        }
                    }
                    _ => fill(value, request, image),
                }
            }
        }
        Value::Object(nodes)
    }
}

/// Puts what a picture is made from into the places in a text.
fn fill(value: &mut Value, request: &PictureRequest, image: &str) {
    let Value::String(text) = value else { return };
    let [width, height] = request.size.unwrap_or([512, 512]);
    let number = match text.as_str() {
        "{seed}" => Some(json!(request.seed)),
        "{width}" => Some(json!(width)),
        "{height}" => Some(json!(height)),
        "{strength}" => Some(json!(request.strength.unwrap_or(1.0))),
        _ => None,
    };
    *value = match number {
        Some(number) => number,
        // One after the other in the file's text alone: a prompt may have braces of its own.
        None => {
            let mut filled = String::new();
            let mut rest = text.as_str();
            while let Some(at) = rest.find('{') {
                filled.push_str(&rest[..at]);
                rest = &rest[at..];
                let places = [
                    ("{prompt}", request.prompt),
                    ("{negative_prompt}", request.negative_prompt),
                    ("{image}", image),
                ];
                match places
                    .into_iter()
                    .find(|(place, _)| rest.starts_with(place))
                {
                    Some((place, with)) => {
                        filled.push_str(with);
                        rest = &rest[place.len()..];
                    }
                    None => {
                        filled.push('{');
                        rest = &rest[1..];
                    }
                }
            }
            json!(filled + rest)
        }
    };
}

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
        let (entry, attempts) = match self.history(&id)? {
            Some(entry) if !has_failed(&entry) => (entry, 0),
            _ => {
                let (id, attempts) = self.queue(request, &id)?;
                (self.wait(&id)?, attempts)
            }
        };
        Ok(MadePicture {
            bytes: self.file(&entry)?,
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
