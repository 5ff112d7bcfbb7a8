//! From what the heads say about every region to the detections of a picture.

use prepose_kernels as kernels;

use super::boxes::{clip, decode_one};
use super::config::RcnnConfig;

/// Shorter boxes are no detections, in pixels.
const SMALLEST: f32 = 1e-2;
/// Above this number of boxes, torchvision suppresses each class by itself; below, it shifts the classes
/// apart, which rounds the corners.
const SHIFTED: usize = 1000;

/// An object in the resized picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub corners: [f32; 4],
    pub score: f32,
    pub label: usize,
}

/// What the network says about the regions of one picture: for each region the best score of its
/// proposal, its corners, the probability of every class, and four changes of the box for every class.
pub(super) struct Regions<'a> {
    pub objectness: &'a [f32],
    pub corners: &'a [[f32; 4]],
    pub probabilities: &'a [f32],
    pub changes: &'a [[f32; 4]],
}

/// torchvision's `postprocess_detections` for one picture of the resized size `size`: best first.
pub(super) fn select(regions: &Regions, size: [usize; 2], config: &RcnnConfig) -> Vec<Candidate> {
    let classes = config.classes.len();
    let mut candidates = Vec::new();
    for (i, from) in regions.corners.iter().enumerate() {
        if regions.objectness[i] < 0.0 {
            continue;
        }
        for label in 1..classes {
            let score = regions.probabilities[i * classes + label];
            // NaN is no detection.
            let high_enough = f64::from(score) > config.box_score_thresh;
            if !high_enough {
                continue;
            }
            let changes = regions.changes[i * classes + label];
            let corners = clip(decode_one(*from, changes, config.bbox_reg_weights), size);
            let [x0, y0, x1, y1] = corners;
            if x1 - x0 >= SMALLEST && y1 - y0 >= SMALLEST {
                candidates.push(Candidate {
                    corners,
                    score,
                    label,
                });
            }
        }
    }
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
    let keep = suppress(&candidates, config);
    let mut keep = keep.iter();
    candidates.retain(|_| *keep.next().unwrap_or(&false));
    candidates.truncate(config.detections_per_img);
    candidates
}

/// Which candidates stay when those of each class are suppressed by themselves: `batched_nms`.
fn suppress(candidates: &[Candidate], config: &RcnnConfig) -> Vec<bool> {
    let threshold = config.box_nms_thresh;
    if candidates.len() <= SHIFTED {
        let coordinates = candidates.iter().flat_map(|c| c.corners);
        let largest = coordinates.fold(f32::NEG_INFINITY, f32::max);
        let shifted = |c: &Candidate| c.corners.map(|x| x + c.label as f32 * (largest + 1.0));
        let boxes: Vec<_> = candidates.iter().map(shifted).collect();
        return kernels::suppress(&boxes, threshold);
    }
    let mut keep = vec![false; candidates.len()];
    for class in 1..config.classes.len() {
        let of_class = |(_, c): &(usize, &Candidate)| c.label == class;
        let (places, boxes): (Vec<usize>, Vec<[f32; 4]>) = candidates
            .iter()
            .enumerate()
            .filter(of_class)
            .map(|(i, c)| (i, c.corners))
            .unzip();
        for (place, stays) in places.into_iter().zip(kernels::suppress(&boxes, threshold)) {
            keep[place] = stays;
        }
    }
    keep
}
