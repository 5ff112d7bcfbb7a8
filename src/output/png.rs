//! PNG files that carry the request that made them.
//!
//! Two text chunks are written: `parameters` in the form that AUTOMATIC1111's web UI introduced and
//! most tools read, and `prepose`, the whole [`Request`] as JSON, from which the picture can be made
//! again.

mod made;

use std::ffi::OsStr;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use png::{BitDepth, ColorType};
use prepose_untrusted::{MAX_PICTURE, printable, read_regular};
use prepose_weights::hub;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use made::{FirstPass, Made, Sampled};

use super::files::{WriteError, write_atomically};
use super::texts::{MAX_TEXTS, texts};
use crate::picture::Picture;
use crate::request::Request;

/// The chunk with the request as JSON.
const REQUEST_KEYWORD: &str = "prepose";
/// The chunk in the form of AUTOMATIC1111's web UI.
const PARAMETERS_KEYWORD: &str = "parameters";

/// Endings of checkpoints that are single files.
const FILES: [&str; 6] = ["safetensors", "sft", "ckpt", "pt", "pth", "bin"];

/// Why a picture could not be encoded or its metadata not read.
#[derive(Debug, Error)]
pub enum PngError {
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The encoder failed.
    #[error("cannot encode {}", path.display())]
    Encode {
        /// The picture.
        path: PathBuf,
        /// The encoder's reason.
        source: png::EncodingError,
    },
    /// The file could not be opened.
    #[error("cannot read {}", path.display())]
    Open {
        /// The picture.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// Not a PNG, or a broken one.
    #[error("{} is not a readable PNG", path.display())]
    Decode {
        /// The picture.
        path: PathBuf,
        /// The decoder's reason.
        source: png::DecodingError,
    },
    /// A text chunk that is damaged or unpacks to more than any program writes.
    #[error(
        "the text {} in {} is damaged, or all texts together are longer than {} MiB; they were not read",
        printable(keyword),
        path.display(),
        MAX_TEXTS >> 20
    )]
    Texts {
        /// The picture.
        path: PathBuf,
        /// What the file calls the text.
        keyword: String,
    },
    /// A PNG that prepose did not make, or that lost its metadata.
    #[error(
        "{} carries no prepose request; it was made by another program, or a program that edited it dropped its text chunks",
        path.display()
    )]
    NoRequest {
        /// The picture.
        path: PathBuf,
    },
    /// A request that this version cannot read.
    #[error("the request in {} cannot be read (made by {made_by})", path.display())]
    Request {
        /// The picture.
        path: PathBuf,
        /// The version that wrote it.
        made_by: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl PngError {
    fn encode(path: &Path, source: png::EncodingError) -> Self {
        Self::Encode {
            path: path.into(),
            source,
        }
    }
}

/// What is stored under `prepose`.
#[derive(Serialize, Deserialize)]
struct Stored {
    version: String,
    device: String,
    /// UNet calls, where the request alone does not say how many.
    calls: Option<usize>,
    request: serde_json::Value,
}

/// Writes `picture` to `path` with its request; all of it or nothing.
pub fn save<'a>(
    path: &Path,
    picture: &Picture,
    request: &Request,
    sampled: impl Into<Sampled<'a>>,
    device: &str,
) -> Result<(), PngError> {
    let bytes = encode(picture, request, sampled, device)
        .map_err(|source| PngError::encode(path, source))?;
    Ok(write_atomically(path, &bytes)?)
}

/// The picture without metadata, for previews.
pub fn save_plain(path: &Path, picture: &Picture) -> Result<(), PngError> {
    let bytes = encode_plain(picture).map_err(|source| PngError::encode(path, source))?;
    Ok(write_atomically(path, &bytes)?)
}

/// The bytes of the picture's file without metadata.
///
/// # Errors
/// A picture without pixels.
pub fn encode_plain(picture: &Picture) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut writer = encoder(&mut bytes, picture).write_header()?;
    writer.write_image_data(&picture.rgb)?;
    writer.finish()?;
    Ok(bytes)
}

fn encoder<'a>(bytes: &'a mut Vec<u8>, picture: &Picture) -> png::Encoder<'a, &'a mut Vec<u8>> {
    let mut encoder = png::Encoder::new(bytes, picture.width as u32, picture.height as u32);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    encoder
}

/// The bytes of the picture's file with its request.
///
/// # Errors
/// A picture without pixels.
pub fn encode<'a>(
    picture: &Picture,
    request: &Request,
    sampled: impl Into<Sampled<'a>>,
    device: &str,
) -> Result<Vec<u8>, png::EncodingError> {
    let Sampled { scheduler, calls } = sampled.into();
    encode_with_texts(
        picture,
        [
            (PARAMETERS_KEYWORD, parameters(request, scheduler, None)),
            (REQUEST_KEYWORD, stored(request, calls, device)),
        ],
    )
}

/// The bytes of a picture's file that was made from another one in a second pass. `parameters` has both passes, as the web
/// UI's "hires fix" has them; the request is the second one's, and so are the calls, but the scheduler is the first one's.
///
/// # Errors
/// A picture without pixels.
pub fn encode_second<'a>(
    picture: &Picture,
    first: &FirstPass,
    request: &Request,
    sampled: impl Into<Sampled<'a>>,
    device: &str,
) -> Result<Vec<u8>, png::EncodingError> {
    let Sampled { scheduler, calls } = sampled.into();
    let parameters = parameters(first.request, scheduler, Some((first, request)));
    encode_with_texts(
        picture,
        [
            (PARAMETERS_KEYWORD, parameters),
            (REQUEST_KEYWORD, stored(request, calls, device)),
        ],
    )
}

fn stored(request: &Request, calls: Option<usize>, device: &str) -> String {
    let mut stored = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "device": device,
        "request": request,
    });
    let expected = request.calls(request.scheduler.as_deref());
    if let Some(calls) = calls.filter(|calls| *calls != expected) {
        stored["calls"] = calls.into();
    }
    stored.to_string()
}

/// The bytes of a file with these texts inside, each under its keyword.
pub(super) fn encode_with_texts<const N: usize>(
    picture: &Picture,
    texts: [(&str, String); N],
) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = encoder(&mut bytes, picture);
    for (keyword, text) in texts {
        add_text(&mut encoder, keyword, text)?;
    }
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&picture.rgb)?;
    writer.finish()?;
    Ok(bytes)
}

/// tEXt is Latin-1 and read by everything; what does not fit goes into UTF-8 iTXt.
fn add_text(
    encoder: &mut png::Encoder<'_, &mut Vec<u8>>,
    keyword: &str,
    text: String,
) -> Result<(), png::EncodingError> {
    if text.is_ascii() {
        encoder.add_text_chunk(keyword.into(), text)
    } else {
        encoder.add_itxt_chunk(keyword.into(), text)
    }
}

/// The request in the form of AUTOMATIC1111's web UI, and that of a second pass over its picture.
fn parameters(
    request: &Request,
    scheduler: &str,
    second: Option<(&FirstPass, &Request)>,
) -> String {
    use std::fmt::Write;
    let mut text = request.prompt.clone();
    if !request.negative_prompt.is_empty() {
        let _ = write!(text, "\nNegative prompt: {}", request.negative_prompt);
    }
    let _ = write!(
        text,
        "\nSteps: {}, Sampler: {scheduler}, CFG scale: {}, Seed: {}, Size: {}x{}",
        request.steps, request.guidance_scale, request.seed, request.width, request.height
    );
    if let Some(hash) = request
        .model
        .sha256
        .as_deref()
        .and_then(|hash| hash.get(..10))
    {
        let _ = write!(text, ", Model hash: {hash}");
    }
    let _ = write!(text, ", Model: {}", model_name(&request.model.checkpoint));
    if request.clip_skip > 0 {
        // The web UI counts the last layer as 1.
        let _ = write!(text, ", Clip skip: {}", request.clip_skip + 1);
    }
    if let Some(init) = &request.init {
        let _ = write!(text, ", Denoising strength: {}", init.strength);
    }
    if let Some((first, second)) = second {
        let run = second.init.as_ref().map_or(1.0, |init| init.strength) * second.steps as f64;
        let _ = write!(
            text,
            ", Denoising strength: {}, Hires resize: {}x{}, Hires steps: {}",
            first.denoising, second.width, second.height, run as usize
        );
        if let Some(upscale) = second.init.as_ref().and_then(|init| init.upscale) {
            let _ = write!(text, ", Hires upscaler: {}", upscale.by.label());
        }
    }
    let _ = write!(text, ", Version: prepose {}", env!("CARGO_PKG_VERSION"));
    text
}

/// What people call a checkpoint: the last part of its path, without the ending of a weights file. What follows a dot in a
/// folder's name belongs to the name, as in `sd-1.5`. A folder of the hub's cache is called by its repository.
pub fn model_name(checkpoint: &str) -> String {
    let path = Path::new(checkpoint);
    let ending = path.extension().unwrap_or_default();
    let name = match FILES.iter().any(|file| ending.eq_ignore_ascii_case(file)) {
        true => path.file_stem(),
        false => hub::repository_of(path)
            .map(OsStr::new)
            .or(path.file_name()),
    };
    let name = name.unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// What a PNG says about itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PngInfo {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Text chunks, by keyword, in file order.
    pub texts: Vec<(String, String)>,
}

/// Reads the size and the text chunks of the PNG at `path`.
pub fn read_info(path: &Path) -> Result<PngInfo, PngError> {
    info_in(&bytes_of(path)?, path)
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, PngError> {
    read_regular(path, MAX_PICTURE).map_err(|source| PngError::Open {
        path: path.to_path_buf(),
        source,
    })
}

fn info_in(bytes: &[u8], path: &Path) -> Result<PngInfo, PngError> {
    let damaged = |source| PngError::Decode {
        path: path.to_path_buf(),
        source,
    };
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    let header = decoder.read_header_info().map_err(damaged)?;
    let (width, height) = (header.width, header.height);
    let mut reader = decoder.read_info().map_err(damaged)?;
    // Text may also stand behind the pixels.
    reader.finish().map_err(damaged)?;
    let texts = texts(reader.info()).map_err(|keyword| PngError::Texts {
        path: path.to_path_buf(),
        keyword,
    })?;
    Ok(PngInfo {
        width,
        height,
        texts,
    })
}

/// The request that made the picture at `path`.
pub fn read_request(path: &Path) -> Result<Request, PngError> {
    read_request_in(&bytes_of(path)?, path)
}

/// As [`read_request`], with what the picture took.
///
/// # Errors
/// [`PngError`].
pub fn read_made(path: &Path) -> Result<Made, PngError> {
    read_made_in(&bytes_of(path)?, path)
}

/// The request that made the picture in a file's `bytes`; errors call it `path`.
///
/// # Errors
/// [`PngError`], but for those of opening.
pub fn read_request_in(bytes: &[u8], path: &Path) -> Result<Request, PngError> {
    read_made_in(bytes, path).map(|made| made.request)
}

/// As [`read_request_in`], with what the picture took.
///
/// # Errors
/// As there.
pub fn read_made_in(bytes: &[u8], path: &Path) -> Result<Made, PngError> {
    let info = info_in(bytes, path)?;
    let text = |keyword: &str| {
        let mut texts = info.texts.iter();
        texts.find_map(|(key, text)| (key == keyword).then_some(text.as_str()))
    };
    let Some(request) = text(REQUEST_KEYWORD) else {
        return Err(PngError::NoRequest {
            path: path.to_path_buf(),
        });
    };
    let broken = |made_by: String| {
        move |source| PngError::Request {
            path: path.to_path_buf(),
            made_by,
            source,
        }
    };
    let stored: Stored =
        serde_json::from_str(request).map_err(broken("an unknown version".into()))?;
    let request = serde_json::from_value(stored.request);
    let request = request.map_err(broken(format!("prepose {}", stored.version)))?;
    Ok(Made::new(request, stored.calls, text(PARAMETERS_KEYWORD)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;
    use proptest::test_runner::RngSeed;

    use super::*;
    use crate::request::tests::request;

    fn picture() -> Picture {
        Picture {
            width: 3,
            height: 2,
            rgb: (0..18).collect(),
        }
    }

    #[test]
    fn a_picture_carries_its_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.png");
        let mut request = request();
        request.prompt = "ein Hund, 犬, \"quoted\"".into();
        request.negative_prompt = "blur".into();
        save(&path, &picture(), &request, "ddim", "flex").unwrap();
        assert_eq!(read_request(&path).unwrap(), request);
        let info = read_info(&path).unwrap();
        let parameters = &info
            .texts
            .iter()
            .find(|(k, _)| k == "parameters")
            .unwrap()
            .1;
        assert_eq!(
            parameters,
            "ein Hund, 犬, \"quoted\"\nNegative prompt: blur\nSteps: 20, Sampler: ddim, CFG scale: 7.5, \
             Seed: 7, Size: 128x128, Model: toybox, Version: prepose 0.1.0"
        );
        let decoded = image::open(&path).unwrap().into_rgb8();
        assert_eq!(decoded.into_raw(), picture().rgb);
    }

    #[test]
    fn bytes_carry_it_as_files_do() {
        let name = Path::new("picture 1");
        let bytes = encode(&picture(), &request(), "ddim", "flex").unwrap();
        assert_eq!(read_request_in(&bytes, name).unwrap(), request());
        let plain = encode_plain(&picture()).unwrap();
        let error = read_request_in(&plain, name).unwrap_err().to_string();
        assert!(error.starts_with("picture 1 carries no"), "{error}");
    }

    #[test]
    fn only_weights_files_lose_their_ending() {
        for (checkpoint, name) in [
            ("toybox", "toybox"),
            (
                "models/stable-diffusion-xl-base-1.0",
                "stable-diffusion-xl-base-1.0",
            ),
            ("stabilityai/sd-1.4/", "sd-1.4"),
            ("models/sd-v1.5.safetensors", "sd-v1.5"),
            ("v1-5-pruned.CKPT", "v1-5-pruned"),
            ("hub/models--me--sd-1.4/snapshots/0a0b", "sd-1.4"),
            ("..", ".."),
        ] {
            assert_eq!(model_name(checkpoint), name);
            let mut request = request();
            request.model.checkpoint = checkpoint.into();
            let text = parameters(&request, "ddim", None);
            assert!(text.contains(&format!(", Model: {name}, ")), "{text}");
        }
    }

    #[test]
    fn other_files_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain.png");
        save_plain(&plain, &picture()).unwrap();
        assert!(matches!(
            read_request(&plain),
            Err(PngError::NoRequest { .. })
        ));
        let text = folder.path().join("text.png");
        std::fs::write(&text, "hello").unwrap();
        assert!(matches!(read_request(&text), Err(PngError::Decode { .. })));
        let missing = folder.path().join("missing.png");
        assert!(matches!(read_request(&missing), Err(PngError::Open { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: RngSeed::Fixed(7),
            ..ProptestConfig::with_cases(400)
        })]

        /// Damage anywhere, and damage inside the text with its checksum made right again.
        #[test]
        fn damaged_files_are_refused_or_read(
            changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..5),
            end in prop::option::weighted(0.2, any::<Index>()),
            whole_chunks in any::<bool>(),
        ) {
            let mut bytes = encode(&picture(), &request(), "ddim", "flex").unwrap();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Some(end) = end {
                bytes.truncate(end.index(bytes.len()));
            }
            if whole_chunks {
                mend_checksums(&mut bytes);
            }
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("x.png");
            std::fs::write(&path, bytes).unwrap();
            if let Ok(request) = read_request(&path) {
                // What is read is a request like any other.
                let again = serde_json::to_value(&request).unwrap();
                prop_assert_eq!(serde_json::from_value::<Request>(again).unwrap(), request);
            }
        }
    }

    /// Writes the right checksum (CRC-32) behind each chunk, as far as lengths lead.
    fn mend_checksums(bytes: &mut [u8]) {
        let mut at = 8;
        while let Some(length) = bytes.get(at..at + 4) {
            let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
            let end = at + 8 + length;
            let Some(checked) = bytes.get(at + 4..end) else {
                return;
            };
            let crc = !checked.iter().fold(!0u32, |crc, byte| {
                (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                    (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
                })
            });
            let Some(place) = bytes.get_mut(end..end + 4) else {
                return;
            };
            place.copy_from_slice(&crc.to_be_bytes());
            at = end + 4;
        }
    }
}
