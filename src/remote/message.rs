//! What is said to language models, and how it goes over the line.

use std::sync::Arc;

use base64::Engine as _;
use serde_json::json;

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
    /// Such a file as [`data_url`] writes it, for one that is sent several times.
    Encoded(Arc<str>),
}

/// What one side says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who.
    pub role: Role,
    /// What, in this order.
    pub parts: Vec<Part>,
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
        Self::of(pictures.into_iter().map(Part::Picture), question)
    }

    /// The same of pictures that are encoded already.
    pub fn about_encoded(
        pictures: impl IntoIterator<Item = Arc<str>>,
        question: impl Into<String>,
    ) -> Self {
        Self::of(pictures.into_iter().map(Part::Encoded), question)
    }

    fn of(pictures: impl Iterator<Item = Part>, question: impl Into<String>) -> Self {
        Self {
            role: Role::User,
            parts: pictures.chain([Part::Text(question.into())]).collect(),
        }
    }

    /// Adds it to a text as JSON. Pictures are written into their place at once: they are most of a request.
    pub(crate) fn write(&self, to: &mut String) {
        let role = match self.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        to.push_str("{\"role\":\"");
        to.push_str(role);
        to.push_str("\",\"content\":");
        // Words alone as a text: some servers take nothing else in system messages.
        if let [Part::Text(text)] = self.parts.as_slice() {
            to.push_str(&json!(text).to_string());
        } else {
            to.push('[');
            for (at, part) in self.parts.iter().enumerate() {
                if at > 0 {
                    to.push(',');
                }
                part.write(to);
            }
            to.push(']');
        }
        to.push('}');
    }
}

impl Part {
    fn write(&self, to: &mut String) {
        const BEFORE: &str = "{\"type\":\"image_url\",\"image_url\":{\"url\":\"";
        match self {
            Self::Text(text) => to.push_str(&json!({"type": "text", "text": text}).to_string()),
            Self::Picture(bytes) => {
                to.push_str(BEFORE);
                write_data_url(bytes, to);
                to.push_str("\"}}");
            }
            // Of letters, digits and a few signs, none of which JSON writes in another way.
            Self::Encoded(url) => {
                to.push_str(BEFORE);
                to.push_str(url);
                to.push_str("\"}}");
            }
        }
    }
}

/// A picture's file as an address; the type is what its first bytes say.
pub fn data_url(bytes: &[u8]) -> String {
    let mut url = String::new();
    write_data_url(bytes, &mut url);
    url
}

fn write_data_url(bytes: &[u8], to: &mut String) {
    to.push_str(match bytes {
        [0xff, 0xd8, ..] => "data:image/jpeg;base64,",
        _ => "data:image/png;base64,",
    });
    base64::engine::general_purpose::STANDARD.encode_string(bytes, to);
}
