//! Layout guidance (Chen, Laina and Vedaldi 2024, "Training-free layout control with cross-attention guidance"): of the
//! attention to an object all should be inside its box, in each layer and head.

use burn::tensor::{Tensor, TensorData};

use super::Target;
use super::boxes::{BBox, Rounding};
use super::gradient::{MapLoss, Stage};
use super::maps::{MapGroup, Pooling};

/// What the loss is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct LayoutConstants {
    /// From boxes to cells.
    pub rounding: Rounding,
}

/// The loss for a batch.
pub(super) struct Layout {
    constants: LayoutConstants,
    /// Token positions by sample and object, of objects with a box.
    objects: Vec<Vec<Vec<usize>>>,
    boxes: Vec<Vec<BBox>>,
}

impl Layout {
    pub fn new(constants: &LayoutConstants, targets: &[Target]) -> Self {
        let (objects, boxes) = (targets.iter()).map(Target::boxed).unzip();
        Self {
            constants: constants.clone(),
            objects,
            boxes,
        }
    }
}

impl MapLoss for Layout {
    fn pooling(&self) -> Pooling {
        Pooling::Each(self.objects.clone())
    }

    fn acts_on(&self) -> Vec<bool> {
        self.boxes.iter().map(|sample| !sample.is_empty()).collect()
    }

    fn losses(&self, maps: &MapGroup, _stage: Stage) -> Tensor<1> {
        let device = maps.maps.device().without_autodiff();
        let [batch, _, cells, most] = maps.maps.dims();
        let columns = maps.size[1];
        let mut inside = vec![0f32; batch * cells * most];
        let mut weights = vec![0f32; batch * most];
        for (b, boxes) in self.boxes.iter().enumerate() {
            for (k, bbox) in boxes.iter().enumerate() {
                let [x0, y0, x1, y1] = bbox.cells(maps.size, self.constants.rounding);
                for y in y0..y1 {
                    for x in x0..x1 {
                        inside[(b * cells + y * columns + x) * most + k] = 1.0;
                    }
                }
                weights[b * most + k] = 1.0 / boxes.len() as f32;
            }
        }
        let inside: Tensor<4> =
            Tensor::from_data(TensorData::new(inside, [batch, 1, cells, most]), &device);
        let weights: Tensor<2> =
            Tensor::from_data(TensorData::new(weights, [batch, most]), &device);
        // [B, heads, 1, K]
        // A head that looks elsewhere may give an object 1e-25 of its attention, of which the square that a quotient's
        // gradient divides by is no f32 any more. The share does not depend on the maps' size.
        let largest = maps.maps.clone().detach().max_dim(2);
        let maps = maps.maps.clone() / largest.clamp_min(f32::MIN_POSITIVE);
        let share = (maps.clone() * inside).sum_dim(2) / (maps.sum_dim(2) + 1e-20);
        let outside = (-share + 1.0).square().mean_dim(1);
        (outside.reshape([batch, most]) * weights)
            .sum_dim(1)
            .squeeze_dim(1)
    }
}
