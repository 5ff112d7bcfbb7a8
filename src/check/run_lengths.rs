//! COCO's run-length encoding of masks, plain and as text.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Mask;

/// More pixels than this are no mask of a picture.
const MOST_PIXELS: usize = 1 << 26;

/// A mask as pycocotools writes it: `{"size": [height, width], "counts": …}`. Runs go down the columns, from the left, and
/// begin with uncovered pixels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLengths {
    /// Height, width.
    pub size: [usize; 2],
    /// The lengths of the runs.
    pub counts: Counts,
}

/// Lengths of runs, plain or compressed to text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Counts {
    /// Plain.
    Plain(Vec<usize>),
    /// Five bits a character, the differences to the last but one from the fourth run on.
    Compressed(String),
}

/// Why runs are no mask.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunLengthsError {
    /// A character that is not of the encoding, or a text that ends within a number.
    #[error("\"counts\" is not COCO's compressed run-length encoding at character {0}")]
    Encoding(usize),
    /// Too few or too many pixels.
    #[error("the runs have {runs} pixels, but the mask is {height} x {width}")]
    Length {
        /// Of all runs.
        runs: usize,
        /// In pixels.
        height: usize,
        /// In pixels.
        width: usize,
    },
    /// More than any picture has.
    #[error("a mask of {0} x {1} pixels is too large")]
    Size(usize, usize),
}

impl RunLengths {
    /// A mask as text.
    pub fn pack(mask: &Mask) -> Self {
        Self {
            size: [mask.height(), mask.width()],
            counts: Counts::Compressed(compressed(&mask.lengths())),
        }
    }

    /// The mask.
    ///
    /// # Errors
    /// Runs that do not cover `size`, text that is not of the encoding, or more than 2²⁶ pixels.
    pub fn unpack(&self) -> Result<Mask, RunLengthsError> {
        let [height, width] = self.size;
        let pixels = height
            .checked_mul(width)
            .filter(|pixels| *pixels <= MOST_PIXELS);
        let pixels = pixels.ok_or(RunLengthsError::Size(height, width))?;
        let counts = match &self.counts {
            Counts::Plain(counts) => Cow::Borrowed(counts),
            Counts::Compressed(text) => Cow::Owned(decompressed(text.as_bytes())?),
        };
        let runs = counts
            .iter()
            .fold(0usize, |sum, run| sum.saturating_add(*run));
        if runs != pixels {
            return Err(RunLengthsError::Length {
                runs,
                height,
                width,
            });
        }
        Ok(Mask::of_runs(width, height, &counts))
    }
}

/// COCO's text for the lengths.
fn compressed(counts: &[usize]) -> String {
    let mut text = String::new();
    for (i, count) in counts.iter().enumerate() {
        let mut value = *count as i64;
        if i > 2 {
            value -= counts[i - 2] as i64;
        }
        loop {
            let digit = value & 31;
            value >>= 5;
            // The last digit's highest bit is the sign, so it must agree with what is left.
            let last = if digit & 16 != 0 {
                value == -1
            } else {
                value == 0
            };
            let digit = if last { digit } else { digit | 32 };
            text.push(char::from(48 + digit as u8));
            if last {
                break;
            }
        }
    }
    text
}

/// The lengths in COCO's text.
fn decompressed(text: &[u8]) -> Result<Vec<usize>, RunLengthsError> {
    let mut counts: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let (mut value, mut bits) = (0i64, 0);
        loop {
            let wrong = RunLengthsError::Encoding(at);
            let Some(byte) = text.get(at).filter(|byte| (48..112).contains(*byte)) else {
                return Err(wrong);
            };
            if bits > 55 {
                return Err(wrong);
            }
            let digit = i64::from(byte - 48);
            value |= (digit & 31) << bits;
            bits += 5;
            at += 1;
            if digit & 32 == 0 {
                // The highest bit is the sign.
                if digit & 16 != 0 {
                    value -= 1 << bits;
                }
                break;
            }
        }
        if counts.len() > 2 {
            value += counts[counts.len() - 2] as i64;
        }
        counts.push(usize::try_from(value).map_err(|_| RunLengthsError::Encoding(at))?);
    }
    Ok(counts)
}

/// The smallest box around a mask, as corners; all 0 if it is empty.
pub(crate) fn bounds(mask: &Mask) -> [f64; 4] {
    let range = |profile: Vec<f64>| {
        let first = profile.iter().position(|count| *count > 0.0).unwrap_or(0);
        let end = profile
            .iter()
            .rposition(|count| *count > 0.0)
            .map_or(0, |last| last + 1);
        (first as f64, end as f64)
    };
    let ((x0, x1), (y0, y1)) = (range(mask.x_profile()), range(mask.y_profile()));
    [x0, y0, x1, y1]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(size: [usize; 2], counts: Counts) -> Result<Mask, RunLengthsError> {
        RunLengths { size, counts }.unpack()
    }

    #[test]
    fn runs_go_down_the_columns() {
        let mask = unpack([2, 3], Counts::Plain(vec![1, 3, 2])).unwrap();
        let expected = Mask::new(3, 2, vec![false, true, false, true, true, false]);
        assert_eq!(Ok(mask.clone()), expected);
        assert_eq!(bounds(&mask), [0.0, 0.0, 2.0, 2.0]);
        let nothing = unpack([2, 2], Counts::Plain(vec![4])).unwrap();
        assert_eq!(bounds(&nothing), [0.0; 4]);
    }

    #[test]
    fn masks_survive_packing() {
        // What pycocotools 2.0 gives for the same pixels.
        let known = Mask::new(
            4,
            3,
            [0, 1, 1, 0, 0, 1, 0, 0, 0, 1, 1, 1]
                .map(|x| x == 1)
                .to_vec(),
        );
        let packed = RunLengths::pack(&known.clone().unwrap());
        assert_eq!(packed.counts, Counts::Compressed("341M10".into()));
        assert_eq!(packed.unpack().unwrap(), known.unwrap());
        let mut noise = 1u32;
        for (width, height) in [(1, 1), (7, 5), (40, 300), (0, 3)] {
            for often in [1, 2, 50, 2000] {
                let pixels = (0..width * height).map(|_| {
                    noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (noise >> 8).is_multiple_of(often)
                });
                let mask = Mask::new(width, height, pixels.collect()).unwrap();
                assert_eq!(RunLengths::pack(&mask).unpack(), Ok(mask));
            }
        }
    }

    #[test]
    fn what_is_no_mask() {
        let text = |text: &str| Counts::Compressed(text.to_owned());
        assert!(unpack([2, 2], Counts::Plain(vec![1, 2])).is_err());
        assert!(unpack([2, 2], Counts::Plain(vec![usize::MAX, 2])).is_err());
        assert!(unpack([1 << 20, 1 << 20], Counts::Plain(vec![])).is_err());
        assert_eq!(
            unpack([2, 2], text("1!")),
            Err(RunLengthsError::Encoding(1))
        );
        assert_eq!(unpack([2, 2], text("o")), Err(RunLengthsError::Encoding(1)));
        assert!(unpack([2, 2], text(&"o".repeat(40))).is_err());
        assert!(unpack([2, 2], text("O")).is_err());
    }
}
