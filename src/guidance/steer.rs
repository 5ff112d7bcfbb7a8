//! Learn-to-Steer (Yiflach et al. 2025, arXiv 2509.02295): the loss is a classifier's that was trained to read relations
//! off the maps. Alone, and together with PoS. Constants and what they differ in: `docs/guidance/steer.md`.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use prepose_kernels::matmul;
use prepose_models::steer::cross_entropy;

use super::classifier::{Classifier, RELATIONS, inputs};
use super::gradient::{MapLoss, NoiseLevel, Stage};
use super::maps::{LayerRule, MIN_SIDE, MapGroup, Pooling};
use super::pos::Pos;
use super::steps::{Refinement, StepSize};
use super::{
    GuidanceConfig, GuidanceError, GuidanceMethod, Loss, Method, Needs, Network, Preset, Settings,
    Target, TargetObject,
};
use crate::prompt::scene::{Relation, TokenPolicy};

/// The method.
pub struct Steer;

/// The method together with PoS: the sum of both losses, in one recorded pass.
pub struct SteerPos;

impl GuidanceMethod for Steer {
    fn name(&self) -> &'static str {
        "steer"
    }

    fn about(&self) -> &'static str {
        "Learn-to-Steer: by a classifier that was trained to see relations in the maps"
    }

    fn presets(&self) -> &'static [Preset] {
        &[Preset::Default, Preset::Sd14Reference]
    }

    fn needs(&self) -> Needs {
        Needs::Relations
    }

    fn reads(&self) -> &'static [&'static str] {
        &["updates", "threshold"]
    }

    fn is_learned(&self) -> bool {
        true
    }

    fn settings(&self, config: &GuidanceConfig, network: Network) -> Settings {
        let constants = Constants {
            method: Method(&Steer),
            classifier: None,
            beside: None,
            in_turn: config.refine != Some(false),
        };
        let (steps, scale, refinement) = match (config.preset, network) {
            (Preset::Default, Network::Toybox) => (10, TOYBOX.scale, TOYBOX.refinement()),
            (Preset::Default, Network::Sdxl) => (25, 5.0, published()),
            _ => (25, 7.5, published()),
        };
        Settings {
            layers: LayerRule::Named(Vec::new()),
            refinement,
            // All tokens of a word count in the authors' code, too.
            tokens: TokenPolicy::Mean,
            ..Settings::new(config, constants, steps, StepSize::constant(scale))
        }
    }

    fn refinement(&self) -> Refinement {
        published()
    }
}

impl GuidanceMethod for SteerPos {
    fn name(&self) -> &'static str {
        "steer+pos"
    }

    fn known_as(&self) -> &'static str {
        "steer+psg"
    }

    fn about(&self) -> &'static str {
        "steer and pos together, by one recorded pass a step"
    }

    fn presets(&self) -> &'static [Preset] {
        &[Preset::Default]
    }

    fn needs(&self) -> Needs {
        Needs::Relations
    }

    fn reads(&self) -> &'static [&'static str] {
        &["loss", "distance", "smoothing"]
    }

    fn is_learned(&self) -> bool {
        true
    }

    fn settings(&self, config: &GuidanceConfig, network: Network) -> Settings {
        let beside = Pos.settings(config, network);
        let alone = Steer.settings(config, network);
        let constants = Constants {
            method: Method(&SteerPos),
            classifier: None,
            beside: Some(Beside {
                loss: beside.loss.clone(),
                weight: Weight {
                    own: alone.step_size,
                    shared: beside.step_size,
                },
            }),
            in_turn: false,
        };
        Settings {
            loss: Arc::new(constants),
            layers: LayerRule::Named(Vec::new()),
            ..beside
        }
    }

    /// One update a step.
    fn refinement(&self) -> Refinement {
        Refinement::None
    }
}

/// What the toybox wants instead of the published constants, by measurement.
struct Measured {
    scale: f64,
    updates: usize,
    threshold: f64,
}

const TOYBOX: Measured = Measured {
    scale: 1.0,
    updates: 3,
    threshold: 0.05,
};

impl Measured {
    fn refinement(&self) -> Refinement {
        Refinement::InTurn {
            thresholds: vec![self.threshold],
            updates: self.updates,
        }
    }
}

/// The authors' limits.
fn published() -> Refinement {
    Refinement::InTurn {
        thresholds: vec![1e-5, 3e-5, 5e-5, 7e-5],
        updates: 16,
    }
}

/// What the loss is made of.
#[derive(Clone, Debug)]
struct Constants {
    method: Method,
    classifier: Option<Arc<Classifier>>,
    beside: Option<Beside>,
    /// Whether relations take turns within a step; otherwise each acts once.
    in_turn: bool,
}

/// PoS's loss, to which the classifier's is added with this weight.
#[derive(Clone, Debug)]
struct Beside {
    loss: Arc<dyn Loss>,
    weight: Weight,
}

/// What the classifier's loss counts beside PoS's, whose step moves the latents by both.
#[derive(Clone, Copy, Debug)]
struct Weight {
    /// The classifier's own step.
    own: StepSize,
    /// PoS's.
    shared: StepSize,
}

impl Weight {
    /// So much that at noise level `sigma` PoS's step moves the latents by the classifier's loss as far as its own would.
    fn at(self, sigma: f64) -> f64 {
        // Without the decay over the steps, which both losses have in common.
        let first = |size: StepSize| size.factor(0, 1, sigma, 1.0);
        match first(self.shared) {
            // A step in σ's space moves nothing at pure noise, whatever the weight.
            0.0 => 0.0,
            shared => first(self.own) / shared,
        }
    }
}

/// Two objects of a sample, and how the first should stand to the second.
type Wanted = ([usize; 2], Relation);

impl Constants {
    /// What is wanted of a sample: a diagonal is two relations.
    fn wanted(&self, target: &Target) -> Result<Vec<Wanted>, GuidanceError> {
        let mut wanted = Vec::new();
        for stated in &target.relations {
            let refused = || GuidanceError::NotLearned {
                method: self.method,
                relation: stated.relation,
            };
            let (x, y) = stated.relation.direction().ok_or_else(refused)?;
            let &[object] = stated.objects.as_slice() else {
                return Err(refused());
            };
            let parts = [(x, 0), (0, y)];
            let parts = parts
                .iter()
                .filter_map(|(x, y)| Relation::from_direction(*x, *y));
            let known = parts.filter(|part| RELATIONS.contains(part));
            wanted.extend(known.map(|part| ([stated.subject, object], part)));
        }
        Ok(wanted)
    }
}

impl Loss for Constants {
    /// Alone, each relation's turn, over and over, or each once; with PoS all at once.
    fn passes(&self, targets: &[Target]) -> Result<Vec<Box<dyn MapLoss>>, GuidanceError> {
        let wanted = targets.iter().map(|target| self.wanted(target));
        let wanted: Vec<Vec<Wanted>> = wanted.collect::<Result<_, _>>()?;
        let Some(classifier) = &self.classifier else {
            return Ok(Vec::new());
        };
        let pass = |wanted: Vec<Vec<Wanted>>, beside| -> Box<dyn MapLoss> {
            Box::new(BatchLoss {
                classifier: classifier.clone(),
                objects: targets.iter().map(Target::positions).collect(),
                wanted,
                beside,
            })
        };
        if let Some(beside) = &self.beside {
            let targets: Vec<Target> = targets.iter().map(by_number).collect();
            let other = beside.loss.passes(&targets)?.into_iter().next();
            return Ok(vec![pass(wanted, other.zip(Some(beside.weight)))]);
        }
        let counts = wanted.iter().map(Vec::len).filter(|count| *count > 0);
        let turns = match self.in_turn {
            true => counts.fold(1, |turns, count| turns / common(turns, count) * count),
            false => counts.max().unwrap_or(0),
        };
        let turn = |turn: usize| {
            let of = |sample: &Vec<Wanted>| {
                let place = match self.in_turn {
                    true => turn.checked_rem(sample.len()),
                    // A sample with fewer relations than its neighbours is left alone once all of its own have acted.
                    false => Some(turn),
                };
                let wanted = place.and_then(|place| sample.get(place));
                wanted.copied().into_iter().collect()
            };
            pass(wanted.iter().map(of).collect(), None)
        };
        Ok((0..turns).map(turn).collect())
    }

    fn taught(&self, classifier: &Arc<Classifier>) -> Option<Arc<dyn Loss>> {
        Some(Arc::new(Self {
            classifier: Some(classifier.clone()),
            ..self.clone()
        }))
    }
}

/// The greatest common divisor.
fn common(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        b => common(b, a % b),
    }
}

/// The target with the objects' numbers in place of the positions of their tokens: maps of objects are there already.
fn by_number(target: &Target) -> Target {
    let objects = target.objects.iter().enumerate();
    let objects = objects.map(|(number, object)| TargetObject {
        positions: vec![number],
        bbox: object.bbox,
    });
    Target {
        objects: objects.collect(),
        relations: target.relations.clone(),
        ..Target::default()
    }
}

/// The loss for a batch.
struct BatchLoss {
    classifier: Arc<Classifier>,
    /// Token positions by sample and object.
    objects: Vec<Vec<Vec<usize>>>,
    /// By sample: what is wanted; the mean of all counts.
    wanted: Vec<Vec<Wanted>>,
    /// Another loss on the mean maps, and what the classifier's counts beside it.
    beside: Option<(Box<dyn MapLoss>, Weight)>,
}

impl BatchLoss {
    /// The mean maps over all heads of the layers that PoS reads ([`LayerRule::Size`]), `[B, 1, cells, objects]`.
    fn mean(groups: &[MapGroup]) -> Option<MapGroup> {
        let mut down = groups.iter().filter(|group| group.down);
        let largest = down.clone().next();
        let smallest = down.rfind(|group| group.size[0].min(group.size[1]) >= MIN_SIDE);
        let anywhere = || groups.iter().max_by_key(|group| group.size);
        let size = smallest.or(largest).or_else(anywhere)?.size;
        let read = groups.iter().filter(|group| group.size == size);
        let heads: Vec<Tensor<4>> = read.clone().map(|group| group.maps.clone()).collect();
        Some(MapGroup {
            size,
            maps: Tensor::cat(heads, 1).mean_dim(1),
            selector: None,
            down: read.clone().any(|group| group.down),
            layers: read.flat_map(|group| group.layers.clone()).collect(),
            count: 1,
        })
    }
}

impl MapLoss for BatchLoss {
    fn pooling(&self) -> Pooling {
        Pooling::Each(self.objects.clone())
    }

    fn acts_on(&self) -> Vec<bool> {
        self.wanted
            .iter()
            .map(|wanted| !wanted.is_empty())
            .collect()
    }

    fn losses(&self, maps: &MapGroup, _before: Option<&MapGroup>, stage: Stage) -> Tensor<1> {
        // One layer alone says nothing of the time; all of them are read together.
        let level = NoiseLevel {
            timestep: 0.0,
            sigma: 0.0,
        };
        self.together(std::slice::from_ref(maps), &[], stage, level)
    }

    fn together(
        &self,
        groups: &[MapGroup],
        _before: &[MapGroup],
        stage: Stage,
        level: NoiseLevel,
    ) -> Tensor<1> {
        let mut pairs = Vec::new();
        let mut classes = Vec::new();
        let batch = self.wanted.len();
        for (sample, wanted) in self.wanted.iter().enumerate() {
            for (pair, relation) in wanted {
                if let Some(class) = self.classifier.class(*relation) {
                    pairs.push((sample, *pair));
                    classes.push(class);
                }
            }
        }
        let device = groups[0].maps.device().without_autodiff();
        let mut weights = vec![0f32; batch * pairs.len()];
        for (place, (sample, _)) in pairs.iter().enumerate() {
            weights[sample * pairs.len() + place] = 1.0 / self.wanted[*sample].len() as f32;
        }
        let weights = TensorData::new(weights, [batch, pairs.len()]);
        let weights: Tensor<2> = Tensor::from_data(weights, &device);
        let steps = vec![self.classifier.step(level.timestep); pairs.len()];
        let scores = self
            .classifier
            .net()
            .forward(inputs(groups, &pairs), &steps, None);
        let each = cross_entropy(scores, &classes).unsqueeze_dim(1);
        let losses: Tensor<1> = matmul(weights, each).squeeze_dim(1);
        match (&self.beside, Self::mean(groups)) {
            (Some((other, weight)), Some(mean)) => {
                other.losses(&mean, None, stage) + losses * weight.at(level.sigma)
            }
            _ => losses,
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    /// The size and the layers of the maps that PoS's loss gets beside the classifier's, from two blocks on the way down, the
    /// middle block and two on the way up with so many cells a side, one layer each.
    fn read_beside(down: [usize; 2], middle: usize) -> ([usize; 2], Vec<usize>) {
        let [outer, inner] = down;
        let sides = [
            (outer, true),
            (inner, true),
            (middle, false),
            (inner, false),
            (outer, false),
        ];
        let group = |(layer, (side, down)): (usize, (usize, bool))| {
            let maps = vec![layer as f32; 2 * side * side];
            let maps = TensorData::new(maps, [1, 2, side * side, 1]);
            MapGroup {
                size: [side, side],
                maps: Tensor::from_data(maps, &Device::flex()),
                selector: None,
                layers: vec![layer],
                down,
                count: 1,
            }
        };
        let groups: Vec<MapGroup> = sides.into_iter().enumerate().map(group).collect();
        let mean = BatchLoss::mean(&groups).unwrap();
        let expected = mean.layers.iter().sum::<usize>() as f32 / mean.layers.len() as f32;
        let values: Vec<f32> = mean.maps.into_data().iter().collect();
        let wrong = |value: &f32| (value - expected).abs() > 1e-6;
        assert!(!values.iter().any(wrong), "{values:?}, not {expected}");
        assert_eq!(values.len(), mean.size[0] * mean.size[1]);
        (mean.size, mean.layers)
    }

    #[test]
    fn beside_the_classifier_pos_reads_what_it_reads_alone() {
        // SD 1.x at 512 px, and at 712 px, where the middle block has 12 cells a side as well.
        assert_eq!(read_beside([32, 16], 8), ([16, 16], vec![1, 3]));
        assert_eq!(read_beside([45, 23], 12), ([23, 23], vec![1, 3]));
        // SDXL's middle block has the size of the last one on the way down.
        assert_eq!(read_beside([64, 32], 32), ([32, 32], vec![1, 2, 3]));
        // Where nothing has enough cells, the largest.
        assert_eq!(read_beside([8, 4], 2), ([8, 8], vec![0, 4]));
    }

    #[test]
    fn the_classifier_moves_as_far_beside_pos_as_alone() {
        let weight = |network| {
            let config = GuidanceConfig::new(&SteerPos);
            Weight {
                own: Steer.settings(&config, network).step_size,
                shared: Pos.settings(&config, network).step_size,
            }
        };
        let xl = weight(Network::Sdxl);
        for sigma in [0.03, 5.134, 13.12] {
            // Both steps are plain.
            assert_eq!(weight(Network::Sd1).at(sigma), 7.5 / 20.0);
            assert_eq!(weight(Network::Toybox).at(sigma), 1.0 / 20.0);
            // PoS's is in σ's space.
            let moved = xl.at(sigma) * xl.shared.factor(0, 50, sigma, 1.0);
            assert!((moved / 5.0 - 1.0).abs() < 1e-9, "{sigma}: {moved}");
        }
        assert_eq!(xl.at(f64::INFINITY), 0.0);
    }
}
