//! How much memory a pass through a network takes, from its configuration alone: the tensors that are alive at the
//! same time, at the worst moment. Weights are not counted.

/// How a backend computes, as far as that takes memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Means {
    /// Bytes of an element of a feature map.
    pub element: u64,
    /// Attention forms its scores, N×N for each head, instead of going through them tile by tile.
    pub scores: bool,
    /// Convolutions copy what goes in and what comes out into another order of axes.
    pub relayout: bool,
}

impl Means {
    /// Elements of a convolution's copies, of `channels` in and out together.
    fn copies(&self, channels: u64) -> u64 {
        if self.relayout { channels } else { 0 }
    }

    /// Elements of the scores of self-attention of `positions`, in all copies.
    pub(crate) fn scores(&self, heads: u64, positions: u64, copies: u64) -> u64 {
        if self.scores {
            copies * heads * positions * positions
        } else {
            0
        }
    }

    /// Elements for each position of a residual block from `input` to `output` channels, its input counted.
    pub(crate) fn resnet(&self, input: u64, output: u64) -> u64 {
        let first = 2 * input + output + self.copies(input + output);
        let second = input + 2 * output + self.copies(2 * output);
        // The second result, the input's projection and their sum.
        let sum = input + 3 * output;
        first.max(second).max(sum)
    }

    /// Elements of a convolution from `input` elements to `output`, both counted.
    pub(crate) fn convolve(&self, input: u64, output: u64) -> u64 {
        input + output + self.copies(input + output)
    }
}
