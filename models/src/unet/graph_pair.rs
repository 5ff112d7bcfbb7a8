//! A recorded pass and its gradient as captured calls.
//!
//! A guidance computes its loss between the two, from the probabilities that the pass shows, so they are two graphs.
//! The second reads what the first one leaves on its tapes, where it is until the next replay; what is shown and the
//! gradient are copied out.

use std::sync::{Arc, Mutex};

use burn::prelude::*;
use burn::tensor::DType;
use prepose_kernels as kernels;

use super::UNet;
use super::captured::{Captured, GraphUse, Inputs, copy, difference, lock, tolerance};
use super::conditioning::ConditioningShapes;
use super::record::{Plan, Recorded};
use super::record_graphs::PASSES_BEFORE_CAPTURE;
use crate::attention::{AttentionProbe, LayerInfo};

/// What passes must agree in to be replays of one graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    sample: [usize; 4],
    conditioning: ConditioningShapes,
    wanted: Vec<bool>,
    whole: bool,
}

impl Kind {
    pub fn of(plan: &Plan, inputs: &Inputs) -> Self {
        Self {
            sample: inputs.sample.dims(),
            conditioning: inputs.conditioning.shapes(),
            wanted: plan.wanted.clone(),
            whole: plan.options.whole,
        }
    }
}

/// What a recorded pass shows and leaves.
pub(super) struct Shown {
    /// Probabilities with their layer, in the order of execution.
    pub maps: Vec<(usize, Tensor<4>)>,
    pub recorded: Recorded,
}

impl Shown {
    /// By an ordinary pass.
    fn of(unet: &UNet, plan: &Plan, inputs: &Inputs) -> Self {
        let mut seen = Seen(Vec::new());
        let recorded = unet.recorded_pass(plan, inputs, &mut seen);
        Self {
            maps: seen.0,
            recorded,
        }
    }

    /// Cotangents that a method could have, of the shapes of `like`, or for every head of every layer.
    fn cotangents(&self, plan: &Plan, like: Option<&[Shape]>) -> Vec<Option<Tensor<4>>> {
        let mut cotangents = vec![None; plan.layers.len()];
        for (layer, map) in &self.maps {
            let shape = like.map_or(Some(map.dims()), |like| like[*layer]);
            let map = map.clone().cast(DType::F32) * -2.0;
            cotangents[*layer] = shape.map(|shape| match shape == map.dims() {
                true => map,
                false => map.mean_dim(1),
            });
        }
        cotangents
    }
}

/// A probe that keeps what it sees.
struct Seen(Vec<(usize, Tensor<4>)>);

impl AttentionProbe for Seen {
    fn wants(&self, _layer: &LayerInfo) -> bool {
        true
    }

    fn record(&mut self, layer: &LayerInfo, probabilities: Tensor<4>) {
        self.0.push((layer.index, probabilities));
    }
}

/// Of a layer's cotangent, if it has one.
type Shape = Option<[usize; 4]>;

/// A captured pass with buffers of its own, and its gradient.
pub(super) struct GraphPair {
    kind: Kind,
    pass: Captured<Shown>,
    inputs: Arc<Mutex<Inputs>>,
    /// Once a gradient was asked for.
    gradient: Option<GradientGraph>,
    /// The gradients in a row for which that was not the one.
    misfits: usize,
}

/// A captured gradient with buffers of its own, but for the tapes.
struct GradientGraph {
    shapes: Vec<Shape>,
    call: Captured<Option<Tensor<4>>>,
    read: Arc<Mutex<GradientInputs>>,
}

#[derive(Clone)]
struct GradientInputs {
    /// Of the pass: the same buffers after each replay, unless the backend merely runs the pass again.
    recorded: Recorded,
    cotangents: Vec<Option<Tensor<4>>>,
}

impl GraphPair {
    /// `None` if the backend panics on the way.
    pub fn capture(unet: &UNet, plan: &Plan, inputs: &Inputs, kind: Kind) -> Option<Self> {
        let device = inputs.sample.device();
        let inputs = Arc::new(Mutex::new(inputs.copied()));
        let read = inputs.clone();
        let call = pass_call(unet, plan, move || lock(&read).clone());
        Some(Self {
            kind,
            pass: Captured::capture(&device, call)?,
            inputs,
            gradient: None,
            misfits: 0,
        })
    }

    /// As [`Captured::is_usable`].
    pub fn is_usable(&self, usage: GraphUse) -> bool {
        self.pass.is_usable(usage)
    }

    /// Whether passes of this kind have a place in its buffers, and come from its thread.
    pub fn fits(&self, kind: &Kind) -> bool {
        self.pass.is_of_this_thread() && self.kind == *kind
    }

    /// What these inputs show and leave, until the next call. `None` if the backend fails.
    pub fn run(&mut self, inputs: &Inputs) -> Option<&Shown> {
        lock(&self.inputs).overwrite(inputs);
        // SAFETY: the inputs were overwritten in place, and the call owns the network. This thread, which is that of
        // the capture, does the refresh, the replay and the copies, and a lease keeps others out.
        unsafe { self.pass.replay() }
    }

    /// Compares a replay with an ordinary pass on inputs that differ from those of the capture in every buffer: what
    /// it shows, its output, and the ordinary gradient from its tapes. The error is the largest relative difference.
    pub fn check(&mut self, unet: &UNet, plan: &Plan, inputs: &Inputs) -> Result<(), f64> {
        let others = inputs.others();
        let expected = Shown::of(unet, plan, &others);
        let output = expected.recorded.output.clone();
        let cotangents = expected.cotangents(plan, None);
        let gradient = |recorded: Recorded| {
            unet.recorded_gradient(plan, recorded, &others.conditioning, cotangents.clone())
        };
        let expected_gradient = gradient(expected.recorded);
        let shown = self.run(&others).ok_or(f64::INFINITY)?;
        let mut pairs = vec![(shown.recorded.output.clone(), output)];
        for ((_, map), (_, expected)) in shown.maps.iter().zip(expected.maps) {
            pairs.push((Some(map.clone()), Some(expected)));
        }
        let pairs = pairs.into_iter().map(|(a, b)| differences(a, b));
        let shown_differs = largest(pairs);
        let gradient = gradient(shown.recorded.clone());
        let differs = differences(gradient, expected_gradient);
        tracing::debug!(
            "a captured guided pass differs by {shown_differs:.1e}, and what it leaves by {differs:.1e}"
        );
        let dtype = unet.conv_in.dtype();
        // Not-a-number is no match either.
        if shown_differs <= tolerance(dtype) && differs <= gradient_tolerance(dtype) {
            Ok(())
        } else {
            Err(largest([shown_differs, differs].into_iter()))
        }
    }

    /// The gradient after a replay on `inputs`, in a buffer of its own: by a graph if there is one for such cotangents,
    /// or if there is none at all yet. The error says what failed.
    pub fn gradient(
        &mut self,
        unet: &UNet,
        plan: &Plan,
        inputs: &Inputs,
        cotangents: &[Option<Tensor<4>>],
        usage: GraphUse,
    ) -> Result<Option<Tensor<4>>, String> {
        const FAILED: &str = "replaying a captured guided pass failed";
        let shapes: Vec<Shape> = shapes(cotangents);
        let fits = |graph: &GradientGraph| graph.shapes == shapes;
        if !self.gradient.as_ref().is_some_and(fits) {
            self.misfits += 1;
            // As for passes. What the pass left is there for an ordinary gradient.
            let worth = self.gradient.is_none() || self.misfits > PASSES_BEFORE_CAPTURE;
            if usage != GraphUse::Forced && !worth {
                let recorded = self.pass.output().recorded.clone();
                let cotangents = cotangents.to_vec();
                let gradient =
                    unet.recorded_gradient(plan, recorded, &inputs.conditioning, cotangents);
                return Ok(gradient);
            }
            self.gradient = None;
            self.capture_gradient(unet, plan, cotangents, usage)?;
            self.check_gradient(unet, plan, inputs)
                .map_err(|difference| {
                    format!(
                        "the captured gradient of a guided pass is wrong by {difference:.1e} of it"
                    )
                })?;
            // The check has left the tapes of other inputs.
            self.run(inputs).ok_or(FAILED)?;
        }
        self.misfits = 0;
        Ok(Some(self.run_gradient(cotangents).ok_or(FAILED)?))
    }

    fn capture_gradient(
        &mut self,
        unet: &UNet,
        plan: &Plan,
        cotangents: &[Option<Tensor<4>>],
        usage: GraphUse,
    ) -> Result<(), String> {
        let shapes = shapes(cotangents);
        let own = |cotangent: &Option<Tensor<4>>| cotangent.as_ref().map(copy);
        let read = Arc::new(Mutex::new(GradientInputs {
            recorded: self.pass.output().recorded.clone(),
            cotangents: cotangents.iter().map(own).collect(),
        }));
        let device = lock(&self.inputs).sample.device();
        let (inputs, own) = (self.inputs.clone(), read.clone());
        let call = gradient_call(unet, plan, move || {
            (lock(&inputs).clone(), lock(&own).clone())
        });
        let call = Captured::capture(&device, call).filter(|call| call.is_usable(usage));
        let call = call.ok_or("the gradient of a guided pass was not captured")?;
        self.gradient = Some(GradientGraph { shapes, call, read });
        Ok(())
    }

    /// The gradient of what the last pass left, by the graph for such cotangents. `None` if the backend fails.
    fn run_gradient(&mut self, cotangents: &[Option<Tensor<4>>]) -> Option<Tensor<4>> {
        let graph = self.gradient.as_mut()?;
        let mut read = lock(&graph.read);
        read.recorded = self.pass.output().recorded.clone();
        for (mine, theirs) in read.cotangents.iter_mut().zip(cotangents) {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                kernels::overwrite(mine, theirs.clone());
            }
        }
        drop(read);
        // SAFETY: as in `run`; the tapes are those that the pass's graph owns.
        let gradient = unsafe { graph.call.replay() }?;
        gradient.as_ref().map(copy)
    }

    /// Compares the captured gradient with an ordinary one from the same tapes, which [`Self::check`] has seen to, on
    /// other inputs and other cotangents than those of the capture. The error is the relative difference.
    fn check_gradient(&mut self, unet: &UNet, plan: &Plan, inputs: &Inputs) -> Result<(), f64> {
        let others = inputs.others();
        let shapes = self.gradient.as_ref().map(|graph| graph.shapes.clone());
        let shown = self.run(&others).ok_or(f64::INFINITY)?;
        let cotangents = shown.cotangents(plan, shapes.as_deref());
        let recorded = shown.recorded.clone();
        let expected =
            unet.recorded_gradient(plan, recorded, &others.conditioning, cotangents.clone());
        let differs = differences(self.run_gradient(&cotangents), expected);
        tracing::debug!("the captured gradient of a guided pass differs by {differs:.1e}");
        match differs <= gradient_tolerance(unet.conv_in.dtype()) {
            true => Ok(()),
            false => Err(differs),
        }
    }
}

/// A pass on what `read` gives. It holds the network, and with it the parameters' buffers.
fn pass_call<R>(unet: &UNet, plan: &Plan, read: R) -> impl FnMut() -> Shown + use<R>
where
    R: Fn() -> Inputs,
{
    let (unet, wanted, options) = (unet.clone(), plan.wanted.clone(), plan.options);
    move || {
        let inputs = read();
        let plan = unet.recording_plan(&inputs, |layer| wanted[layer.index], options);
        Shown::of(&unet, &plan, &inputs)
    }
}

/// The gradient of what `read` gives, as [`pass_call`].
fn gradient_call<R>(unet: &UNet, plan: &Plan, read: R) -> impl FnMut() -> Option<Tensor<4>> + use<R>
where
    R: Fn() -> (Inputs, GradientInputs),
{
    let (unet, wanted, options) = (unet.clone(), plan.wanted.clone(), plan.options);
    move || {
        let (inputs, of_pass) = read();
        let plan = unet.recording_plan(&inputs, |layer| wanted[layer.index], options);
        let GradientInputs {
            recorded,
            cotangents,
        } = of_pass;
        unet.recorded_gradient(&plan, recorded, &inputs.conditioning, cotangents)
    }
}

fn shapes(cotangents: &[Option<Tensor<4>>]) -> Vec<Shape> {
    let dims = |cotangent: &Option<Tensor<4>>| cotangent.as_ref().map(Tensor::dims);
    cotangents.iter().map(dims).collect()
}

/// As [`tolerance`], for gradients. In 16 bits they go through every layer a second time, with numbers that were
/// rounded the first time, so they get twice as much. A buffer that is not refreshed gives a gradient of something
/// else, which is wrong by tens of percent.
fn gradient_tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => tolerance(dtype),
        _ => 2.0 * tolerance(dtype),
    }
}

/// [`difference`] of what may not be there; infinite if only one is.
fn differences(a: Option<Tensor<4>>, b: Option<Tensor<4>>) -> f64 {
    match (a, b) {
        (Some(a), Some(b)) => difference(a, b),
        (None, None) => 0.0,
        _ => f64::INFINITY,
    }
}

/// The largest of them, or not-a-number if one is.
fn largest(differences: impl Iterator<Item = f64>) -> f64 {
    differences.fold(0.0, |largest: f64, x| {
        if largest.is_nan() || x <= largest {
            largest
        } else {
            x
        }
    })
}

#[cfg(test)]
mod tests;
