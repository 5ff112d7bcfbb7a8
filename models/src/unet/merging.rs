//! Token merging for Stable Diffusion (Bolya and Hoffman 2023, arXiv 2303.17604): tokens of a feature map that are alike
//! attend to each other as one.
//!
//! Facts are those of the authors' `tomesd` 0.1.3 without its random choice: of each 2×2 cells the upper left one is a
//! destination, the others are sources. The sources most like any destination, by the cosine of the block's input, are
//! merged into it as their mean, and after the attention each gets what the merged token got. Only self-attention merges;
//! the queries of the text stay those of every cell, so that maps have all cells.

use burn::prelude::*;
use burn::tensor::{DType, IndexingUpdateOp};

/// Cells along either side of which one is a destination.
const STRIDE: usize = 2;

/// The largest share of tokens that can be merged: all but the destinations.
pub const MOST_MERGED: f64 = 1.0 - 1.0 / (STRIDE * STRIDE) as f64;

/// Which tokens of a feature map are merged, for a batch of B.
#[derive(Debug, Clone)]
pub(crate) struct Merging {
    /// For each token of each sample the row of `[B · M, C]` that it becomes, `[B · N]`.
    owners: Tensor<1, Int>,
    /// One by how many tokens each row has, `[B · M, 1]`, f32.
    shares: Tensor<2>,
    /// M, the tokens of a sample after merging.
    merged: usize,
}

impl Merging {
    /// Merges the `ratio` of the tokens `x` `[B, height · width, C]`; `None` where that is not one token. Reads two
    /// numbers for each source back from the device.
    pub fn of(x: &Tensor<3>, [height, width]: [usize; 2], ratio: f64) -> Option<Self> {
        let [batch, tokens, _] = x.dims();
        let (rows, columns) = (height / STRIDE, width / STRIDE);
        let is_destination = |token: usize| {
            let (row, column) = (token / width, token % width);
            row.is_multiple_of(STRIDE)
                && column.is_multiple_of(STRIDE)
                && row / STRIDE < rows
                && column / STRIDE < columns
        };
        let (destinations, sources): (Vec<usize>, Vec<usize>) =
            (0..tokens).partition(|token| is_destination(*token));
        let gone = ((tokens as f64 * ratio) as usize).min(sources.len());
        if gone == 0 || destinations.is_empty() {
            return None;
        }
        let (best, nearest) = nearest(x, &sources, &destinations);

        let kept = sources.len() - gone;
        let merged = kept + destinations.len();
        let mut owners = vec![0i32; batch * tokens];
        let mut counts = vec![1f32; batch * merged];
        for sample in 0..batch {
            let of = |source: usize| sample * sources.len() + source;
            let mut order: Vec<usize> = (0..sources.len()).collect();
            // Stable: of equals the first is merged.
            order.sort_by(|&a, &b| best[of(b)].total_cmp(&best[of(a)]));
            let first = sample * merged;
            let mut owns = |token: usize, row: usize| {
                owners[sample * tokens + token] = (first + row) as i32;
            };
            for &source in &order[..gone] {
                let row = kept + nearest[of(source)] as usize;
                owns(sources[source], row);
                counts[first + row] += 1.0;
            }
            for (row, &source) in order[gone..].iter().enumerate() {
                owns(sources[source], row);
            }
            for (at, &token) in destinations.iter().enumerate() {
                owns(token, kept + at);
            }
        }
        let device = x.device().without_autodiff();
        let shares = counts.iter().map(|count| 1.0 / count).collect::<Vec<_>>();
        Some(Self {
            owners: Tensor::from_data(TensorData::new(owners, [batch * tokens]), &device),
            shares: Tensor::from_data(TensorData::new(shares, [batch * merged, 1]), &device),
            merged,
        })
    }

    /// `[B, N, C]` to `[B, M, C]`, the mean of what is merged.
    pub fn merge(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, _, channels] = x.dims();
        let shares = self.shares.clone().cast(x.dtype());
        (self.gather(x) * shares).reshape([batch, self.merged, channels])
    }

    /// `[B, M, C]` to `[B, N, C]`: each token gets what the one that it was merged into has.
    pub fn spread(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, merged, channels] = x.dims();
        let x = x.reshape([batch * merged, channels]);
        self.scatter(x, batch)
    }

    /// The gradient to the input of [`Self::merge`] from that of its result.
    pub fn merge_input_grad(&self, grad: Tensor<3>) -> Tensor<3> {
        let [batch, merged, channels] = grad.dims();
        let shares = self.shares.clone().cast(grad.dtype());
        self.scatter(grad.reshape([batch * merged, channels]) * shares, batch)
    }

    /// The gradient to the input of [`Self::spread`] from that of its result.
    pub fn spread_input_grad(&self, grad: Tensor<3>) -> Tensor<3> {
        let [batch, _, channels] = grad.dims();
        self.gather(grad).reshape([batch, self.merged, channels])
    }

    /// The sum of the tokens `[B, N, C]` that become each row, `[B · M, C]`.
    fn gather(&self, x: Tensor<3>) -> Tensor<2> {
        let [batch, tokens, channels] = x.dims();
        let sums = Tensor::zeros([batch * self.merged, channels], (&x.device(), x.dtype()));
        let x = x.reshape([batch * tokens, channels]);
        sums.select_assign(0, self.owners.clone(), x, IndexingUpdateOp::Add)
    }

    /// Each token's row of `x` `[B · M, C]`, `[B, N, C]`.
    fn scatter(&self, x: Tensor<2>, batch: usize) -> Tensor<3> {
        let channels = x.dims()[1];
        let [tokens] = self.owners.dims();
        (x.select(0, self.owners.clone())).reshape([batch, tokens / batch, channels])
    }
}

/// For each source of each sample the cosine to the destination that is most like it, and which that is.
fn nearest(x: &Tensor<3>, sources: &[usize], destinations: &[usize]) -> (Vec<f32>, Vec<i32>) {
    let device = x.device().without_autodiff();
    // What is merged is no function of the sample, as far as gradients go.
    let x = x.clone().detach().cast(DType::F32);
    let length = x.clone().square().sum_dim(2).sqrt().clamp_min(1e-30);
    let x = x / length;
    let of = |tokens: &[usize]| {
        let tokens: Vec<i32> = tokens.iter().map(|token| *token as i32).collect();
        let count = tokens.len();
        let tokens: Tensor<1, Int> = Tensor::from_data(TensorData::new(tokens, [count]), &device);
        x.clone().select(1, tokens)
    };
    let likeness = of(sources).matmul(of(destinations).transpose());
    let (best, nearest) = likeness.max_dim_with_indices(2);
    (
        best.into_data().iter().collect(),
        nearest.into_data().iter().collect(),
    )
}
