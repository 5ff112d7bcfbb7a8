//! Captions in files beside pictures, and kohya's folders of those, whose names say how often they come.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use prepose_untrusted::read_regular;

use crate::error::DatasetError;
use crate::open::Options;
use crate::sample::{Dataset, Layout, Place, Sample, Skipped};

/// Endings of pictures.
pub(crate) const PICTURES: [&str; 4] = ["png", "jpg", "jpeg", "webp"];
/// Endings of pictures that cannot be read here, and are named instead.
const UNREADABLE: [&str; 8] = ["bmp", "gif", "tif", "tiff", "avif", "heic", "heif", "jxl"];
/// Endings of captions, in the order in which they are taken.
const CAPTIONS: [&str; 2] = ["txt", "caption"];
/// Longer texts are no captions.
const LONGEST: u64 = 1 << 16;
/// Why a link is not followed, such as one to a disk that is not there.
const NOWHERE: &str = "it is a link that leads nowhere";
/// How deep folders are looked into.
const DEEPEST: usize = 8;

/// A folder, how often its pictures come, and the caption of those that have none.
type Folder = (PathBuf, usize, Option<String>);

/// Which of a folder's entries are kohya's: `10_sks dog` is ten times, by default "sks dog". None where pictures that have
/// captions lie beside them: `2023_summer` is but a name then.
pub(crate) fn kohya(entries: &[PathBuf], options: &Options) -> Vec<Folder> {
    let captions = captions(entries);
    let is_data = |path: &PathBuf| {
        let has_caption = || !matches!(text(caption_of(&captions, path)), Ok(None));
        is_picture(path) && (options.caption.is_some() || has_caption())
    };
    if entries.iter().any(is_data) {
        return Vec::new();
    }
    let folders = entries.iter().filter(|path| path.is_dir());
    folders
        .filter(|path| !is_output(path))
        .filter_map(|path| {
            let (repeats, name) = path.file_name()?.to_str()?.split_once('_')?;
            let repeats = repeats.parse().ok().filter(|repeats| *repeats <= 10_000)?;
            Some((path.clone(), repeats, Some(name.to_owned())))
        })
        .collect()
}

/// Reads kohya's folders; pictures in the others among the `entries` of `base`, and beside them, are passed over.
pub(crate) fn read_kohya(
    base: &Path,
    entries: &[PathBuf],
    folders: &[Folder],
    options: &Options,
) -> Result<Dataset, DatasetError> {
    let mut dataset = read(base, folders, Layout::Kohya, options)?;
    let kohyas = folders.iter().map(|(folder, ..)| folder);
    let mut others = Walk::new(base)?;
    others
        .visited
        .extend(kohyas.filter_map(|folder| folder.canonicalize().ok()));
    let (links, real): (Vec<_>, Vec<_>) = (entries.iter())
        .filter(|path| path.is_dir() && !is_output(path))
        .partition(|path| path.is_symlink());
    // What cannot be read there would not have been trained on either.
    for folder in real {
        let _ = others.enter(folder, 0);
    }
    others
        .links
        .extend(links.into_iter().map(|link| (link.clone(), 0)));
    while let Some((link, depth)) = others.links.pop_front() {
        let _ = others.follow(&link, depth);
    }
    dataset.passed_over.extend(others.pictures.iter().map(|(path, _)| Skipped {
        name: name_in(base, path),
        why: "the name of its folder does not say how often it comes, as those of kohya's folders beside it do: 10_sks dog".into(),
    }));
    dataset.passed_over.extend(others.left_out(base));
    let beside = entries.iter().filter(|path| !path.is_dir());
    dataset.passed_over.extend(beside.filter_map(|path| {
        let why = match (is_picture(path), is_unreadable(path)) {
            (true, _) => "it has no caption, and lies beside kohya's folders, not in one".into(),
            (_, true) => unreadable(path),
            _ if is_broken(path) => NOWHERE.into(),
            _ => return None,
        };
        let name = name_in(base, path);
        Some(Skipped { name, why })
    }));
    Ok(dataset)
}

/// Reads folders of pictures with captions beside them; names are those within `base`.
pub(crate) fn read(
    base: &Path,
    folders: &[Folder],
    layout: Layout,
    options: &Options,
) -> Result<Dataset, DatasetError> {
    let mut dataset = Dataset::new(layout);
    // What is not to come at all is not there.
    for (folder, repeats, caption) in folders.iter().filter(|(_, repeats, _)| *repeats > 0) {
        let mut walk = Walk::new(base)?;
        walk.enter(folder, 0)?;
        while let Some((link, depth)) = walk.links.pop_front() {
            walk.follow(&link, depth)?;
        }
        dataset.passed_over.extend(walk.left_out(base));
        for (path, beside) in walk.pictures {
            let name = name_in(base, &path);
            if is_unreadable(&path) {
                // Often the original of a picture that lies beside it: no fault of the data.
                let why = unreadable(&path);
                dataset.passed_over.push(Skipped { name, why });
                continue;
            }
            match text(beside.as_deref()) {
                Err(why) => dataset.skip(name, why),
                Ok(found) => match found.or(caption.clone()).or(options.caption.clone()) {
                    Some(caption) => dataset.samples.push(Sample {
                        name,
                        place: Place::File(path),
                        caption,
                        repeats: *repeats,
                        objects: Vec::new(),
                        shown: None,
                    }),
                    None => dataset.skip(
                        name,
                        "it has no caption: no .txt or .caption file beside it; --caption gives one to all that have none",
                    ),
                },
            }
        }
    }
    Ok(dataset)
}

fn name_in(base: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(base).unwrap_or(path);
    inside.to_string_lossy().into_owned()
}

/// Whether an entry is hidden: a program's own notes (`.ipynb_checkpoints`, macOS's `._0.png`), and no data.
pub(crate) fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(b".")
}

/// Whether a folder has what came of data, whose pictures are none: a training, its samples where it is in the folder of its
/// data, or a run.
fn is_output(folder: &Path) -> bool {
    let holds = |folder: &Path, name: &str| folder.join(name).is_file();
    let is_trainings = |folder: &Path| holds(folder, "training.json");
    is_trainings(folder)
        || holds(folder, "run.json")
        || (folder.ends_with("samples") && folder.parent().is_some_and(is_trainings))
}

/// What is found in a folder and those in it, but for what is hidden and what came of data.
#[derive(Default)]
struct Walk {
    /// The folder of all the data. Links to it or to what it lies in lead to what is no data.
    around: PathBuf,
    /// Without links. A folder is read once, whatever leads there.
    visited: HashSet<PathBuf>,
    /// Pictures, each with the file of its caption.
    pictures: Vec<(PathBuf, Option<PathBuf>)>,
    /// Links to folders, with how deep they lie.
    links: VecDeque<(PathBuf, usize)>,
    /// Links that are not followed, and why.
    left: Vec<(PathBuf, &'static str)>,
}

impl Walk {
    fn new(base: &Path) -> Result<Self, DatasetError> {
        let around = base.canonicalize();
        let around = around.map_err(|error| DatasetError::io(base, error))?;
        Ok(Self {
            around,
            ..Self::default()
        })
    }

    /// Reads a folder and those in it. Links to folders are kept for later: what is there without them is called as it lies.
    fn enter(&mut self, folder: &Path, depth: usize) -> Result<(), DatasetError> {
        let io = |error| DatasetError::io(folder, error);
        if !self.visited.insert(folder.canonicalize().map_err(io)?) {
            return Ok(());
        }
        let (mut folders, mut links, mut files) = (Vec::new(), Vec::new(), Vec::new());
        for entry in fs::read_dir(folder).map_err(io)? {
            let entry = entry.map_err(io)?;
            let path = entry.path();
            if is_hidden(&path) {
                continue;
            }
            let kind = entry
                .file_type()
                .map_err(|error| DatasetError::io(&path, error))?;
            match (kind.is_dir(), kind.is_symlink()) {
                (true, _) if is_output(&path) => {}
                (true, _) => folders.push(path),
                (_, true) if path.is_dir() => links.push((path, depth + 1)),
                (_, true) if !is_picture(&path) && is_broken(&path) => {
                    self.left.push((path, NOWHERE));
                }
                _ => files.push(path),
            }
        }
        files.sort();
        folders.sort();
        links.sort();
        let captions = captions(&files);
        let pictures = files
            .iter()
            .filter(|path| is_picture(path) || is_unreadable(path));
        self.pictures.extend(pictures.map(|path| {
            let caption = caption_of(&captions, path).map(Path::to_owned);
            (path.clone(), caption)
        }));
        if depth < DEEPEST {
            self.links.extend(links);
            for folder in folders {
                self.enter(&folder, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Reads the folder behind a link.
    fn follow(&mut self, link: &Path, depth: usize) -> Result<(), DatasetError> {
        let folder = link
            .canonicalize()
            .map_err(|error| DatasetError::io(link, error))?;
        if self.around.starts_with(&folder) {
            let why = "it is a link to a folder that the data themselves are in";
            self.left.push((link.to_owned(), why));
            return Ok(());
        }
        match is_output(link) || is_output(&folder) {
            true => Ok(()),
            false => self.enter(link, depth),
        }
    }

    /// The links that are not followed, by name.
    fn left_out(&self, base: &Path) -> Vec<Skipped> {
        let mut left: Vec<_> = self.left.iter().collect();
        left.sort();
        let left = left.into_iter().map(|(path, why)| Skipped {
            name: name_in(base, path),
            why: (*why).into(),
        });
        left.collect()
    }
}

/// Whether a file's ending is one of these, however it is written.
fn ends(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().and_then(OsStr::to_str);
    ending.is_some_and(|ending| {
        endings
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    })
}

pub(crate) fn is_picture(path: &Path) -> bool {
    ends(path, &PICTURES)
}

fn is_unreadable(path: &Path) -> bool {
    ends(path, &UNREADABLE)
}

fn is_broken(path: &Path) -> bool {
    path.is_symlink() && !path.exists()
}

fn unreadable(path: &Path) -> String {
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    format!("pictures that end in .{ending} cannot be read; make a PNG, a JPEG or a WebP of it")
}

/// The captions among a folder's files, by the names of these without their endings.
fn captions(files: &[PathBuf]) -> HashMap<&OsStr, &Path> {
    let caption = |path: &Path| {
        let ending = path.extension()?.to_str()?;
        let place = CAPTIONS
            .iter()
            .position(|known| ending.eq_ignore_ascii_case(known))?;
        // Of `a.txt` and `a.TXT` the former counts.
        path.is_file().then_some((place, ending != CAPTIONS[place]))
    };
    let ranked = files
        .iter()
        .filter_map(|path| Some((caption(path)?, path.file_stem()?, path.as_path())));
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort();
    let mut found = HashMap::new();
    for (_, stem, path) in ranked {
        found.entry(stem).or_insert(path);
    }
    found
}

fn caption_of<'a>(captions: &HashMap<&OsStr, &'a Path>, picture: &Path) -> Option<&'a Path> {
    captions.get(picture.file_stem()?).copied()
}

/// The caption in the file beside a picture, if there is one: the first line of the text.
fn text(file: Option<&Path>) -> Result<Option<String>, String> {
    let Some(path) = file else {
        return Ok(None);
    };
    let wrong = |why: &str| format!("its caption, {}, {why}", path.display());
    let bytes =
        read_regular(path, LONGEST).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8"))?;
    let line = text
        .trim_start_matches('\u{feff}')
        .trim_start()
        .lines()
        .next();
    Ok(line
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty()))
}
