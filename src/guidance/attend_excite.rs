//! Attend-and-Excite (Chefer et al. 2023): the object that the picture attends to least should be attended to somewhere.

use burn::tensor::{Tensor, TensorData};

use super::gradient::{MapLoss, Stage};
use super::maps::{MapGroup, Pooling, object_maps, selector, smooth};
use super::{Target, TokenRange, among_tokens};

/// What the loss is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct ExciteConstants {
    /// Which tokens compete.
    pub range: TokenRange,
    /// Whether maps are smoothed first.
    pub smoothing: bool,
}

/// The loss for a batch.
pub(super) struct AttendExcite {
    constants: ExciteConstants,
    /// Positions of the tokens of text.
    text: Vec<Vec<usize>>,
    /// Token positions by sample and object.
    objects: Vec<Vec<Vec<usize>>>,
}

impl AttendExcite {
    pub fn new(constants: &ExciteConstants, targets: &[Target]) -> Self {
        Self {
            constants: constants.clone(),
            text: targets.iter().map(|target| target.text.clone()).collect(),
            objects: targets.iter().map(Target::positions).collect(),
        }
    }
}

impl MapLoss for AttendExcite {
    fn pooling(&self) -> Pooling {
        Pooling::Mean
    }

    fn acts_on(&self) -> Vec<bool> {
        self.objects
            .iter()
            .map(|sample| !sample.is_empty())
            .collect()
    }

    fn losses(&self, maps: &MapGroup, _stage: Stage) -> Tensor<1> {
        let device = maps.maps.device().without_autodiff();
        let shares = among_tokens(maps.maps.clone(), self.constants.range, &self.text);
        let selector = selector(&self.objects, shares.dims()[3], &device);
        let mut images = object_maps(shares, maps.size, selector);
        if self.constants.smoothing {
            images = smooth(images);
        }
        let [batch, most, rows, columns] = images.dims();
        let peak: Tensor<2> = images
            .reshape([batch, most, rows * columns])
            .max_dim(2)
            .squeeze_dim(2);
        let there: Vec<f32> = (self.objects.iter())
            .flat_map(|sample| (0..most).map(|k| f32::from(k < sample.len())))
            .collect();
        let there = Tensor::from_data(TensorData::new(there, [batch, most]), &device);
        ((-peak + 1.0).clamp_min(0.0) * there)
            .max_dim(1)
            .squeeze_dim(1)
    }
}
