//! A vision-language model behind an OpenAI-compatible chat endpoint.

use prepose_remote::RemoteError;
use prepose_remote::chat::{Chat, ChatRequest, Dialect, Finish, Message, Role};
use serde_json::{Map, Value, json};

use super::ask::{Judge, JudgeError, Reply};
use super::picture::{Named, Seen};
use super::question::{End, Question};

/// How a model is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// 0 for the likeliest answer.
    pub temperature: f64,
    /// The longest answer in tokens, thoughts included.
    pub max_tokens: u32,
    /// Of the model's random numbers, where the server has that.
    pub seed: Option<u64>,
    /// Whether the model may think first; the server's default if none.
    pub thinking: Option<bool>,
    /// Further fields of the request, as the server has them.
    pub extra: Map<String, Value>,
    /// Larger pictures are sent smaller: the longest side in pixels.
    pub largest: Option<u32>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            max_tokens: 1024,
            seed: None,
            thinking: None,
            extra: Map::new(),
            largest: None,
        }
    }
}

/// A model on a server.
#[derive(Debug)]
pub struct ChatJudge {
    chat: Chat,
    sampling: Sampling,
}

impl ChatJudge {
    /// That model, asked in this manner.
    pub fn new(chat: Chat, sampling: Sampling) -> Self {
        Self { chat, sampling }
    }

    fn request(&self, messages: Vec<Message>) -> ChatRequest {
        let sampling = &self.sampling;
        ChatRequest {
            temperature: Some(sampling.temperature),
            max_tokens: sampling.max_tokens,
            seed: sampling.seed,
            thinking: sampling.thinking,
            extra: sampling.extra.clone(),
            ..ChatRequest::new(messages)
        }
    }
}

impl Judge for ChatJudge {
    fn model(&self) -> &str {
        self.chat.model()
    }

    /// The request without its messages, and what is done to pictures before they are sent.
    fn settings(&self) -> Value {
        let mut body = self
            .request(Vec::new())
            .body(self.chat.model(), self.chat.dialect());
        if let Some(body) = body.as_object_mut() {
            body.remove("messages");
        }
        match (self.chat.dialect(), self.sampling.largest) {
            (Dialect::Plain, None) => body,
            (_, largest) => json!({ "request": body, "largest": largest }),
        }
    }

    fn reply(
        &self,
        question: &Question,
        shown: Option<(&Named, &Seen)>,
    ) -> Result<Reply, JudgeError> {
        let picture = match shown {
            None => None,
            Some((named, seen)) => Some(seen.sent(&named.path, self.sampling.largest)?),
        };
        let system = question
            .system
            .iter()
            .map(|text| Message::text(Role::System, text.as_str()));
        // The picture first, so that a server that remembers beginnings has to look once for all questions about it.
        let messages = system.chain([Message::about(picture, question.text.as_str())]);
        match self.chat.ask(&self.request(messages.collect())) {
            Ok(answer) => Ok(Reply {
                text: answer.text,
                thoughts: answer.thoughts,
                end: match answer.finish {
                    Finish::Stop => End::Stop,
                    Finish::Length => End::Length,
                    Finish::Other(_) => End::Refused,
                },
                prompt_tokens: answer.usage.prompt,
                answer_tokens: answer.usage.completion,
            }),
            Err(RemoteError::Refused { message, .. }) => Ok(Reply {
                text: message,
                end: End::Refused,
                ..Reply::default()
            }),
            Err(error) => Err(error.into()),
        }
    }
}
