//! What a detector says of one picture: labelled boxes with scores, and masks where it has them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::mask::Mask;
use crate::run_lengths::RunLengths;

/// A box in pixels of the original picture, corners `x0 <= x1`, `y0 <= y1`. Serialized as `[x0, y0, x1, y1]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 4]", into = "[f64; 4]")]
pub struct BoundingBox {
    /// The left edge.
    pub x0: f64,
    /// The upper edge.
    pub y0: f64,
    /// The right edge.
    pub x1: f64,
    /// The lower edge.
    pub y1: f64,
}

impl BoundingBox {
    /// The box with these corners.
    pub const fn new(x0: f64, y0: f64, x1: f64, y1: f64) -> Self {
        Self { x0, y0, x1, y1 }
    }

    /// In pixels.
    pub fn width(&self) -> f64 {
        self.x1 - self.x0
    }

    /// In pixels.
    pub fn height(&self) -> f64 {
        self.y1 - self.y0
    }

    /// In square pixels; 0 where the corners are the wrong way round.
    pub fn area(&self) -> f64 {
        self.width().max(0.0) * self.height().max(0.0)
    }

    /// The middle, x and y.
    pub fn centre(&self) -> (f64, f64) {
        ((self.x0 + self.x1) / 2.0, (self.y0 + self.y1) / 2.0)
    }

    /// Intersection over union, in 0..=1; 0 where the union is empty.
    pub fn iou(&self, other: &Self) -> f64 {
        let width = (self.x1.min(other.x1) - self.x0.max(other.x0)).max(0.0);
        let height = (self.y1.min(other.y1) - self.y0.max(other.y0)).max(0.0);
        let intersection = width * height;
        let union = self.area() + other.area() - intersection;
        if union > 0.0 {
            intersection / union
        } else {
            0.0
        }
    }
}

impl From<[f64; 4]> for BoundingBox {
    fn from([x0, y0, x1, y1]: [f64; 4]) -> Self {
        Self { x0, y0, x1, y1 }
    }
}

impl From<BoundingBox> for [f64; 4] {
    fn from(b: BoundingBox) -> Self {
        [b.x0, b.y0, b.x1, b.y1]
    }
}

/// One object that a detector found in a picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    /// What it is, in the detector's words.
    pub label: String,
    /// How sure the detector is, in 0..=1.
    pub score: f64,
    /// Where it is.
    #[serde(rename = "box_xyxy")]
    pub bbox: BoundingBox,
    /// The pixels it covers, from detectors that segment; in COCO's run-length encoding, which the released records do
    /// not have.
    #[serde(
        rename = "segmentation",
        default,
        skip_serializing_if = "Option::is_none",
        with = "as_run_lengths"
    )]
    pub mask: Option<Arc<Mask>>,
}

/// Masks as [`RunLengths`].
mod as_run_lengths {
    use std::sync::Arc;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Mask, RunLengths};

    pub fn serialize<S: Serializer>(
        mask: &Option<Arc<Mask>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let packed = mask.as_ref().map(|mask| RunLengths::pack(mask));
        packed.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<Mask>>, D::Error> {
        let packed = Option::<RunLengths>::deserialize(deserializer)?;
        let mask = packed.map(|packed| packed.unpack().map(Arc::new));
        mask.transpose().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_measures_itself() {
        let b = BoundingBox::new(10.0, 20.0, 30.0, 60.0);
        assert_eq!((b.width(), b.height(), b.area()), (20.0, 40.0, 800.0));
        assert_eq!(b.centre(), (20.0, 40.0));
        assert_eq!(BoundingBox::new(5.0, 0.0, 1.0, 9.0).area(), 0.0);
    }

    #[test]
    fn overlap_is_a_share_of_the_union() {
        let a = BoundingBox::new(0.0, 0.0, 2.0, 2.0);
        let b = BoundingBox::new(1.0, 0.0, 3.0, 2.0);
        assert_eq!(a.iou(&a), 1.0);
        assert_eq!(a.iou(&b), 2.0 / 6.0);
        assert_eq!(a.iou(&BoundingBox::new(2.0, 2.0, 4.0, 4.0)), 0.0);
        let point = BoundingBox::new(1.0, 1.0, 1.0, 1.0);
        assert_eq!(point.iou(&point), 0.0);
    }

    #[test]
    fn a_mask_knows_its_pixels() {
        let mask = Mask::new(3, 2, vec![true, true, false, false, true, false]).unwrap();
        assert!(mask.contains(1, 1) && !mask.contains(2, 0) && !mask.contains(3, 0));
        assert_eq!(mask.area(), 3);
        assert_eq!(mask.x_profile(), [1.0, 2.0, 0.0]);
        assert_eq!(mask.y_profile(), [2.0, 1.0]);
        let error = Mask::new(3, 2, vec![true]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a mask of 3 × 2 pixels needs 6 values, not 1"
        );
        let empty = Mask::new(0, 2, Vec::new()).unwrap();
        assert_eq!(empty.y_profile(), [0.0, 0.0]);
    }

    #[test]
    fn a_detection_reads_a_record() {
        let text = r#"{"label":"dog","score":0.5,"box_xyxy":[1.5,2.0,3.0,4.0]}"#;
        let dog: Detection = serde_json::from_str(text).unwrap();
        assert_eq!(dog.bbox, BoundingBox::new(1.5, 2.0, 3.0, 4.0));
        assert_eq!(serde_json::to_string(&dog).unwrap(), text);
        let text = text.replace('}', r#","segmentation":{"size":[2,3],"counts":"132"}}"#);
        let dog: Detection = serde_json::from_str(&text).unwrap();
        assert_eq!(dog.mask.as_ref().unwrap().area(), 3);
        assert_eq!(serde_json::to_string(&dog).unwrap(), text);
        let error = serde_json::from_str::<Detection>(&text.replace("132", "131")).unwrap_err();
        assert!(
            error.to_string().contains("the runs have 5 pixels"),
            "{error}"
        );
    }
}
