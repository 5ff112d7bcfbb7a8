//! From a path to pictures with captions, whatever the layout.

use std::fs;
use std::path::{Path, PathBuf};

use prepose_check::spatialbench::Verdict;
use prepose_corpus::read::Columns;

use crate::error::DatasetError;
use crate::sample::{Dataset, Layout};
use crate::{beside, listed, objects, runs, webdataset};

/// What is taken of what is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// What the captions' column or key is called; none: the usual names.
    pub caption_column: Option<String>,
    /// The caption of pictures that have none; none: they are left out.
    pub caption: Option<String>,
    /// Of a run: the verdicts whose pictures are taken; empty: all pictures; none: those that are PASS.
    pub verdicts: Option<Vec<String>>,
    /// Of a run: the methods whose pictures are taken; empty: all.
    pub methods: Vec<String>,
    /// Whether phrases with boxes are wanted; pictures without any are left out then.
    pub objects: bool,
    /// Whether pictures may name others that are shown to an adapter in their place, in metadata beside them.
    pub shown: bool,
    /// The largest share of pictures that may be of no use.
    pub most_skipped: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            caption_column: None,
            caption: None,
            verdicts: None,
            methods: Vec::new(),
            objects: false,
            shown: false,
            most_skipped: 0.1,
        }
    }
}

impl Options {
    /// The verdicts whose pictures are taken; empty: all pictures.
    pub(crate) fn verdicts(&self) -> Vec<&str> {
        match &self.verdicts {
            Some(named) => named.iter().map(String::as_str).collect(),
            None => vec![Verdict::Pass.as_str()],
        }
    }

    pub(crate) fn columns(&self) -> Columns {
        let usual = Columns {
            objects: match self.objects {
                true => vec![objects::KEY.into()],
                false => Vec::new(),
            },
            shown: match self.shown {
                true => vec![listed::SHOWN.into()],
                false => Vec::new(),
            },
            uncaptioned: self.caption.is_some(),
            ..Columns::default()
        };
        match &self.caption_column {
            Some(name) => Columns {
                caption: vec![name.clone()],
                ..usual
            },
            None => usual,
        }
    }
}

/// The names that files of metadata have in an image folder.
const METADATA: [&str; 4] = [
    "metadata.jsonl",
    "metadata.csv",
    "metadata.parquet",
    listed::MANIFEST,
];

/// What there is to train on in a folder or a file: pictures that have captions, not yet looked at ([`crate::look`]).
///
/// # Errors
/// Nothing that can be read, no picture with a caption, or an option that data in this layout do not read.
pub fn open(path: &Path, options: &Options) -> Result<Dataset, DatasetError> {
    let about = fs::metadata(path).map_err(|error| DatasetError::io(path, error))?;
    let mut dataset = match about.is_dir() {
        true => folder(path, options)?,
        false => file(path, options)?,
    };
    read_all(path, dataset.layout, options)?;
    if options.objects {
        objects::required(&mut dataset);
    }
    match dataset.samples.is_empty() {
        false => Ok(dataset),
        true => Err(DatasetError::Empty {
            path: path.to_owned(),
            why: match dataset.skipped.iter().chain(&dataset.passed_over).next() {
                Some(first) => format!(
                    "of {} pictures and lines none is of use; the first is {}: {}",
                    dataset.skipped.len() + dataset.passed_over.len(),
                    prepose_untrusted::printable(&first.name),
                    first.why
                ),
                None => "no picture with a caption was found: neither metadata.jsonl or .csv, nor texts beside pictures, nor .parquet or .tar files, nor a run".into(),
            },
        }),
    }
}

/// Refuses options that say nothing of data in this layout.
fn read_all(path: &Path, layout: Layout, options: &Options) -> Result<(), DatasetError> {
    let unread = |option, why| {
        let path = path.to_owned();
        Err(DatasetError::Unread { path, option, why })
    };
    match layout {
        Layout::Run if options.caption_column.is_some() => {
            unread("--caption-column", "the captions of a run are its prompts")
        }
        Layout::Run if options.caption.is_some() => {
            unread("--caption", "the captions of a run are its prompts")
        }
        Layout::Beside | Layout::Kohya if options.caption_column.is_some() => unread(
            "--caption-column",
            "its captions are texts beside the pictures, without columns",
        ),
        Layout::Run => Ok(()),
        _ if !options.methods.is_empty() => unread("--methods", "it is no run"),
        _ if options.verdicts.is_some() => unread("--verdicts", "it is no run"),
        _ => Ok(()),
    }
}

fn ending(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

fn file(path: &Path, options: &Options) -> Result<Dataset, DatasetError> {
    match ending(path).as_deref() {
        Some("jsonl" | "ndjson" | "csv") => listed::read(path, options),
        #[cfg(feature = "parquet")]
        Some("parquet") => crate::parquet::read(&[path.to_owned()], options),
        Some("tar") => webdataset::read(&[path.to_owned()], options),
        _ => Err(DatasetError::Form(path.to_owned())),
    }
}

fn folder(path: &Path, options: &Options) -> Result<Dataset, DatasetError> {
    if path.join("run.json").is_file() {
        return runs::read(path, options);
    }
    if let Some(metadata) = METADATA.iter().find(|name| path.join(name).is_file()) {
        return file(&path.join(metadata), options);
    }
    let mut names: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| DatasetError::io(path, error))? {
        names.push(entry.map_err(|error| DatasetError::io(path, error))?.path());
    }
    names.retain(|name| !beside::is_hidden(name));
    names.sort();
    let of = |wanted: &str| -> Vec<PathBuf> {
        let files = names
            .iter()
            .filter(|name| ending(name).as_deref() == Some(wanted));
        files.cloned().collect()
    };
    let tars = of("tar");
    if !tars.is_empty() {
        return webdataset::read(&tars, options);
    }
    #[cfg(feature = "parquet")]
    {
        let tables = of("parquet");
        if !tables.is_empty() {
            return crate::parquet::read(&tables, options);
        }
    }
    let kohya = beside::kohya(&names, options);
    match kohya.is_empty() {
        false => beside::read_kohya(path, &names, &kohya, options),
        true => beside::read(path, &[(path.to_owned(), 1, None)], Layout::Beside, options),
    }
}
