//! On which side the first of a pair is: whether its picture can be used (appendix F.3), and what boxes say (F.4).
//!
//! Boxes answer behind the gate of OTS-Bench's box rule, which is what the paper's first stage asks for: both there, apart from
//! each other, and beside each other rather than above each other.

mod boxes;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use image::ImageReader;
use prepose_check::rules::ots::{Side, Unclear, side_or_why};
use prepose_check::rules::{Options, Wanted};
use prepose_check::{detected, vocabulary};
use prepose_untrusted::open_regular;
use thiserror::Error;

use crate::read::PICTURES;
use crate::survey::{Found, PAIRS};

pub use boxes::Boxes;

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
    // Cameras write IMG_1.JPG.
    let endings = PICTURES.map(|ending| [ending.to_owned(), ending.to_ascii_uppercase()]);
    let mut files = endings.into_iter().flatten().map(|ending| {
        let mut whole = path.clone().into_os_string();
        whole.push(format!(".{ending}"));
        PathBuf::from(whole)
    });
    files.find(|path| path.is_file())
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
