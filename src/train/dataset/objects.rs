//! Things in a picture: phrases with boxes.

use prepose_untrusted::printable;
use serde_json::Value;

use crate::bucket::Fit;
use crate::sample::{Dataset, Skipped};
use crate::sides::{SideWords, swapped};

/// The key of a list of them.
pub(crate) const KEY: &str = "objects";

/// Boxes with a smaller share of the picture are left out, as GLIGEN's authors do it.
pub const SMALLEST: f64 = 0.01;

/// A thing in a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// What it is.
    pub phrase: String,
    /// x0, y0, x1, y1 as shares of the picture's width and height, upright.
    pub corners: [f64; 4],
}

impl Object {
    /// Refuses boxes that reach out of the picture or have no inside.
    pub(crate) fn new(phrase: &str, corners: [f64; 4]) -> Result<Self, String> {
        let [x0, y0, x1, y1] = corners;
        let inside = corners.iter().all(|edge| (0.0..=1.0).contains(edge));
        if !inside || x0 >= x1 || y0 >= y1 {
            return Err(format!(
                "the box of {:?} is {corners:?}, and must be [x0, y0, x1, y1] as shares of width and height, from 0 to 1",
                printable(phrase).to_string()
            ));
        }
        let phrase = phrase.trim().to_owned();
        match phrase.is_empty() {
            true => Err("an object has an empty phrase".into()),
            false => Ok(Self { phrase, corners }),
        }
    }

    fn area(&self) -> f64 {
        let [x0, y0, x1, y1] = self.corners;
        (x1 - x0) * (y1 - y0)
    }
}

/// The objects in a line's list: `[{"phrase": "a dog", "box": [x0, y0, x1, y1]}]`.
pub(crate) fn read(list: &Value) -> Result<Vec<Object>, String> {
    let Some(list) = list.as_array() else {
        return Err(format!("its {KEY} are not a list"));
    };
    let one = |object: &Value| {
        let phrase = object["phrase"].as_str();
        let phrase = phrase.ok_or_else(|| format!("one of its {KEY} has no phrase"))?;
        let sides = object["box"].as_array().into_iter().flatten();
        let sides: Vec<f64> = sides.filter_map(Value::as_f64).collect();
        let corners = <[f64; 4]>::try_from(sides);
        let corners = corners.map_err(|_| {
            format!(
                "its object {:?} has no box of four numbers, [x0, y0, x1, y1]",
                printable(phrase).to_string()
            )
        })?;
        Object::new(phrase, corners)
    };
    list.iter().map(one).collect()
}

/// Leaves out pictures without any.
pub(crate) fn required(dataset: &mut Dataset) {
    let (with, without): (Vec<_>, Vec<_>) = std::mem::take(&mut dataset.samples)
        .into_iter()
        .partition(|sample| !sample.objects.is_empty());
    dataset.samples = with;
    let skipped = without.into_iter().map(|sample| Skipped {
        name: sample.name,
        why: format!(
            "it has no phrases with boxes: neither a list \"{KEY}\" in metadata.jsonl or a .json, nor detections of a run"
        ),
    });
    dataset.skipped.extend(skipped);
}

impl Fit {
    /// Where objects are after a picture came to its size, `mirrored` at the end with what becomes of words of sides, or not:
    /// boxes are cut at the picture's edges, those below [`SMALLEST`] left out, and of the others the `most` largest stay,
    /// largest first.
    pub fn place(
        &self,
        objects: &[Object],
        mirrored: Option<SideWords>,
        most: usize,
    ) -> Vec<Object> {
        let moved = |edge: f64, axis: usize| {
            let pixels = edge * self.resized[axis] as f64 - self.offset[axis] as f64;
            (pixels / self.size[axis] as f64).clamp(0.0, 1.0)
        };
        let mut placed: Vec<Object> = (objects.iter())
            .map(|object| {
                let [x0, y0, x1, y1] = object.corners;
                let [x0, x1] = [moved(x0, 0), moved(x1, 0)];
                let [x0, x1] = if mirrored.is_some() {
                    [1.0 - x1, 1.0 - x0]
                } else {
                    [x0, x1]
                };
                Object {
                    corners: [x0, moved(y0, 1), x1, moved(y1, 1)],
                    phrase: match mirrored {
                        Some(SideWords::Swap) => swapped(&object.phrase),
                        _ => object.phrase.clone(),
                    },
                }
            })
            .filter(|object| object.area() >= SMALLEST)
            .collect();
        placed.sort_by(|a, b| b.area().total_cmp(&a.area()));
        placed.truncate(most);
        placed
    }
}
