//! A batch in parts, which go through the network side by side.
//!
//! Operations of small networks are too short to be divided among threads without much waiting; samples are not. Each part has a tape
//! and threads of its own. What comes out depends on how many parts there are, by rounding, and so the number follows from
//! the batch and the network, and not from the processor.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use burn::prelude::*;
use prepose_kernels as kernels;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Batch, TrainableUNet};
use crate::unet::{AddedConditioning, Memory};

/// Elements of the first block's output for a sample, from which operations keep all threads busy.
const LONG: usize = 1 << 17;
/// Samples of a batch, from which it has two parts.
const FEWEST: usize = 4;
/// Samples of a part, if there are more than two.
const FEW: usize = 8;

/// The loss of a part of a batch.
pub struct PartLoss<R> {
    /// What the caller wants to know of it: its value, say.
    pub result: R,
    /// The gradient to the prediction, of its shape.
    pub cotangent: Tensor<4>,
}

impl TrainableUNet {
    /// In how many parts a batch `[B, Cin, H, W]` goes through the network: one on GPUs and if operations are long.
    pub fn parts(&self, [samples, _, height, width]: [usize; 4]) -> usize {
        let channels = self.config.block_out_channels.first();
        let long = channels.is_none_or(|channels| channels * height * width >= LONG);
        if long || samples < FEWEST || kernels::prefers_channels_last(&self.device) {
            return 1;
        }
        // The largest power of two of parts that are not smaller than a few.
        (1 << (samples / FEW).checked_ilog2().unwrap_or(0)).max(2)
    }

    /// The gradients of a batch to what is trained, as [`TrainingPass::gradients`](super::TrainingPass::gradients) gives them, in as many parts as
    /// [`Self::parts`] says. `loss` is given which samples of the batch a part has, and its prediction `[b, Cout, H, W]`; its results come in the order of
    /// the parts.
    ///
    /// # Panics
    /// As [`Self::pass`], and if a gradient has another shape than its prediction.
    pub fn gradients<R: Send>(
        &self,
        batch: &Batch,
        memory: Memory,
        loss: impl Fn(Range<usize>, &Tensor<4>) -> PartLoss<R> + Sync,
    ) -> (Vec<R>, Vec<Tensor<1>>) {
        let parts = self.parts(batch.sample.dims());
        self.gradients_in_parts(batch, parts, memory, loss)
    }

    /// As [`Self::gradients`], in this many parts or as many as there are samples.
    ///
    /// # Panics
    /// As [`Self::gradients`].
    pub fn gradients_in_parts<R: Send>(
        &self,
        batch: &Batch,
        parts: usize,
        memory: Memory,
        loss: impl Fn(Range<usize>, &Tensor<4>) -> PartLoss<R> + Sync,
    ) -> (Vec<R>, Vec<Tensor<1>>) {
        let samples = batch.sample.dims()[0];
        let parts = parts.clamp(1, samples.max(1));
        let part = |number: usize| {
            let rows = number * samples / parts..(number + 1) * samples / parts;
            let added = batch.added.map(|added| narrow_added(added, &rows));
            let objects = batch.objects.map(|objects| objects.narrow(&rows));
            let own = Batch {
                added: added.as_ref(),
                objects: objects.as_ref(),
                ..narrow(batch, &rows)
            };
            let pass = self.pass(own, memory);
            let PartLoss { result, cotangent } = loss(rows, pass.prediction());
            (result, pass.gradients(cotangent))
        };
        let found = match parts {
            1 => vec![kernels::keep_awake(&batch.sample.device(), || part(0))],
            _ => side_by_side(parts, &self.pools.get(parts), &part),
        };
        let mut results = Vec::with_capacity(parts);
        let mut sums: Vec<Tensor<1>> = Vec::new();
        for (result, gradients) in found {
            results.push(result);
            sums = match sums.is_empty() {
                true => gradients,
                false => {
                    let pairs = sums.into_iter().zip(gradients);
                    pairs.map(|(sum, gradient)| sum + gradient).collect()
                }
            };
        }
        (results, sums)
    }
}

/// Pools of threads, as they were last asked for: threads keep working memory from step to step.
#[derive(Default)]
pub(super) struct Pools(Mutex<Arc<Vec<ThreadPool>>>);

impl Pools {
    /// `count` of them, all together with as many threads as there are, or fewer if there are fewer threads.
    fn get(&self, count: usize) -> Arc<Vec<ThreadPool>> {
        let threads = rayon::current_num_threads();
        let count = count.min(threads);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() != count {
            let pool = |number| {
                // Those that are left over go to the first pools.
                let own = threads / count + usize::from(number < threads % count);
                ThreadPoolBuilder::new().num_threads(own).build().ok()
            };
            *kept = Arc::new((0..count).map_while(pool).collect());
        }
        kept.clone()
    }
}

/// `part` of all numbers below `parts`, in their order.
fn side_by_side<T: Send>(
    parts: usize,
    pools: &[ThreadPool],
    part: &(impl Fn(usize) -> T + Sync),
) -> Vec<T> {
    if pools.len() < 2 {
        return (0..parts).map(part).collect();
    }
    let of_pool = |first: usize| (first..parts).step_by(pools.len());
    let mut found: Vec<_> = thread::scope(|scope| {
        let mut started = Vec::with_capacity(pools.len());
        for (first, pool) in pools.iter().enumerate() {
            let work = move || of_pool(first).map(part).collect::<Vec<_>>();
            started.push(scope.spawn(move || pool.install(work)));
        }
        let joined = started.into_iter().map(|thread| match thread.join() {
            Ok(found) => found.into_iter(),
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    let next = |number: usize| found[number % pools.len()].next();
    (0..parts).map_while(next).collect()
}

/// These samples of a batch, but for what is only referred to.
fn narrow<'a>(batch: &Batch<'a>, rows: &Range<usize>) -> Batch<'a> {
    let of3 = |x: &Tensor<3>| x.clone().narrow(0, rows.start, rows.len());
    Batch {
        sample: batch.sample.clone().narrow(0, rows.start, rows.len()),
        timesteps: match batch.timesteps.len() {
            1 => batch.timesteps,
            _ => &batch.timesteps[rows.clone()],
        },
        context: of3(&batch.context),
        added: None,
        objects: None,
        shown: batch.shown.as_ref().map(of3),
    }
}

fn narrow_added(added: &AddedConditioning, rows: &Range<usize>) -> AddedConditioning {
    let of = |x: &Tensor<2>| x.clone().narrow(0, rows.start, rows.len());
    AddedConditioning {
        text_embeds: of(&added.text_embeds),
        time_ids: of(&added.time_ids),
    }
}
