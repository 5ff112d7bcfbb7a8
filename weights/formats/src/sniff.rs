//! What a file is, from its first bytes. Checkpoints come renamed, cut short or replaced by an error
//! page often enough that the name alone is never believed.

use std::path::Path;

use crate::error::FormatError;

/// The largest JSON header that the safetensors format allows, in bytes.
pub(crate) const MAX_SAFETENSORS_HEADER: u64 = 100_000_000;

/// What the first bytes of a file say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Empty,
    /// Nothing but zero bytes: what a download leaves that reserved its space and was cut off.
    Zeros,
    Safetensors,
    /// A zip archive, as `torch.save` writes since PyTorch 1.6.
    Zip,
    /// A bare pickle or the legacy format of `torch.save`.
    Pickle,
    /// The tar archive of the first PyTorch versions.
    Tar,
    GitLfsPointer,
    Html,
    Gguf,
    Png,
    Jpeg,
    Json,
    Unknown,
}

impl Content {
    /// For messages: "this is {}".
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "an empty file",
            Self::Zeros => "a file of zeros, what an interrupted download leaves",
            Self::Safetensors => "a safetensors file",
            Self::Zip => "a zip archive, as PyTorch saves its checkpoints",
            Self::Pickle => "a Python pickle, as PyTorch saves its checkpoints",
            Self::Tar => "a tar archive, PyTorch's format before version 0.2 or something else",
            Self::GitLfsPointer => "a git-lfs pointer, which stands in for the file it names",
            Self::Html => "a web page (HTML)",
            Self::Gguf => "a GGUF file",
            Self::Png => "a PNG picture",
            Self::Jpeg => "a JPEG picture",
            Self::Json => "a JSON text",
            Self::Unknown => "a file of an unknown kind",
        }
    }

    /// Whether the PyTorch reader takes it.
    pub(crate) fn is_pytorch(self) -> bool {
        matches!(self, Self::Zip | Self::Pickle)
    }

    /// What to do about a file that holds this instead of weights.
    fn way_out(self) -> &'static str {
        match self {
            Self::GitLfsPointer => {
                "run `git lfs pull` in its repository, or download the file itself"
            }
            Self::Html => {
                "the server sent a page instead of the file: download it again, and see whether it \
                 needs an account or an accepted licence"
            }
            Self::Gguf => "use an f32, f16 or bf16 version of this checkpoint in safetensors",
            Self::Empty | Self::Zeros => "download it again",
            _ => "give a safetensors file, a PyTorch .ckpt/.pt/.bin or a diffusers folder",
        }
    }
}

/// What the file `bytes` is, from its first 512.
pub(crate) fn sniff(bytes: &[u8]) -> Content {
    let head = &bytes[..bytes.len().min(512)];
    if head.is_empty() {
        return Content::Empty;
    }
    let text = head
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(head)
        .trim_ascii_start();
    let lower = text[..text.len().min(64)].to_ascii_lowercase();
    if head.starts_with(b"version https://git-lfs") {
        Content::GitLfsPointer
    } else if lower.starts_with(b"<!doctype")
        || lower.starts_with(b"<html")
        || lower.starts_with(b"<?xml")
    {
        Content::Html
    } else if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        Content::Zip
    } else if head.starts_with(b"GGUF") {
        Content::Gguf
    } else if head.starts_with(b"\x89PNG") {
        Content::Png
    } else if head.starts_with(b"\xff\xd8\xff") {
        Content::Jpeg
    } else if head.get(257..262) == Some(b"ustar") {
        Content::Tar
    } else if is_safetensors(head) {
        Content::Safetensors
    } else if head[0] == 0x80 && head.get(1).is_some_and(|protocol| *protocol <= 5) {
        Content::Pickle
    } else if text.starts_with(b"{") {
        Content::Json
    } else if head.iter().all(|byte| *byte == 0) {
        Content::Zeros
    } else {
        Content::Unknown
    }
}

/// A plausible length, then the `{` that opens the JSON header.
fn is_safetensors(head: &[u8]) -> bool {
    let Some(header) = head
        .first_chunk::<8>()
        .map(|bytes| u64::from_le_bytes(*bytes))
    else {
        return false;
    };
    (2..=MAX_SAFETENSORS_HEADER).contains(&header)
        && (head.get(8) == Some(&b'{') || head.len() == 8)
}

/// What the file's name promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    Safetensors,
    Pytorch,
    Nothing,
}

/// What the name of `path` promises about its content.
pub(crate) fn promise(path: &Path) -> Promise {
    let extension = path
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default()
        .to_ascii_lowercase();
    match extension.as_str() {
        "safetensors" | "sft" => Promise::Safetensors,
        "ckpt" | "pt" | "pth" | "bin" => Promise::Pytorch,
        _ => Promise::Nothing,
    }
}

/// What the file `bytes` at `path` is, or the error that says what it is instead of weights.
pub(crate) fn content_of_weights(path: &Path, bytes: &[u8]) -> Result<Content, FormatError> {
    let content = sniff(bytes);
    let wrong = |hint| FormatError::NotWeights {
        path: path.to_path_buf(),
        what: format!("this is {}", content.name()),
        hint,
    };
    match (content, promise(path)) {
        (Content::Safetensors, Promise::Pytorch) => Err(wrong("rename it to end in .safetensors")),
        (content, Promise::Safetensors) if content.is_pytorch() => Err(wrong(
            "if you trust where it comes from, rename it to end in .ckpt",
        )),
        // The parser says best what is wrong with its header.
        (Content::Unknown, Promise::Safetensors) => Ok(Content::Safetensors),
        (content, _) if content == Content::Safetensors || content.is_pytorch() => Ok(content),
        _ => Err(wrong(content.way_out())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell() {
        let safetensors = [&16u64.to_le_bytes()[..], b"{\"__metadata__\":"].concat();
        for (bytes, content) in [
            (&b""[..], Content::Empty),
            (&[0; 64], Content::Zeros),
            (
                b"version https://git-lfs.github.com/spec/v1\noid sha256:0",
                Content::GitLfsPointer,
            ),
            (b"\n <!DOCTYPE html><html>", Content::Html),
            (b"<HTML><head>", Content::Html),
            (b"PK\x03\x04....", Content::Zip),
            (b"\x80\x02\x8a\x0al\xfc\x9cF", Content::Pickle),
            (b"GGUF\x03", Content::Gguf),
            (b"{\"error\": \"no\"}", Content::Json),
            (&safetensors, Content::Safetensors),
            (b"\x12\x34\x56\x78\x9a\xbc\xde\xf0{", Content::Unknown),
        ] {
            assert_eq!(sniff(bytes), content, "{bytes:?}");
        }
    }
}
