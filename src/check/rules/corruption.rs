//! Masks made worse: how much PSE depends on their details (Why Settle for Mid, arXiv 2506.23418, table 10).

use std::fmt;

use super::opse::SplitMix;
use super::pse::{of_changed, worst};
use super::{Case, Options, RuleError};
use crate::Mask;

/// A way of making a mask worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// So many percent of its pixels, chosen at random, are no longer covered.
    Dropout(usize),
    /// It is moved by so many pixels in a random direction; what leaves the picture is lost.
    Jitter(usize),
    /// It is eroded so many times with 3 × 3 pixels, then dilated as often; the picture's edge does not erode it.
    Opening(usize),
}

/// Table 10 of the paper: what was done, and the mean PSE in percent of 100 pictures of SDXL. Without any it is 29.39.
pub const PUBLISHED: [(Corruption, f64); 12] = [
    (Corruption::Dropout(10), 29.40),
    (Corruption::Dropout(30), 29.39),
    (Corruption::Dropout(50), 29.40),
    (Corruption::Dropout(80), 29.37),
    (Corruption::Jitter(5), 29.75),
    (Corruption::Jitter(20), 29.83),
    (Corruption::Jitter(50), 29.77),
    (Corruption::Jitter(100), 31.32),
    (Corruption::Opening(1), 29.40),
    (Corruption::Opening(2), 29.41),
    (Corruption::Opening(5), 29.50),
    (Corruption::Opening(10), 30.44),
];

/// The mean PSE in percent that the paper has without any corruption.
pub const PUBLISHED_PLAIN: f64 = 29.39;

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropout(percent) => write!(f, "dropout {percent} %"),
            Self::Jitter(pixels) => write!(f, "jitter {pixels} px"),
            Self::Opening(times) => write!(f, "opening {times} times"),
        }
    }
}

impl Corruption {
    /// The mask made worse.
    pub fn apply(self, mask: &Mask, random: &mut SplitMix) -> Mask {
        let (width, height) = (mask.width(), mask.height());
        let pixels = mask.pixels();
        let pixels = match self {
            Self::Dropout(percent) => dropout(pixels, percent, random),
            Self::Jitter(distance) => {
                let share = random.next_u64() as f64 / u64::MAX as f64;
                let (sine, cosine) = (share * std::f64::consts::TAU).sin_cos();
                let by = |part: f64| (part * distance as f64).round() as isize;
                moved(&pixels, (width, height), (by(cosine), by(sine)))
            }
            Self::Opening(times) => {
                let eroded = spread(pixels, (width, height), times, false);
                spread(eroded, (width, height), times, true)
            }
        };
        Mask::new(width, height, pixels).unwrap_or_else(|_| mask.clone())
    }
}

/// Uncovers a share of the covered pixels.
fn dropout(mut pixels: Vec<bool>, percent: usize, random: &mut SplitMix) -> Vec<bool> {
    let covered = pixels.iter().enumerate().filter(|(_, covered)| **covered);
    let mut covered: Vec<usize> = covered.map(|(at, _)| at).collect();
    let gone = (covered.len() * percent.min(100) + 50) / 100;
    for place in 0..gone {
        let other = place + random.below(covered.len() - place);
        covered.swap(place, other);
        pixels[covered[place]] = false;
    }
    pixels
}

fn moved(pixels: &[bool], (width, height): (usize, usize), (dx, dy): (isize, isize)) -> Vec<bool> {
    let from = |x: usize, y: usize| {
        let (x, y) = (x.checked_add_signed(-dx)?, y.checked_add_signed(-dy)?);
        (x < width && y < height).then(|| pixels[y * width + x])
    };
    let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    places.map(|(x, y)| from(x, y).unwrap_or(false)).collect()
}

/// Gives every pixel up to `times` rows and columns away from one that is `value` this value too: dilates what is covered, or
/// what is not.
fn spread(
    pixels: Vec<bool>,
    (width, height): (usize, usize),
    times: usize,
    value: bool,
) -> Vec<bool> {
    // A square is a row of columns: first along the rows, then along the columns.
    let along =
        |pixels: &[bool], length: usize, at: &dyn Fn(usize, usize) -> usize, lines: usize| {
            let mut out = pixels.to_vec();
            for line in 0..lines {
                let is = |place: usize| pixels[at(line, place)] == value;
                // How far away the last one before, and then the next one, is.
                let mut last = None;
                for place in 0..length {
                    last = if is(place) { Some(place) } else { last };
                    if last.is_some_and(|last| place - last <= times) {
                        out[at(line, place)] = value;
                    }
                }
                let mut next = None;
                for place in (0..length).rev() {
                    next = if is(place) { Some(place) } else { next };
                    if next.is_some_and(|next| next - place <= times) {
                        out[at(line, place)] = value;
                    }
                }
            }
            out
        };
    let rows = along(&pixels, width, &|row, x| row * width + x, height);
    along(&rows, height, &|column, y| y * width + column, width)
}

/// The PSE of a picture in 0..=1, of its worst relation, with each object's mask made worse. What is drawn at random depends on
/// the picture's name, the object's and `seed` alone.
///
/// # Errors
/// There is no relation, or one of them cannot be scored.
pub fn pse(
    case: &Case,
    options: &Options,
    corruption: Option<Corruption>,
    seed: u64,
) -> Result<f64, RuleError> {
    let mut change = |name: &str, mask: Mask| match corruption {
        None => mask,
        Some(corruption) => {
            // FNV-1a (Fowler, Noll and Vo).
            let bytes = case.id.bytes().chain([0]).chain(name.bytes());
            let hash = bytes.fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
            });
            corruption.apply(&mask, &mut SplitMix(hash ^ seed))
        }
    };
    let outcome = worst(case, |stated| {
        of_changed(case, stated, options, &mut change)
    })?;
    Ok(outcome.score.unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One step with 3 × 3 pixels, as it is defined.
    fn step(pixels: &[bool], (width, height): (usize, usize), value: bool) -> Vec<bool> {
        let near = |x: usize, y: usize| {
            let rows = y.saturating_sub(1)..(y + 2).min(height);
            rows.flat_map(move |y| (x.saturating_sub(1)..(x + 2).min(width)).map(move |x| (x, y)))
        };
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let any = |(x, y)| near(x, y).any(|(x, y)| pixels[y * width + x] == value);
        places
            .map(|place| if any(place) { value } else { !value })
            .collect()
    }

    proptest! {
        #[test]
        fn so_many_steps_at_once_are_so_many_steps(
            width in 1usize..9, height in 1usize..9, bits: u64, times in 0usize..4, value: bool
        ) {
            let pixels: Vec<bool> = (0..width * height).map(|at| bits >> (at % 64) & 1 == 1).collect();
            let mut want = pixels.clone();
            for _ in 0..times {
                want = step(&want, (width, height), value);
            }
            prop_assert_eq!(spread(pixels, (width, height), times, value), want);
        }

        #[test]
        fn dropout_leaves_its_share(bits: u64, percent in 0usize..=100, seed: u64) {
            let pixels: Vec<bool> = (0..64).map(|at| bits >> at & 1 == 1).collect();
            let mask = Mask::new(8, 8, pixels).unwrap();
            let less = Corruption::Dropout(percent).apply(&mask, &mut SplitMix(seed));
            let gone = (mask.area() * percent + 50) / 100;
            prop_assert_eq!(less.area(), mask.area() - gone);
            let inside = less.pixels().iter().zip(mask.pixels()).all(|(less, all)| !*less || all);
            prop_assert!(inside);
        }

        #[test]
        fn jitter_moves_by_the_distance(seed: u64, distance in 0usize..9) {
            let mut pixels = vec![false; 31 * 31];
            pixels[15 * 31 + 15] = true;
            let mask = Mask::new(31, 31, pixels).unwrap();
            let there = Corruption::Jitter(distance).apply(&mask, &mut SplitMix(seed)).pixels();
            let at = there.iter().position(|covered| *covered).unwrap();
            let (dx, dy) = ((at % 31) as f64 - 15.0, (at / 31) as f64 - 15.0);
            prop_assert!((dx.hypot(dy) - distance as f64).abs() <= 0.75, "{dx} {dy}");
        }
    }
}
