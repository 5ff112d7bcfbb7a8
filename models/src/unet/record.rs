//! A forward pass that can be followed back: from the probabilities of its cross-attention to the
//! sample.
//!
//! What attention guidance differentiates is always the same function, the probabilities of some
//! layers as a function of the sample, so that its gradient is written out here instead of being
//! left to an autodiff engine. That makes it cheap: no parameter has a gradient, convolutions and
//! linear layers keep nothing, no attention keeps its `N`×`N` scores, and nothing runs that the
//! wanted layers do not need.

use burn::prelude::*;
use burn::tensor::DType;

use super::pass::{Pass, Tape};
use super::reuse::Cross;
use super::steps::Gradient;
use super::{PreparedConditioning, UNet};
use crate::attention::{AttentionProbe, LayerInfo, NoProbe};
use crate::resnet::TimeShift;

/// What a [`UNet::record`] keeps for the gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Memory {
    /// All that the gradient needs: about twenty feature maps for each residual block with its
    /// transformer.
    #[default]
    Keep,
    /// The input of each residual and transformer block (Chen et al. 2016), at the price of running
    /// most of the blocks a second time.
    Recompute,
}

/// How [`UNet::record`] runs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RecordOptions {
    /// What is kept for the gradient, and what is computed again.
    pub memory: Memory,
    /// Run on to the output, without recording, after the last layer that the probe wants. Otherwise
    /// the pass ends there.
    pub whole: bool,
    /// As [`Reuse::merging`](super::Reuse::merging).
    pub merging: Option<f64>,
}

/// The gradient of a loss with respect to the probabilities of cross-attention layers. Implemented
/// by every `Fn(&LayerInfo) -> Option<Tensor<4>>`.
pub trait MapCotangents {
    /// The gradient with respect to this layer's probabilities, `[B, heads, height · width, tokens]`
    /// or, if it is the same for every head, `[B, 1, height · width, tokens]`. `None` if the loss
    /// does not read them. Asked for every layer that the recording's probe wanted.
    fn cotangent(&self, layer: &LayerInfo) -> Option<Tensor<4>>;
}

impl<F: Fn(&LayerInfo) -> Option<Tensor<4>>> MapCotangents for F {
    fn cotangent(&self, layer: &LayerInfo) -> Option<Tensor<4>> {
        self(layer)
    }
}

/// A recorded forward pass; made by [`UNet::record`].
pub struct Recording<'a> {
    unet: &'a UNet,
    conditioning: PreparedConditioning,
    time: Vec<TimeShift>,
    layers: Vec<LayerInfo<'a>>,
    wanted: Vec<bool>,
    memory: Memory,
    merging: Option<f64>,
    /// What the recorded steps kept, in the order of execution.
    tapes: Vec<Tape>,
    output: Option<Tensor<4>>,
    sample: [usize; 4],
    device: Device,
}

impl UNet {
    /// Runs like [`forward_probed`](Self::forward_probed), with the same arguments, as far as the
    /// last layer that `probe` wants, and keeps what [`Recording::sample_gradient`] needs. Works on
    /// every backend, on a sample without autodiff.
    ///
    /// # Panics
    /// If shapes do not fit together.
    pub fn record(
        &self,
        sample: Tensor<4>,
        timesteps: &[f64],
        conditioning: &PreparedConditioning,
        probe: &mut dyn AttentionProbe,
        options: RecordOptions,
    ) -> Recording<'_> {
        let layers = self.layer_infos(&sample, conditioning);
        let wanted: Vec<_> = layers.iter().map(|layer| probe.wants(layer)).collect();
        let last = last(&wanted);
        let time = self.time_shifts(self.embed_timesteps(timesteps, &sample), conditioning);
        let mut pass = Pass {
            time: &time,
            context: &conditioning.context,
            objects: conditioning.objects.as_deref(),
            pictures: conditioning.pictures.as_deref(),
            layers: &layers,
            wanted: &wanted,
            probe,
            branches: Vec::new(),
            tape: None,
            end: last.filter(|_| !options.whole),
            merging: options.merging,
            cross: Cross::Compute,
        };
        let steps = self.steps();
        let recorded = steps
            .iter()
            .position(|step| last.is_some() && step.layer() == last);
        let (recorded, rest) = steps.split_at(recorded.map_or(0, |last| last + 1));
        let (shape, device) = (sample.dims(), sample.device());
        let mut x = Some(self.input(sample));
        let mut tapes = Vec::with_capacity(recorded.len());
        for step in recorded {
            pass.tape = Some(Tape::default());
            x = x.and_then(|x| step.forward(x, &mut pass));
            let mut tape = pass.tape.take().unwrap_or_default();
            if options.memory == Memory::Recompute && step.recomputes() {
                tape.keep_input_only();
            }
            tapes.push(tape);
        }
        let output = x.filter(|_| options.whole);
        let output = output.map(|x| self.run_on(rest, x, &mut pass));
        Recording {
            unet: self,
            conditioning: conditioning.clone(),
            time,
            layers,
            wanted,
            memory: options.memory,
            merging: options.merging,
            tapes,
            output,
            sample: shape,
            device,
        }
    }
}

/// The last wanted layer.
fn last(wanted: &[bool]) -> Option<usize> {
    wanted.iter().rposition(|&wanted| wanted)
}

impl Recording<'_> {
    /// The network's output `[B, Cout, H, W]`, f32, if the whole network was to run.
    pub fn output(&self) -> Option<&Tensor<4>> {
        self.output.as_ref()
    }

    /// The gradient `[B, Cin, H, W]`, f32, of a loss with respect to the sample, given its gradient
    /// with respect to the probabilities. Each sample's gradient is its own: a loss that is a sum
    /// over the samples gives what it gives for each alone.
    ///
    /// With f16 weights the gradient is scaled on its way, for each sample, so that it does not
    /// underflow. The cotangents should be f32, or they may underflow before they get here.
    ///
    /// # Panics
    /// If a cotangent's shape does not fit its layer.
    pub fn sample_gradient(self, cotangents: &dyn MapCotangents) -> Tensor<4> {
        let mut probabilities = self.cotangents(cotangents);
        let scale = (self.unet.conv_in.dtype() == DType::F16)
            .then(|| normalise(&mut probabilities))
            .flatten();
        let mut state = Gradient {
            context: &self.conditioning.context,
            grounded: self.conditioning.objects.is_some(),
            pictures: self.conditioning.pictures.as_deref(),
            probabilities,
            branches: Vec::new(),
        };
        let nothing = vec![false; self.wanted.len()];
        let mut grad = None;
        for (step, mut tape) in self.unet.steps().iter().zip(self.tapes).rev() {
            if self.memory == Memory::Recompute && step.recomputes() {
                let mut pass = Pass {
                    time: &self.time,
                    context: &self.conditioning.context,
                    objects: self.conditioning.objects.as_deref(),
                    pictures: self.conditioning.pictures.as_deref(),
                    layers: &self.layers,
                    wanted: &nothing,
                    probe: &mut NoProbe,
                    branches: Vec::new(),
                    tape: Some(Tape::default()),
                    end: last(&self.wanted),
                    merging: self.merging,
                    cross: Cross::Compute,
                };
                step.keep_again(tape.read(), &mut pass);
                tape = pass.tape.unwrap_or_default();
            }
            grad = step.input_grad(grad, tape, &mut state);
        }
        match (grad, scale) {
            (Some(grad), Some(scale)) => grad.cast(DType::F32) / scale,
            (Some(grad), None) => grad.cast(DType::F32),
            (None, _) => Tensor::zeros(self.sample, (&self.device, DType::F32)),
        }
    }

    /// The cotangent of every layer.
    fn cotangents(&self, cotangents: &dyn MapCotangents) -> Vec<Option<Tensor<4>>> {
        let layers = self.layers.iter().zip(&self.wanted);
        layers
            .map(|(layer, wanted)| {
                let cotangent = cotangents.cotangent(layer).filter(|_| *wanted)?;
                let [batch, heads, queries, tokens] = cotangent.dims();
                assert!(
                    [batch, queries, tokens]
                        == [self.sample[0], layer.height * layer.width, layer.tokens]
                        && (heads == 1 || heads == layer.heads),
                    "a cotangent of the shape {:?} for {layer:?}",
                    cotangent.dims()
                );
                Some(cotangent.cast(DType::F32))
            })
            .collect()
    }
}

/// Scales each sample's cotangents so that the largest is 256, far from both ends of f16 for what
/// becomes of it, and returns the factors `[B, 1, 1, 1]`.
fn normalise(cotangents: &mut [Option<Tensor<4>>]) -> Option<Tensor<4>> {
    const LARGEST: f64 = 256.0;
    let largest = |x: &Tensor<4>| x.clone().abs().max_dim(3).max_dim(2).max_dim(1);
    let of_layers = cotangents.iter().flatten().map(largest);
    let largest = of_layers.reduce(Tensor::max_pair)?;
    // A sample without any cotangent stays as it is.
    let scale = largest.clamp_min(1e-30).recip() * LARGEST;
    for cotangent in cotangents.iter_mut() {
        *cotangent = cotangent.take().map(|x| x * scale.clone());
    }
    Some(scale)
}
