//! A vision-language model behind an OpenAI-compatible chat endpoint.

use prepose_remote::RemoteError;
use prepose_remote::chat::{Chat, ChatAnswer, ChatRequest, Finish, Message, Role};
use serde_json::{Map, Value, json};

use super::ask::{Judge, JudgeError, Reply, Turn};
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
    /// Which time the same is asked, from 0: each time is an answer of its own, and has the next seed, if there is one.
    pub round: u64,
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
            round: 0,
        }
    }
}

/// A model on a server.
#[derive(Debug)]
pub struct ChatJudge {
    chat: Chat,
    sampling: Sampling,
    /// What the server is called in the book.
    server: String,
}

impl ChatJudge {
    /// That model, asked in this manner.
    pub fn new(chat: Chat, sampling: Sampling) -> Self {
        let server = chat.client().address().to_string();
        Self {
            chat,
            sampling,
            server,
        }
    }

    /// The same under another name than its address, so that answers hold when the server moves.
    #[must_use]
    pub fn called(self, server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            ..self
        }
    }

    fn request(&self, messages: Vec<Message>) -> ChatRequest {
        let sampling = &self.sampling;
        ChatRequest {
            temperature: Some(sampling.temperature),
            max_tokens: sampling.max_tokens,
            seed: sampling.seed.map(|seed| seed.wrapping_add(sampling.round)),
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

    /// The server, the request without its messages, and what is done to pictures before they are sent.
    fn settings(&self) -> Value {
        let body = self
            .request(Vec::new())
            .body(self.chat.model(), self.chat.dialect());
        let mut settings = json!({ "server": self.server, "request": body });
        if let Some(largest) = self.sampling.largest {
            settings["largest"] = json!(largest);
        }
        if self.sampling.round > 0 {
            settings["round"] = json!(self.sampling.round);
        }
        settings
    }

    fn reply(
        &self,
        question: &Question,
        shown: Option<(&Named, &Seen)>,
    ) -> Result<Reply, JudgeError> {
        let request = self.question(question, shown)?;
        let answer = self.chat.ask(&request).map(reply_of);
        self.told(answer, shown.is_some())
    }

    fn turn(
        &self,
        question: &Question,
        shown: Option<(&Named, &Seen)>,
        failed: u32,
    ) -> Result<Turn<Reply>, JudgeError> {
        let request = self.question(question, shown)?;
        match self.chat.turn(&request, failed) {
            Ok(Turn::Done(answer)) => Ok(Turn::Done(reply_of(answer))),
            // Some servers call it a fault of theirs.
            Ok(Turn::Later(error, wait)) => match self.blind(&error, shown.is_some()) {
                Some(blind) => Err(blind),
                None => Ok(Turn::Later(error, wait)),
            },
            Err(error) => self.told(Err(error), shown.is_some()).map(Turn::Done),
        }
    }
}

impl ChatJudge {
    fn question(
        &self,
        question: &Question,
        shown: Option<(&Named, &Seen)>,
    ) -> Result<ChatRequest, JudgeError> {
        let picture = match shown {
            None => None,
            Some((named, seen)) => Some(seen.encoded(&named.path, self.sampling.largest)?),
        };
        let system = question
            .system
            .iter()
            .map(|text| Message::text(Role::System, text.as_str()));
        // The picture first, so that a server that remembers beginnings has to look once for all questions about it.
        let messages = system.chain([Message::about_encoded(picture, question.text.as_str())]);
        Ok(self.request(messages.collect()))
    }

    fn told(&self, answer: Result<Reply, RemoteError>, shown: bool) -> Result<Reply, JudgeError> {
        match answer {
            Ok(reply) => Ok(reply),
            Err(RemoteError::Refused { message, .. }) => Ok(Reply {
                text: message,
                end: End::Refused,
                ..Reply::default()
            }),
            Err(error) => Err(match self.blind(&error, shown) {
                Some(blind) => blind,
                None => error.into(),
            }),
        }
    }

    /// What to say of an error that means that a model takes no pictures.
    fn blind(&self, error: &RemoteError, shown: bool) -> Option<JudgeError> {
        let RemoteError::Status { message, .. } = error else {
            return None;
        };
        let words = message.to_lowercase();
        let says = shown && BLIND.iter().any(|phrase| words.contains(phrase));
        says.then(|| JudgeError::NoPictures {
            model: self.chat.model().to_owned(),
            address: self.chat.client().address().to_string(),
            message: message.clone(),
        })
    }
}

/// How servers say that a model takes no pictures: llama.cpp (with status 500), vLLM, Ollama, OpenAI and others.
const BLIND: [&str; 12] = [
    "image input is not supported",
    "mmproj",
    "not a multimodal model",
    "at most 0 image",
    "missing data required for image input",
    "image_url is only supported",
    "does not support image",
    "do not support image",
    "does not support vision",
    "no endpoints found that support image",
    "invalid content type. image_url",
    "text-only model",
];

fn reply_of(answer: ChatAnswer) -> Reply {
    Reply {
        text: answer.text,
        thoughts: answer.thoughts,
        end: match answer.finish {
            // A word that nobody knows says nothing against an answer, which is read as strictly as any other.
            Finish::Stop | Finish::Other(_) => End::Stop,
            Finish::Length => End::Length,
        },
        prompt_tokens: answer.usage.prompt,
        answer_tokens: answer.usage.completion,
    }
}
