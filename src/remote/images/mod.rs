//! Servers that make pictures: OpenAI's interface, AUTOMATIC1111's and ComfyUI's.

mod comfy;
mod openai;
mod webui;

use base64::Engine as _;
use prepose_untrusted::printable;
use serde_json::{Map, Value};

use crate::RemoteError;

pub use comfy::{ComfyUi, Workflow, WorkflowError};
pub use openai::OpenAiImages;
pub use webui::WebUi;

/// What a picture is made from.
#[derive(Clone, Debug, Default)]
pub struct PictureRequest<'a> {
    /// The same for the same picture and no other, however often it is asked for: letters, digits and `-`.
    pub name: &'a str,
    /// What it should show.
    pub prompt: &'a str,
    /// What it should not show; empty for nothing in particular.
    pub negative_prompt: &'a str,
    /// Of the noise, where the server takes one.
    pub seed: u64,
    /// Width and height in pixels; the server's own if none.
    pub size: Option<[u32; 2]>,
    /// Denoising steps; the server's own if none.
    pub steps: Option<usize>,
    /// Classifier-free guidance; the server's own if none.
    pub guidance_scale: Option<f64>,
    /// A picture to begin with: a PNG file.
    pub init: Option<&'a [u8]>,
    /// How much of it is changed, in (0, 1], for servers that change pictures by adding noise.
    pub strength: Option<f64>,
}

/// Whether pictures can be changed, or made from nothing alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Editing {
    /// They are made from nothing.
    #[default]
    Never,
    /// They are made from nothing, or from a picture.
    Also,
    /// They are made from a picture.
    Only,
}

/// A picture from a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MadePicture {
    /// The file as it came: PNG, JPEG or WebP.
    pub bytes: Vec<u8>,
    /// The seed that the server says it took.
    pub seed: Option<u64>,
    /// What the server made of the prompt.
    pub revised_prompt: Option<String>,
    /// What the server calls its model.
    pub model: Option<String>,
    /// What the server calls the exchange.
    pub request_id: Option<String>,
    /// How often it was asked for.
    pub attempts: u32,
}

/// A server of pictures, for any number of threads.
pub trait ImageServer: Send + Sync {
    /// Asks whether it is what it should be, as far as that costs nothing.
    ///
    /// # Errors
    /// It is not, or not there.
    fn check(&self) -> Result<(), RemoteError>;

    /// Whether it takes a picture to begin with.
    fn editing(&self) -> Editing {
        Editing::Also
    }

    /// Makes a picture.
    ///
    /// # Errors
    /// [`RemoteError`]; [`RemoteError::Refused`] if the server's rules about content forbid it.
    fn make(&self, request: &PictureRequest) -> Result<MadePicture, RemoteError>;
}

/// Fields that are sent besides, as the server has them; `"{seed}"` stands for the picture's seed, and `"{strength}"` for how
/// much of the picture to begin with is changed: without such a picture the field is not sent. What an object has is added to
/// what is in the object of the same name that is sent anyway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extra(pub Map<String, Value>);

impl Extra {
    fn add_to(&self, body: &mut Value, request: &PictureRequest) {
        for (name, value) in &self.0 {
            let value = match (value.as_str(), request.strength) {
                (Some("{seed}"), _) => request.seed.into(),
                (Some("{strength}"), Some(strength)) => strength.into(),
                (Some("{strength}"), None) => continue,
                _ => value.clone(),
            };
            let known = body.get_mut(name).and_then(Value::as_object_mut);
            match (known, value) {
                (Some(known), Value::Object(more)) => known.extend(more),
                (_, value) => body[name] = value,
            }
        }
    }
}

/// A picture's file in base64, with or without what makes it a data URL; none if it is no picture, or not whole.
pub fn decode_picture(text: &str) -> Option<Vec<u8>> {
    let text = match text.strip_prefix("data:") {
        Some(url) => url.split_once(";base64,")?.1,
        None => text,
    };
    let text: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(text)
        .ok()?;
    is_picture(&bytes).then_some(bytes)
}

/// Whether bytes begin as PNG, JPEG or WebP files do, and end as PNG files do.
fn is_picture(bytes: &[u8]) -> bool {
    let png = bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.ends_with(b"IEND\xaeB`\x82");
    let webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    png || webp || bytes.starts_with(&[0xff, 0xd8, 0xff])
}

/// How often a server is asked for a picture that comes damaged.
const DAMAGED: u32 = 3;

/// Calls `ask` until it gives a picture that is whole, or an error.
fn until_whole(
    address: &str,
    mut ask: impl FnMut() -> Result<Result<MadePicture, String>, RemoteError>,
) -> Result<MadePicture, RemoteError> {
    let mut asked = 0;
    loop {
        asked += 1;
        match ask()? {
            Ok(picture) => {
                let attempts = picture.attempts + asked - 1;
                return Ok(MadePicture {
                    attempts,
                    ..picture
                });
            }
            Err(found) if asked >= DAMAGED => {
                return Err(RemoteError::Strange {
                    address: address.into(),
                    expected: "a server of pictures".into(),
                    found: printable(&found).to_string(),
                });
            }
            Err(found) => tracing::info!("{address}: {found}; asking once more"),
        }
    }
}

fn text(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests;
