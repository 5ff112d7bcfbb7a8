//! From maps to the latents: losses on recorded maps, and their gradient back through the network.

use burn::tensor::Tensor;
use prepose_kernels::matmul;
use prepose_models::attention::LayerInfo;
use prepose_models::unet::{
    MapCotangents, Memory, PreparedConditioning, RecordGraphs, RecordOptions, Recording, UNet,
};

use super::maps::{LayerFilter, MapGroup, Pooling, Recorder};
use crate::sampling::denoise::State;

/// What a loss is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The loss that an ordinary update lowers.
    Update,
    /// The loss that is driven below a threshold by repeating a step. It may be a part of the other.
    Refine,
}

/// How noisy the latents are that the network looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseLevel {
    /// The training timestep, in [0, 1000).
    pub timestep: f64,
    /// σ = √(1 − ᾱ) / √ᾱ; infinite for pure noise.
    pub sigma: f64,
}

impl NoiseLevel {
    /// That of the step that is being taken.
    pub fn of(state: &State) -> Self {
        Self {
            timestep: state.timestep,
            sigma: state.sigma(),
        }
    }
}

/// A loss on attention maps, for a batch with a target for each sample.
pub trait MapLoss {
    /// How the maps that it reads are put together.
    fn pooling(&self) -> Pooling;

    /// Which samples it has something to say about. The others' losses are 0 and have no gradient.
    fn acts_on(&self) -> Vec<bool>;

    /// The loss of each sample, `[B]`, on one group of maps; differentiable with respect to `maps.maps`. `before` are
    /// the maps of the same layers in the last forward pass of the previous guided step; none in the first.
    fn losses(&self, maps: &MapGroup, before: Option<&MapGroup>, stage: Stage) -> Tensor<1>;

    /// The loss of each sample, `[B]`, on all groups of maps of latents at noise level `level`: the mean of those on each unless
    /// a method reads them together.
    fn together(
        &self,
        groups: &[MapGroup],
        before: &[MapGroup],
        stage: Stage,
        _level: NoiseLevel,
    ) -> Tensor<1> {
        let each = groups.iter().map(|group| {
            let before = before.iter().find(|before| before.layers == group.layers);
            self.losses(group, before, stage)
        });
        let losses = each.reduce(|sum, losses| sum + losses);
        losses.expect("a layer that is read") / groups.len() as f64
    }
}

/// Which maps a forward pass records, and for what.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// The layers.
    pub filter: &'a LayerFilter,
    /// The loss on their maps.
    pub loss: &'a dyn MapLoss,
    /// The maps of the previous guided step; empty in the first.
    pub before: &'a [MapGroup],
    /// What the loss is asked for.
    pub stage: Stage,
    /// The share of tokens that the network's self-attention merges, if any.
    pub merging: Option<f64>,
    /// Captured passes of the network, which may stand in for ordinary ones.
    pub graphs: Option<&'a RecordGraphs>,
}

impl<'g> Reading<'g> {
    fn recorder(&self) -> Recorder {
        Recorder::new(self.filter.clone(), self.loss.pooling())
    }

    /// Runs the UNet on `input`, `[B, C, h, w]` as it wants them, at `level`, as far as the last layer that is read. Gives the
    /// losses with their gradient to the maps, and what takes that on to the input ([`Recording::sample_gradient`]).
    pub fn run<'a>(
        &self,
        unet: &'a UNet,
        input: Tensor<4>,
        level: NoiseLevel,
        conditioning: &PreparedConditioning,
        memory: Memory,
    ) -> (MapGradient, Recording<'a>)
    where
        'g: 'a,
    {
        let mut recorder = self.recorder();
        let options = RecordOptions {
            memory,
            whole: false,
            merging: self.merging,
        };
        let recording = RecordGraphs::record(
            self.graphs,
            unet,
            input,
            level.timestep,
            conditioning,
            &mut recorder,
            options,
        );
        let gradient =
            MapGradient::new(self.loss, recorder.finish(), self.before, self.stage, level);
        (gradient, recording)
    }
}

/// The losses on recorded maps, and their sum's gradient to each layer's probabilities.
pub struct MapGradient {
    /// The loss of each sample, `[B]`.
    pub losses: Tensor<1>,
    /// The maps themselves, without gradient.
    pub maps: Vec<MapGroup>,
    /// Layers by index, and the gradient to what each of them says, `[B, 1 or heads, cells, tokens]`.
    layers: Vec<(Vec<usize>, Tensor<4>)>,
}

impl MapGradient {
    /// `loss` on `groups` of maps, differentiated ([`MapLoss::together`]); `before` as in [`MapLoss::losses`].
    pub fn new(
        loss: &dyn MapLoss,
        groups: Vec<MapGroup>,
        before: &[MapGroup],
        stage: Stage,
        level: NoiseLevel,
    ) -> Self {
        let maps = groups.clone();
        let leaf = |group: MapGroup| MapGroup {
            maps: group.maps.autodiff().require_grad(),
            ..group
        };
        let groups: Vec<MapGroup> = groups.into_iter().map(leaf).collect();
        let losses = loss.together(&groups, before, stage, level);
        let gradients = losses.clone().sum().backward();
        let to_probabilities = |group: MapGroup| {
            let gradient = group.maps.grad(&gradients)?;
            let gradient = match group.selector {
                Some(selector) => matmul(gradient, selector.transpose().unsqueeze_dim(1)),
                None => gradient,
            };
            Some((group.layers, gradient / group.count as f64))
        };
        Self {
            losses: losses.inner(),
            maps,
            layers: groups.into_iter().filter_map(to_probabilities).collect(),
        }
    }
}

impl MapCotangents for MapGradient {
    fn cotangent(&self, layer: &LayerInfo) -> Option<Tensor<4>> {
        let mut read = self.layers.iter();
        let found = read.find(|(layers, _)| layers.contains(&layer.index));
        found.map(|(_, gradient)| gradient.clone())
    }
}
