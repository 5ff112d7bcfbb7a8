//! A picture with its caption, wherever it is.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use prepose_untrusted::{MAX_PICTURE, open_regular, read_regular};
use serde::Serialize;

use crate::objects::Object;

/// Where a picture is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file of its own.
    File(PathBuf),
    /// A part of a file: a member of a tar file.
    Part {
        /// The file.
        path: PathBuf,
        /// Bytes before it.
        offset: u64,
        /// Its bytes.
        length: u64,
    },
    /// A row of a Parquet file.
    Row {
        /// The file.
        path: PathBuf,
        /// From 0.
        row: u64,
    },
}

/// A picture with its caption.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What messages call it: its file within the folder, or the file and the place in it.
    pub name: String,
    /// Where the picture is.
    pub place: Place,
    /// What it shows.
    pub caption: String,
    /// How often it comes in an epoch.
    pub repeats: usize,
    /// What is where in it, if that was asked for.
    pub objects: Vec<Object>,
    /// Another picture of the same, which is shown to an adapter in the place of this one, if that was asked for and there is one.
    pub shown: Option<Place>,
}

/// What is of no use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// As [`Sample::name`].
    pub name: String,
    /// What is wrong with it.
    pub why: String,
}

/// How pictures and captions lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// `metadata.jsonl` or `.csv` beside pictures, or such a file.
    Listed,
    /// A text beside each picture.
    Beside,
    /// kohya's folders, `10_name`.
    Kohya,
    /// Parquet files.
    Parquet,
    /// webdataset's tar files.
    Webdataset,
    /// A run of prepose.
    Run,
}

/// What there is to train on.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// How it lies.
    pub layout: Layout,
    /// In the order of their files and lines.
    pub samples: Vec<Sample>,
    /// What is of no use, in the same order.
    pub skipped: Vec<Skipped>,
    /// Lines whose pictures a later line names again, pictures in folders beside kohya's, and links that are not followed. They
    /// are left out as well, but nothing is wrong with the data for that.
    pub passed_over: Vec<Skipped>,
}

impl Dataset {
    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            layout,
            samples: Vec::new(),
            skipped: Vec::new(),
            passed_over: Vec::new(),
        }
    }

    pub(crate) fn skip(&mut self, name: impl Into<String>, why: impl Into<String>) {
        self.skipped.push(Skipped {
            name: name.into(),
            why: why.into(),
        });
    }
}

impl Place {
    /// The picture's file, as bytes.
    ///
    /// # Errors
    /// It cannot be read, or is larger than any picture.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        match self {
            Self::File(path) => read_regular(path, MAX_PICTURE),
            Self::Part {
                path,
                offset,
                length,
            } => part(open_regular(path)?, *offset, *length),
            #[cfg(feature = "parquet")]
            Self::Row { path, row } => crate::parquet::picture(path, *row),
            #[cfg(not(feature = "parquet"))]
            Self::Row { .. } => Err(io::Error::other("there is no Parquet in this prepose")),
        }
    }
}

fn part(mut file: File, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    if length > MAX_PICTURE {
        return Err(io::Error::other("it is larger than any picture"));
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
