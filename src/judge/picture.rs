//! Pictures as judges are sent them.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};
use prepose_remote::chat::data_url;
use prepose_untrusted::read_regular;
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::book::hex;

/// More than any picture's file has.
const MOST_BYTES: u64 = 1 << 28;
/// The longest side, and the memory that a picture may take.
const MOST_SIDE: u32 = 16_384;
const MOST_MEMORY: u64 = 1 << 30;

/// A picture that questions are asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Unique among the pictures of a judging.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
}

/// A picture's file.
#[derive(Clone, Debug)]
pub struct Seen {
    /// As it is.
    pub bytes: Vec<u8>,
    /// SHA-256 of it.
    pub digest: String,
    encoded: Arc<Mutex<Option<Encoded>>>,
}

/// A picture as it was sent.
#[derive(Debug)]
struct Encoded {
    /// The longest side that was allowed.
    largest: Option<u32>,
    url: Arc<str>,
}

/// Pictures that questions are asked about, by their numbers.
pub trait Pictures: Sync {
    /// How many there are.
    fn count(&self) -> usize;

    /// The name of one.
    fn named(&self, at: usize) -> Option<&Named>;

    /// The file of one.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, at: usize) -> Result<Seen, PictureError>;
}

impl Pictures for [Named] {
    fn count(&self) -> usize {
        self.len()
    }

    fn named(&self, at: usize) -> Option<&Named> {
        self.get(at)
    }

    fn read(&self, at: usize) -> Result<Seen, PictureError> {
        match self.get(at) {
            Some(named) => read(&named.path),
            None => Err(PictureError::None { number: at }),
        }
    }
}

impl Pictures for Vec<Named> {
    fn count(&self) -> usize {
        self.len()
    }

    fn named(&self, at: usize) -> Option<&Named> {
        self.get(at)
    }

    fn read(&self, at: usize) -> Result<Seen, PictureError> {
        self.as_slice().read(at)
    }
}

impl<const N: usize> Pictures for [Named; N] {
    fn count(&self) -> usize {
        N
    }

    fn named(&self, at: usize) -> Option<&Named> {
        self.get(at)
    }

    fn read(&self, at: usize) -> Result<Seen, PictureError> {
        self.as_slice().read(at)
    }
}

/// Pictures that are in no file yet, such as the candidates of a search: PNG files by name.
#[derive(Clone, Debug, Default)]
pub struct InMemory(pub Vec<(Named, Vec<u8>)>);

impl Pictures for InMemory {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn named(&self, at: usize) -> Option<&Named> {
        self.0.get(at).map(|(named, _)| named)
    }

    fn read(&self, at: usize) -> Result<Seen, PictureError> {
        match self.0.get(at) {
            Some((_, bytes)) => Ok(Seen::new(bytes.clone())),
            None => Err(PictureError::None { number: at }),
        }
    }
}

/// Why a picture cannot be judged.
#[derive(Debug, Error)]
pub enum PictureError {
    /// There are not so many.
    #[error("there is no picture number {number}")]
    None {
        /// From 0.
        number: usize,
    },
    /// It cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: std::io::Error,
    },
    /// It is no picture, or too large a one.
    #[error("{} cannot be used as a picture: {error}", path.display())]
    Decode {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: image::ImageError,
    },
}

/// Reads a picture's file.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> Result<Seen, PictureError> {
    let bytes = read_regular(path, MOST_BYTES).map_err(|error| PictureError::Read {
        path: path.to_owned(),
        error,
    })?;
    Ok(Seen::new(bytes))
}

impl Seen {
    /// Of what is in a picture's file.
    pub fn new(bytes: Vec<u8>) -> Self {
        let digest = hex(&Sha256::digest(&bytes));
        Self {
            bytes,
            digest,
            encoded: Arc::default(),
        }
    }

    /// The same as [`sent`](Self::sent), as an address that has the whole file in it. It is made once, however many ask.
    ///
    /// # Errors
    /// As of [`sent`](Self::sent).
    pub fn encoded(&self, path: &Path, largest: Option<u32>) -> Result<Arc<str>, PictureError> {
        // Whoever else asks waits for it.
        let mut encoded = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = encoded.as_ref().filter(|known| known.largest == largest) {
            return Ok(Arc::clone(&known.url));
        }
        let url: Arc<str> = data_url(&self.sent(path, largest)?).into();
        let sent = Arc::clone(&url);
        *encoded = Some(Encoded { largest, url });
        Ok(sent)
    }

    /// About how many bytes it takes in memory, once it is encoded.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() / 3 * 7
    }

    /// The file as servers take it: PNG and JPEG without transparency and upright as they are, all else as an RGB PNG: turned as
    /// EXIF says, transparent parts on white, and with no side longer than `largest` pixels.
    ///
    /// # Errors
    /// It is no picture, or too large a one.
    pub fn sent(&self, path: &Path, largest: Option<u32>) -> Result<Vec<u8>, PictureError> {
        let wrong = |error| PictureError::Decode {
            path: path.to_owned(),
            error,
        };
        let mut reader = ImageReader::new(Cursor::new(&self.bytes))
            .with_guessed_format()
            .map_err(|error| wrong(error.into()))?;
        let mut limits = Limits::default();
        limits.max_image_width = Some(MOST_SIDE);
        limits.max_image_height = Some(MOST_SIDE);
        limits.max_alloc = Some(MOST_MEMORY);
        reader.limits(limits);
        let format = reader.format();
        let mut decoder = reader.into_decoder().map_err(wrong)?;
        let turned = decoder.orientation().map_err(wrong)?;
        let upright = turned == image::metadata::Orientation::NoTransforms;
        let mut picture = DynamicImage::from_decoder(decoder).map_err(wrong)?;
        let fits = largest.is_none_or(|most| picture.width().max(picture.height()) <= most);
        let taken = matches!(format, Some(ImageFormat::Png | ImageFormat::Jpeg));
        if taken && upright && fits && !picture.color().has_alpha() {
            return Ok(self.bytes.clone());
        }
        picture.apply_orientation(turned);
        if let (Some(most), false) = (largest, fits) {
            picture = picture.resize(most, most, image::imageops::FilterType::CatmullRom);
        }
        let mut bytes = Vec::new();
        let plain = DynamicImage::ImageRgb8(on_white(&picture));
        plain
            .write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png)
            .map_err(wrong)?;
        Ok(bytes)
    }
}

fn on_white(picture: &DynamicImage) -> image::RgbImage {
    let with_alpha = picture.to_rgba8();
    image::RgbImage::from_fn(with_alpha.width(), with_alpha.height(), |x, y| {
        let [r, g, b, a] = with_alpha.get_pixel(x, y).0;
        let over = |value: u8| {
            let (value, alpha) = (u32::from(value), u32::from(a));
            ((value * alpha + 255 * (255 - alpha) + 127) / 255) as u8
        };
        image::Rgb([r, g, b].map(over))
    })
}
