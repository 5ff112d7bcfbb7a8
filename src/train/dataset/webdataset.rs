//! webdataset's tar files: members of a sample follow each other and share their name up to the first dot.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use prepose_untrusted::open_regular;
use serde_json::Value;

use crate::beside::PICTURES;
use crate::error::DatasetError;
use crate::objects;
use crate::open::Options;
use crate::sample::{Dataset, Layout, Place, Sample};

/// Longer texts are no captions.
const LONGEST: u64 = 1 << 16;
/// Notes may have lists of all kinds beside the caption.
const LONGEST_JSON: u64 = 1 << 24;

/// What belongs together.
#[derive(Default)]
struct Group {
    key: String,
    picture: Option<Place>,
    /// Texts by their ending, or what is wrong with them.
    texts: BTreeMap<String, Result<String, String>>,
}

impl Group {
    fn text(&self, ending: &str) -> Result<Option<&str>, String> {
        let text = self.texts.get(ending).map(Result::as_deref);
        text.transpose().map_err(Clone::clone)
    }

    fn json(&self) -> Result<Option<Value>, String> {
        let json = self.text("json")?.map(serde_json::from_str);
        json.transpose()
            .map_err(|error| format!("its .json is broken: {error}"))
    }
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
        } else if ["txt", "caption", "json"].contains(&ending.as_str()) {
            let text = text(&mut entry, length, &ending);
            group.texts.insert(ending, text);
        }
    }
    finish(group, path, dataset, options);
    Ok(())
}

/// A text of a sample, or what is wrong with it.
fn text(entry: &mut impl Read, length: u64, ending: &str) -> Result<String, String> {
    let longest = match ending {
        "json" => LONGEST_JSON,
        _ => LONGEST,
    };
    if length > longest {
        return Err(format!(
            "its .{ending} has {length} bytes; at most {longest} are read"
        ));
    }
    let mut bytes = Vec::new();
    let read = entry.read_to_end(&mut bytes);
    read.map_err(|error| format!("its .{ending} cannot be read: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("its .{ending} is not UTF-8"))?;
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

fn finish(mut group: Group, path: &Path, dataset: &mut Dataset, options: &Options) {
    if group.key.is_empty() {
        return;
    }
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("{file}:{}", group.key);
    let json = group.json();
    // img2dataset writes down what it could not fetch.
    let noted = json.as_ref().ok().and_then(Option::as_ref);
    let status = noted.and_then(|json| json["status"].as_str());
    if let Some(status) = status.filter(|status| *status != "success") {
        return dataset.skip(name, format!("its status is {status:?}"));
    }
    let Some(place) = group.picture.take() else {
        return dataset.skip(name, "there is no picture of that name");
    };
    // What is wrong with a text is no matter where another one counts.
    let found = caption(&group, &json, options).and_then(|caption| {
        let objects = match options.objects {
            true => json.as_ref().map_err(Clone::clone)?.as_ref(),
            false => None,
        };
        let objects = objects.and_then(|json| json.get(objects::KEY));
        Ok((caption, objects.map_or(Ok(Vec::new()), objects::read)?))
    });
    let (found, objects) = match found {
        Ok(found) => found,
        Err(why) => return dataset.skip(name, why),
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

/// The caption of a sample, if there is one, or why it cannot be read.
fn caption(
    group: &Group,
    json: &Result<Option<Value>, String>,
    options: &Options,
) -> Result<Option<String>, String> {
    let mut found = None;
    if options.caption_column.is_none() {
        found = match group.text("txt")? {
            Some(text) => Some(text.to_owned()),
            None => group.text("caption")?.map(str::to_owned),
        };
    }
    if found.is_none() {
        let json = json.as_ref().map_err(Clone::clone)?.as_ref();
        let mut names = options.columns().caption.into_iter();
        found = names.find_map(|name| Some(json?[&name].as_str()?.to_owned()));
    }
    Ok(found
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty()))
}
