//! Which tokens compete for attention, and what each gets.

use burn::tensor::{Tensor, TensorData, activation};

use super::Target;

/// Which tokens compete for attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenRange {
    /// Those of text.
    Text,
    /// All but the first and the last of each chunk: end and padding compete, as in the authors' code, which knows one chunk.
    /// Of a chunk without text, which is there because another prompt of the batch or the negative prompt is longer, none does.
    AllButEnds,
}

/// Far below any score, which is at most 100.
const OUT: f32 = -1e4;

/// Where the texts of a batch stand in the conditioning sequence.
#[derive(Clone, Debug)]
pub(super) struct Texts {
    /// By sample: the positions of its tokens of text.
    positions: Vec<Vec<usize>>,
    /// Tokens in a chunk; 0 where no sample says it.
    chunk: usize,
}

impl Texts {
    pub fn of(targets: &[Target]) -> Self {
        let chunks = targets.iter().map(|target| target.chunk);
        Self {
            positions: targets.iter().map(|target| target.text.clone()).collect(),
            chunk: chunks.max().unwrap_or(0),
        }
    }

    /// Softmax of 100 times mean maps `[B, 1, cells, tokens]` over the tokens of `range`; the others are 0.
    pub fn shares(&self, maps: Tensor<4>, range: TokenRange) -> Tensor<4> {
        let tokens = maps.dims()[3];
        let mut mask = vec![0f32; self.positions.len() * tokens];
        for (row, text) in mask.chunks_mut(tokens).zip(&self.positions) {
            match range {
                TokenRange::AllButEnds => self.leave_out_ends(row, text),
                // A sample that is left alone may have no text.
                TokenRange::Text if text.is_empty() => {}
                TokenRange::Text => {
                    row.fill(OUT);
                    text.iter().for_each(|position| row[*position] = 0.0);
                }
            }
        }
        let device = maps.device().without_autodiff();
        let mask = TensorData::new(mask, [self.positions.len(), 1, 1, tokens]);
        activation::softmax(maps * 100.0 + Tensor::from_data(mask, &device), 3)
    }

    /// Masks each chunk's first and last token, and the whole of further chunks without text.
    fn leave_out_ends(&self, row: &mut [f32], text: &[usize]) {
        let length = match self.chunk {
            0 => row.len(),
            length => length,
        };
        for (number, chunk) in row.chunks_mut(length).enumerate() {
            let has_text = text.iter().any(|position| position / length == number);
            if number > 0 && !has_text {
                chunk.fill(OUT);
            }
            if let [first, .., last] = chunk {
                (*first, *last) = (OUT, OUT);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    /// What each token of a sequence gets whose tokens have these mean maps of one cell.
    fn shares(maps: &[f32], range: TokenRange, text: &[usize], chunk: usize) -> Vec<f32> {
        let target = Target {
            text: text.to_vec(),
            chunk,
            ..Target::default()
        };
        let data = TensorData::new(maps.to_vec(), [1, 1, 1, maps.len()]);
        let maps = Tensor::from_data(data, &Device::flex());
        let shares = Texts::of(&[target]).shares(maps, range);
        shares.into_data().iter().collect()
    }

    /// Start, two words, end, padding.
    const ONE: [f32; 6] = [0.5, 0.02, 0.03, 0.04, 0.01, 0.02];

    fn same(some: &[f32], others: &[f32]) -> bool {
        let mut pairs = some.iter().zip(others);
        some.len() == others.len() && pairs.all(|(one, other)| (one - other).abs() < 1e-5)
    }

    #[test]
    fn end_and_padding_compete_as_in_the_authors_code() {
        let alone = shares(&ONE, TokenRange::AllButEnds, &[1, 2], 6);
        assert_eq!((alone[0], alone[5]), (0.0, 0.0));
        let powers = [2f32, 3.0, 4.0, 1.0].map(f32::exp);
        let sum: f32 = powers.iter().sum();
        assert!(
            same(&alone[1..5], &powers.map(|power| power / sum)),
            "{alone:?}"
        );
        // Without a word of how long a chunk is the sequence is one.
        assert_eq!(shares(&ONE, TokenRange::AllButEnds, &[1, 2], 0), alone);
        assert_eq!(shares(&ONE, TokenRange::AllButEnds, &[1, 2], 77), alone);
    }

    #[test]
    fn an_empty_second_chunk_changes_nothing() {
        let padded = [ONE, [0.5, 0.04, 0.04, 0.04, 0.04, 0.04]].concat();
        for range in [TokenRange::AllButEnds, TokenRange::Text] {
            let alone = shares(&ONE, range, &[1, 2], 6);
            let both = shares(&padded, range, &[1, 2], 6);
            assert!(same(&both[..6], &alone), "{range:?}: {both:?}, {alone:?}");
            assert_eq!(both[6..], [0.0; 6], "{range:?}");
        }
    }

    #[test]
    fn each_chunk_of_text_begins_with_a_start_that_does_not_compete() {
        let both = shares(&[ONE, ONE].concat(), TokenRange::AllButEnds, &[1, 2, 7], 6);
        for end in [0, 5, 6, 11] {
            assert_eq!(both[end], 0.0, "{both:?}");
        }
        // The same maps get the same. A start would get all.
        assert!(same(&both[1..5], &both[7..11]), "{both:?}");
        assert!((both.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{both:?}");
        assert!(both[3] > 0.2, "{both:?}");
    }

    #[test]
    fn a_sample_that_is_left_alone_has_shares_of_its_own() {
        let ends = shares(&[ONE, ONE].concat(), TokenRange::AllButEnds, &[], 6);
        assert_eq!(ends[6..], [0.0; 6]);
        assert!((ends.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{ends:?}");
    }
}
