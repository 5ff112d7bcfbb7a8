//! Where the time goes: calls, seconds and floating-point operations of this crate's public functions, by
//! family.
//!
//! [`record`] watches what its own thread calls. A watched function waits for the device before and after its
//! work, so the seconds are the device's and not those of filling its queue. The waiting costs time of its own
//! and keeps neighbouring operations from being fused: what [`record`] gives are shares of the whole, not the
//! speed of the whole. Where nobody records, a function pays one relaxed load.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use burn::tensor::{Device, Tensor};

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Convolutions and their gradients.
    Convolution,
    /// Affine layers and their gradients.
    Matmul,
    /// Attention and its gradients, without projections.
    Attention,
    /// Normalisation, with the SiLU that is computed on the way.
    Norm,
    /// Activations that are not part of a norm.
    Activation,
    /// Changes of resolution and what only detectors need.
    Other,
}

impl Family {
    /// Every family, in the order of a [`Profile`]'s totals.
    pub const ALL: [Family; 6] = [
        Family::Convolution,
        Family::Matmul,
        Family::Attention,
        Family::Norm,
        Family::Activation,
        Family::Other,
    ];

    /// Its name in reports: one word in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Family::Convolution => "convolution",
            Family::Matmul => "matmul",
            Family::Attention => "attention",
            Family::Norm => "norm",
            Family::Activation => "activation",
            Family::Other => "other",
        }
    }
}

/// What one family took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Calls of public functions.
    pub calls: u64,
    /// From before a call to when the device had done it.
    pub seconds: f64,
    /// Multiplications and additions of products of matrices, as PyTorch's counter has them: biases,
    /// activations, norms and softmax count nothing.
    pub flops: u64,
}

/// What each family took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile([Totals; Family::ALL.len()]);

impl Profile {
    /// The calls of `family`; zeros if there were none.
    pub fn get(&self, family: Family) -> Totals {
        self.0[family as usize]
    }

    /// Operations of all families.
    pub fn flops(&self) -> u64 {
        self.0.iter().map(|totals| totals.flops).sum()
    }
}

/// Recordings under way, on all threads.
static RECORDINGS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CURRENT: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct Recorder {
    profile: Profile,
    /// Whether a watched function is running; those that it calls are part of it.
    inside: bool,
}

/// Ends a recording, also when the work panics.
struct Recording {
    /// The one that this one interrupts.
    outer: Option<Recorder>,
}

impl Drop for Recording {
    fn drop(&mut self) {
        RECORDINGS.fetch_sub(1, Ordering::Relaxed);
        CURRENT.set(self.outer.take());
    }
}

/// Does `work` and says what the public functions of this crate took that it called on this thread.
pub fn record<T>(work: impl FnOnce() -> T) -> (T, Profile) {
    let outer = CURRENT.replace(Some(Recorder::default()));
    RECORDINGS.fetch_add(1, Ordering::Relaxed);
    let _recording = Recording { outer };
    let result = work();
    let recorder = CURRENT.take().unwrap_or_default();
    (result, recorder.profile)
}

/// A recording on its way to another thread, which works for this one.
pub(crate) struct Carried(Option<Recorder>);

impl Carried {
    /// Does `work` as if it were on the thread that records.
    pub(crate) fn on_this_thread<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let mut back = Back {
            carried: &mut self.0,
            outer: None,
        };
        back.outer = CURRENT.replace(back.carried.take());
        work()
    }
}

/// Gives a carried recording back, also when the work panics.
struct Back<'a> {
    carried: &'a mut Option<Recorder>,
    outer: Option<Recorder>,
}

impl Drop for Back<'_> {
    fn drop(&mut self) {
        *self.carried = CURRENT.replace(self.outer.take());
    }
}

/// Calls `work` with what this thread records, so that another thread can go on with it.
pub(crate) fn carry<T>(work: impl FnOnce(&mut Carried) -> T) -> T {
    let mut carried = Carried(CURRENT.take());
    let result = work(&mut carried);
    CURRENT.set(carried.0);
    result
}

/// Watches the function that holds it until it is dropped. `x` is any tensor on the device.
pub(crate) fn span<const D: usize>(
    family: Family,
    x: &Tensor<D>,
    flops: impl FnOnce() -> u64,
) -> Option<Span> {
    if RECORDINGS.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let recorded = CURRENT.with_borrow_mut(|current| {
        let recorder = current.as_mut()?;
        (!std::mem::replace(&mut recorder.inside, true)).then_some(())
    });
    recorded.map(|()| Span::begin(family, x.device(), flops()))
}

pub(crate) struct Span {
    family: Family,
    device: Device,
    flops: u64,
    started: Instant,
}

impl Span {
    fn begin(family: Family, device: Device, flops: u64) -> Self {
        wait(&device);
        Self {
            family,
            device,
            flops,
            started: Instant::now(),
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        wait(&self.device);
        let seconds = self.started.elapsed().as_secs_f64();
        CURRENT.with_borrow_mut(|current| {
            if let Some(recorder) = current {
                recorder.inside = false;
                let totals = &mut recorder.profile.0[self.family as usize];
                totals.calls += 1;
                totals.seconds += seconds;
                totals.flops += self.flops;
            }
        });
    }
}

fn wait(device: &Device) {
    // A device that fails reports it where a result is read; here it would only be a wrong time.
    let _ = device.sync();
}

/// Operations of a convolution of `inputs` channels with a `kernel` × `kernel` window to a result of the shape
/// `out` `[B, Cout, H', W']`, and of the gradient to its input.
pub fn conv_flops(out: [usize; 4], inputs: usize, kernel: usize) -> u64 {
    2 * product(&out) * product(&[inputs, kernel, kernel])
}

/// Operations of an affine map of `rows` rows.
pub fn linear_flops(rows: usize, inputs: usize, outputs: usize) -> u64 {
    2 * product(&[rows, inputs, outputs])
}

/// Operations of `products` products of the size of an attention's scores: two for its result, three for its
/// gradient to the queries, five for those to queries, keys and values.
pub fn attention_flops(q: [usize; 4], keys: usize, products: usize) -> u64 {
    2 * product(&q) * product(&[keys, products])
}

fn product(sizes: &[usize]) -> u64 {
    sizes.iter().map(|&size| size as u64).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Tensor};

    fn ones<const D: usize>(shape: [usize; D]) -> Tensor<D> {
        Tensor::ones(shape, &Device::flex())
    }

    #[test]
    fn a_recording_sees_its_own_thread_and_counts_nested_calls_once() {
        let (sum, profile) = record(|| {
            let x = crate::linear(ones([2, 3, 5]), ones([7, 5]), None);
            let (x, inner) = record(|| crate::silu(x));
            assert_eq!(inner.get(Family::Activation).calls, 1);
            std::thread::spawn(|| crate::silu(ones([4])))
                .join()
                .unwrap();
            let norm = crate::GroupNorm {
                groups: 3,
                weight: ones([3]),
                bias: ones([3]),
                eps: 1e-5,
                silu: true,
            };
            let x = crate::group_norm(x.reshape([2, 3, 7, 1]), &norm);
            let x = crate::conv2d(x, ones([4, 3, 3, 3]), None, 2, 1);
            x.sum().into_scalar::<f32>()
        });
        assert!(sum.is_finite());
        let calls = Family::ALL.map(|family| profile.get(family).calls);
        assert_eq!(calls, [1, 1, 0, 1, 0, 0]);
        assert_eq!(profile.get(Family::Matmul).flops, 2 * 2 * 3 * 5 * 7);
        // 7 × 1 pixels with a border of 1 and steps of 2: 4 × 1.
        let convolution = profile.get(Family::Convolution);
        assert_eq!(convolution.flops, 2 * (2 * 4 * 4) * (3 * 9));
        assert!(convolution.seconds > 0.0);
        assert_eq!(profile.flops(), convolution.flops + 420);
    }

    #[test]
    fn a_recording_ends_with_a_panic() {
        let panic = std::panic::catch_unwind(|| record(|| panic!("as tests do")));
        assert!(panic.is_err());
        assert!(CURRENT.with_borrow(Option::is_none));
    }

    /// Under autodiff no fast path is taken; the functions are watched all the same.
    #[test]
    fn plain_paths_are_watched() {
        let on = |shape: [usize; 4]| Tensor::<4>::ones(shape, &Device::flex().autodiff());
        let one = || Tensor::<1>::ones([3], &Device::flex().autodiff());
        let tokens = || on([1, 2, 5, 3]).reshape([2, 5, 3]);
        let (_, profile) = record(|| {
            let q = || on([1, 2, 5, 4]);
            crate::attention(q(), q(), q());
            crate::causal_attention(q(), q(), q());
            crate::attention_with_probs(q(), q(), q());
            crate::layer_norm(tokens(), one(), one(), 1e-5);
            let norm = crate::GroupNorm {
                groups: 3,
                weight: one(),
                bias: one(),
                eps: 1e-5,
                silu: false,
            };
            crate::group_norm(on([1, 3, 2, 2]), &norm);
            crate::linear(tokens(), Tensor::ones([2, 3], &tokens().device()), None);
            crate::conv2d(on([1, 3, 4, 4]), on([2, 3, 3, 3]), None, 1, 1);
            crate::upsample_nearest2x(on([1, 3, 4, 4]));
            crate::silu(one());
        });
        let calls = Family::ALL.map(|family| profile.get(family).calls);
        assert_eq!(calls, [1, 1, 3, 2, 1, 1]);
    }

    #[test]
    fn attention_counts_its_products() {
        let q = [2, 8, 4096, 40];
        assert_eq!(attention_flops(q, 77, 2), 4 * 2 * 8 * 4096 * 77 * 40);
        let x = ones([1, 2, 4, 8]);
        let (_, profile) =
            record(|| crate::attention_input_grads(x.clone(), x.clone(), x.clone(), x.clone(), x));
        assert_eq!(profile.get(Family::Attention).flops, 10 * 2 * 4 * 4 * 8);
    }
}
