//! The plain UNet call, captured once and replayed.

use std::sync::{Arc, Mutex, MutexGuard};

use burn::prelude::*;

use super::UNet;
use super::captured::{Captured, GraphUse, Inputs, copy, difference, lock, tolerance};
use super::conditioning::PreparedConditioning;
use crate::attention::NoProbe;

/// Steps that must be left for a capture to pay: it costs five calls.
const WORTH: usize = 12;

/// What is known of the device's graphs.
enum State {
    Untried,
    /// Not there, or not to be trusted.
    Without,
    Captured(Box<StepGraph>),
    /// There, and none is captured.
    Ready,
}

/// Calls of one UNet, captured where that helps. One graph is kept: another shape replaces it.
pub struct StepGraphs {
    usage: GraphUse,
    state: Mutex<State>,
}

impl StepGraphs {
    /// Nothing is captured yet.
    pub fn new(usage: GraphUse) -> Self {
        Self {
            usage,
            state: Mutex::new(State::Untried),
        }
    }

    /// [`UNet::forward_prepared`] with one timestep for the whole batch, by a graph if there is one or if the `calls`
    /// that follow, this one included, are worth a capture. Always of the same `unet`.
    pub fn forward(
        &self,
        unet: &UNet,
        sample: Tensor<4>,
        timestep: f64,
        conditioning: &PreparedConditioning,
        calls: usize,
    ) -> Tensor<4> {
        let plain = |sample| unet.forward_prepared(sample, &[timestep], conditioning);
        if !self.usage.takes(&sample) {
            return plain(sample);
        }
        let mut state = self.state();
        if let State::Captured(graph) = &*state
            && !graph.fits(&sample, conditioning)
        {
            *state = State::Ready;
        }
        if !matches!(*state, State::Captured(_)) {
            let worth = self.usage == GraphUse::Forced || calls >= WORTH;
            if !worth || matches!(*state, State::Without) {
                return plain(sample);
            }
            if matches!(*state, State::Untried) && !self.usage.is_supported(&sample.device()) {
                *state = State::Without;
                return plain(sample);
            }
            let inputs = Inputs::new(unet, sample.clone(), timestep, conditioning);
            *state = self.capture(unet, &inputs);
        }
        if let State::Captured(graph) = &mut *state {
            let inputs = Inputs::new(unet, sample.clone(), timestep, conditioning);
            match graph.run(&inputs) {
                Some(output) => return output,
                None => {
                    tracing::warn!(
                        "replaying the UNet's captured call failed; it is no longer used"
                    );
                    *state = State::Without;
                }
            }
        }
        plain(sample)
    }

    /// Captures a call on these inputs and checks it.
    fn capture(&self, unet: &UNet, inputs: &Inputs) -> State {
        let graph = StepGraph::capture(unet, inputs);
        let usable = |graph: &StepGraph| graph.call.is_usable(self.usage);
        let Some(mut graph) = graph.filter(usable) else {
            tracing::debug!("the UNet's call was not captured; it is launched kernel by kernel");
            return State::Without;
        };
        match graph.check(unet, inputs) {
            Ok(()) => State::Captured(Box::new(graph)),
            Err(difference) => {
                tracing::warn!(
                    "the UNet's captured call is wrong by {difference:.1e} of its result and is not used"
                );
                State::Without
            }
        }
    }

    /// Lets go of the captured graph and the memory that it holds.
    pub fn release(&self) {
        let mut state = self.state();
        if matches!(*state, State::Captured(_)) {
            *state = State::Ready;
        }
    }

    /// Whether a graph is there to be replayed.
    pub fn is_captured(&self) -> bool {
        matches!(*self.state(), State::Captured(_))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// One captured call, with buffers of its own for inputs and output.
struct StepGraph {
    call: Captured<Tensor<4>>,
    inputs: Arc<Mutex<Inputs>>,
}

impl StepGraph {
    /// `None` if the backend panics on the way.
    fn capture(unet: &UNet, inputs: &Inputs) -> Option<Self> {
        let device = inputs.sample.device();
        let inputs = Arc::new(Mutex::new(inputs.copied()));
        let read = inputs.clone();
        let call = Captured::capture(&device, call(unet, move || lock(&read).clone()))?;
        Some(Self { call, inputs })
    }

    /// Whether inputs of these shapes have a place in its buffers, and come from its thread.
    fn fits(&self, sample: &Tensor<4>, conditioning: &PreparedConditioning) -> bool {
        let inputs = lock(&self.inputs);
        self.call.is_of_this_thread()
            && inputs.sample.dims() == sample.dims()
            && inputs.conditioning.shapes() == conditioning.shapes()
    }

    /// The output for these inputs, in a buffer of its own. `None` if the backend fails.
    fn run(&mut self, inputs: &Inputs) -> Option<Tensor<4>> {
        lock(&self.inputs).overwrite(inputs);
        // SAFETY: the inputs were overwritten in place, and the call owns the network. This thread, which is that of
        // the capture, does the refresh, the replay and the copy, and the mutex around the graph keeps others out.
        unsafe { self.call.replay() }.map(copy)
    }

    /// Compares a replay with an ordinary call on inputs that differ from those of the capture in every buffer. The
    /// error is the relative difference.
    fn check(&mut self, unet: &UNet, inputs: &Inputs) -> Result<(), f64> {
        let others = inputs.others();
        let expected = call(unet, || others.clone())();
        let Some(replayed) = self.run(&others) else {
            return Err(f64::INFINITY);
        };
        let difference = difference(replayed, expected);
        tracing::debug!("the UNet's captured call differs by {difference:.1e}");
        // Not-a-number is no match either.
        if difference <= tolerance(unet.conv_in.dtype()) {
            Ok(())
        } else {
            Err(difference)
        }
    }
}

/// A call on what `read` gives. It holds the network, and with it the parameters' buffers.
fn call<R: Fn() -> Inputs>(unet: &UNet, read: R) -> impl FnMut() -> Tensor<4> + use<R> {
    let unet = unet.clone();
    move || {
        let Inputs {
            sample,
            timestep,
            conditioning,
        } = read();
        unet.forward_embedded(sample, timestep, &conditioning, &mut NoProbe)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::FloatDType;

    use super::super::captured::testing::{ramp, unet};
    use super::*;

    /// A graph whose call sees one of its inputs as it was when it was captured.
    fn stale(unet: &UNet, forget: fn(&mut Inputs, &Inputs)) -> Result<(), f64> {
        let sample = ramp([2, 4, 8, 8], 0.1);
        let conditioning = unet.prepare(ramp([2, 5, 12], 0.2), None);
        let inputs = Inputs::new(unet, sample, 700.0, &conditioning);
        let mut graph = StepGraph::capture(unet, &inputs).unwrap();
        let (read, first) = (graph.inputs.clone(), inputs.clone());
        let call = call(unet, move || {
            let mut seen = lock(&read).clone();
            forget(&mut seen, &first);
            seen
        });
        graph.call = Captured::capture(&Device::flex(), call).unwrap();
        graph.check(unet, &inputs)
    }

    #[test]
    fn a_graph_that_reads_an_old_input_is_found_out() {
        let unet = unet(FloatDType::F32);
        assert_eq!(stale(&unet, |_, _| ()), Ok(()));
        let forgets: [fn(&mut Inputs, &Inputs); 3] = [
            |seen, first| seen.sample = first.sample.clone(),
            |seen, first| seen.timestep = first.timestep.clone(),
            |seen, first| seen.conditioning = first.conditioning.clone(),
        ];
        for (which, forget) in forgets.into_iter().enumerate() {
            let found = stale(&unet, forget);
            assert!(
                found.is_err_and(|difference| difference > 0.03),
                "{which}: {found:?}"
            );
        }
    }

    #[test]
    fn another_shape_takes_the_graphs_place_and_a_device_without_graphs_has_none() {
        let unet = unet(FloatDType::F32);
        let (forced, auto) = (
            StepGraphs::new(GraphUse::Forced),
            StepGraphs::new(GraphUse::Auto),
        );
        for rows in [2, 4, 1] {
            let conditioning = unet.prepare(ramp([rows, 5, 12], 0.3), None);
            for step in 0..3 {
                let sample = ramp([rows, 4, 8, 8], 0.1 + 0.05 * step as f32);
                let timestep = 900.0 - 300.0 * f64::from(step);
                let plain = unet.forward_prepared(sample.clone(), &[timestep], &conditioning);
                for graphs in [&forced, &auto] {
                    let output = graphs.forward(&unet, sample.clone(), timestep, &conditioning, 50);
                    output.into_data().assert_eq(&plain.to_data(), true);
                }
            }
        }
        assert!(forced.is_captured());
        forced.release();
        assert!(!forced.is_captured() && !auto.is_captured());
    }
}
