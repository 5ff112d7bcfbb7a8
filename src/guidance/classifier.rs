//! What methods that learn go by: a classifier of relations on a device.

use burn::tensor::{Device, Int, Tensor, TensorData};
use prepose_models::steer::{CELLS, SteerNet, normalised};
use prepose_weights::steer::{SteerConfig, SteerFile};

use super::maps::MapGroup;
use crate::prompt::scene::Relation;

/// The class of pictures that show no relation.
pub const NONE: &str = "none";

/// The relations that classifiers tell apart; [`NONE`] comes after them.
pub const RELATIONS: [Relation; 4] = [
    Relation::LeftOf,
    Relation::RightOf,
    Relation::Above,
    Relation::Below,
];

/// The names of all classes.
pub fn classes() -> Vec<String> {
    let relations = RELATIONS.iter().map(|relation| relation.as_str());
    relations.chain([NONE]).map(str::to_owned).collect()
}

/// A classifier on a device.
#[derive(Clone, Debug)]
pub struct Classifier {
    config: SteerConfig,
    net: SteerNet,
}

impl Classifier {
    /// Brings a file's numbers to a device, which is without autodiff.
    pub fn load(file: &SteerFile, device: &Device) -> Self {
        let parameters = SteerFile::parameters(&file.config);
        let tensor = |values: &Vec<f32>| {
            Tensor::from_data(TensorData::new(values.clone(), [values.len()]), device)
        };
        let values = file.values.iter().map(tensor).collect();
        Self {
            config: file.config.clone(),
            net: SteerNet::new(&file.config.size, &parameters, values),
        }
    }

    /// The network.
    pub fn net(&self) -> &SteerNet {
        &self.net
    }

    /// Which of its scores is of this relation.
    pub fn class(&self, relation: Relation) -> Option<usize> {
        let mut classes = self.config.classes.iter();
        classes.position(|class| class == relation.as_str())
    }

    /// Which of the noise levels that it knows stands for a training timestep.
    pub fn step(&self, timestep: f64) -> usize {
        step_of(&self.config.timesteps, timestep)
    }
}

/// The first of `timesteps`, which fall, that is not above `timestep`, as the authors take the next trained step; the last one
/// where all are.
pub fn step_of(timesteps: &[f64], timestep: f64) -> usize {
    let next = timesteps.iter().position(|known| *known <= timestep);
    next.unwrap_or(timesteps.len().saturating_sub(1))
}

/// The maps of pairs of words, `[pairs, 2, maps, CELLS]`, from groups of each layer's maps of M words; a pair is a sample and
/// two of its words.
pub fn inputs(groups: &[MapGroup], pairs: &[(usize, [usize; 2])]) -> Tensor<4> {
    let each = groups
        .iter()
        .map(|group| normalised(group.maps.clone(), group.size));
    let all: Tensor<4> = Tensor::cat(each.collect(), 2);
    let [batch, words, count, _] = all.dims();
    let device = all.device().without_autodiff();
    let rows = pairs.iter();
    let rows: Vec<i32> = rows
        .flat_map(|(sample, pair)| pair.map(|word| (sample * words + word) as i32))
        .collect();
    let rows = TensorData::new(rows, [2 * pairs.len()]);
    let flat: Tensor<3> = all.reshape([batch * words, count, CELLS]);
    let chosen = flat.select(0, Tensor::<1, Int>::from_data(rows, &device));
    chosen.reshape([pairs.len(), 2, count, CELLS])
}

#[cfg(test)]
mod tests {
    use super::step_of;

    #[test]
    fn the_next_trained_step_counts() {
        let known = [881.0, 781.0, 1.0];
        let steps = [999.0, 881.0, 880.0, 781.0, 500.0, 1.0, 0.0].map(|t| step_of(&known, t));
        assert_eq!(steps, [0, 0, 1, 1, 2, 2, 2]);
    }
}
