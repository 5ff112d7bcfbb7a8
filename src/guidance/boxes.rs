//! Boxes: where an object should be.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::prompt::scene::Relation;

/// A box in the picture, as shares of its width and height: x to the right, y downwards, each in [0, 1], `x0 < x1` and
/// `y0 < y1`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "[f64; 4]", into = "[f64; 4]")]
pub struct BBox {
    x0: f64,
    y0: f64,
    x1: f64,
    y1: f64,
}

/// Why a box cannot be used.
#[derive(Debug, Error, PartialEq)]
pub enum BoxError {
    /// Not `OBJECT: X0,Y0,X1,Y1`.
    #[error(
        "{0:?} is not a box; write the object, a colon and four shares of the picture's width and height, as in \
         \"dog: 0.05,0.25,0.35,0.75\""
    )]
    Syntax(String),
    /// A corner beyond the picture, in pixels perhaps.
    #[error(
        "the box {0:?} is not within the picture; x0,y0,x1,y1 are shares of its width and height, from 0 to 1"
    )]
    Outside([f64; 4]),
    /// Nothing inside.
    #[error("the box {0:?} is empty; x0 must be less than x1, and y0 less than y1")]
    Empty([f64; 4]),
}

impl BBox {
    /// The box with the upper left corner (x0, y0) and the lower right corner (x1, y1).
    pub fn new([x0, y0, x1, y1]: [f64; 4]) -> Result<Self, BoxError> {
        let corners = [x0, y0, x1, y1];
        if !corners.iter().all(|share| (0.0..=1.0).contains(share)) {
            return Err(BoxError::Outside(corners));
        }
        if x0 >= x1 || y0 >= y1 {
            return Err(BoxError::Empty(corners));
        }
        Ok(Self { x0, y0, x1, y1 })
    }

    /// `[x0, y0, x1, y1]`.
    pub fn corners(self) -> [f64; 4] {
        [self.x0, self.y0, self.x1, self.y1]
    }

    /// The boxes of subject and object for a prompt with one relation, as SpatialBench-UC gives them to BoxDiff and
    /// GLIGEN (Rostane 2026, `configs/gen_sd15_boxdiff.yaml`): the outer thirds, half as long as the picture. Only
    /// the four plain directions have one.
    pub fn layout(relation: Relation) -> Option<[Self; 2]> {
        let thirds = [(0.05, 0.35), (0.65, 0.95)];
        let (first, across) = match relation {
            Relation::LeftOf => (0, false),
            Relation::RightOf => (1, false),
            Relation::Above => (0, true),
            Relation::Below => (1, true),
            _ => return None,
        };
        Some([first, 1 - first].map(|third| {
            let (near, far) = thirds[third];
            let (x0, y0, x1, y1) = match across {
                false => (near, 0.25, far, 0.75),
                true => (0.25, near, 0.75, far),
            };
            Self { x0, y0, x1, y1 }
        }))
    }

    /// The cells `[x0, y0, x1, y1]` that the box covers in maps of `rows` × `columns`, ends excluded.
    pub(super) fn cells(self, [rows, columns]: [usize; 2], rounding: Rounding) -> [usize; 4] {
        let along = |from: f64, to: f64, n: usize| {
            let at = |share: f64| match rounding {
                Rounding::Down => (share * n as f64) as usize,
                _ => (share * n as f64).round_ties_even() as usize,
            };
            let (from, to) = (at(from), at(to));
            match rounding {
                Rounding::AtLeastOne if from == to => match from {
                    0 => (0, 1),
                    _ => (from - 1, from),
                },
                _ => (from, to),
            }
        };
        let (x0, x1) = along(self.x0, self.x1, columns);
        let (y0, y1) = along(self.y0, self.y1, rows);
        [x0, y0, x1, y1]
    }
}

impl TryFrom<[f64; 4]> for BBox {
    type Error = BoxError;

    fn try_from(corners: [f64; 4]) -> Result<Self, BoxError> {
        Self::new(corners)
    }
}

impl From<BBox> for [f64; 4] {
    fn from(bbox: BBox) -> Self {
        bbox.corners()
    }
}

/// From shares of the picture to cells of a map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rounding {
    /// To the nearest, and no box is without a cell.
    AtLeastOne,
    /// To the nearest, as BoxDiff's code.
    Nearest,
    /// Down, as the code of layout guidance.
    Down,
}

/// Which object belongs in which box, from the command line's `--box "dog: 0.05,0.25,0.35,0.75"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectBox {
    /// The object as the prompt names it, or its noun alone; `dog#2` is the second of several.
    pub object: String,
    /// Where it belongs.
    #[serde(rename = "box")]
    pub bbox: BBox,
}

impl FromStr for ObjectBox {
    type Err = BoxError;

    fn from_str(text: &str) -> Result<Self, BoxError> {
        let syntax = || BoxError::Syntax(text.to_owned());
        let (object, corners) = text.rsplit_once(':').ok_or_else(syntax)?;
        let object = object.trim();
        let corners: Result<Vec<f64>, _> = corners.split(',').map(|n| n.trim().parse()).collect();
        let corners = corners.map_err(|_| syntax())?;
        match <[f64; 4]>::try_from(corners) {
            Ok(corners) if !object.is_empty() => Ok(Self {
                object: object.to_owned(),
                bbox: BBox::new(corners)?,
            }),
            _ => Err(syntax()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_read() {
        let read: ObjectBox = " teddy bear : 0.05, .25,0.35,1".parse().unwrap();
        assert_eq!(read.object, "teddy bear");
        assert_eq!(read.bbox.corners(), [0.05, 0.25, 0.35, 1.0]);
        let json = serde_json::to_string(&read).unwrap();
        assert_eq!(
            json,
            r#"{"object":"teddy bear","box":[0.05,0.25,0.35,1.0]}"#
        );
        assert_eq!(serde_json::from_str::<ObjectBox>(&json).unwrap(), read);
    }

    #[test]
    fn bad_boxes_are_refused() {
        let refused = |text: &str| text.parse::<ObjectBox>().unwrap_err().to_string();
        for text in [
            "dog",
            "dog:",
            ":0,0,1,1",
            "dog: 0,0,1",
            "dog: 0,0,1,1,1",
            "dog: a,0,1,1",
        ] {
            assert!(refused(text).contains("is not a box"), "{text}");
        }
        for text in ["dog: 0,0,512,512", "dog: -0.1,0,1,1", "dog: NaN,0,1,1"] {
            assert!(refused(text).contains("not within the picture"), "{text}");
        }
        for text in ["dog: 0.5,0,0.5,1", "dog: 0,0.8,1,0.2"] {
            assert!(refused(text).contains("is empty"), "{text}");
        }
        assert!(serde_json::from_str::<BBox>("[0.5, 0, 0.4, 1]").is_err());
    }

    #[test]
    fn cells_of_a_box() {
        let bbox = BBox::new([0.05, 0.25, 0.35, 0.75]).unwrap();
        assert_eq!(bbox.cells([16, 16], Rounding::Nearest), [1, 4, 6, 12]);
        assert_eq!(bbox.cells([16, 16], Rounding::Down), [0, 4, 5, 12]);
        // Rows come from y, columns from x.
        assert_eq!(bbox.cells([8, 24], Rounding::Nearest), [1, 2, 8, 6]);
        let small = BBox::new([0.99, 0.0, 1.0, 0.01]).unwrap();
        assert_eq!(small.cells([4, 4], Rounding::Nearest), [4, 0, 4, 0]);
        assert_eq!(small.cells([4, 4], Rounding::AtLeastOne), [3, 0, 4, 1]);
    }

    #[test]
    fn layouts_of_the_plain_directions() {
        let [subject, object] = BBox::layout(Relation::Below).unwrap();
        assert_eq!(subject.corners(), [0.25, 0.65, 0.75, 0.95]);
        assert_eq!(object.corners(), [0.25, 0.05, 0.75, 0.35]);
        let [subject, object] = BBox::layout(Relation::LeftOf).unwrap();
        assert_eq!(subject.corners(), [0.05, 0.25, 0.35, 0.75]);
        assert_eq!(object.corners(), [0.65, 0.25, 0.95, 0.75]);
        assert_eq!(BBox::layout(Relation::Near), None);
    }
}
