//! The plain UNet call, captured once and replayed.
//!
//! At small batches a GPU spends less time on a UNet call than the host needs to launch its thousand kernels. A
//! captured graph launches them all at once. It reads and writes the very buffers of the capture, so inputs have
//! buffers of their own here, which are overwritten in place before each replay, and the output is copied out before
//! the next one.
//!
//! What a replay computes is compared with an ordinary call once, on other inputs than those of the capture: a graph
//! that reads a buffer which is not refreshed gives another picture, and is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use burn::backend::{Backend, Dispatch};
use burn::prelude::*;
use burn::tensor::{DType, Graph, capture};
use prepose_kernels as kernels;

use super::UNet;
use super::conditioning::PreparedConditioning;
use crate::attention::NoProbe;

/// Steps that must be left for a capture to pay: it costs five calls.
const WORTH: usize = 12;

/// Rows × latent pixels beyond which launching is no longer what takes the time: two rows of SDXL at 1024².
const LAUNCH_BOUND: usize = 2 * 128 * 128;

/// When calls are captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GraphUse {
    /// Where the device replays graphs and it pays.
    #[default]
    Auto,
    /// Never: every call is launched kernel by kernel.
    Off,
    /// Always, also where the backend merely runs the call again: for tests.
    Forced,
}

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
        let [rows, _, height, width] = sample.dims();
        let eligible = match self.usage {
            GraphUse::Off => false,
            GraphUse::Auto => rows * height * width <= LAUNCH_BOUND,
            GraphUse::Forced => true,
        };
        if !eligible {
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
            if matches!(*state, State::Untried) && self.usage == GraphUse::Auto {
                *state = match supported(&sample.device()) {
                    true => State::Ready,
                    false => State::Without,
                };
            }
            if matches!(*state, State::Without) {
                return plain(sample);
            }
            *state = self.capture(unet, &sample, timestep, conditioning);
        }
        if let State::Captured(graph) = &mut *state {
            let embedded = unet.embed_timesteps(&[timestep], &sample);
            match graph.run(sample.clone(), embedded, conditioning) {
                Some(output) => return output,
                None => {
                    tracing::warn!(
                        "replaying the UNet's captured call failed; it is not used any more"
                    );
                    *state = State::Without;
                }
            }
        }
        plain(sample)
    }

    /// Captures a call on these inputs and checks it.
    fn capture(
        &self,
        unet: &UNet,
        sample: &Tensor<4>,
        timestep: f64,
        conditioning: &PreparedConditioning,
    ) -> State {
        let graph = StepGraph::capture(unet, sample, timestep, conditioning);
        let usable = |graph: &StepGraph| self.usage == GraphUse::Forced || graph.is_hardware();
        let Some(mut graph) = graph.filter(usable) else {
            tracing::debug!("the UNet's call was not captured; it is launched kernel by kernel");
            return State::Without;
        };
        match graph.check(unet, sample, timestep, conditioning) {
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the device replays a graph of a trivial computation.
fn supported(device: &Device) -> bool {
    let attempt = catch_unwind(|| {
        let x = Tensor::<1>::ones([8], device);
        capture(device, || x.clone() + 1.0).is_hardware()
    });
    let supported = attempt.unwrap_or(false);
    if !supported {
        tracing::debug!("{device:?} replays no graphs");
    }
    supported
}

/// The buffers that a graph reads.
struct Inputs {
    sample: Tensor<4>,
    timestep: Tensor<2>,
    conditioning: PreparedConditioning,
}

type Call = Box<dyn FnMut() -> Tensor<4> + Send>;

/// One captured call, with buffers of its own for inputs and output.
struct StepGraph {
    graph: Graph<Tensor<4>, Call>,
    inputs: Arc<Mutex<Inputs>>,
    /// Of the capture: work of another thread goes to another stream.
    thread: ThreadId,
}

impl StepGraph {
    /// `None` if the backend panics on the way.
    fn capture(
        unet: &UNet,
        sample: &Tensor<4>,
        timestep: f64,
        conditioning: &PreparedConditioning,
    ) -> Option<Self> {
        let inputs = Arc::new(Mutex::new(Inputs {
            sample: copy(sample),
            timestep: unet.embed_timesteps(&[timestep], sample),
            conditioning: conditioning.map(copy, copy),
        }));
        // The graph holds the network, and with it the parameters' buffers.
        let (unet, read) = (unet.clone(), inputs.clone());
        let call: Call = Box::new(move || {
            let inputs = lock(&read);
            let (sample, timestep) = (inputs.sample.clone(), inputs.timestep.clone());
            unet.forward_embedded(sample, timestep, &inputs.conditioning, &mut NoProbe)
        });
        let device = sample.device();
        match catch_unwind(AssertUnwindSafe(|| capture(&device, call))) {
            Ok(graph) => Some(Self {
                graph,
                inputs,
                thread: thread::current().id(),
            }),
            Err(_) => {
                // A stream that went on recording would run nothing any more.
                let _ = Dispatch::graph_stop_capture(device.as_dispatch());
                None
            }
        }
    }

    fn is_hardware(&self) -> bool {
        self.graph.is_hardware()
    }

    /// Whether inputs of these shapes have a place in its buffers, and come from its thread.
    fn fits(&self, sample: &Tensor<4>, conditioning: &PreparedConditioning) -> bool {
        let inputs = lock(&self.inputs);
        self.thread == thread::current().id()
            && inputs.sample.dims() == sample.dims()
            && inputs.conditioning.is_like(conditioning)
    }

    /// The output for these inputs, in a buffer of its own. `None` if the backend fails.
    fn run(
        &mut self,
        sample: Tensor<4>,
        timestep: Tensor<2>,
        conditioning: &PreparedConditioning,
    ) -> Option<Tensor<4>> {
        {
            let mut inputs = lock(&self.inputs);
            kernels::overwrite(&mut inputs.timestep, timestep);
            kernels::overwrite(&mut inputs.sample, sample);
            if inputs.conditioning.id != conditioning.id {
                inputs.conditioning.overwrite(conditioning);
            }
        }
        let graph = &mut self.graph;
        let replayed = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: what the graph reads lives as long as it: the inputs are overwritten in place and never
            // replaced, and the call owns the network. This thread issues the refreshes before and the copy after, on
            // the stream of the capture, and the mutex around the graph keeps others out.
            unsafe { graph.replay() };
        }));
        replayed.ok().map(|()| copy(self.graph.output()))
    }

    /// Compares a replay with an ordinary call on inputs that differ from those of the capture in every buffer, and
    /// by a lot. The error is the relative difference.
    ///
    /// Both run the same kernels on the same numbers, so they differ at most by the order in which atomics add up and
    /// by kernels that are chosen by the layout of keys and values: by little more than the type's resolution. A buffer
    /// that is not refreshed changes the result by several percent and more.
    fn check(
        &mut self,
        unet: &UNet,
        sample: &Tensor<4>,
        timestep: f64,
        conditioning: &PreparedConditioning,
    ) -> Result<(), f64> {
        let timestep = unet.embed_timesteps(&[timestep], sample) * -3.0;
        let sample = sample.clone() * -0.75 + 0.125;
        let conditioning = conditioning.map(|x| x.clone() * -2.0, |x| x.clone() * -2.0);
        let expected = unet.forward_embedded(
            sample.clone(),
            timestep.clone(),
            &conditioning,
            &mut NoProbe,
        );
        let Some(replayed) = self.run(sample, timestep, &conditioning) else {
            return Err(f64::INFINITY);
        };
        let tolerance = match unet.conv_in.dtype() {
            DType::F32 => 1e-3,
            _ => 1e-2,
        };
        let difference = difference(replayed, expected);
        tracing::debug!("the UNet's captured call differs by {difference:.1e}");
        // Not-a-number is no match either.
        if difference <= tolerance {
            Ok(())
        } else {
            Err(difference)
        }
    }
}

/// ‖a − b‖ / ‖b‖, read back.
fn difference(a: Tensor<4>, b: Tensor<4>) -> f64 {
    let values = |x: Tensor<4>| {
        x.try_into_data()
            .map(|data| data.iter::<f64>().collect::<Vec<_>>())
    };
    let (Ok(a), Ok(b)) = (values(a), values(b)) else {
        return f64::INFINITY;
    };
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let off = squares(&mut a.iter().zip(&b).map(|(a, b)| a - b));
    off / squares(&mut b.iter().copied()).max(f64::MIN_POSITIVE)
}

/// The same numbers in a buffer of their own.
fn copy<const D: usize>(x: &Tensor<D>) -> Tensor<D> {
    x.clone() * 1.0
}

fn lock(inputs: &Mutex<Inputs>) -> MutexGuard<'_, Inputs> {
    inputs.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use burn::tensor::TensorData;

    use super::*;
    use crate::params::{ParamSource, Params};
    use crate::unet::UNetConfig;

    /// Small numbers that are the same for the same name.
    struct Numbers;

    impl ParamSource for Numbers {
        fn take(&mut self, name: &str, shape: &[usize]) -> TensorData {
            let seed = name
                .bytes()
                .fold(7u32, |seed, byte| seed.wrapping_mul(31) ^ u32::from(byte));
            let mut state = seed | 1;
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            };
            let count: usize = shape.iter().product();
            let inputs: usize = shape[1..].iter().product();
            let scale = 1.7 / (inputs as f32).sqrt();
            let values: Vec<f32> = (0..count).map(|_| scale * next()).collect();
            TensorData::new(values, shape.to_vec())
        }

        fn contains(&self, _name: &str) -> bool {
            false
        }
    }

    fn unet() -> UNet {
        let config: UNetConfig = serde_json::from_value(serde_json::json!({
            "block_out_channels": [8, 16],
            "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
            "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
            "layers_per_block": 1,
            "norm_num_groups": 4,
            "attention_head_dim": 2,
            "cross_attention_dim": 12,
        }))
        .unwrap();
        let device = Device::flex();
        UNet::load(
            &config,
            Params::new(&mut Numbers, &device, burn::tensor::FloatDType::F32),
        )
        .unwrap()
    }

    fn ramp<const D: usize>(shape: [usize; D], scale: f32) -> Tensor<D> {
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count)
            .map(|i| scale * ((i % 17) as f32 - 8.0))
            .collect();
        Tensor::from_data(TensorData::new(values, shape), &Device::flex())
    }

    /// A graph whose call sees one of its inputs as it was when it was captured.
    fn stale(unet: &UNet, forget: fn(&mut Inputs, &Inputs)) -> Result<(), f64> {
        let sample = ramp([2, 4, 8, 8], 0.1);
        let conditioning = unet.prepare(ramp([2, 5, 12], 0.2), None);
        let mut graph = StepGraph::capture(unet, &sample, 700.0, &conditioning).unwrap();
        let (network, read) = (unet.clone(), graph.inputs.clone());
        let first = {
            let inputs = lock(&read);
            Inputs {
                sample: inputs.sample.clone(),
                timestep: inputs.timestep.clone(),
                conditioning: inputs.conditioning.clone(),
            }
        };
        let call: Call = Box::new(move || {
            let inputs = lock(&read);
            let mut seen = Inputs {
                sample: inputs.sample.clone(),
                timestep: inputs.timestep.clone(),
                conditioning: inputs.conditioning.clone(),
            };
            forget(&mut seen, &first);
            network.forward_embedded(seen.sample, seen.timestep, &seen.conditioning, &mut NoProbe)
        });
        graph.graph = capture(&Device::flex(), call);
        graph.check(unet, &sample, 700.0, &conditioning)
    }

    #[test]
    fn a_graph_that_reads_an_old_input_is_found_out() {
        let unet = unet();
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
        let unet = unet();
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
