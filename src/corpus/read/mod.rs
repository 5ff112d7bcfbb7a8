//! Captions from files, a part at a time.

mod folder;
mod lines;
#[cfg(feature = "parquet")]
mod parquet;
mod table;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

pub(crate) use folder::{PICTURES, fingerprint, is_picture, modified};

/// A caption with what is known of its picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The text.
    pub caption: String,
    /// The picture's file, below the folder of pictures; maybe without its ending.
    pub picture: Option<String>,
    /// Where the picture came from.
    pub url: Option<String>,
    /// Width and height in pixels, as the file of captions says.
    pub size: Option<[u32; 2]>,
    /// What is said of the things in the picture, in JSON lines where [`Columns::objects`] asks for it.
    pub objects: Option<Value>,
    /// Another picture of what this one shows, named as it, where [`Columns::shown`] asks for it.
    pub shown: Option<String>,
}

/// What columns or keys are called; the first that is there is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Columns {
    /// Of captions.
    pub caption: Vec<String>,
    /// Of pictures' files.
    pub picture: Vec<String>,
    /// Of addresses.
    pub url: Vec<String>,
    /// Of widths.
    pub width: Vec<String>,
    /// Of heights.
    pub height: Vec<String>,
    /// Of lists of things, in JSON lines; none: they are passed over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<String>,
    /// Of other pictures of the same, in JSON lines and CSV; none: they are passed over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<String>,
    /// Whether rows without a caption are rows with an empty one, and no table is refused for having no column of captions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncaptioned: bool,
}

impl Default for Columns {
    /// As LAION, DataComp, img2dataset and Hugging Face call them.
    fn default() -> Self {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            caption: names(&["caption", "TEXT", "text", "prompt", "title"]),
            picture: names(&["file_name", "picture", "image_path", "file", "path", "key"]),
            url: names(&["url", "URL"]),
            width: names(&["original_width", "width", "WIDTH"]),
            height: names(&["original_height", "height", "HEIGHT"]),
            objects: Vec::new(),
            shown: Vec::new(),
            uncaptioned: false,
        }
    }
}

/// Where captions are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The file, or the folder of texts.
    pub path: PathBuf,
    /// What it is.
    pub form: Form,
}

/// What captions are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A Parquet file with flat columns.
    Parquet,
    /// One JSON object a line.
    Lines,
    /// CSV with a header.
    Table,
    /// A folder with a text beside each picture.
    Texts,
}

/// How far a source was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Rows before it.
    pub row: u64,
    /// Bytes before it, where that says where it is.
    pub byte: u64,
}

/// Why captions cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Io {
        /// It.
        path: PathBuf,
        /// What is wrong.
        error: std::io::Error,
    },
    /// It is none of the forms.
    #[error(
        "{} is not a file of captions; give a .parquet, .jsonl or .csv file, or a folder of those or of pictures \
         with texts beside them",
        .0.display()
    )]
    Form(PathBuf),
    /// A folder without captions.
    #[error(
        "there are no captions in {}: neither .parquet, .jsonl or .csv files, nor .txt files beside pictures", .0.display()
    )]
    Nothing(PathBuf),
    /// A Parquet file is none, or damaged.
    #[error("{} cannot be read as Parquet: {why}", path.display())]
    Parquet {
        /// It.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// No column has captions.
    #[error(
        "{}: none of its columns is called {}; it has {}; say with --caption-column which one has the captions", path.display(), wanted.join(", "), found
    )]
    NoCaptions {
        /// The file.
        path: PathBuf,
        /// What is looked for.
        wanted: Vec<String>,
        /// What there is.
        found: String,
    },
    /// A column is of another kind.
    #[error("{}: the column {column:?} {why}", path.display())]
    Column {
        /// The file.
        path: PathBuf,
        /// Its name.
        column: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A line that nothing can be made of, at the start, where nothing else was read.
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

impl ReadError {
    fn io(path: &Path, error: std::io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            error,
        }
    }
}

/// A source that is being read.
pub trait Rows {
    /// Reads up to `most` more rows into `rows`, which is emptied first; none is the end. Returns how many rows there were
    /// besides, of which nothing can be made.
    ///
    /// # Errors
    /// It cannot be read on.
    fn next(&mut self, most: usize, rows: &mut Vec<Row>) -> Result<u64, ReadError>;

    /// How far it was read.
    fn place(&self) -> Place;
}

/// Opens a source at a place that an earlier [`Rows::place`] gave.
///
/// # Errors
/// It cannot be read, or has no captions.
pub fn open(source: &Source, columns: &Columns, from: Place) -> Result<Box<dyn Rows>, ReadError> {
    let path = source.path.as_path();
    Ok(match source.form {
        #[cfg(feature = "parquet")]
        Form::Parquet => Box::new(parquet::Parquet::open(path, columns, from)?),
        #[cfg(not(feature = "parquet"))]
        Form::Parquet => {
            return Err(ReadError::Parquet {
                path: path.to_owned(),
                why: "this prepose was built without the feature parquet".into(),
            });
        }
        Form::Lines => Box::new(lines::Lines::open(path, columns, from)?),
        Form::Table => Box::new(table::Table::open(path, columns, from)?),
        Form::Texts => Box::new(folder::Texts::open(path, from)?),
    })
}

/// The row that a JSON line is.
///
/// # Errors
/// Why it is none.
pub fn line(line: &[u8], columns: &Columns) -> Result<Row, String> {
    lines::row(line, columns)
}

/// The sources that are named, and those in folders that are, in the order of their names.
///
/// # Errors
/// A file of no known form, a folder without captions.
pub fn sources(named: &[PathBuf]) -> Result<Vec<Source>, ReadError> {
    let mut sources = Vec::new();
    for path in named {
        if path.is_dir() {
            let before = sources.len();
            folder::sources(path, &mut sources)?;
            if sources.len() == before {
                return Err(ReadError::Nothing(path.clone()));
            }
            continue;
        }
        if let Err(error) = std::fs::metadata(path) {
            return Err(ReadError::io(path, error));
        }
        let form = form(path).ok_or_else(|| ReadError::Form(path.clone()))?;
        let path = path.clone();
        sources.push(Source { path, form });
    }
    Ok(sources)
}

/// What a file is by its name.
fn form(path: &Path) -> Option<Form> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    match ending.as_str() {
        "parquet" => Some(Form::Parquet),
        "jsonl" | "ndjson" => Some(Form::Lines),
        "csv" => Some(Form::Table),
        _ => None,
    }
}

/// The place of the first of `wanted` among `names`.
fn position(wanted: &[String], names: &[String]) -> Option<usize> {
    wanted
        .iter()
        .find_map(|name| names.iter().position(|one| one == name))
}

/// The place of the column of captions among `names`, those of the table at `path`. None if rows need not have captions.
fn caption_at(
    columns: &Columns,
    names: &[String],
    path: &Path,
) -> Result<Option<usize>, ReadError> {
    match position(&columns.caption, names) {
        None if !columns.uncaptioned => Err(ReadError::NoCaptions {
            path: path.to_owned(),
            wanted: columns.caption.clone(),
            found: some(names),
        }),
        caption => Ok(caption),
    }
}

/// Names for a message, not too many of them.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A width and a height, if both are sides of a picture.
fn size(width: Option<f64>, height: Option<f64>) -> Option<[u32; 2]> {
    let side = |side: Option<f64>| {
        side.filter(|side| (1.0..=1e6).contains(side))
            .map(|side| side as u32)
    };
    Some([side(width)?, side(height)?])
}
