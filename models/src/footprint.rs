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
    /// Norms and sums are computed in what they read if nothing else needs that.
    pub in_place: bool,
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

    /// Elements for each position of a residual block from `input` to `output` channels, its input counted, which something
    /// else needs as well if it is `shared`.
    pub(crate) fn resnet(&self, input: u64, output: u64, shared: bool) -> u64 {
        let kept = if shared { input } else { 0 };
        if self.in_place && input == output {
            // The input, its norm or that of the first result, and what is made of it.
            return 3 * input;
        }
        if self.in_place {
            // The input, in which the norm is, its projection and the first result; later the second one as well.
            return kept + (input + 2 * output).max(3 * output);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_computed_in_place_takes_no_room() {
        let means = |in_place| Means {
            element: 2,
            scores: false,
            relayout: false,
            in_place,
        };
        // The last blocks of an autoencoder, and one whose input is a skip connection, too.
        assert_eq!(means(false).resnet(256, 128, false), 2 * 256 + 128);
        assert_eq!(means(true).resnet(256, 128, false), 256 + 2 * 128);
        assert_eq!(means(true).resnet(256, 128, true), 256 + 256 + 2 * 128);
        assert_eq!(means(true).resnet(128, 128, false), 3 * 128);
    }
}
