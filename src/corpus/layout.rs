//! On which side the first of a pair is: whether its picture can be used (appendix F.3), and what boxes say (F.4).
//!
//! Boxes answer behind the gate of OTS-Bench's box rule, which is what the paper's first stage asks for: both there, apart from
//! each other, and beside each other rather than above each other.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use image::ImageReader;
use prepose_check::rules::ots::{Side, Unclear, side_or_why};
use prepose_check::rules::{Options, Wanted};
use prepose_check::{detected, vocabulary};
use prepose_untrusted::open_regular;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::read::PICTURES;
use crate::survey::{Found, PAIRS};

/// A line of detections is no longer than this.
const LONGEST: u64 = 1 << 24;

/// Which pictures can be used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usable {
    /// The shorter side in pixels, at least; the paper's 100.
    pub least: u32,
    /// The longer side is at most so many times the shorter one. The paper leaves out "extreme aspect ratios" and gives no number;
    /// this is ours.
    pub ratio: f64,
}

impl Default for Usable {
    fn default() -> Self {
        Self {
            least: 100,
            ratio: 3.0,
        }
    }
}

/// What is seen of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Seen {
    /// The first-named is on the left.
    Left,
    /// It is on the right.
    Right,
    /// There is no picture.
    NoPicture,
    /// It cannot be read.
    Broken,
    /// It is too small.
    Small,
    /// It is too long.
    Long,
    /// Nobody has looked at it.
    Unseen,
    /// One of the two was not found.
    Missing,
    /// One of them was found more than once.
    Several,
    /// Their boxes overlap.
    Overlap,
    /// They are above each other.
    Stacked,
    /// They are too close to tell.
    Close,
    /// The judge says that they do not both stand apart from each other, side by side.
    Gated,
    /// The judge's answer is none of those asked for.
    Invalid,
    /// The judge has not answered.
    Unanswered,
}

impl Seen {
    /// In tables and files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Left => "first on the left",
            Self::Right => "first on the right",
            Self::NoPicture => "no picture",
            Self::Broken => "broken picture",
            Self::Small => "small picture",
            Self::Long => "extreme aspect ratio",
            Self::Unseen => "not looked at",
            Self::Missing => "one not found",
            Self::Several => "one found twice",
            Self::Overlap => "overlapping",
            Self::Stacked => "above each other",
            Self::Close => "too close to tell",
            Self::Gated => "not side by side, says the judge",
            Self::Invalid => "invalid answer",
            Self::Unanswered => "no answer",
        }
    }

    /// Whether it counts, and for what.
    pub fn is_aligned(self) -> Option<bool> {
        match self {
            Self::Left => Some(true),
            Self::Right => Some(false),
            _ => None,
        }
    }
}

/// Why layouts cannot be found.
#[derive(Debug, Error)]
pub enum LayoutError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Io {
        /// It.
        path: PathBuf,
        /// What is wrong.
        error: std::io::Error,
    },
    /// A line of detections is none.
    #[error("{}: line {line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What is wrong.
        why: String,
    },
}

/// The pairs of a survey, one by one.
///
/// # Errors
/// They cannot be read.
pub fn pairs(
    folder: &Path,
) -> Result<impl Iterator<Item = Result<Found, LayoutError>>, LayoutError> {
    let path = folder.join(PAIRS);
    let file = open_regular(&path).map_err(|error| LayoutError::Io {
        path: path.clone(),
        error,
    })?;
    Ok((1..)
        .zip(BufReader::new(file).lines())
        .map(move |(line, text)| {
            let text = text.map_err(|error| LayoutError::Io {
                path: path.clone(),
                error,
            })?;
            serde_json::from_str(&text).map_err(|error| LayoutError::Line {
                path: path.clone(),
                line,
                why: error.to_string(),
            })
        }))
}

/// The file of a pair's picture, in `folder` if one is named. An ending that is left out is found.
pub fn file(found: &Found, folder: Option<&Path>) -> Option<PathBuf> {
    let name = found.picture.as_deref()?;
    let path = folder.unwrap_or(&found.folder).join(name);
    if path.is_file() {
        return Some(path);
    }
    let mut endings = PICTURES.iter().map(|ending| {
        let mut whole = path.clone().into_os_string();
        whole.push(format!(".{ending}"));
        PathBuf::from(whole)
    });
    endings.find(|path| path.is_file())
}

/// Why a pair's picture is of no use, from its first bytes; none if it is of use. Without a file, the size that its source
/// gave decides.
pub fn fault(found: &Found, file: Option<&Path>, usable: &Usable) -> Option<Seen> {
    let size = match (file, found.size) {
        (None, None) => return Some(Seen::NoPicture),
        (None, Some(size)) => size,
        (Some(path), _) => {
            let opened = open_regular(path).ok().map(BufReader::new);
            let size = opened.and_then(|file| {
                let reader = ImageReader::new(file).with_guessed_format().ok()?;
                reader.into_dimensions().ok()
            });
            match size {
                None => return Some(Seen::Broken),
                Some((width, height)) => [width, height],
            }
        }
    };
    let [shorter, longer] = [size[0].min(size[1]), size[0].max(size[1])];
    if shorter < usable.least {
        return Some(Seen::Small);
    }
    (f64::from(longer) > usable.ratio * f64::from(shorter)).then_some(Seen::Long)
}

/// Where in files the detections of each picture are: 16 bytes for each name of a picture.
#[derive(Debug, Default)]
pub struct Boxes {
    files: Vec<PathBuf>,
    opened: Vec<BufReader<File>>,
    places: HashMap<u64, (u32, u64)>,
}

impl Boxes {
    /// Reads through files by `prepose detect`. Pictures are known by their files below `folder`, by the files as they are
    /// written, and by their ids.
    ///
    /// # Errors
    /// A file cannot be read, or a line is none of `prepose detect`.
    pub fn open(files: &[PathBuf], folder: Option<&Path>) -> Result<Self, LayoutError> {
        let mut boxes = Self::default();
        for (number, path) in (0..).zip(files) {
            let io = |error| LayoutError::Io {
                path: path.clone(),
                error,
            };
            let mut reader = BufReader::new(open_regular(path).map_err(io)?);
            let (mut byte, mut line) = (0, Vec::new());
            for at in 1.. {
                line.clear();
                let read = reader
                    .by_ref()
                    .take(LONGEST)
                    .read_until(b'\n', &mut line)
                    .map_err(io)?;
                if read == 0 {
                    break;
                }
                let text = String::from_utf8_lossy(&line);
                if !text.trim().is_empty() {
                    let found = detected::read(&text).map_err(|error| LayoutError::Line {
                        path: path.clone(),
                        line: at,
                        why: error.to_string(),
                    })?;
                    let whole = found.file.as_deref();
                    let below = whole.and_then(|file| file.strip_prefix(folder?).ok());
                    let names = [whole, below, Some(Path::new(&found.id))];
                    let names = names.into_iter().flatten().map(name);
                    boxes
                        .places
                        .extend(names.map(|name| (name, (number, byte))));
                }
                byte += read as u64;
            }
            boxes.opened.push(reader);
            boxes.files.push(path.clone());
        }
        Ok(boxes)
    }

    /// What boxes say of a pair, whose picture has this file.
    ///
    /// # Errors
    /// The detections cannot be read any more.
    pub fn side(
        &mut self,
        found: &Found,
        file: Option<&Path>,
        options: &Options,
    ) -> Result<Seen, LayoutError> {
        let named = found.picture.as_deref().map(Path::new);
        let stem = named.and_then(|path| path.file_stem()).map(Path::new);
        let mut names = [file, named, stem].into_iter().flatten().map(name);
        let place = names.find_map(|name| self.places.get(&name));
        let Some((number, byte)) = place.copied() else {
            return Ok(Seen::Unseen);
        };
        let at = number as usize;
        let (Some(reader), Some(path)) = (self.opened.get_mut(at), self.files.get(at)) else {
            return Ok(Seen::Unseen);
        };
        let io = |error| LayoutError::Io {
            path: path.clone(),
            error,
        };
        let here = reader.stream_position().map_err(io)?;
        // Mostly the next line: what is in memory already is not read again.
        let distance = i64::try_from(byte).unwrap_or(0) - i64::try_from(here).unwrap_or(0);
        reader.seek_relative(distance).map_err(io)?;
        let mut line = String::new();
        reader.take(LONGEST).read_line(&mut line).map_err(io)?;
        let case = detected::read(&line).map_err(|error| LayoutError::Line {
            path: path.clone(),
            line: 0,
            why: error.to_string(),
        })?;
        Ok(seen(found, case, options))
    }
}

/// What the boxes of one picture say.
fn seen(found: &Found, picture: detected::Detected, options: &Options) -> Seen {
    let mut case = picture.case();
    case.size = case.size.or(found
        .size
        .map(|[width, height]| (width as usize, height as usize)));
    let mut known: Vec<String> = case
        .detections
        .iter()
        .map(|one| one.label.to_lowercase())
        .collect();
    known.sort_unstable();
    known.dedup();
    let nouns = [&found.first, &found.second];
    let mut labels = Vec::new();
    for (phrase, noun) in found.phrases.iter().zip(nouns) {
        match vocabulary::label(&known, phrase, noun) {
            Ok(label) => labels.push(Wanted::one(label)),
            Err(_) => return Seen::Missing,
        }
    }
    case.objects = labels;
    match side_or_why(&case, options) {
        Ok(Ok(Side::Left)) => Seen::Left,
        Ok(Ok(Side::Right)) => Seen::Right,
        Ok(Ok(Side::Invalid)) | Err(_) => Seen::Invalid,
        Ok(Err(why)) => match why {
            Unclear::Missing(_) => Seen::Missing,
            Unclear::Several(_) => Seen::Several,
            Unclear::Overlap => Seen::Overlap,
            Unclear::OtherAxis => Seen::Stacked,
            Unclear::Close => Seen::Close,
        },
    }
}

/// A picture's name as 8 bytes of its SHA-256.
fn name(path: &Path) -> u64 {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    let eight = digest.iter().take(8);
    eight.fold(0, |number, byte| number << 8 | u64::from(*byte))
}
