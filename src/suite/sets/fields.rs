//! The fields of a JSON object in a file of prompts.

use serde_json::{Map, Value};

use super::error::{LineError, nearest, shortened};
use crate::guidance::boxes::ObjectBox;
use crate::prompt::scene::{Relation, StatedRelation};
use crate::suite::Edit;

/// The relation of a name, of two objects.
pub(super) fn named(name: &str) -> Result<Relation, LineError> {
    match name.parse() {
        Ok(Relation::Between) => Err(LineError::Between),
        Ok(relation) => Ok(relation),
        Err(error) => Err(LineError::Relation {
            error,
            nearest: nearest(
                &name.replace(['_', '-'], " "),
                Relation::ALL.map(Relation::as_str),
            ),
        }),
    }
}

/// The text of a key; numbers are texts of their digits, and null is as nothing.
pub(super) fn text(
    fields: &Map<String, Value>,
    key: &'static str,
) -> Result<Option<String>, LineError> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(other) => Err(kind(key, other, "a text")),
    }
}

/// `"dog"`, or `{"name": "dog"}` as SpatialBench-UC has it.
pub(super) fn object(
    fields: &Map<String, Value>,
    key: &'static str,
) -> Result<Option<String>, LineError> {
    match fields.get(key) {
        Some(Value::Object(object)) => match object.get("name") {
            Some(Value::String(name)) => Ok(Some(name.trim().to_owned())),
            _ => Err(kind(
                key,
                &fields[key],
                "a name, or an object with a \"name\"",
            )),
        },
        _ => text(fields, key),
    }
}

/// `{"seed": "a dog on the left and a cat on the right", "strength": 0.6}`
pub(super) fn edit(fields: &Map<String, Value>) -> Result<Option<Edit>, LineError> {
    const KEY: &str = "edit";
    const WANTED: &str = "such as {\"seed\": \"a dog on the left and a cat on the right\"} or {\"picture\": \
        \"seeds/{seed}.png\", \"strength\": 0.6}, with a strength above 0 and at most 1";
    let value = match fields.get(KEY) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    let edit: Edit = serde_json::from_value(value.clone()).map_err(|_| kind(KEY, value, WANTED))?;
    let strength = edit
        .strength
        .is_none_or(|share| share > 0.0 && share <= 1.0);
    match strength && (edit.seed.is_some() || edit.picture.is_some()) {
        true => Ok(Some(edit)),
        false => Err(kind(KEY, value, WANTED)),
    }
}

/// Boxes as `--box` takes them.
pub(super) fn boxes(fields: &Map<String, Value>) -> Result<Vec<String>, LineError> {
    let boxes = list(fields, "boxes")?.unwrap_or_default();
    for given in &boxes {
        given.parse::<ObjectBox>()?;
    }
    Ok(boxes)
}

pub(super) fn list(
    fields: &Map<String, Value>,
    key: &'static str,
) -> Result<Option<Vec<String>>, LineError> {
    let wrong = |value: &Value| kind(key, value, "a list of texts");
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => {
            let text = |item: &Value| item.as_str().map(str::trim).map(str::to_owned);
            let texts = items
                .iter()
                .map(|item| text(item).ok_or_else(|| wrong(item)));
            texts.collect::<Result<_, _>>().map(Some)
        }
        Some(other) => Err(wrong(other)),
    }
}

/// `[{"relation": "left_of", "a": 0, "b": 1}]`
pub(super) fn relations(
    fields: &Map<String, Value>,
) -> Result<Option<Vec<StatedRelation>>, LineError> {
    const KEY: &str = "relations";
    const WANTED: &str = "a list of such as {\"relation\": \"left_of\", \"a\": 0, \"b\": 1}";
    let items = match fields.get(KEY) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(kind(KEY, other, WANTED)),
    };
    let stated = |item: &Value| {
        let wrong = || kind(KEY, item, WANTED);
        let index = |key: &str| item.get(key)?.as_u64()?.try_into().ok();
        let name = item.get("relation").and_then(Value::as_str);
        let relation = named(name.ok_or_else(wrong)?)?;
        let (a, b) = index("a").zip(index("b")).ok_or_else(wrong)?;
        Ok(StatedRelation::of_two(a, relation, b))
    };
    items.iter().map(stated).collect::<Result<_, _>>().map(Some)
}

fn kind(key: &'static str, found: &Value, wanted: &'static str) -> LineError {
    LineError::Kind {
        key,
        found: shortened(&found.to_string()),
        wanted,
    }
}
