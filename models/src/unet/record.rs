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
use prepose_kernels::keep_awake;

use super::captured::Inputs;
use super::pass::{Pass, Tape};
use super::record_graphs::Lease;
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

/// A recorded forward pass; made by [`UNet::record`], or by [`RecordGraphs::record`](super::RecordGraphs::record).
pub struct Recording<'a> {
    unet: &'a UNet,
    plan: Plan<'a>,
    output: Option<Tensor<4>>,
    kept: KeptBy<'a>,
    sample: [usize; 4],
    device: Device,
}

/// Where a recording has what its gradient needs.
pub(super) enum KeptBy<'a> {
    Pass(Recorded, PreparedConditioning),
    Graphs(Lease<'a>),
}

/// What is recorded, and how.
pub(super) struct Plan<'a> {
    pub layers: Vec<LayerInfo<'a>>,
    /// Which of them the probe wants.
    pub wanted: Vec<bool>,
    pub options: RecordOptions,
}

impl Plan<'_> {
    /// The last wanted layer.
    pub fn last(&self) -> Option<usize> {
        self.wanted.iter().rposition(|&wanted| wanted)
    }
}

/// What a recorded pass leaves.
#[derive(Clone)]
pub(super) struct Recorded {
    time: Vec<TimeShift>,
    /// What the recorded steps kept, in the order of execution.
    tapes: Vec<Tape>,
    /// If the pass is a whole one.
    pub output: Option<Tensor<4>>,
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
        let inputs = Inputs {
            timestep: self.embed_timesteps(timesteps, &sample),
            sample,
            conditioning: conditioning.clone(),
        };
        let plan = self.recording_plan(&inputs, |layer| probe.wants(layer), options);
        self.record_planned(plan, inputs, probe)
    }

    pub(super) fn recording_plan(
        &self,
        inputs: &Inputs,
        wants: impl FnMut(&LayerInfo) -> bool,
        options: RecordOptions,
    ) -> Plan<'_> {
        let layers = self.layer_infos(&inputs.sample, &inputs.conditioning);
        Plan {
            wanted: layers.iter().map(wants).collect(),
            layers,
            options,
        }
    }

    /// [`Self::record`] for a plan that was made.
    pub(super) fn record_planned<'a>(
        &'a self,
        plan: Plan<'a>,
        inputs: Inputs,
        probe: &mut dyn AttentionProbe,
    ) -> Recording<'a> {
        let sample = inputs.sample.clone();
        let mut recorded = keep_awake(&sample.device(), || {
            self.recorded_pass(&plan, &inputs, probe)
        });
        let output = recorded.output.take();
        let kept = KeptBy::Pass(recorded, inputs.conditioning);
        Recording::new(self, plan, output, kept, &sample)
    }

    /// The pass of [`Self::record`].
    pub(super) fn recorded_pass(
        &self,
        plan: &Plan,
        inputs: &Inputs,
        probe: &mut dyn AttentionProbe,
    ) -> Recorded {
        let conditioning = &inputs.conditioning;
        let (last, options) = (plan.last(), plan.options);
        let time = self.time_shifts(inputs.timestep.clone(), conditioning);
        let mut pass = Pass {
            end: last.filter(|_| !options.whole),
            ..pass(plan, conditioning, &time, &plan.wanted, probe)
        };
        let steps = self.steps();
        let recorded = steps
            .iter()
            .position(|step| last.is_some() && step.layer() == last);
        let (recorded, rest) = steps.split_at(recorded.map_or(0, |last| last + 1));
        let mut x = Some(self.input(inputs.sample.clone()));
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
        Recorded {
            time,
            tapes,
            output,
        }
    }

    /// The gradient of [`Recording::sample_gradient`] from what [`Self::recorded_pass`] left, for
    /// the cotangent of every layer in f32; `None` if none of them has one.
    pub(super) fn recorded_gradient(
        &self,
        plan: &Plan,
        recorded: Recorded,
        conditioning: &PreparedConditioning,
        mut cotangents: Vec<Option<Tensor<4>>>,
    ) -> Option<Tensor<4>> {
        let Recorded { time, tapes, .. } = recorded;
        let scale = (self.conv_in.dtype() == DType::F16)
            .then(|| normalise(&mut cotangents))
            .flatten();
        let mut state = Gradient {
            context: &conditioning.context,
            grounded: conditioning.objects.is_some(),
            pictures: conditioning.pictures.as_deref(),
            probabilities: cotangents,
            branches: Vec::new(),
        };
        let nothing = vec![false; plan.wanted.len()];
        let mut grad = None;
        for (step, mut tape) in self.steps().iter().zip(tapes).rev() {
            if plan.options.memory == Memory::Recompute && step.recomputes() {
                let mut nobody = NoProbe;
                let mut pass = Pass {
                    tape: Some(Tape::default()),
                    end: plan.last(),
                    ..pass(plan, conditioning, &time, &nothing, &mut nobody)
                };
                step.keep_again(tape.read(), &mut pass);
                tape = pass.tape.unwrap_or_default();
            }
            grad = step.input_grad(grad, tape, &mut state);
        }
        let grad = grad?.cast(DType::F32);
        Some(match scale {
            Some(scale) => grad / scale,
            None => grad,
        })
    }
}

/// A pass without an end that keeps nothing and shows the `wanted` layers.
fn pass<'a>(
    plan: &'a Plan,
    conditioning: &'a PreparedConditioning,
    time: &'a [TimeShift],
    wanted: &'a [bool],
    probe: &'a mut dyn AttentionProbe,
) -> Pass<'a> {
    Pass {
        time,
        context: &conditioning.context,
        objects: conditioning.objects.as_deref(),
        pictures: conditioning.pictures.as_deref(),
        layers: &plan.layers,
        wanted,
        probe,
        branches: Vec::new(),
        tape: None,
        end: None,
        merging: plan.options.merging,
        cross: Cross::Compute,
    }
}

impl<'a> Recording<'a> {
    pub(super) fn new(
        unet: &'a UNet,
        plan: Plan<'a>,
        output: Option<Tensor<4>>,
        kept: KeptBy<'a>,
        sample: &Tensor<4>,
    ) -> Self {
        Self {
            unet,
            plan,
            output,
            kept,
            sample: sample.dims(),
            device: sample.device(),
        }
    }

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
        let cotangents = self.cotangents(cotangents);
        let (unet, plan) = (self.unet, &self.plan);
        let gradient = match self.kept {
            _ if cotangents.iter().all(Option::is_none) => None,
            KeptBy::Pass(recorded, conditioning) => keep_awake(&self.device, || {
                unet.recorded_gradient(plan, recorded, &conditioning, cotangents)
            }),
            KeptBy::Graphs(lease) => lease.gradient(unet, plan, cotangents),
        };
        gradient.unwrap_or_else(|| Tensor::zeros(self.sample, (&self.device, DType::F32)))
    }

    /// The cotangent of every layer.
    fn cotangents(&self, cotangents: &dyn MapCotangents) -> Vec<Option<Tensor<4>>> {
        let layers = self.plan.layers.iter().zip(&self.plan.wanted);
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
