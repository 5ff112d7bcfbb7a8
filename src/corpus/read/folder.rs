//! Folders: files of captions in them, and texts beside pictures.

use std::fs;
use std::path::{Path, PathBuf};

use prepose_untrusted::read_regular;

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

/// The texts of a folder. Its names are held, and nothing else of it.
pub(super) struct Texts {
    folder: PathBuf,
    names: Vec<String>,
    at: usize,
}

impl Texts {
    pub(super) fn open(folder: &Path, from: Place) -> Result<Self, ReadError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(|error| ReadError::io(folder, error))? {
            let path = entry.map_err(|error| ReadError::io(folder, error))?.path();
            let name = path.file_stem().and_then(|name| name.to_str());
            if let Some(name) = name.filter(|_| is_text(&path)) {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(Self {
            folder: folder.to_owned(),
            names,
            at: usize::try_from(from.row).unwrap_or(usize::MAX),
        })
    }
}

impl Rows for Texts {
    fn next(&mut self, most: usize, rows: &mut Vec<Row>) -> Result<u64, ReadError> {
        rows.clear();
        let mut passed = 0;
        while rows.len() < most && passed < most as u64 {
            let Some(name) = self.names.get(self.at) else {
                break;
            };
            self.at += 1;
            let path = self.folder.join(format!("{name}.txt"));
            let text = read_regular(&path, LONGEST).ok();
            let Some(text) = text.and_then(|bytes| String::from_utf8(bytes).ok()) else {
                passed += 1;
                continue;
            };
            let named = PICTURES.map(|ending| format!("{name}.{ending}"));
            let picture = named
                .into_iter()
                .find(|name| self.folder.join(name).is_file());
            rows.push(Row {
                caption: text.trim().to_owned(),
                picture,
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
