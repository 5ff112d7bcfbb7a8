//! What captured calls of the network have in common: when they are worth it, the buffers that they read, and a graph
//! whose failures are no panics.
//!
//! At small batches a GPU spends less time on a UNet call than the host needs to launch its thousand kernels. A
//! captured graph launches them all at once. It reads and writes the very buffers of the capture, so inputs have
//! buffers of their own here, which are overwritten in place before each replay, and results are copied out before
//! the next one.
//!
//! What a replay computes is compared with an ordinary call once, on other inputs than those of the capture: a graph
//! that reads a buffer which is not refreshed gives another picture, and is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use burn::backend::{Backend, Dispatch};
use burn::prelude::*;
use burn::tensor::{DType, Graph, capture};
use prepose_kernels as kernels;

use super::UNet;
use super::conditioning::PreparedConditioning;

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

impl GraphUse {
    /// Whether a call on this sample may be captured.
    pub(super) fn takes(self, sample: &Tensor<4>) -> bool {
        let [rows, _, height, width] = sample.dims();
        match self {
            Self::Off => false,
            Self::Auto => rows * height * width <= LAUNCH_BOUND,
            Self::Forced => true,
        }
    }

    /// Whether the device replays graphs, as far as it matters.
    pub(super) fn is_supported(self, device: &Device) -> bool {
        self == Self::Forced || supported(device)
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

/// What a call of the network is made on.
#[derive(Clone)]
pub(super) struct Inputs {
    pub sample: Tensor<4>,
    /// As [`UNet::embed_timesteps`] gives it: a graph uploads nothing.
    pub timestep: Tensor<2>,
    pub conditioning: PreparedConditioning,
}

impl Inputs {
    /// At one timestep for the whole batch.
    pub fn new(
        unet: &UNet,
        sample: Tensor<4>,
        timestep: f64,
        conditioning: &PreparedConditioning,
    ) -> Self {
        Self {
            timestep: unet.embed_timesteps(&[timestep], &sample),
            sample,
            conditioning: conditioning.clone(),
        }
    }

    /// The same numbers in buffers of their own.
    pub fn copied(&self) -> Self {
        Self {
            sample: copy(&self.sample),
            timestep: copy(&self.timestep),
            conditioning: self.conditioning.map(copy, copy),
        }
    }

    /// Puts the other's numbers into the buffers of this one, which has the same shapes.
    pub fn overwrite(&mut self, other: &Self) {
        kernels::overwrite(&mut self.timestep, other.timestep.clone());
        kernels::overwrite(&mut self.sample, other.sample.clone());
        if self.conditioning.id != other.conditioning.id {
            self.conditioning.overwrite(&other.conditioning);
        }
    }

    /// Inputs that differ in every buffer, and by a lot: what a graph is checked on.
    pub fn others(&self) -> Self {
        let wide = |x: &Tensor<4>| x.clone() * -2.0;
        Self {
            sample: self.sample.clone() * -0.75 + 0.125,
            timestep: self.timestep.clone() * -3.0,
            conditioning: (self.conditioning).map(wide, |x| x.clone() * -2.0),
        }
    }
}

type Call<T> = Box<dyn FnMut() -> T + Send>;

/// A captured call.
pub(super) struct Captured<T> {
    graph: Graph<T, Call<T>>,
    /// Of the capture: work of another thread goes to another stream.
    thread: ThreadId,
}

impl<T> Captured<T> {
    /// `call` uploads nothing and reads nothing back, and owns all that it reads. It runs several times. `None` if the
    /// backend panics on the way.
    pub fn capture(device: &Device, call: impl FnMut() -> T + Send + 'static) -> Option<Self> {
        let call: Call<T> = Box::new(call);
        match catch_unwind(AssertUnwindSafe(|| capture(device, call))) {
            Ok(graph) => Some(Self {
                graph,
                thread: thread::current().id(),
            }),
            Err(_) => {
                // A stream that went on recording would run nothing any more.
                let _ = Dispatch::graph_stop_capture(device.as_dispatch());
                None
            }
        }
    }

    /// Whether a replay may be used: `usage` says whether running the call again counts.
    pub fn is_usable(&self, usage: GraphUse) -> bool {
        usage == GraphUse::Forced || self.graph.is_hardware()
    }

    pub fn is_of_this_thread(&self) -> bool {
        self.thread == thread::current().id()
    }

    /// The result of the call, until the next replay. `None` if the backend fails.
    ///
    /// # Safety
    /// What the call reads is overwritten in place and never replaced, as long as the graph lives. Only the thread of
    /// the capture, and one at a time, refreshes it, replays, and copies what comes out.
    pub unsafe fn replay(&mut self) -> Option<&T> {
        let graph = &mut self.graph;
        let replayed = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the caller's promise; the call and with it what it reads live as long as the graph.
            unsafe { graph.replay() };
        }));
        replayed.ok().map(|()| self.graph.output())
    }

    /// What the last replay left.
    pub fn output(&self) -> &T {
        self.graph.output()
    }
}

/// The relative difference from an ordinary call that a replay may have.
///
/// Both run the same kernels on the same numbers, so they differ at most by the order in which atomics add up and
/// by kernels that are chosen by the layout of keys and values: by little more than the type's resolution. A buffer
/// that is not refreshed changes the result by several percent and more.
pub(super) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 1e-3,
        _ => 1e-2,
    }
}

/// ‖a − b‖ / ‖b‖, read back; infinite if the device fails. Not-a-number if that is in them.
pub(super) fn difference<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> f64 {
    let values = |x: Tensor<D>| {
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
pub(super) fn copy<const D: usize>(x: &Tensor<D>) -> Tensor<D> {
    x.clone() * 1.0
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A small network for the tests of what is captured, and numbers for it.
#[cfg(test)]
pub(super) mod testing {
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

    pub fn unet(dtype: burn::tensor::FloatDType) -> UNet {
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
        UNet::load(&config, Params::new(&mut Numbers, &device, dtype)).unwrap()
    }

    pub fn ramp<const D: usize>(shape: [usize; D], scale: f32) -> Tensor<D> {
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count)
            .map(|i| scale * ((i % 17) as f32 - 8.0))
            .collect();
        Tensor::from_data(TensorData::new(values, shape), &Device::flex())
    }
}
