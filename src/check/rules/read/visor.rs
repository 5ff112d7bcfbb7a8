//! VISOR's results file: `{"1103_0": {"classes": […], "centroid": [[x, y], …], "sra": 0, "text": "a kite to …"}, …}`.

use serde::Deserialize;
use serde_json::Value;

use super::ReadError;
use crate::json;
use crate::rules::{Case, visor};
use crate::{BoundingBox, Detection};
use prepose_scene::Scene;

#[derive(Debug, Deserialize)]
struct Entry {
    classes: Vec<String>,
    centroid: Vec<[f64; 2]>,
    sra: u8,
    text: String,
}

/// The entries of a text that is such a file, in order.
pub(super) fn results(text: &str) -> Option<Vec<(String, Value)>> {
    // A file of lines is not one value, which is found at its second line.
    let Value::Object(entries) = json::from_str(text).ok()? else {
        return None;
    };
    let is_entry = |value: &Value| value.get("classes").is_some() && value.get("sra").is_some();
    (entries.values().all(is_entry) && !entries.is_empty()).then(|| entries.into_iter().collect())
}

/// The picture of an entry. Its detections have passed VISOR's threshold, and of their boxes only the centres are known.
pub(super) fn case(key: &str, value: Value) -> Result<Case, ReadError> {
    let entry: Entry = serde_json::from_value(value)?;
    let scene = Scene::parse(&entry.text).map_err(|error| ReadError::Prompt {
        prompt: entry.text.clone(),
        error,
    })?;
    let detection = |(label, [x, y]): (String, [f64; 2])| Detection {
        label,
        score: 1.0,
        bbox: BoundingBox::new(x, y, x, y),
        mask: None,
    };
    let found = entry.classes.into_iter().zip(entry.centroid);
    let mut case = Case::of_scene(key, &scene, found.map(detection).collect());
    case.prompt_id = key.split('_').next().unwrap_or(key).to_owned();
    case.prompt = Some(entry.text);
    if let Ok(Some(found)) = visor::judge(&case, &Default::default())
        && u8::from(found.right) != entry.sra
    {
        tracing::warn!(
            "{key}: the file says sra {}, but its centroids say {}; the centroids count",
            entry.sra,
            u8::from(found.right)
        );
    }
    Ok(case)
}
