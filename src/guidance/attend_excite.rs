//! Attend-and-Excite (Chefer et al. 2023): the object that the picture attends to least should be attended to
//! somewhere. Constants and what they differ in: `docs/guidance/attend-and-excite.md`.

use burn::tensor::{Tensor, TensorData};

use super::gradient::{MapLoss, Stage};
use super::maps::{MapGroup, Pooling, object_maps, selector, smooth};
use super::shares::{Texts, TokenRange};
use super::steps::{Refinement, StepSize};
use super::{
    GuidanceConfig, GuidanceError, GuidanceMethod, Loss, Needs, Network, Preset, Settings, Target,
};

/// The method.
pub struct AttendAndExcite;

impl GuidanceMethod for AttendAndExcite {
    fn name(&self) -> &'static str {
        "attend-and-excite"
    }

    fn about(&self) -> &'static str {
        "Attend-and-Excite: every object gets attention somewhere"
    }

    fn presets(&self) -> &'static [Preset] {
        &[Preset::Default, Preset::Sd14Reference, Preset::Diffusers]
    }

    fn needs(&self) -> Needs {
        Needs::Objects(1)
    }

    fn reads(&self) -> &'static [&'static str] {
        &["smoothing"]
    }

    fn settings(&self, config: &GuidanceConfig, _network: Network) -> Settings {
        let (range, refinement) = match config.preset {
            Preset::Default => (TokenRange::Text, Refinement::None),
            _ => (TokenRange::AllButEnds, Refinement::published(true)),
        };
        let constants = Constants {
            range,
            smoothing: config.smoothing.unwrap_or(true),
        };
        Settings {
            refinement,
            ..Settings::new(config, constants, 25, StepSize::decaying(20.0))
        }
    }
}

/// What the loss is made of.
#[derive(Clone, Debug)]
struct Constants {
    /// Which tokens compete.
    range: TokenRange,
    /// Whether maps are smoothed first.
    smoothing: bool,
}

impl Loss for Constants {
    fn passes(&self, targets: &[Target]) -> Result<Vec<Box<dyn MapLoss>>, GuidanceError> {
        Ok(vec![Box::new(BatchLoss {
            constants: self.clone(),
            texts: Texts::of(targets),
            objects: targets.iter().map(Target::positions).collect(),
        })])
    }
}

/// The loss for a batch.
struct BatchLoss {
    constants: Constants,
    /// Where its texts stand.
    texts: Texts,
    /// Token positions by sample and object.
    objects: Vec<Vec<Vec<usize>>>,
}

impl MapLoss for BatchLoss {
    fn pooling(&self) -> Pooling {
        Pooling::Mean
    }

    fn acts_on(&self) -> Vec<bool> {
        self.objects
            .iter()
            .map(|sample| !sample.is_empty())
            .collect()
    }

    fn losses(&self, maps: &MapGroup, _before: Option<&MapGroup>, _stage: Stage) -> Tensor<1> {
        let device = maps.maps.device().without_autodiff();
        let shares = (self.texts).shares(maps.maps.clone(), self.constants.range);
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
