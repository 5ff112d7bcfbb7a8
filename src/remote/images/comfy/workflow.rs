//! The graphs that ComfyUI is given, with places for what changes from picture to picture.

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::images::PictureRequest;

/// Inputs by the names that ComfyUI's nodes give them, and a place in a text.
const STEPS: &str = "steps";
const SCALE: &str = "cfg";
const FILE: &str = "filename_prefix";
const NEGATIVE: &str = "{negative_prompt}";

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

    /// All inputs: their nodes' ids, their names, and what is in them.
    fn inputs(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        self.0.iter().flat_map(|(id, node)| {
            let inputs = node.get("inputs").and_then(Value::as_object);
            inputs
                .into_iter()
                .flatten()
                .map(move |(name, value)| (id.as_str(), name.as_str(), value))
        })
    }

    /// The inputs that are seeds by their names.
    fn seeds(&self) -> impl Iterator<Item = (&str, &str)> {
        self.inputs().filter_map(|(id, name, value)| {
            (matches!(name, "seed" | "noise_seed") && value.is_number()).then_some((id, name))
        })
    }

    /// Whether the number of steps has a place in it: a number called `steps`.
    pub fn takes_steps(&self) -> bool {
        self.inputs()
            .any(|(_, name, value)| name == STEPS && value.is_number())
    }

    /// Whether the strength of classifier-free guidance has one: a number called `cfg`.
    pub fn takes_guidance_scale(&self) -> bool {
        self.inputs()
            .any(|(_, name, value)| name == SCALE && value.is_number())
    }

    /// Whether what a picture should not show has one: `{negative_prompt}` in a text.
    pub fn takes_negative_prompt(&self) -> bool {
        self.inputs().any(|(_, name, value)| {
            let text = value.as_str().filter(|_| name != FILE);
            text.is_some_and(|text| text.contains(NEGATIVE))
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
                    (FILE, _) => *value = json!(format!("prepose-{}", request.name)),
                    (STEPS, _) if value.is_number() => {
                        if let Some(steps) = request.steps {
                            *value = json!(steps);
                        }
                    }
                    (SCALE, _) if value.is_number() => {
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
                    (NEGATIVE, request.negative_prompt),
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
