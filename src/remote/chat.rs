//! Language models that look at pictures: `chat/completions`, as OpenAI, llama.cpp, vLLM, Ollama and Gemini understand it.

use base64::Engine as _;
use prepose_untrusted::printable;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{Ask, Client, RemoteError};

/// A model on a server.
#[derive(Debug)]
pub struct Chat {
    client: Client,
    model: String,
    dialect: Dialect,
}

/// Whose words are used where servers differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// What nearly all servers take.
    #[default]
    Plain,
    /// OpenAI's reasoning models: `max_completion_tokens`, no temperature unless it is asked for.
    OpenAi,
    /// llama.cpp and vLLM: thinking is switched off in the template.
    Llama,
    /// Ollama: thinking is switched off by its effort.
    Ollama,
}

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Whoever sets the rules.
    System,
    /// Whoever asks.
    User,
    /// The model.
    Assistant,
}

/// A part of what is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Words.
    Text(String),
    /// A PNG or JPEG file.
    Picture(Vec<u8>),
}

/// What one side says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who.
    pub role: Role,
    /// What, in this order.
    pub parts: Vec<Part>,
}

/// What a model is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRequest {
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// 0 for the likeliest answer; the server's default if none.
    pub temperature: Option<f64>,
    /// The longest answer, in tokens, with what is thought before it.
    pub max_tokens: u32,
    /// Of the model's random numbers, where the server has that.
    pub seed: Option<u64>,
    /// A JSON schema that the answer must follow, with a name for it.
    pub schema: Option<(String, Value)>,
    /// Asks for the probabilities of so many tokens at each place.
    pub logprobs: Option<u8>,
    /// Whether the model may think before it answers; the server's default if none.
    pub thinking: Option<bool>,
    /// Further fields, as the server has them.
    pub extra: Map<String, Value>,
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was complete.
    Stop,
    /// There was no room left.
    Length,
    /// The server's word for something else.
    Other(String),
}

/// Tokens that an exchange took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// In the question, pictures included.
    pub prompt: u64,
    /// In the answer, thoughts included.
    pub completion: u64,
}

/// What a model answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatAnswer {
    /// Without thoughts, and without white space around it.
    pub text: String,
    /// What was thought before, if the server shows it.
    pub thoughts: Option<String>,
    /// Why it ended.
    pub finish: Finish,
    /// The model as the server calls it.
    pub model: Option<String>,
    /// Of the server's state.
    pub fingerprint: Option<String>,
    /// What it took.
    pub usage: Usage,
    /// `choices[0].logprobs`.
    pub logprobs: Option<Value>,
    /// How often it was asked for.
    pub attempts: u32,
}

impl Message {
    /// Words by `role`.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            parts: vec![Part::Text(text.into())],
        }
    }

    /// Pictures, and a question about them after them.
    pub fn about(pictures: impl IntoIterator<Item = Vec<u8>>, question: impl Into<String>) -> Self {
        let pictures = pictures.into_iter().map(Part::Picture);
        Self {
            role: Role::User,
            parts: pictures.chain([Part::Text(question.into())]).collect(),
        }
    }

    fn json(&self) -> Value {
        let role = match self.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        // Words alone as a text: some servers take nothing else in system messages.
        if let [Part::Text(text)] = self.parts.as_slice() {
            return json!({"role": role, "content": text});
        }
        let parts: Vec<Value> = self.parts.iter().map(Part::json).collect();
        json!({"role": role, "content": parts})
    }
}

impl Part {
    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::Picture(bytes) => {
                let url = data_url(bytes);
                json!({"type": "image_url", "image_url": {"url": url}})
            }
        }
    }
}

/// A picture's file as an address; the type is what its first bytes say.
pub fn data_url(bytes: &[u8]) -> String {
    let kind = match bytes {
        [0xff, 0xd8, ..] => "image/jpeg",
        _ => "image/png",
    };
    let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
    format!("data:{kind};base64,{encoded}")
}

impl ChatRequest {
    /// The likeliest answer to these messages, of at most 1024 tokens.
    pub fn new(messages: Vec<Message>) -> Self {
        Self {
            messages,
            temperature: Some(0.0),
            max_tokens: 1024,
            seed: None,
            schema: None,
            logprobs: None,
            thinking: None,
            extra: Map::new(),
        }
    }

    /// What is sent. The same request is the same bytes, so that answers can be kept by a digest of it.
    pub fn body(&self, model: &str, dialect: Dialect) -> Value {
        let messages: Vec<Value> = self.messages.iter().map(Message::json).collect();
        let mut body = json!({"model": model, "messages": messages});
        if let Some(temperature) = self
            .temperature
            .filter(|t| dialect != Dialect::OpenAi || *t != 0.0)
        {
            body["temperature"] = json!(temperature);
        }
        let most = match dialect {
            Dialect::OpenAi => "max_completion_tokens",
            _ => "max_tokens",
        };
        body[most] = json!(self.max_tokens);
        if let Some(seed) = self.seed {
            body["seed"] = json!(seed);
        }
        if let Some((name, schema)) = &self.schema {
            let schema = json!({"name": name, "strict": true, "schema": schema});
            body["response_format"] = json!({"type": "json_schema", "json_schema": schema});
        }
        if let Some(top) = self.logprobs {
            body["logprobs"] = json!(true);
            body["top_logprobs"] = json!(top);
        }
        match (self.thinking, dialect) {
            (Some(on), Dialect::Llama) => {
                body["chat_template_kwargs"] = json!({"enable_thinking": on})
            }
            (Some(false), Dialect::Ollama) => body["reasoning_effort"] = json!("none"),
            (Some(false), Dialect::OpenAi) => body["reasoning_effort"] = json!("minimal"),
            _ => {}
        }
        for (name, value) in &self.extra {
            body[name] = value.clone();
        }
        body
    }
}

impl Chat {
    /// The model `model` on the server of `client`.
    pub fn new(client: Client, model: impl Into<String>, dialect: Dialect) -> Self {
        Self {
            client,
            model: model.into(),
            dialect,
        }
    }

    /// The model's name, as it was given.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The server.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Whose words are used.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Asks.
    ///
    /// # Errors
    /// [`RemoteError`]; [`RemoteError::Refused`] also if the model itself declines in the field that says so.
    pub fn ask(&self, request: &ChatRequest) -> Result<ChatAnswer, RemoteError> {
        let body = request.body(&self.model, self.dialect);
        let ask = Ask::json("chat/completions", &body).of("a server of language models");
        let (json, answer) = self.client.json(&ask)?;
        let address = || self.client.address().below("chat/completions").to_string();
        let Some(choice) = json.pointer("/choices/0") else {
            return Err(RemoteError::Strange {
                address: address(),
                expected: "a server of language models".into(),
                found: format!("no choices in {}", printable(&json.to_string())),
            });
        };
        let string = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let refusal = string(choice.pointer("/message/refusal")).filter(|text| !text.is_empty());
        let finish = string(choice.get("finish_reason"));
        if refusal.is_some() || finish.as_deref() == Some("content_filter") {
            let message = refusal.unwrap_or_else(|| "the answer was withheld".into());
            return Err(RemoteError::Refused {
                address: address(),
                code: finish.unwrap_or_else(|| "refusal".into()),
                message: printable(&message).to_string(),
            });
        }
        let content = content(choice.pointer("/message/content"));
        let (inside, text) = apart(&content);
        let thoughts = string(choice.pointer("/message/reasoning_content"))
            .or_else(|| string(choice.pointer("/message/reasoning")));
        let number = |name: &str| json.pointer(name).and_then(Value::as_u64).unwrap_or(0);
        Ok(ChatAnswer {
            text: text.trim().to_owned(),
            thoughts: thoughts.or(inside),
            finish: match finish.as_deref() {
                Some("stop") | None => Finish::Stop,
                Some("length") => Finish::Length,
                Some(other) => Finish::Other(printable(other).to_string()),
            },
            model: string(json.get("model")),
            fingerprint: string(json.get("system_fingerprint")),
            usage: Usage {
                prompt: number("/usage/prompt_tokens"),
                completion: number("/usage/completion_tokens"),
            },
            logprobs: choice
                .get("logprobs")
                .filter(|value| !value.is_null())
                .cloned(),
            attempts: answer.attempts,
        })
    }
}

/// A text, or parts of which the texts count.
fn content(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let text = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
            parts.iter().filter_map(text).collect()
        }
        _ => String::new(),
    }
}

/// A leading block of thoughts, and what follows it. One that does not end is all there is.
fn apart(content: &str) -> (Option<String>, &str) {
    let Some(rest) = content.trim_start().strip_prefix("<think>") else {
        return (None, content);
    };
    match rest.split_once("</think>") {
        Some((thoughts, text)) => (Some(thoughts.trim().into()), text),
        None => (Some(rest.trim().into()), ""),
    }
}
