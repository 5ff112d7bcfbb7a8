//! Language models that look at pictures: `chat/completions`, as OpenAI, llama.cpp, vLLM, Ollama and Gemini understand it.

use prepose_untrusted::printable;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use crate::message::{Message, Part, Role, data_url};
use crate::{Answer, Ask, Client, RemoteError, Turn};

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
    pub fn text(&self, model: &str, dialect: Dialect) -> String {
        let rest = self.body(model, dialect).to_string();
        let mut text = String::from("{\"messages\":[");
        for (at, message) in self.messages.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            message.write(&mut text);
        }
        text.push_str("],");
        // After its brace; it has a model at least.
        text.push_str(rest.get(1..).unwrap_or_default());
        text
    }

    /// What is sent besides the messages.
    pub fn body(&self, model: &str, dialect: Dialect) -> Value {
        let mut body = json!({"model": model});
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
        if let Some(body) = body.as_object_mut() {
            body.remove("messages");
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
        let body = request.text(&self.model, self.dialect);
        self.read(self.client.json(&sent(&body))?)
    }

    /// Asks once, after so many tries that failed.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn turn(
        &self,
        request: &ChatRequest,
        failed: u32,
    ) -> Result<Turn<ChatAnswer>, RemoteError> {
        let body = request.text(&self.model, self.dialect);
        let turn = self.client.json_turn(&sent(&body), failed)?;
        turn.try_map(|answer| self.read(answer))
    }

    fn read(&self, (json, answer): (Value, Answer)) -> Result<ChatAnswer, RemoteError> {
        let address = || self.client.address().below("chat/completions").to_string();
        let mut read = read_answer(&json, address)?;
        read.attempts = answer.attempts;
        Ok(read)
    }
}

/// Reads what a server answers to a question; `address` is where it is, for messages.
///
/// # Errors
/// It is no answer of a language model; the model declines.
pub fn read_answer(json: &Value, address: impl Fn() -> String) -> Result<ChatAnswer, RemoteError> {
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
    let word = finish.as_deref().unwrap_or("stop");
    if refusal.is_some() || WITHHELD.iter().any(|one| word.eq_ignore_ascii_case(one)) {
        let message = refusal.unwrap_or_else(|| "the answer was withheld".into());
        return Err(RemoteError::Refused {
            address: address(),
            code: finish.unwrap_or_else(|| "refusal".into()),
            message: printable(&message).to_string(),
        });
    }
    let content = content(choice.pointer("/message/content"));
    let (inside, text) = thoughts_apart(&content);
    let thoughts = string(choice.pointer("/message/reasoning_content"))
        .or_else(|| string(choice.pointer("/message/reasoning")));
    let number = |name: &str| json.pointer(name).and_then(Value::as_u64).unwrap_or(0);
    Ok(ChatAnswer {
        text: text.unwrap_or_default().trim().to_owned(),
        thoughts: thoughts.or_else(|| inside.map(|thoughts| thoughts.trim().to_owned())),
        finish: match text {
            Some(_) => finish_of(word),
            // Thoughts without an end: some servers call that the end all the same.
            None => Finish::Length,
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
        attempts: 1,
    })
}

/// Words for an answer that somebody held back: OpenAI's, Anthropic's and Zhipu's, and those that Gemini passes on.
const WITHHELD: [&str; 8] = [
    "content_filter",
    "refusal",
    "sensitive",
    "safety",
    "recitation",
    "blocklist",
    "prohibited_content",
    "spii",
];

/// Why an answer ended, in the words of OpenAI, Together, Hugging Face, Anthropic, Mistral or Gemini, which writes them large.
fn finish_of(word: &str) -> Finish {
    match word.to_ascii_lowercase().as_str() {
        "stop" | "eos" | "eos_token" | "stop_sequence" | "end_turn" => Finish::Stop,
        "length" | "max_tokens" | "model_length" | "model_context_window_exceeded" => {
            Finish::Length
        }
        _ => Finish::Other(printable(word).to_string()),
    }
}

fn sent(body: &str) -> Ask<'_> {
    Ask::written("chat/completions", body).of("a server of language models")
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

/// What a model thought first, if its text shows it, and what follows; nothing follows thoughts without an end. Where a model's
/// template has begun the thoughts in the question, they only end in the answer: all before the first `</think>` is thoughts.
pub fn thoughts_apart(text: &str) -> (Option<&str>, Option<&str>) {
    let begun = text.trim_start().strip_prefix("<think>");
    match begun.unwrap_or(text).split_once("</think>") {
        Some((thoughts, after)) => (Some(thoughts), Some(after)),
        None if begun.is_some() => (begun, None),
        None => (None, Some(text)),
    }
}
