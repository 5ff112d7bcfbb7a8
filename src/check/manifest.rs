//! `manifest.jsonl`: one line a picture, written in the schema of SpatialBench-UC's released runs and read in anybody's.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::sample::sample_of;

/// One line of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestLine {
    /// `{run_id}_{prompt_id}_seed%04d`.
    pub sample_id: String,
    /// Names the run.
    pub run_id: String,
    /// Names the prompt within its set.
    pub prompt_id: String,
    /// The picture, relative to the manifest where possible.
    pub image_path: String,
    /// The networks.
    pub model: ModelLine,
    /// How it was sampled.
    pub gen_params: GenParams,
    /// The prompt.
    pub prompt: String,
    /// The relation the prompt states, where one is known.
    pub relation: Option<String>,
    /// The relation's subject.
    pub object_a: Option<String>,
    /// The relation's object.
    pub object_b: Option<String>,
    /// When the picture was finished, RFC 3339.
    pub timestamp_utc: String,
    /// The software.
    pub code_version: CodeVersion,
}

/// The networks of a manifest line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelLine {
    /// The method.
    pub pipeline: String,
    /// The checkpoint.
    pub model_id: String,
    /// SHA-256 of the checkpoint, where known.
    pub revision: Option<String>,
}

/// The sampling of a manifest line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GenParams {
    /// The picture's seed.
    pub seed: u64,
    /// In pixels.
    pub height: usize,
    /// In pixels.
    pub width: usize,
    /// Denoising steps.
    pub num_inference_steps: usize,
    /// Classifier-free guidance.
    pub guidance_scale: f64,
    /// The scheduler's name.
    pub scheduler: String,
    /// What the picture should not be.
    pub negative_prompt: Option<String>,
}

/// The software of a manifest line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CodeVersion {
    /// This crate.
    pub prepose: String,
    /// The tensor library.
    pub burn: String,
    /// The device and the type of the weights.
    pub device: String,
    /// The commit this binary was built from, where it was built from one.
    pub git_commit: Option<String>,
}

/// The lines of a manifest that count, whoever wrote it.
#[derive(Debug, Default)]
pub struct Manifest {
    /// One for each picture, in the order of the lines.
    pub entries: Vec<Entry>,
    /// Lines of pictures that a later line names again, and that line: the last one counts, since a picture that was made
    /// again under the same name has the place of the earlier one.
    pub replaced: Vec<(usize, usize)>,
    /// Lines that say nothing of a picture, and why.
    pub broken: Vec<(usize, EntryError)>,
}

/// What a manifest's line says of a picture, as far as it can be found and judged by it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// In the file, from 1.
    pub line: usize,
    /// Names the picture: as given, or by its file's name, with a number where that is taken.
    pub sample_id: String,
    /// Names the prompt: as given, or the prompt itself, or as the picture.
    pub prompt_id: String,
    /// The picture's file, with forward slashes.
    pub image_path: String,
    /// What it should show.
    pub prompt: Option<String>,
    /// The relation that the prompt states, where that is said.
    pub relation: Option<String>,
    /// The relation's subject.
    pub object_a: Option<String>,
    /// The relation's object.
    pub object_b: Option<String>,
    /// Of its noise; without one, which of the prompt's pictures it is, from 0.
    pub seed: u64,
    /// Width and height in pixels, where they are said.
    pub size: Option<[u32; 2]>,
}

/// Why a manifest's line says nothing of a picture.
#[derive(Debug, Error)]
pub enum EntryError {
    /// No JSON.
    #[error("it is not a JSON object: {0}")]
    Json(String),
    /// JSON, but not an object.
    #[error(
        "it is not a JSON object with a picture and its prompt, such as {{\"image_path\": \"a.png\", \"prompt\": \"a \
         dog\"}}"
    )]
    NoObject,
    /// No key that names a picture.
    #[error(
        "it names no picture: one is looked for in \"image_path\", \"file_name\" and \"path\", but the line has {}",
        keys(.0)
    )]
    NoPicture(Vec<String>),
    /// A value of the wrong kind.
    #[error("\"{key}\" is {found}, but should be text")]
    NoText {
        /// Which.
        key: &'static str,
        /// What it is instead.
        found: &'static str,
    },
}

/// Some of a line's keys for a message.
fn keys(keys: &[String]) -> String {
    const MOST: usize = 8;
    let some = keys.iter().take(MOST);
    let some: Vec<String> = some.map(|key| format!("{:?}", short(key))).collect();
    match keys.len() {
        0 => "no key".to_owned(),
        count if count > MOST => format!("{}, …", some.join(", ")),
        _ => some.join(", "),
    }
}

fn short(key: &str) -> String {
    key.chars().take(40).collect()
}

impl Manifest {
    /// Reads the lines of a file. A byte order mark and empty lines do not matter.
    pub fn read(text: &str) -> Self {
        let lines = text.trim_start_matches('\u{feff}').lines().zip(1..);
        let lines = lines.filter(|(line, _)| !line.trim().is_empty());
        let mut broken = Vec::new();
        let mut read = Vec::new();
        for (line, number) in lines {
            match Line::read(line) {
                Ok(line) => read.push((number, line)),
                Err(error) => broken.push((number, error)),
            }
        }
        let last: HashMap<String, usize> = (read.iter())
            .map(|(number, line)| (line.image_path.clone(), *number))
            .collect();
        let mut replaced = Vec::new();
        read.retain(|(number, line)| {
            let later = last[&line.image_path];
            if later != *number {
                replaced.push((*number, later));
            }
            later == *number
        });
        Self {
            entries: named(read),
            replaced,
            broken,
        }
    }

    /// Whether it has no line at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.broken.is_empty()
    }
}

/// Gives names, prompts and seeds to lines without them.
fn named(lines: Vec<(usize, Line)>) -> Vec<Entry> {
    let given = lines.iter().filter_map(|(_, line)| line.sample_id.clone());
    let mut taken: HashSet<String> = given.collect();
    let mut of_prompt: HashMap<String, u64> = HashMap::new();
    let entry = |(number, line): (usize, Line)| {
        let sample_id = line.sample_id.unwrap_or_else(|| {
            let stem = Path::new(&line.image_path).file_stem();
            free_name(&stem.unwrap_or_default().to_string_lossy(), &mut taken)
        });
        let prompt_id = line.prompt_id.or_else(|| line.prompt.clone());
        let prompt_id = prompt_id.unwrap_or_else(|| sample_id.clone());
        let before = of_prompt.entry(prompt_id.clone()).or_default();
        let seed = line.seed.unwrap_or(*before);
        *before += 1;
        Entry {
            line: number,
            sample_id,
            prompt_id,
            image_path: line.image_path,
            prompt: line.prompt,
            relation: line.relation,
            object_a: line.object_a,
            object_b: line.object_b,
            seed,
            size: line.size,
        }
    };
    lines.into_iter().map(entry).collect()
}

/// `stem`, or else `stem-2` and so on: pictures of several folders may have the same name.
pub fn free_name(stem: &str, taken: &mut HashSet<String>) -> String {
    let mut name = stem.to_owned();
    let mut number = 1;
    while !taken.insert(name.clone()) {
        number += 1;
        name = format!("{stem}-{number}");
    }
    name
}

/// The id of a picture that is checked, by `name`: as [`free_name`], but never one that ends in `_relation` and a number.
/// That is how the records of a picture with several relations are told apart, and by such an id [`sample_of`] would take
/// the picture's own records for those of another picture: `x_relation1` becomes `x_relation1-1`.
pub fn free_id(name: &str, taken: &mut HashSet<String>) -> String {
    match sample_of(name) == name {
        true => free_name(name, taken),
        false => free_name(&format!("{name}-1"), taken),
    }
}

/// A line as it is written.
struct Line {
    sample_id: Option<String>,
    prompt_id: Option<String>,
    image_path: String,
    prompt: Option<String>,
    relation: Option<String>,
    object_a: Option<String>,
    object_b: Option<String>,
    seed: Option<u64>,
    size: Option<[u32; 2]>,
}

impl Line {
    fn read(text: &str) -> Result<Self, EntryError> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| EntryError::Json(crate::json::without_place(&error)))?;
        let Value::Object(fields) = value else {
            return Err(EntryError::NoObject);
        };
        let text = |key: &'static str| match fields.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(EntryError::NoText {
                key,
                found: kind(other),
            }),
        };
        let first = |keys: [&'static str; 3]| {
            let found = keys
                .into_iter()
                .map(text)
                .find(|found| !matches!(found, Ok(None)));
            found.unwrap_or(Ok(None))
        };
        let Some(image_path) = first(["image_path", "file_name", "path"])? else {
            return Err(EntryError::NoPicture(fields.keys().cloned().collect()));
        };
        let sampling = fields.get("gen_params");
        let number = |key: &str| {
            let nested = sampling.and_then(|sampling| sampling.get(key));
            nested.or_else(|| fields.get(key))?.as_u64()
        };
        let side = |key: &str| u32::try_from(number(key)?).ok();
        Ok(Self {
            sample_id: text("sample_id")?,
            prompt_id: text("prompt_id")?,
            image_path: image_path.replace('\\', "/"),
            prompt: first(["prompt", "text", "caption"])?,
            relation: text("relation")?,
            object_a: text("object_a")?,
            object_b: text("object_b")?,
            seed: number("seed"),
            size: side("width").zip(side("height")).map(Into::into),
        })
    }
}

/// What a JSON value is, for a message.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_and_its_prompt_are_enough() {
        let text = "\u{feff}{\"image_path\": \"a/0.png\", \"prompt\": \"a dog\"}\r\n\r\n\
            {\"file_name\": \"b\\\\0.png\", \"text\": \"a dog\"}\n\
            {\"path\": \"1.png\", \"prompt\": null, \"sample_id\": \"one\", \"width\": 64, \"gen_params\": {\"seed\": 9, \"height\": 32}}\n";
        let manifest = Manifest::read(text);
        assert!(manifest.broken.is_empty() && manifest.replaced.is_empty());
        let names: Vec<_> = (manifest.entries.iter())
            .map(|e| (e.line, &*e.sample_id, &*e.prompt_id, &*e.image_path, e.seed))
            .collect();
        let expected = [
            (1, "0", "a dog", "a/0.png", 0),
            (3, "0-2", "a dog", "b/0.png", 1),
            (4, "one", "one", "1.png", 9),
        ];
        assert_eq!(names, expected);
        assert_eq!(manifest.entries[2].size, Some([64, 32]));
    }

    #[test]
    fn no_id_reads_as_a_record_of_another_picture() {
        let names = [
            "x_relation1",
            "x_relation2",
            "x_relation1-1",
            "spatial_relation",
            "x_relation1",
            "x",
            "x",
        ];
        let mut taken = HashSet::new();
        let ids = names.map(|name| free_id(name, &mut taken));
        let expected = [
            "x_relation1-1",
            "x_relation2-1",
            "x_relation1-1-2",
            "spatial_relation",
            "x_relation1-1-3",
            "x",
            "x-2",
        ];
        assert_eq!(ids, expected);
        for id in &ids {
            assert_eq!(sample_of(id), id);
            assert_eq!(sample_of(&format!("{id}_relation12")), id);
        }
    }

    #[test]
    fn of_several_lines_of_a_picture_the_last_counts() {
        let text = "{\"image_path\": \"x.png\", \"prompt\": \"old\"}\n{\"image_path\": \"y.png\"}\n\
            {\"image_path\": \"x.png\", \"prompt\": \"newer\"}\n{\"image_path\": \"x.png\", \"prompt\": \"new\"}";
        let manifest = Manifest::read(text);
        assert_eq!(manifest.replaced, [(1, 4), (3, 4)]);
        let prompts: Vec<_> = (manifest.entries.iter())
            .map(|entry| (&*entry.sample_id, entry.prompt.as_deref()))
            .collect();
        assert_eq!(prompts, [("y", None), ("x", Some("new"))]);
    }

    #[test]
    fn what_names_no_picture_is_told() {
        let told = |line: &str| match Manifest::read(line).broken.pop() {
            Some((1, error)) => error.to_string(),
            other => panic!("{line}: {other:?}"),
        };
        assert!(
            told("{\"image\": 1, \"label\": 2}").ends_with("the line has \"image\", \"label\"")
        );
        assert_eq!(
            told("{\"image_path\": 3}"),
            "\"image_path\" is a number, but should be text"
        );
        assert!(told("[]").contains("such as {\"image_path\""));
        // The place would be that within the line.
        assert!(!told("{\"a\": ").contains("line 1"));
        let many: Vec<String> = (0..100_000).map(|i| format!("\"{i}\": 0")).collect();
        assert!(told(&format!("{{{}}}", many.join(","))).len() < 300);
    }
}
