//! webdataset's tar files: members of a sample follow each other and share their name up to the first dot.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prepose_untrusted::open_regular;
use serde_json::Value;
use std::io::Read as _;

use crate::beside::PICTURES;
use crate::error::DatasetError;
use crate::objects;
use crate::open::Options;
use crate::sample::{Dataset, Layout, Place, Sample};

/// Longer texts are no captions.
const LONGEST: u64 = 1 << 16;

/// What belongs together.
#[derive(Default)]
struct Group {
    key: String,
    picture: Option<Place>,
    /// Texts by their ending.
    texts: BTreeMap<String, String>,
}

/// Reads tar files, one after the other.
pub(crate) fn read(paths: &[PathBuf], options: &Options) -> Result<Dataset, DatasetError> {
    let mut dataset = Dataset::new(Layout::Webdataset);
    for path in paths {
        archive(path, &mut dataset, options)?;
    }
    Ok(dataset)
}

fn archive(path: &Path, dataset: &mut Dataset, options: &Options) -> Result<(), DatasetError> {
    let io = |error| DatasetError::io(path, error);
    let mut archive = tar::Archive::new(open_regular(path).map_err(io)?);
    let mut group = Group::default();
    for entry in archive.entries_with_seek().map_err(io)? {
        let mut entry = entry.map_err(io)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path().map_err(io)?.to_string_lossy().into_owned();
        let base = name.rfind('/').map_or(0, |slash| slash + 1);
        // What is hidden (macOS's `._0.png`) has no name before the first dot.
        let Some(dot @ 1..) = name[base..].find('.') else {
            continue;
        };
        let (key, ending) = (
            &name[..base + dot],
            name[base + dot + 1..].to_ascii_lowercase(),
        );
        if key != group.key {
            finish(std::mem::take(&mut group), path, dataset, options);
            group.key = key.to_owned();
        }
        let length = entry.size();
        if PICTURES.contains(&ending.as_str()) {
            group.picture.get_or_insert(Place::Part {
                path: path.to_owned(),
                offset: entry.raw_file_position(),
                length,
            });
        } else if ["txt", "caption", "json"].contains(&ending.as_str()) && length <= LONGEST {
            let mut text = String::new();
            if entry.read_to_string(&mut text).is_ok() {
                group.texts.insert(ending, text);
            }
        }
    }
    finish(group, path, dataset, options);
    Ok(())
}

fn finish(group: Group, path: &Path, dataset: &mut Dataset, options: &Options) {
    if group.key.is_empty() {
        return;
    }
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("{file}:{}", group.key);
    let json: Option<Value> = group
        .texts
        .get("json")
        .and_then(|text| serde_json::from_str(text).ok());
    // img2dataset writes down what it could not fetch.
    let status = json.as_ref().and_then(|json| json["status"].as_str());
    if let Some(status) = status.filter(|status| *status != "success") {
        return dataset.skip(name, format!("its status is {status:?}"));
    }
    let Some(place) = group.picture else {
        return dataset.skip(name, "there is no picture of that name");
    };
    let of_json = || {
        let mut names = options.columns().caption.into_iter();
        names.find_map(|name| Some(json.as_ref()?[&name].as_str()?.to_owned()))
    };
    let beside = ["txt", "caption"]
        .iter()
        .find_map(|ending| group.texts.get(*ending).cloned());
    let found = match options.caption_column {
        Some(_) => of_json(),
        None => beside.or_else(of_json),
    };
    let found = found
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty());
    let listed = json.as_ref().and_then(|json| json.get(objects::KEY));
    let objects = match listed.filter(|_| options.objects).map(objects::read) {
        Some(Err(why)) => return dataset.skip(name, why),
        Some(Ok(objects)) => objects,
        None => Vec::new(),
    };
    match found.or_else(|| options.caption.clone()) {
        Some(caption) => dataset.samples.push(Sample {
            name,
            place,
            caption,
            repeats: 1,
            objects,
            shown: None,
        }),
        None => dataset.skip(
            name,
            "it has no caption: neither a .txt nor a caption in a .json",
        ),
    }
}
