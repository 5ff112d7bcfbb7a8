//! Which tokens of a text see each other: those of one phrase.

use burn::prelude::*;
use burn::tensor::TensorData;

/// `[CLS]`, `[SEP]`, the full stop and the question mark of BERT's vocabulary, which end phrases.
pub(super) const ENDS: [u32; 4] = [101, 102, 1012, 1029];

/// For each token its place in its phrase, and the token that ends the phrase. A phrase is what follows the end of another,
/// with its own end; what no end closes, or one at the beginning or the end of the text, is none, and its tokens are alone.
fn phrases(ids: &[u32]) -> Vec<(usize, Option<usize>)> {
    let mut all = Vec::with_capacity(ids.len());
    let mut start = 0;
    for (i, id) in ids.iter().enumerate() {
        if ENDS.contains(id) {
            let closes = i != 0 && i + 1 != ids.len();
            all.extend((start..=i).map(|at| match closes {
                true => (at - start, Some(i)),
                false => (0, None),
            }));
            start = i + 1;
        }
    }
    all.resize(ids.len(), (0, None));
    all
}

/// The places of tokens in their phrases, and what is added to the scores of each pair of them, `[1, 1, N, N]`: 0 for two of
/// one phrase, as good as −∞ for others.
pub(super) fn places_and_mask(ids: &[u32], device: &Device) -> (Vec<usize>, Tensor<4>) {
    let phrases = phrases(ids);
    let count = ids.len();
    let mut mask = Vec::with_capacity(count * count);
    for (i, (_, own)) in phrases.iter().enumerate() {
        for (j, (_, other)) in phrases.iter().enumerate() {
            let together = i == j || (own.is_some() && own == other);
            mask.push(if together { 0.0 } else { f32::MIN });
        }
    }
    let mask = Tensor::from_data(TensorData::new(mask, [1, 1, count, count]), device);
    (phrases.iter().map(|(place, _)| *place).collect(), mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_end_with_a_full_stop() {
        // [CLS] a cat . a dog . [SEP]
        let ids = [101, 1037, 4937, 1012, 1037, 3899, 1012, 102];
        let own = |place, end| (place, Some(end));
        let alone = (0, None);
        let want = [
            alone,
            own(0, 3),
            own(1, 3),
            own(2, 3),
            own(0, 6),
            own(1, 6),
            own(2, 6),
            alone,
        ];
        assert_eq!(phrases(&ids), want);
        // Without the full stop every token is alone.
        assert_eq!(phrases(&[101, 1037, 4937, 102]), [alone; 4]);
        assert_eq!(phrases(&[7, 8]), [alone; 2]);
        assert!(phrases(&[]).is_empty());
    }
}
