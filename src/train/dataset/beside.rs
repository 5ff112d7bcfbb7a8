//! Captions in files beside pictures, and kohya's folders of those, whose names say how often they come.

use std::fs;
use std::path::{Path, PathBuf};

use prepose_untrusted::read_regular;

use crate::error::DatasetError;
use crate::open::Options;
use crate::sample::{Dataset, Layout, Place, Sample, Skipped};

/// Endings of pictures.
pub(crate) const PICTURES: [&str; 4] = ["png", "jpg", "jpeg", "webp"];
/// Endings of captions, in the order in which they are taken.
const CAPTIONS: [&str; 2] = ["txt", "caption"];
/// Longer texts are no captions.
const LONGEST: u64 = 1 << 16;
/// How deep folders are looked into.
const DEEPEST: usize = 8;

/// A folder, how often its pictures come, and the caption of those that have none.
type Folder = (PathBuf, usize, Option<String>);

/// Which of a folder's entries are kohya's: `10_sks dog` is ten times, by default "sks dog". None where pictures that have
/// captions lie beside them: `2023_summer` is but a name then.
pub(crate) fn kohya(entries: &[PathBuf], options: &Options) -> Vec<Folder> {
    let is_data = |path: &PathBuf| {
        is_picture(path) && (options.caption.is_some() || !matches!(text(path), Ok(None)))
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
    let others = entries.iter().filter(|path| {
        let is_kohyas = folders.iter().any(|(folder, ..)| folder == *path);
        path.is_dir() && !path.is_symlink() && !is_kohyas && !is_output(path)
    });
    for folder in others {
        let mut pictures = Vec::new();
        // What cannot be read there would not have been trained on either.
        let _ = walk(folder, 0, &mut pictures);
        dataset.passed_over.extend(pictures.iter().map(|path| Skipped {
            name: name_in(base, path),
            why: "the name of its folder does not say how often it comes, as those of kohya's folders beside it do: 10_sks dog".into(),
        }));
    }
    let beside = entries
        .iter()
        .filter(|path| is_picture(path) && !path.is_dir());
    dataset.passed_over.extend(beside.map(|path| Skipped {
        name: name_in(base, path),
        why: "it has no caption, and lies beside kohya's folders, not in one".into(),
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
    for (folder, repeats, caption) in folders {
        let mut pictures = Vec::new();
        walk(folder, 0, &mut pictures)?;
        for path in pictures {
            let name = name_in(base, &path);
            match text(&path) {
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
    // What is not to come at all is not there.
    dataset.samples.retain(|sample| sample.repeats > 0);
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

/// Adds the pictures in a folder and those in it, but for what is hidden and what came of data.
fn walk(folder: &Path, depth: usize, pictures: &mut Vec<PathBuf>) -> Result<(), DatasetError> {
    let mut folders = Vec::new();
    let mut here = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| DatasetError::io(folder, error))? {
        let entry = entry.map_err(|error| DatasetError::io(folder, error))?;
        let path = entry.path();
        if is_hidden(&path) {
            continue;
        }
        // What is behind a link to a folder may be the folder itself.
        let kind = entry
            .file_type()
            .map_err(|error| DatasetError::io(&path, error))?;
        if kind.is_dir() {
            if !is_output(&path) {
                folders.push(path);
            }
        } else if is_picture(&path) {
            here.push(path);
        }
    }
    here.sort();
    folders.sort();
    pictures.append(&mut here);
    if depth < DEEPEST {
        for folder in folders {
            walk(&folder, depth + 1, pictures)?;
        }
    }
    Ok(())
}

pub(crate) fn is_picture(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| {
        PICTURES
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    })
}

/// The caption beside a picture, if there is one: the first line of the text.
fn text(picture: &Path) -> Result<Option<String>, String> {
    let files = CAPTIONS.map(|ending| picture.with_extension(ending));
    let Some(path) = files.into_iter().find(|path| path.is_file()) else {
        return Ok(None);
    };
    let wrong = |why: &str| format!("its caption, {}, {why}", path.display());
    let bytes =
        read_regular(&path, LONGEST).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
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
