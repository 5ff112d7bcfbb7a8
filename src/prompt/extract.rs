//! Relations from a language model, for prompts that rules cannot read.
//!
//! The model is asked as the paper on PSG suggests (appendix B.7): one `(object1, object2, relation)` a line. Whatever
//! it answers is checked against the prompt; nothing that the prompt does not name gets in. Any server with OpenAI's
//! `chat/completions` will do.

use std::time::Duration;

use prepose_untrusted::redact_address;
use serde_json::{Value, json};
use thiserror::Error;

use prepose_scene::{GivenRelation, Scene, SceneError};

/// A server and a model on it.
#[derive(Debug, Clone)]
pub struct Extractor {
    /// The server's address up to its version, such as `http://localhost:8080/v1`.
    pub url: String,
    /// The model's name there.
    pub model: String,
    /// Sent as a bearer token.
    pub key: Option<String>,
    /// How long the whole exchange may take.
    pub timeout: Duration,
}

/// Why a model's answer cannot be used.
#[derive(Debug, Error)]
pub enum ExtractError {
    /// Not an address of a server.
    #[error("{0:?} is not an address that begins with http:// or https://")]
    Address(String),
    /// No answer: no connection, no such host, too slow.
    #[error("no answer from {url}: {}", prepose_untrusted::redact(&source.to_string()))]
    Http {
        /// The address.
        url: String,
        /// The reason.
        source: Box<ureq::Error>,
    },
    /// An answer with another status than 200.
    #[error("{url} answered with status {status}: {body}")]
    Status {
        /// The address.
        url: String,
        /// HTTP's status code.
        status: u16,
        /// The beginning of the answer.
        body: String,
    },
    /// An answer that is no chat completion.
    #[error("the server's answer is not a chat completion: {0}")]
    Completion(String),
    /// A completion without text.
    #[error("the model's answer is empty")]
    Empty,
    /// Text that is not in the format asked for.
    #[error("the model's answer is not in the format (object1, object2, relation): {0:?}")]
    Format(String),
    /// Relations that do not fit the prompt.
    #[error("the model's answer does not fit the prompt: {0}")]
    Scene(#[from] SceneError),
}

/// What the model is told. The format and the six relations are the paper's.
const INSTRUCTIONS: &str = "You find the spatial relations between the objects of a picture's description. \
The relations are left, right, top, bottom, behind and in front; they may be stated or clearly implied. \
Write one line for each relation, in the format (object1, object2, relation), which says that object1 is in that relation \
to object2. Name objects with the words of the description. Write nothing else. If there are no relations, write (none).

Description: The man is reading a book while sitting. A dog is sitting to the right of his chair.
(man, chair, top)
(dog, chair, right)";

/// The longest answer that is read, in bytes.
const MAX_ANSWER: u64 = 1 << 20;

/// The most tokens that the model may write.
const MAX_TOKENS: usize = 512;

impl Extractor {
    /// The scene of `prompt` with the relations that the model finds in it.
    pub fn extract(&self, prompt: &str) -> Result<Scene, ExtractError> {
        self.ask_and_check(prompt).map(|(_, scene)| scene)
    }

    /// The relations that the model finds in `prompt`, to be given beside it: [`Scene::with_relations`] makes the scene of
    /// them. That there are none is an answer too.
    pub fn relations(&self, prompt: &str) -> Result<Vec<GivenRelation>, ExtractError> {
        self.ask_and_check(prompt).map(|(relations, _)| relations)
    }

    /// The relations as given and the scene they make.
    fn ask_and_check(&self, prompt: &str) -> Result<(Vec<GivenRelation>, Scene), ExtractError> {
        let relations = relations_of(&self.ask(prompt)?)?;
        let scene = Scene::with_relations(prompt, &relations)?;
        match scene.objects.is_empty() {
            true => Err(SceneError::NoObject.into()),
            false => Ok((relations, scene)),
        }
    }

    /// The model's answer.
    fn ask(&self, prompt: &str) -> Result<String, ExtractError> {
        if !self.url.starts_with("http://") && !self.url.starts_with("https://") {
            return Err(ExtractError::Address(redact_address(&self.url)));
        }
        let base = self.url.trim_end_matches('/');
        let url = match base.ends_with("/chat/completions") {
            true => base.to_owned(),
            false => format!("{base}/chat/completions"),
        };
        let body = json!({
            "model": self.model,
            "messages": [
                {"role": "system", "content": INSTRUCTIONS},
                {"role": "user", "content": format!("Description: {prompt}")},
            ],
            "temperature": 0,
            "max_tokens": MAX_TOKENS,
        });
        let shown = redact_address(&url);
        let http = |source| ExtractError::Http {
            url: shown.clone(),
            source: Box::new(source),
        };
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(self.timeout))
            .http_status_as_error(false);
        let agent: ureq::Agent = config.build().into();
        let mut request = agent.post(&url).header("Content-Type", "application/json");
        if let Some(key) = &self.key {
            request = request.header("Authorization", format!("Bearer {key}"));
        }
        let mut response = request.send(body.to_string()).map_err(http)?;
        let status = response.status().as_u16();
        let text = response
            .body_mut()
            .with_config()
            .limit(MAX_ANSWER)
            .lossy_utf8(true)
            .read_to_string()
            .map_err(http)?;
        if status != 200 {
            return Err(ExtractError::Status {
                url: shown,
                status,
                body: beginning(&text),
            });
        }
        let answer: Value = serde_json::from_str(&text).map_err(|error| {
            ExtractError::Completion(format!("{error} in {:?}", beginning(&text)))
        })?;
        match answer.pointer("/choices/0/message/content") {
            Some(Value::String(content)) if content.trim().is_empty() => Err(ExtractError::Empty),
            Some(Value::String(content)) => Ok(content.clone()),
            Some(Value::Null) => Err(ExtractError::Empty),
            _ => Err(ExtractError::Completion(format!(
                "no choices[0].message.content in {:?}",
                beginning(&text)
            ))),
        }
    }
}

/// The lines `(object1, object2, relation)` of an answer as given relations. Prose around them is allowed, a line that
/// begins like one and is none is not.
fn relations_of(answer: &str) -> Result<Vec<GivenRelation>, ExtractError> {
    let format = |line: &str| ExtractError::Format(beginning(line));
    let mut relations = Vec::new();
    let mut none = false;
    for line in answer.lines() {
        let line = line
            .trim()
            .trim_start_matches(['-', '*', ' '])
            .trim_end_matches(['.', ',', ';', ' '])
            .replace("**", "");
        let Some(inner) = line.strip_prefix('(') else {
            continue;
        };
        let inner = inner.strip_suffix(')').ok_or_else(|| format(&line))?;
        if inner.trim().eq_ignore_ascii_case("none") {
            none = true;
            continue;
        }
        let fields: Vec<&str> = inner.split(',').map(str::trim).collect();
        match fields[..] {
            [subject, object, relation]
                if fields
                    .iter()
                    .all(|field| !field.is_empty() && !field.contains('|')) =>
            {
                relations.push(GivenRelation::of_two(subject, relation.parse()?, object));
            }
            _ => return Err(format(&line)),
        }
    }
    match relations.is_empty() && !none {
        true => Err(format(answer)),
        false => Ok(relations),
    }
}

fn beginning(text: &str) -> String {
    text.trim().chars().take(200).collect()
}
