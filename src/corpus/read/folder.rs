//! Folders: files of captions in them, and texts beside pictures.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use prepose_untrusted::read_regular;
use sha2::{Digest, Sha256};

use super::{Form, Place, ReadError, Row, Rows, Source, form};

/// Endings of pictures.
pub(crate) const PICTURES: [&str; 4] = ["png", "jpg", "jpeg", "webp"];
/// Longer texts are no captions.
const LONGEST: u64 = 1 << 16;
/// How deep folders are looked into.
const DEEPEST: usize = 8;

/// Adds the sources in a folder and the folders in it, in the order of their names. Where there are files of captions, texts
/// beside pictures are the same again, and are left out.
pub(super) fn sources(folder: &Path, all: &mut Vec<Source>) -> Result<(), ReadError> {
    walk(folder, all, 0)
}

fn walk(folder: &Path, all: &mut Vec<Source>, depth: usize) -> Result<(), ReadError> {
    let (mut files, mut folders, mut texts) = (Vec::new(), Vec::new(), false);
    for entry in fs::read_dir(folder).map_err(|error| ReadError::io(folder, error))? {
        let entry = entry.map_err(|error| ReadError::io(folder, error))?;
        let path = entry.path();
        let kind = entry
            .file_type()
            .map_err(|error| ReadError::io(&path, error))?;
        if kind.is_dir() {
            folders.push(path);
        } else if let Some(form) = form(&path) {
            files.push(Source { path, form });
        } else {
            texts |= is_text(&path);
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    folders.sort();
    match files.is_empty() {
        false => all.append(&mut files),
        true if texts => all.push(Source {
            path: folder.to_owned(),
            form: Form::Texts,
        }),
        true => {}
    }
    if depth < DEEPEST {
        for folder in folders {
            walk(&folder, all, depth + 1)?;
        }
    }
    Ok(())
}

fn is_text(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("txt"))
}

/// Whether a file's name is that of a picture.
pub(crate) fn is_picture(path: &Path) -> bool {
    rank(path).is_some()
}

/// The place of a picture's ending among [`PICTURES`]; cameras write IMG_1.JPG.
fn rank(path: &Path) -> Option<usize> {
    let ending = path.extension()?;
    PICTURES
        .iter()
        .position(|known| ending.eq_ignore_ascii_case(known))
}

/// When a file was last written, in nanoseconds since 1970.
pub(crate) fn modified(metadata: &fs::Metadata) -> Option<u64> {
    let since = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// What tells that a folder of texts is not what it was: its texts with their sizes and when they were written, and the names
/// of its pictures.
pub(crate) fn fingerprint(folder: &Path) -> std::io::Result<u64> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if is_text(&path) {
            let metadata = fs::metadata(&path).ok();
            let state = metadata.map(|metadata| (metadata.len(), modified(&metadata)));
            all.push((name.to_vec(), state));
        } else if is_picture(&path) {
            all.push((name.to_vec(), None));
        }
    }
    all.sort_unstable();
    let mut digest = Sha256::new();
    for (name, state) in all {
        let (bytes, modified) = state.unwrap_or_default();
        digest.update(name);
        digest.update([0]);
        digest.update(bytes.to_le_bytes());
        digest.update(modified.unwrap_or_default().to_le_bytes());
    }
    let eight = digest.finalize();
    let eight = eight.iter().take(8);
    Ok(eight.fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn is_folder(entry: &fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir())
}

/// A file's name without its ending.
fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// The texts of a folder. The names of these and of its pictures are held, and nothing else of it.
pub(super) struct Texts {
    folder: PathBuf,
    texts: Vec<String>,
    /// By their names without endings.
    pictures: HashMap<String, String>,
    at: usize,
}

impl Texts {
    pub(super) fn open(folder: &Path, from: Place) -> Result<Self, ReadError> {
        let mut texts = Vec::new();
        let mut pictures: HashMap<String, (usize, Reverse<String>)> = HashMap::new();
        for entry in fs::read_dir(folder).map_err(|error| ReadError::io(folder, error))? {
            let entry = entry.map_err(|error| ReadError::io(folder, error))?;
            let path = entry.path();
            let names = [path.file_stem(), path.file_name()].map(|name| name?.to_str());
            let ([Some(stem), Some(name)], false) = (names, is_folder(&entry)) else {
                continue;
            };
            if is_text(&path) {
                texts.push(name.to_owned());
            } else if let Some(rank) = rank(&path) {
                // Of a.JPG and a.jpg the latter, as where endings are left out.
                let one = (rank, Reverse(name.to_owned()));
                let known = pictures
                    .entry(stem.to_owned())
                    .or_insert_with(|| one.clone());
                if one < *known {
                    *known = one;
                }
            }
        }
        texts.sort_by(|a, b| stem(a).cmp(stem(b)).then(a.cmp(b)));
        let pictures = pictures.into_iter();
        Ok(Self {
            folder: folder.to_owned(),
            texts,
            pictures: pictures
                .map(|(stem, (_, Reverse(name)))| (stem, name))
                .collect(),
            at: usize::try_from(from.row).unwrap_or(usize::MAX),
        })
    }
}

impl Rows for Texts {
    fn next(&mut self, most: usize, rows: &mut Vec<Row>) -> Result<u64, ReadError> {
        rows.clear();
        let mut passed = 0;
        while rows.len() < most && passed < most as u64 {
            let Some(name) = self.texts.get(self.at) else {
                break;
            };
            self.at += 1;
            let text = read_regular(&self.folder.join(name), LONGEST).ok();
            let Some(text) = text.and_then(|bytes| String::from_utf8(bytes).ok()) else {
                passed += 1;
                continue;
            };
            // Windows' editors begin a text with a byte order mark.
            let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
            rows.push(Row {
                caption: text.trim().to_owned(),
                picture: self.pictures.get(stem(name)).cloned(),
                ..Row::default()
            });
        }
        Ok(passed)
    }

    fn place(&self) -> Place {
        Place {
            row: self.at as u64,
            byte: 0,
        }
    }
}
