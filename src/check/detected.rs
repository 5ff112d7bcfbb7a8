//! A line of `prepose detect`: what was found in a picture, whatever was asked for.

use std::path::PathBuf;

use serde::Deserialize;

use crate::rules::Case;
use crate::rules::read::ReadError;
use crate::{BoundingBox, Detection};

/// A picture by what was found in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Detected {
    /// The picture's name.
    pub id: String,
    /// Its file, where it is known.
    pub file: Option<PathBuf>,
    /// Width and height in pixels, where they are known.
    pub size: Option<(usize, usize)>,
    /// What was found, without masks.
    pub detections: Vec<Detection>,
}

/// Keys that are not here are passed over.
#[derive(Deserialize)]
struct Line {
    id: Option<String>,
    #[serde(alias = "image_path")]
    file: Option<PathBuf>,
    width: Option<usize>,
    height: Option<usize>,
    detections: Option<Vec<Found>>,
}

#[derive(Deserialize)]
struct Found {
    label: String,
    score: f64,
    box_xyxy: [f64; 4],
}

/// Reads a line.
///
/// # Errors
/// It is no JSON of that form, says nothing of detections, or has a box whose corners are the wrong way round.
pub fn read(line: &str) -> Result<Detected, ReadError> {
    let line: Line = serde_json::from_str(line)?;
    let found = line.detections.ok_or(ReadError::NoDetections)?;
    let mut detections = Vec::with_capacity(found.len());
    for Found {
        label,
        score,
        box_xyxy,
    } in found
    {
        let [x0, y0, x1, y1] = box_xyxy;
        // Also false for what is no number.
        if !(x0 <= x1 && y0 <= y1 && box_xyxy.iter().all(|edge| edge.is_finite())) {
            return Err(ReadError::Box {
                label,
                corners: box_xyxy,
            });
        }
        detections.push(Detection {
            label,
            score,
            bbox: BoundingBox::new(x0, y0, x1, y1),
            mask: None,
        });
    }
    let name = || {
        Some(
            line.file
                .as_ref()?
                .file_stem()?
                .to_string_lossy()
                .into_owned(),
        )
    };
    Ok(Detected {
        id: line.id.or_else(name).unwrap_or_default(),
        file: line.file,
        size: line.width.zip(line.height),
        detections,
    })
}

impl Detected {
    /// The same for the rules, with nothing asked for.
    pub fn case(self) -> Case {
        Case {
            prompt_id: self.id.clone(),
            id: self.id,
            size: self.size,
            detections: self.detections,
            picture: self.file,
            ..Case::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_needs_no_prompt() {
        let line = r#"{"file": "photos/1.jpg", "width": 64, "height": 32, "detector": "x", "detections": [{"label": "dog", "score": 0.5, "box_xyxy": [1, 2, 3, 4]}]}"#;
        let found = read(line).unwrap();
        assert_eq!((found.id.as_str(), found.size), ("1", Some((64, 32))));
        assert_eq!(found.case().found("dog", 0.4).len(), 1);
    }

    #[test]
    fn what_is_no_line_is_refused() {
        for (line, part) in [
            ("{", "not a picture's detections"),
            (r#"{"id": "1"}"#, "no detections"),
            (
                r#"{"detections": [{"label": "dog", "score": 1, "box_xyxy": [5, 0, 1, 1]}]}"#,
                "the box of \"dog\"",
            ),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
