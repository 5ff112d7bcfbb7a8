//! Boxes by picture: which line of `prepose detect` a pair's picture has.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use prepose_check::detected::{self, Detected};
use prepose_check::rules::Options;
use prepose_untrusted::open_regular;
use sha2::{Digest, Sha256};

use super::{LayoutError, Seen, seen};
use crate::read::is_picture;
use crate::survey::Found;

/// A line of detections is no longer than this.
const LONGEST: u64 = 1 << 24;

/// In which of the files a line is, and where it begins.
type Place = (u32, u64);

/// Where in files the detections of each picture are: some dozen bytes for each name of a picture.
#[derive(Debug, Default)]
pub struct Boxes {
    files: Vec<PathBuf>,
    opened: Vec<BufReader<File>>,
    /// The folder of all pictures, where one was named.
    folder: Option<PathBuf>,
    places: HashMap<u64, Place>,
    /// By a file's name without folder and ending: its whole name in `places`, or none where several files are called that.
    stems: HashMap<u64, Option<u64>>,
}

impl Boxes {
    /// Reads through files by `prepose detect`. Pictures are known by their files, as they are written and below `folder`;
    /// those of lines that name no file, by their ids.
    ///
    /// # Errors
    /// A file cannot be read, or a line is none of `prepose detect`.
    pub fn open(files: &[PathBuf], folder: Option<&Path>) -> Result<Self, LayoutError> {
        let mut boxes = Self {
            folder: folder.map(absolute),
            ..Self::default()
        };
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
                    boxes.add(&found, (number, byte));
                }
                byte += read as u64;
            }
            boxes.opened.push(reader);
            boxes.files.push(path.clone());
        }
        Ok(boxes)
    }

    fn add(&mut self, found: &Detected, place: Place) {
        // Where there is a file, the id is its bare name, which pictures in other folders have as well.
        let Some(file) = found.file.as_deref() else {
            self.places.insert(name(Path::new(&found.id)), place);
            return;
        };
        let path = absolute(file);
        let whole = name(&path);
        let written = file.strip_prefix(".").unwrap_or(file);
        let below = (self.folder.as_ref()).and_then(|folder| path.strip_prefix(folder).ok());
        let names = [Some(whole), Some(name(written)), below.map(name)];
        self.places
            .extend(names.into_iter().flatten().map(|name| (name, place)));
        if let Some(stem) = file.file_stem() {
            let known = self.stems.entry(name(Path::new(stem)));
            let known = known.or_insert(Some(whole));
            *known = known.filter(|known| *known == whole);
        }
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
        let Some(named) = found.picture.as_deref().map(Path::new) else {
            return Ok(Seen::Unseen);
        };
        let own = file.and_then(|file| self.places.get(&name(&absolute(file))).copied());
        let Some(place) = own.or_else(|| self.called(named)) else {
            return Ok(Seen::Unseen);
        };
        let Some(case) = self.read(place)? else {
            return Ok(Seen::Unseen);
        };
        let line = case.file.as_deref().filter(|_| own.is_none());
        match line.is_none_or(|line| self.is_of(line, named, found, file)) {
            true => Ok(seen(found, case, options)),
            false => Ok(Seen::Unseen),
        }
    }

    /// The line whose picture is called that, or has an id that is.
    fn called(&self, named: &Path) -> Option<Place> {
        let stem = named.file_stem().map(Path::new);
        let mut names = [Some(named), stem].into_iter().flatten().map(name);
        if let Some(place) = names.find_map(|name| self.places.get(&name)) {
            return Some(*place);
        }
        // A key may have a dot in it, and no ending.
        let bare = [named.file_name().map(Path::new), stem];
        let mut bare = bare.into_iter().flatten().map(name);
        let whole = bare.find_map(|name| self.stems.get(&name).copied())?;
        self.places.get(&whole?).copied()
    }

    /// Whether the picture of a line, which is called like that of a pair but is not where that one is, is the same: its folder
    /// was moved, or is seen from elsewhere. Names such as 0001.png are in many folders, so that those must be called the same.
    fn is_of(&self, line: &Path, named: &Path, found: &Found, file: Option<&Path>) -> bool {
        if !line.ends_with(named) && !line.with_extension("").ends_with(named) {
            return false;
        }
        if let Some(file) = file.filter(|_| line.is_file()) {
            let [one, other] = [line, file].map(|path| path.canonicalize().ok());
            return one.is_some() && one == other;
        }
        // All pictures are in one folder then, or have keys, which name one in the whole of the data.
        if self.folder.is_some() || (file.is_none() && !is_picture(named)) {
            return true;
        }
        let whole = found.folder.join(named);
        let folders = [line, file.unwrap_or(&whole)].map(folder_name);
        folders.contains(&None) || folders[0] == folders[1]
    }

    fn read(&mut self, (number, byte): Place) -> Result<Option<Detected>, LayoutError> {
        let at = number as usize;
        let (Some(reader), Some(path)) = (self.opened.get_mut(at), self.files.get(at)) else {
            return Ok(None);
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
        Ok(Some(case))
    }
}

/// What the folder is called that a file is in.
fn folder_name(file: &Path) -> Option<&OsStr> {
    file.parent()?.file_name()
}

/// One spelling of `photos`, `./photos` and the whole path.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A picture's name as 8 bytes of its SHA-256.
fn name(path: &Path) -> u64 {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    let eight = digest.iter().take(8);
    eight.fold(0, |number, byte| number << 8 | u64::from(*byte))
}
