//! From a network's numbers to detections: what networks of DETR's family have in common.

use crate::check::{BoundingBox, Detection};

/// The logits and boxes of each of `count` pictures that went through a network together.
pub(super) fn of_each(
    [logits, boxes]: &[Vec<f32>; 2],
    count: usize,
) -> impl Iterator<Item = (&[f32], &[f32])> {
    let part = |all: &[f32]| (all.len() / count).max(1);
    logits.chunks(part(logits)).zip(boxes.chunks(part(boxes)))
}

/// The score of a logit.
pub(super) fn probability(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}

/// A box around its middle, `[x, y, width, height]` in shares of a picture of `size` (width and height in pixels).
pub(super) fn around_middle(at: [f32; 4], size: [usize; 2]) -> BoundingBox {
    let end = |axis: usize, sign: f32| {
        f64::from((at[axis] + sign * 0.5 * at[axis + 2]) * size[axis] as f32)
    };
    BoundingBox::new(end(0, -1.0), end(1, -1.0), end(0, 1.0), end(1, 1.0))
}

/// A detection without a mask, if its score is above the threshold: one that is no number is not.
pub(super) fn above(
    threshold: f64,
    score: f64,
    label: impl FnOnce() -> Option<String>,
    bbox: BoundingBox,
) -> Option<Detection> {
    let above = score > threshold;
    above.then(label).flatten().map(|label| Detection {
        label,
        score,
        bbox,
        mask: None,
    })
}

/// The best score first; equals stay in their order.
pub(super) fn best_first(found: &mut [Detection]) {
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_and_scores() {
        let bbox = around_middle([0.5, 0.25, 0.5, 0.5], [8, 4]);
        assert_eq!(bbox, BoundingBox::new(2.0, 0.0, 6.0, 2.0));
        assert_eq!(probability(0.0), 0.5);
        let label = || Some("dog".to_owned());
        assert!(above(0.5, 0.5, label, bbox).is_none());
        assert!(above(0.5, f64::NAN, label, bbox).is_none());
        assert!(above(0.5, 0.6, || None, bbox).is_none());
        let one = |score| above(0.0, score, label, bbox).unwrap();
        let mut found = [one(0.1), one(0.3), one(0.2)];
        best_first(&mut found);
        assert_eq!(found.map(|one| one.score), [0.3, 0.2, 0.1]);
    }
}
