//! Layout guidance (Chen, Laina and Vedaldi 2024, "Training-free layout control with cross-attention guidance"): of the
//! attention to an object all should be inside its box, in each layer and head. Constants and what they differ in:
//! `docs/guidance/layout.md`.

use burn::tensor::{Tensor, TensorData};

use super::boxes::{BBox, Rounding};
use super::gradient::{MapLoss, Stage};
use super::maps::{LayerRule, MapGroup, Pooling};
use super::steps::{Refinement, StepSize};
use super::{
    GuidanceConfig, GuidanceError, GuidanceMethod, Loss, Needs, Network, Preset, Settings, Target,
};

/// The method.
pub struct Layout;

impl GuidanceMethod for Layout {
    fn name(&self) -> &'static str {
        "layout"
    }

    fn about(&self) -> &'static str {
        "Layout guidance, by boxes"
    }

    fn presets(&self) -> &'static [Preset] {
        &[Preset::Default, Preset::Sd14Reference]
    }

    fn needs(&self) -> Needs {
        Needs::Boxes
    }

    fn reads(&self) -> &'static [&'static str] {
        &[]
    }

    fn settings(&self, config: &GuidanceConfig, _network: Network) -> Settings {
        let reference = config.preset != Preset::Default;
        let constants = Constants {
            rounding: match reference {
                true => Rounding::Down,
                false => Rounding::AtLeastOne,
            },
        };
        Settings {
            layers: LayerRule::MidAndFirstUp,
            refinement: Refinement::Until {
                threshold: 0.2,
                updates: 5,
                quirk: reference,
            },
            ..Settings::new(config, constants, 10, StepSize::noise_level(30.0))
        }
    }
}

/// The least share of its attention that a head has to give a cell of an object for the loss to say where it should go.
const LEAST: f32 = 1e-30;

/// What the loss is made of.
#[derive(Clone, Debug)]
struct Constants {
    /// From boxes to cells.
    rounding: Rounding,
}

impl Loss for Constants {
    fn passes(&self, targets: &[Target]) -> Result<Vec<Box<dyn MapLoss>>, GuidanceError> {
        let (objects, boxes) = (targets.iter()).map(Target::boxed).unzip();
        Ok(vec![Box::new(BatchLoss {
            constants: self.clone(),
            objects,
            boxes,
        })])
    }
}

/// The loss for a batch.
struct BatchLoss {
    constants: Constants,
    /// Token positions by sample and object, of objects with a box.
    objects: Vec<Vec<Vec<usize>>>,
    boxes: Vec<Vec<BBox>>,
}

impl MapLoss for BatchLoss {
    fn pooling(&self) -> Pooling {
        Pooling::Each(self.objects.clone())
    }

    fn acts_on(&self) -> Vec<bool> {
        self.boxes.iter().map(|sample| !sample.is_empty()).collect()
    }

    fn losses(&self, maps: &MapGroup, _before: Option<&MapGroup>, _stage: Stage) -> Tensor<1> {
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
        // Of less, and in f16 it may give nothing at all, there is no quotient to follow: all counts as outside.
        let held = largest.clone().greater_equal_elem(LEAST).float();
        let maps = maps.maps.clone() * (held.clone() / largest.clamp_min(LEAST));
        let whole = maps.clone().sum_dim(2) + (-held + 1.0);
        let share = (maps * inside).sum_dim(2) / whole;
        let outside = (-share + 1.0).square().mean_dim(1);
        (outside.reshape([batch, most]) * weights)
            .sum_dim(1)
            .squeeze_dim(1)
    }
}
