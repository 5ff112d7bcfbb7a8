//! How two boxes lie to each other.

use super::{RelationError, Size};
use crate::detection::Detection;
use prepose_scene::Relation;

/// How the two boxes lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geometry {
    /// The subject's centre less the object's, as a fraction of the picture: x for left and right, y (downwards) for
    /// above and below, for a diagonal the axis that goes worse.
    pub delta: f64,
    /// `delta` in the relation's direction: positive where the relation holds.
    pub progress: f64,
    /// Intersection over union of the two boxes.
    pub iou: f64,
}

/// The relation's direction in the picture.
pub(super) fn direction(relation: Relation) -> Result<(i8, i8), RelationError> {
    relation.direction().ok_or_else(|| RelationError {
        relation: relation.to_string(),
    })
}

/// How the boxes lie. A diagonal is as good as the worse of its two axes, so it passes if both do and fails if one does.
pub(super) fn geometry(
    [width, height]: Size,
    (x, y): (i8, i8),
    a: &Detection,
    b: &Detection,
) -> Geometry {
    let ((ax, ay), (bx, by)) = (a.bbox.centre(), b.bbox.centre());
    let axes = [
        (x, (ax - bx) / f64::from(width)),
        (y, (ay - by) / f64::from(height)),
    ];
    let (delta, progress) = axes
        .into_iter()
        .filter(|(sign, _)| *sign != 0)
        .map(|(sign, delta)| (delta, f64::from(sign) * delta))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or_default();
    Geometry {
        delta,
        progress,
        iou: a.bbox.iou(&b.bbox),
    }
}
