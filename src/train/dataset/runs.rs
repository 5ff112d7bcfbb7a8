//! A finished run of prepose as pictures with captions: those that the checker was content with.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use prepose_check::manifest::Manifest;
use prepose_check::sample::sample_of;
use prepose_check::spatialbench::record::RELEASED_SIZE;
use prepose_check::spatialbench::verdict::Verdict;
use prepose_untrusted::read_text;
use serde_json::Value;

use crate::error::DatasetError;
use crate::listed::picture;
use crate::objects::Object;
use crate::open::Options;
use crate::sample::{Dataset, Layout, Place, Sample};

/// Reads the methods of a run.
pub(crate) fn read(path: &Path, options: &Options) -> Result<Dataset, DatasetError> {
    let wrong = |why: String| DatasetError::Run {
        path: path.to_owned(),
        why,
    };
    let file = path.join("run.json");
    let text = read_text(&file).map_err(|error| DatasetError::io(&file, error))?;
    let config: Value = serde_json::from_str(&text)
        .map_err(|error| wrong(format!("run.json is not JSON: {error}")))?;
    let methods = config["methods"].as_array().into_iter().flatten();
    let all: Vec<&str> = methods
        .filter_map(|method| method["name"].as_str())
        .collect();
    if all.is_empty() {
        return Err(wrong("run.json has no list of methods".into()));
    }
    if let Some(unknown) = options
        .methods
        .iter()
        .find(|name| !all.contains(&name.as_str()))
    {
        let all = all.join(", ");
        return Err(wrong(format!("it has no method {unknown:?}; it has {all}")));
    }
    if let Some(unknown) = options
        .verdicts()
        .into_iter()
        .find(|name| !is_verdict(name))
    {
        return Err(wrong(format!(
            "there is no verdict {unknown:?}; verdicts are PASS, FAIL and UNDECIDABLE, and --verdicts all takes every picture"
        )));
    }
    let mut dataset = Dataset::new(Layout::Run);
    let mut others = BTreeMap::new();
    for method in all {
        if options.methods.is_empty() || options.methods.iter().any(|name| name == method) {
            let folder = path.join(method);
            of_method(&folder, method, &mut dataset, &mut others, options)?;
        }
    }
    match dataset.samples.is_empty() && !others.is_empty() {
        true => Err(wrong(none_taken(&others, options))),
        false => Ok(dataset),
    }
}

fn is_verdict(name: &str) -> bool {
    let all = [Verdict::Pass, Verdict::Fail, Verdict::Undecidable];
    all.iter()
        .any(|verdict| verdict.as_str().eq_ignore_ascii_case(name))
}

/// How many pictures have verdicts that are not asked for, by these.
type Others = BTreeMap<String, usize>;

/// Why nothing is left where all pictures have other verdicts than those that are asked for.
fn none_taken(others: &Others, options: &Options) -> String {
    let counts = others.iter();
    let counts: Vec<String> = counts
        .map(|(verdicts, count)| format!("{count} {verdicts}"))
        .collect();
    format!(
        "of {} pictures none is taken, as --verdicts is {}, and there are {}; name those to take, or take every picture with \
         --verdicts all",
        others.values().sum::<usize>(),
        options.verdicts().join(","),
        counts.join(", ")
    )
}

fn of_method(
    folder: &Path,
    method: &str,
    dataset: &mut Dataset,
    others: &mut Others,
    options: &Options,
) -> Result<(), DatasetError> {
    let manifest = folder.join("manifest.jsonl");
    let text = read_text(&manifest).map_err(|error| DatasetError::io(&manifest, error))?;
    let manifest = Manifest::read(&text);
    for (line, error) in &manifest.broken {
        dataset.skip(format!("{method}/manifest.jsonl:{line}"), error.to_string());
    }
    let wanted = options.verdicts();
    let mut records = match wanted.is_empty() && !options.objects {
        true => HashMap::new(),
        false => records(folder, options.objects)?,
    };
    for entry in manifest.entries {
        let found = records.get_mut(&entry.sample_id);
        let (mut verdicts, objects) = found.map_or_else(Default::default, std::mem::take);
        let taken = |verdict: &String| {
            let mut wanted = wanted.iter();
            wanted.any(|wanted| wanted.eq_ignore_ascii_case(verdict))
        };
        // Of a picture with several relations all count. What is left out here is not of no use: it was not asked for.
        let all_taken = !verdicts.is_empty() && verdicts.iter().all(taken);
        if !wanted.is_empty() && !all_taken {
            verdicts.sort();
            verdicts.dedup();
            let verdicts = match verdicts.is_empty() {
                true => "without a verdict".to_owned(),
                false => verdicts.join(" and "),
            };
            *others.entry(verdicts).or_default() += 1;
            continue;
        }
        let name = format!("{method}/{}", entry.image_path);
        let Some(caption) = entry.prompt.filter(|prompt| !prompt.trim().is_empty()) else {
            dataset.skip(name, "the manifest does not say what its prompt was");
            continue;
        };
        match picture(folder, &entry.image_path) {
            Ok(path) => dataset.samples.push(Sample {
                name,
                place: Place::File(path),
                caption,
                repeats: 1,
                objects,
                shown: None,
            }),
            Err(why) => dataset.skip(name, why),
        }
    }
    Ok(())
}

/// The verdicts on a picture's relations, and what was found in it.
type Record = (Vec<String>, Vec<Object>);

/// The records of each picture, by the `sample_id` that it has in the manifest.
fn records(folder: &Path, with_objects: bool) -> Result<HashMap<String, Record>, DatasetError> {
    let path = folder.join("eval/per_sample.jsonl");
    let text = read_text(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => DatasetError::Run {
            path: folder.to_owned(),
            why: match with_objects {
                true => "its pictures were not checked, so that nobody knows where things are in them; check them with `prepose check`",
                false => "its pictures were not checked; check them with `prepose check`, or take them all with --verdicts all",
            }
            .into(),
        },
        _ => DatasetError::io(&path, error),
    })?;
    let mut found: HashMap<String, Record> = HashMap::new();
    for line in text.lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let [id, verdict] = ["sample_id", "verdict_raw"].map(|key| line[key].as_str());
        if let (Some(id), Some(verdict)) = (id, verdict) {
            let (verdicts, objects) = found.entry(sample_of(id).to_owned()).or_default();
            verdicts.push(verdict.to_owned());
            // All of a picture's records have the same detections.
            if with_objects && objects.is_empty() {
                *objects = detected(&line);
            }
        }
    }
    Ok(found)
}

/// What the first detector found, each as "a" with its label, as `prepose run` says it to GLIGEN's layers.
fn detected(line: &Value) -> Vec<Object> {
    let size = line["image_size"].as_array().into_iter().flatten();
    let size: Vec<f64> = size.filter_map(Value::as_f64).collect();
    let size = <[f64; 2]>::try_from(size).unwrap_or(RELEASED_SIZE.map(f64::from));
    let detections = line["detectors"]["primary"]["detections"].as_array();
    let object = |detection: &Value| {
        let sides = detection["box_xyxy"].as_array()?;
        let share = |side: usize| {
            let share = sides.get(side)?.as_f64()? / size[side % 2];
            Some(share.clamp(0.0, 1.0))
        };
        let corners = [share(0)?, share(1)?, share(2)?, share(3)?];
        let phrase = format!("a {}", detection["label"].as_str()?);
        // A box without an inside says nothing.
        Object::new(&phrase, corners).ok()
    };
    detections
        .into_iter()
        .flatten()
        .filter_map(object)
        .collect()
}
