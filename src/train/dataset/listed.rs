//! Captions in one file, with the names of the pictures beside it.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use prepose_corpus::read::{self, Row};
use prepose_untrusted::printable;

use crate::beside::PICTURES;
use crate::error::DatasetError;
use crate::objects;
use crate::open::Options;
use crate::sample::{Dataset, Layout, Place, Sample, Skipped};

/// The key or column of a picture that is shown to an adapter in the place of the one that is trained on.
pub(crate) const SHOWN: &str = "ip_picture";

/// The list of `prepose generate`, which gets another line for a picture that is made again under the same name.
pub(crate) const MANIFEST: &str = "manifest.jsonl";

/// What is wrong with a row that is none.
pub(crate) const LOST: &str =
    "it cannot be read or has no caption; --caption gives one to all that have none";

/// Reads a file of captions.
pub(crate) fn read(path: &Path, options: &Options) -> Result<Dataset, DatasetError> {
    let mut dataset = Dataset::new(Layout::Listed);
    let base = path.parent().unwrap_or(Path::new("."));
    let mut rows = Vec::new();
    each_row(path, options, |row| rows.push(row))?;
    let replaced = match path.file_name().is_some_and(|name| name == MANIFEST) {
        true => replaced(&rows),
        false => vec![false; rows.len()],
    };
    for (row, replaced) in rows.into_iter().zip(replaced) {
        match row {
            Ok(row) if replaced => dataset.passed_over.push(Skipped {
                name: row.picture.unwrap_or_default(),
                why: "a later line names the same picture, and the last one counts".into(),
            }),
            Ok(row) => add(&mut dataset, base, row, options),
            Err(place) => dataset.skip(place, LOST),
        }
    }
    Ok(dataset)
}

/// Whether a later row names the picture of each again.
fn replaced(rows: &[Result<Row, String>]) -> Vec<bool> {
    let mut later = HashSet::new();
    let names = rows
        .iter()
        .rev()
        .map(|row| row.as_ref().ok()?.picture.as_deref());
    let mut replaced: Vec<bool> = names
        .map(|name| name.is_some_and(|name| !later.insert(name)))
        .collect();
    replaced.reverse();
    replaced
}

/// Calls `with` for each row, or with the place of one of which nothing can be made.
pub(crate) fn each_row(
    path: &Path,
    options: &Options,
    mut with: impl FnMut(Result<Row, String>),
) -> Result<(), DatasetError> {
    let sources = read::sources(&[path.to_owned()])?;
    for source in &sources {
        let mut rows = read::open(source, &options.columns(), read::Place::default())?;
        let mut some = Vec::new();
        loop {
            // One at a time, so that each that is lost has its place.
            let lost = rows.next(1, &mut some)?;
            if lost > 0 {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                with(Err(format!("{name}:{}", rows.place().row)));
            }
            if some.is_empty() && lost == 0 {
                break;
            }
            some.drain(..).for_each(|row| with(Ok(row)));
        }
    }
    Ok(())
}

/// The picture of a row, within the folder of the file of captions.
pub(crate) fn picture(base: &Path, name: &str) -> Result<PathBuf, String> {
    let inside = Path::new(name);
    let stays = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !inside.components().all(stays) {
        return Err("its name leads out of the folder".into());
    }
    let path = base.join(inside);
    if path.is_file() {
        return Ok(path);
    }
    // img2dataset's keys have no ending.
    let named = PICTURES.map(|ending| base.join(format!("{name}.{ending}")));
    let found = named.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| "there is no such file".into())
}

pub(crate) fn add(dataset: &mut Dataset, base: &Path, row: Row, options: &Options) {
    let Some(name) = row.picture else {
        return dataset.skip(row.caption, "the line names no picture");
    };
    let caption = match row.caption.trim() {
        "" => options.caption.clone(),
        caption => Some(caption.to_owned()),
    };
    let Some(caption) = caption else {
        return dataset.skip(name, "its caption is empty");
    };
    let objects = row.objects.as_ref().map_or(Ok(Vec::new()), objects::read);
    let shown = row.shown.map(|name| {
        let found = picture(base, &name);
        found.map_err(|why| format!("{SHOWN} names {:?}: {why}", printable(&name).to_string()))
    });
    let found = picture(base, &name).and_then(|path| Ok((path, objects?, shown.transpose()?)));
    match found {
        Ok((path, objects, shown)) => dataset.samples.push(Sample {
            name,
            place: Place::File(path),
            caption,
            repeats: 1,
            objects,
            shown: shown.map(Place::File),
        }),
        Err(why) => dataset.skip(name, why),
    }
}
