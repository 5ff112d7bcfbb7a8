//! All captions of all sources, a part at a time, so that what was stopped goes on where it was.
//!
//! In the folder of a survey, `pairs.jsonl` has a line for each pair, and `survey.json` how far it is. A pair's address (or
//! picture, where there is none) is known by 8 bytes of its SHA-256, so that another with the same is left out.

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use prepose_store::files::write_atomically;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::pairs::{Pair, Why, pair};
use crate::read::{self, Columns, Form, Place, ReadError, Row, Source, open};

/// Captions that are held at a time.
const PART: usize = 1 << 15;
/// The pairs.
pub const PAIRS: &str = "pairs.jsonl";
/// How far it is.
const PROGRESS: &str = "survey.json";

/// A pair with its picture: a line of `pairs.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The text.
    pub caption: String,
    /// Named first.
    pub first: String,
    /// Named second.
    pub second: String,
    /// With what is said of them.
    pub phrases: [String; 2],
    /// What joins them.
    pub link: String,
    /// What they are.
    pub kinds: [String; 2],
    /// Where pictures of its source are, if no other folder is named.
    pub folder: PathBuf,
    /// The picture's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
    /// Where it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Width and height, as the source says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<[u32; 2]>,
}

/// How many captions came to what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All captions.
    pub captions: u64,
    /// Rows that could not be read.
    pub unreadable: u64,
    /// Those that are no pairs, by why, as [`Why::as_str`] has it.
    pub refused: BTreeMap<String, u64>,
    /// Pairs whose address or picture was there before.
    pub repeated: u64,
    /// The others.
    pub pairs: u64,
}

/// How far a survey is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Progress {
    sources: Vec<Fingerprint>,
    columns: Columns,
    source: usize,
    place: Place,
    /// Of `pairs.jsonl`.
    bytes: u64,
    counts: Counts,
}

impl Progress {
    /// Whether it is of the same survey as one that begins now.
    fn is_of(&self, begun: &Self) -> bool {
        self.columns == begun.columns
            && self.sources.len() == begun.sources.len()
            && (begun.sources.iter().zip(&self.sources)).all(|(now, then)| now.is(then))
    }
}

/// A source, with what would tell that it is another one now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Fingerprint {
    #[serde(flatten)]
    source: Source,
    /// Of a file.
    bytes: Option<u64>,
    /// When a file was last written: another one may be as long.
    #[serde(default)]
    modified: Option<u64>,
    /// What is in a folder of texts.
    #[serde(default)]
    texts: Option<u64>,
}

impl Fingerprint {
    /// Whether it is what a survey that was begun before knew of its source. Earlier ones knew no times.
    fn is(&self, known: &Self) -> bool {
        let may_be = |now: Option<u64>, then: Option<u64>| then.is_none() || now == then;
        (&self.source, self.bytes) == (&known.source, known.bytes)
            && may_be(self.modified, known.modified)
            && may_be(self.texts, known.texts)
    }
}

/// Why a survey cannot go on.
#[derive(Debug, Error)]
pub enum SurveyError {
    /// Captions cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file of the survey cannot be read or written.
    #[error("cannot use {}: {error}", path.display())]
    Io {
        /// It.
        path: PathBuf,
        /// What is wrong.
        error: std::io::Error,
    },
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] prepose_store::files::WriteError),
    /// The folder is of another survey.
    #[error(
        "{} belongs to other files or columns, or they have changed since; choose another folder for --out", .0.display()
    )]
    Other(PathBuf),
    /// Somebody else writes into it.
    #[error("{} is being written by another prepose; wait for it, or choose another folder", .0.display())]
    InUse(PathBuf),
    /// A file of the survey is not as it was written.
    #[error("{} is damaged ({why}); remove the folder to start again", path.display())]
    Damaged {
        /// It.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// Surveys all sources into a folder, which is there already. Calls `progress` with how many captions are done; what `stop` says
/// is heard after each part. Returns the counts so far, and whether it is at the end.
///
/// # Errors
/// Captions cannot be read, the folder not be written, or it is of another survey.
pub fn survey(
    sources: &[Source],
    columns: &Columns,
    folder: &Path,
    progress: &mut dyn FnMut(u64),
    stop: &AtomicBool,
) -> Result<(Counts, bool), SurveyError> {
    let mut survey = Survey::open(sources, columns, folder)?;
    let mut rows = Vec::with_capacity(PART);
    while let Some(source) = sources.get(survey.at.source) {
        let base = match source.path.is_dir() {
            true => source.path.as_path(),
            false => source.path.parent().unwrap_or(Path::new("")),
        };
        let mut reader = open(source, columns, survey.at.place)?;
        loop {
            let unreadable = reader.next(PART, &mut rows)?;
            let ended = rows.is_empty() && unreadable == 0;
            survey.take(&rows, base, unreadable)?;
            survey.at.place = reader.place();
            if ended {
                survey.at.source += 1;
                survey.at.place = Place::default();
            }
            survey.save()?;
            progress(survey.at.counts.captions);
            if stop.load(Ordering::Relaxed) {
                let whole = survey.at.source >= sources.len();
                return Ok((survey.at.counts, whole));
            }
            if ended {
                break;
            }
        }
    }
    Ok((survey.at.counts, true))
}

struct Survey {
    folder: PathBuf,
    at: Progress,
    pairs: File,
    seen: HashSet<u64>,
}

impl Survey {
    /// Begins one, or goes on with the one in the folder.
    fn open(sources: &[Source], columns: &Columns, folder: &Path) -> Result<Self, SurveyError> {
        let path = folder.join(PAIRS);
        let io = |error| SurveyError::Io {
            path: path.clone(),
            error,
        };
        let mut pairs = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io)?;
        match pairs.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(SurveyError::InUse(path)),
            Err(std::fs::TryLockError::Error(error)) => return Err(io(error)),
        }
        let begun = Progress {
            sources: sources.iter().map(fingerprint).collect(),
            columns: columns.clone(),
            source: 0,
            place: Place::default(),
            bytes: 0,
            counts: Counts::default(),
        };
        let at = match read_progress(folder)? {
            None => begun,
            Some(known) if known.is_of(&begun) => known,
            Some(_) => return Err(SurveyError::Other(folder.to_owned())),
        };
        let length = pairs.metadata().map_err(io)?.len();
        if length < at.bytes {
            return Err(SurveyError::Damaged {
                path,
                why: format!("it has {length} bytes of {}", at.bytes),
            });
        }
        // What is behind was written by a part that did not end.
        pairs.set_len(at.bytes).map_err(io)?;
        let mut seen = HashSet::new();
        for line in BufReader::new(&pairs).lines() {
            let line = line.map_err(io)?;
            let found: Found =
                serde_json::from_str(&line).map_err(|error| SurveyError::Damaged {
                    path: path.clone(),
                    why: error.to_string(),
                })?;
            seen.extend(origin(&found));
        }
        pairs.seek(SeekFrom::End(0)).map_err(io)?;
        Ok(Self {
            folder: folder.to_owned(),
            at,
            pairs,
            seen,
        })
    }

    /// Takes a part.
    fn take(&mut self, rows: &[Row], folder: &Path, unreadable: u64) -> Result<(), SurveyError> {
        let pairs: Vec<Result<Pair, Why>> = rows.par_iter().map(|row| pair(&row.caption)).collect();
        let counts = &mut self.at.counts;
        counts.unreadable += unreadable;
        counts.captions += rows.len() as u64;
        let mut refused: [u64; Why::ALL.len()] = [0; Why::ALL.len()];
        let mut text = String::new();
        for (row, pair) in rows.iter().zip(pairs) {
            let pair = match pair {
                Ok(pair) => pair,
                Err(why) => {
                    refused[why as usize] += 1;
                    continue;
                }
            };
            let found = found(row, pair, folder);
            let new = origin(&found).is_none_or(|origin| self.seen.insert(origin));
            if !new {
                counts.repeated += 1;
                continue;
            }
            counts.pairs += 1;
            // Strings and numbers can always be written.
            text += &serde_json::to_string(&found).unwrap_or_default();
            text.push('\n');
        }
        for (why, count) in Why::ALL.iter().zip(refused) {
            if count > 0 {
                *counts.refused.entry(why.as_str().to_owned()).or_default() += count;
            }
        }
        let path = self.folder.join(PAIRS);
        self.pairs
            .write_all(text.as_bytes())
            .map_err(|error| SurveyError::Io { path, error })?;
        self.at.bytes += text.len() as u64;
        Ok(())
    }

    fn save(&self) -> Result<(), SurveyError> {
        let path = self.folder.join(PROGRESS);
        let text = serde_json::to_vec(&self.at).map_err(|error| SurveyError::Io {
            path: path.clone(),
            error: error.into(),
        })?;
        Ok(write_atomically(&path, &text)?)
    }
}

fn read_progress(folder: &Path) -> Result<Option<Progress>, SurveyError> {
    let path = folder.join(PROGRESS);
    let text = match prepose_untrusted::read_text(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(SurveyError::Io { path, error }),
    };
    let progress = serde_json::from_str(&text);
    progress.map(Some).map_err(|error| SurveyError::Damaged {
        path,
        why: error.to_string(),
    })
}

fn fingerprint(source: &Source) -> Fingerprint {
    let metadata = std::fs::metadata(&source.path).ok();
    let file = metadata.filter(std::fs::Metadata::is_file);
    Fingerprint {
        source: source.clone(),
        bytes: file.as_ref().map(std::fs::Metadata::len),
        modified: file.as_ref().and_then(read::modified),
        // A folder that cannot be read is an error when it is.
        texts: (source.form == Form::Texts)
            .then(|| read::fingerprint(&source.path).ok())
            .flatten(),
    }
}

fn found(row: &Row, pair: Pair, folder: &Path) -> Found {
    let [first, second] = pair.nouns;
    Found {
        caption: row.caption.clone(),
        first,
        second,
        phrases: pair.phrases,
        link: pair.link.to_owned(),
        kinds: pair.kinds.map(|kind| kind.as_str().to_owned()),
        folder: folder.to_owned(),
        picture: row.picture.clone(),
        url: row.url.clone(),
        size: row.size,
    }
}

/// What tells a pair's picture from others: its address, or else its file. None where neither is known.
fn origin(found: &Found) -> Option<u64> {
    let text = match (&found.url, &found.picture) {
        (Some(url), _) => format!("url\n{url}"),
        (None, Some(picture)) => format!("file\n{}\n{picture}", found.folder.display()),
        (None, None) => return None,
    };
    let digest = Sha256::digest(text);
    let eight = digest.iter().take(8);
    Some(eight.fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
