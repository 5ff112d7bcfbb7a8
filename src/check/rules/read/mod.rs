//! Reading what rules score: prepose's own lines, the checker's records, GenEval's and VISOR's result files.
//!
//! The forms are told apart by their keys and may be mixed in one file; `docs/rules.md` describes them.

mod depth;
mod geneval;
mod line;
mod visor;

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

pub use crate::run_lengths::{RunLengths, RunLengthsError};
pub use depth::read_depth;

use super::Case;
use super::depth::DepthError;
use crate::json;
use prepose_scene::SceneError;

/// Sides of pictures in pixels.
const SIDES: RangeInclusive<usize> = 1..=16_384;

/// Reads detections; holds what the lines of a file leave out.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    metadata: Vec<Value>,
    /// Width and height of pictures whose lines do not say.
    pub size: Option<(usize, usize)>,
}

/// Where in a file a picture is described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// The line's number, from 1, or VISOR's key.
    pub at: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path.display(), self.at)
    }
}

/// Why a line is no picture.
#[derive(Debug, Error)]
pub enum ReadError {
    /// No JSON, or JSON of another form.
    #[error("not a picture's detections: {}", json::without_place(.0))]
    Json(#[from] serde_json::Error),
    /// Nothing was detected in this picture, not even nothing.
    #[error(
        "no detections; a line has \"detections\", a record has \"detectors\", and a line of OTS-Bench's judge has \
         \"label\""
    )]
    NoDetections,
    /// Neither objects nor a prompt that names them.
    #[error(
        "what was asked for is not given: neither \"objects\" and \"relation\" nor a \"prompt\", and none can be read \
         from the file name"
    )]
    NothingAsked,
    /// The prompt's objects and relations cannot be read.
    #[error(
        "the prompt {prompt:?}: {error}; give \"objects\" and \"relation\" or \"relations\" instead"
    )]
    Prompt {
        /// The prompt.
        prompt: String,
        /// Why not.
        error: SceneError,
    },
    /// An unknown relation.
    #[error(transparent)]
    Relation(SceneError),
    /// A relation that is not of the form.
    #[error("{0:?} is not written as \"dog | left of | cat\"")]
    Notation(String),
    /// A relation of two objects, of which there are more or fewer.
    #[error("\"relation\" is between two objects, not {0}; write \"relations\" for more")]
    Objects(usize),
    /// Relations in two keys.
    #[error("both \"relation\" and \"relations\" are given; keep the one that is meant")]
    Both,
    /// No size of a picture.
    #[error("a picture of {0} x {1} pixels; sides are from 1 to {max}", max = SIDES.end())]
    Size(usize, usize),
    /// A detection of nothing.
    #[error("detection {0} has no \"label\"")]
    NoLabel(usize),
    /// A detection that is nowhere.
    #[error(
        "the detection of {0:?} has no box: neither \"box_xyxy\" [x0, y0, x1, y1], nor \"bbox\" [x, y, width, height], nor \
         a \"mask\""
    )]
    NoBox(String),
    /// A box whose corners are the wrong way round or no numbers.
    #[error(
        "the box of {label:?} is {corners:?}, and should be [x0, y0, x1, y1] with x0 <= x1 and y0 <= y1"
    )]
    Box {
        /// What is in it.
        label: String,
        /// The corners.
        corners: [f64; 4],
    },
    /// A mask that cannot be unpacked.
    #[error("the mask of {label:?}: {error}")]
    Mask {
        /// What it masks.
        label: String,
        /// Why not.
        error: RunLengthsError,
    },
    /// A depth map that cannot be read.
    #[error("the depth map {}: {error}", path.display())]
    Depth {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Values that are no depths.
    #[error(transparent)]
    Depths(#[from] DepthError),
    /// GenEval's other tags.
    #[error(
        "GenEval's tag {0:?} is not scored here: only single_object, two_object and position, which need no colours \
         and no exact counts"
    )]
    Tag(String),
    /// Metadata that does not fit.
    #[error("GenEval's metadata: {0}")]
    Metadata(String),
    /// A judge's task that there is not.
    #[error("\"task\" is {0:?}; it should be \"t2i\" or \"i2i\"")]
    Task(String),
}

impl Reader {
    /// A reader that takes what GenEval asks for from the lines of its `evaluation_metadata.jsonl`, for pictures whose path
    /// has the line's number, from 0: `00012/samples/0003.png`, `00012/0003.png` or `00012.png`.
    ///
    /// # Errors
    /// A line that is not JSON.
    pub fn with_geneval_metadata(text: &str) -> Result<Self, ReadError> {
        let parse = |(number, line): (usize, &str)| {
            let error = |error: serde_json::Error| {
                let why = json::without_place(&error);
                ReadError::Metadata(format!("line {}: {why}", number + 1))
            };
            serde_json::from_str(line).map_err(error)
        };
        let lines = text.lines().enumerate();
        let lines = lines.filter(|(_, line)| !line.trim().is_empty());
        let metadata = lines.map(parse).collect::<Result<_, _>>()?;
        Ok(Self {
            metadata,
            size: None,
        })
    }

    /// The pictures of a file with this text, in order, each or why it is none. Paths of depth maps start at the file's
    /// folder; maps are read as the pictures are taken.
    pub fn read<'a>(
        &'a self,
        path: &'a Path,
        text: &'a str,
    ) -> Box<dyn Iterator<Item = (Place, Result<Case, ReadError>)> + 'a> {
        let place = |at: String| Place {
            path: path.to_owned(),
            at,
        };
        if let Some(results) = visor::results(text) {
            let cases = results.into_iter();
            return Box::new(cases.map(move |(key, value)| {
                let case = visor::case(&key, value).and_then(|case| self.sized(case));
                (place(key), case)
            }));
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        let lines = text.lines().enumerate();
        let lines = lines.filter(|(_, line)| !line.trim().is_empty());
        Box::new(lines.map(move |(number, line)| {
            let number = number + 1;
            (place(number.to_string()), self.line(line, number, folder))
        }))
    }

    fn line(&self, line: &str, number: usize, folder: &Path) -> Result<Case, ReadError> {
        let mut value: Value = json::from_str(line)?;
        if geneval::is_result(&value) {
            return self.sized(geneval::result(&value)?);
        }
        if let Some(metadata) = geneval::metadata(&mut value, &self.metadata)? {
            geneval::ask(&mut value, &metadata)?;
        }
        let line = serde_json::from_value(value)?;
        self.sized(line::case(line, number, folder, self.size)?)
    }

    /// The picture with the size of those that do not say theirs, if it is one.
    fn sized(&self, mut case: Case) -> Result<Case, ReadError> {
        case.size = case.size.or(self.size);
        match case.size {
            Some((width, height)) if !SIDES.contains(&width) || !SIDES.contains(&height) => {
                Err(ReadError::Size(width, height))
            }
            _ => Ok(case),
        }
    }
}
