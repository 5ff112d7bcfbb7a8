//! GenEval's metadata, and the results that its evaluation writes, which hold the boxes.

use std::path::{Component, Path};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::ReadError;
use crate::json as exact;
use crate::rules::Case;
use crate::rules::Wanted;
use crate::{BoundingBox, Detection};
use prepose_scene::{Relation, StatedRelation};

/// The tags that need neither colours nor exact counts.
const TAGS: [&str; 3] = ["single_object", "two_object", "position"];

#[derive(Debug, Deserialize)]
struct Metadata {
    tag: String,
    include: Vec<Included>,
    prompt: String,
}

#[derive(Debug, Deserialize)]
struct Included {
    class: String,
    count: usize,
    position: Option<(String, usize)>,
}

/// Whether a line is one that GenEval's evaluation wrote.
pub(super) fn is_result(value: &Value) -> bool {
    value.get("details").is_some_and(Value::is_string) && value.get("metadata").is_some()
}

/// The picture of such a line; its detections have passed GenEval's threshold.
pub(super) fn result(value: &Value) -> Result<Case, ReadError> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let metadata: Value = serde_json::from_str(text("metadata"))?;
    let details: Map<String, Value> = exact::from_str(text("details"))?;
    let mut detections = Vec::new();
    for (label, boxes) in details {
        for [x0, y0, x1, y1, score] in serde_json::from_value::<Vec<[f64; 5]>>(boxes)? {
            detections.push(Detection {
                label: label.clone(),
                score,
                bbox: BoundingBox::new(x0, y0, x1, y1),
                mask: None,
            });
        }
    }
    let (prompt, objects, relations) = asked(&metadata)?;
    Ok(Case {
        id: text("filename").to_owned(),
        prompt_id: prompt.clone(),
        prompt: Some(prompt),
        objects,
        relations,
        detections,
        ..Case::default()
    })
}

/// What GenEval asks of a line's picture: in the line itself, as the metadata's keys or under `metadata`, or in the line of
/// the metadata that its path names. None if nothing says so.
pub(super) fn metadata(value: &mut Value, lines: &[Value]) -> Result<Option<Value>, ReadError> {
    if value.get("include").is_some() {
        return Ok(Some(value.clone()));
    }
    if let Some(inside) = value
        .get_mut("metadata")
        .filter(|inside| inside.is_object())
    {
        return Ok(Some(inside.take()));
    }
    if lines.is_empty() {
        return Ok(None);
    }
    let keys = ["file", "image_path", "id", "sample_id"];
    let path = keys
        .iter()
        .find_map(|key| value.get(key).and_then(Value::as_str));
    let number = path.and_then(number_of).ok_or_else(|| {
        let path = path.unwrap_or("a line without \"id\" or \"file\"");
        ReadError::Metadata(format!(
            "{path:?} has no folder with a line's number, such as 00012/samples/0003.png"
        ))
    })?;
    let line = lines.get(number).cloned();
    let none = || {
        ReadError::Metadata(format!(
            "there is no line {number}, counted from 0; there are {}",
            lines.len()
        ))
    };
    line.map(Some).ok_or_else(none)
}

/// The line's number in a path: the folder of `samples`, or else the last folder that is a number, or else what the file's
/// name begins with. Other folders may have numbers too: `sd/1.5/00012/samples/0003.png`.
fn number_of(path: &str) -> Option<usize> {
    let parts = Path::new(path).components();
    let names = parts.filter_map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    let names: Vec<&str> = names.collect();
    let (file, folders) = names.split_last()?;
    let number = |name: &str| {
        let digits = name.bytes().all(|letter| letter.is_ascii_digit());
        name.parse().ok().filter(|_| digits)
    };
    let samples = folders.iter().rposition(|name| *name == "samples");
    // "00012", or "00012_a photo of a dog".
    let led = |name: &str| number(name.split('_').next()?);
    let above = samples.and_then(|at| led(folders[at.checked_sub(1)?]));
    let last = || folders.iter().rev().find_map(|name| number(name));
    let own = || number(file.split(['_', '.']).next()?);
    above.or_else(last).or_else(own)
}

/// Writes what the metadata asks for into a line, in prepose's own keys.
pub(super) fn ask(value: &mut Value, metadata: &Value) -> Result<(), ReadError> {
    let (prompt, objects, relations) = asked(metadata)?;
    let object = |object: &Wanted| json!({"name": object.name, "count": object.count});
    let relation = |stated: &StatedRelation| {
        let (subject, object) = (
            &objects[stated.subject].name,
            &objects[stated.objects[0]].name,
        );
        json!(format!("{subject} | {} | {object}", stated.relation))
    };
    let Value::Object(line) = value else {
        return Ok(());
    };
    // Nothing else counts.
    line.remove("relation");
    line.insert("objects".into(), objects.iter().map(object).collect());
    line.insert("relations".into(), relations.iter().map(relation).collect());
    line.insert("prompt".into(), json!(prompt));
    Ok(())
}

type Asked = (String, Vec<Wanted>, Vec<StatedRelation>);

fn asked(metadata: &Value) -> Result<Asked, ReadError> {
    let Metadata {
        tag,
        include,
        prompt,
    } = Metadata::deserialize(metadata)?;
    if !TAGS.contains(&tag.as_str()) {
        return Err(ReadError::Tag(tag));
    }
    let (mut objects, mut relations) = (Vec::new(), Vec::new());
    for (subject, included) in include.into_iter().enumerate() {
        if let Some((relation, target)) = included.position {
            if target >= subject {
                let error = format!("{:?} stands to an object after it", included.class);
                return Err(ReadError::Metadata(error));
            }
            let relation: Relation = relation.parse().map_err(ReadError::Relation)?;
            relations.push(StatedRelation {
                subject,
                relation,
                objects: vec![target],
            });
        }
        objects.push(Wanted {
            name: included.class.to_lowercase(),
            count: included.count,
        });
    }
    Ok((prompt, objects, relations))
}
