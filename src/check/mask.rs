//! Which pixels of a picture an object covers.

mod largest;

use thiserror::Error;

/// Why pixels are no [`Mask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a mask of {width} × {height} pixels needs {} values, not {values}", width * height)]
pub struct MaskError {
    /// Of the mask, in pixels.
    pub width: usize,
    /// Of the mask, in pixels.
    pub height: usize,
    /// How many values were given.
    pub values: usize,
}

/// Which pixels of the picture an object covers.
///
/// It is kept as runs down the columns, as COCO's files have it, so that a mask takes no more memory than its text,
/// whatever size it claims to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    width: usize,
    height: usize,
    /// Where runs end, counted in pixels down the columns from the left; uncovered and covered ones in turn, uncovered
    /// first. None is empty but perhaps the first.
    ends: Vec<usize>,
}

impl Mask {
    /// The mask of a picture of `width` × `height` pixels; `covered` has one value a pixel, row by row.
    ///
    /// # Errors
    /// Another number of values.
    pub fn new(width: usize, height: usize, covered: Vec<bool>) -> Result<Self, MaskError> {
        if covered.len() != width * height {
            return Err(MaskError {
                width,
                height,
                values: covered.len(),
            });
        }
        let columns = (0..width).flat_map(|x| (0..height).map(move |y| (x, y)));
        let (mut ends, mut inside) = (Vec::new(), false);
        for (at, (x, y)) in columns.enumerate() {
            if covered[y * width + x] != inside {
                ends.push(at);
                inside = !inside;
            }
        }
        ends.push(covered.len());
        Ok(Self {
            width,
            height,
            ends,
        })
    }

    /// The mask with runs of these lengths, which together are `width` × `height`.
    pub(crate) fn of_runs(width: usize, height: usize, lengths: &[usize]) -> Self {
        let mut ends: Vec<usize> = Vec::with_capacity(lengths.len());
        let (mut at, mut inside) = (0, true);
        for length in lengths {
            inside = !inside;
            at += length;
            // What is as the run before it belongs to it. Their number says what a run is, as the first is uncovered.
            match (ends.len() % 2 == usize::from(inside), *length) {
                (true, 0) if !ends.is_empty() => {}
                (true, _) => ends.push(at),
                (false, _) => {
                    if let Some(last) = ends.last_mut() {
                        *last = at;
                    }
                }
            }
        }
        if ends.is_empty() {
            ends.push(0);
        }
        Self {
            width,
            height,
            ends,
        }
    }

    /// The lengths of its runs, uncovered and covered in turn.
    pub(crate) fn lengths(&self) -> Vec<usize> {
        let starts = std::iter::once(&0).chain(&self.ends);
        self.ends
            .iter()
            .zip(starts)
            .map(|(end, start)| end - start)
            .collect()
    }

    /// The covered runs.
    fn covered(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        self.ends
            .as_chunks::<2>()
            .0
            .iter()
            .map(|&[start, end]| start..end)
    }

    /// Of the picture, in pixels.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Of the picture, in pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Whether the object covers the pixel in column `x` and row `y`; it covers none outside the picture.
    pub fn contains(&self, x: usize, y: usize) -> bool {
        let before = |at| self.ends.partition_point(|end| *end <= at);
        x < self.width && y < self.height && before(x * self.height + y) % 2 == 1
    }

    /// How many pixels are covered.
    pub fn area(&self) -> usize {
        self.covered().map(|run| run.len()).sum()
    }

    /// For each column, from the left, how many of its pixels are covered.
    pub fn x_profile(&self) -> Vec<f64> {
        let mut profile = vec![0.0; self.width];
        for (column, rows) in self.columns() {
            profile[column] += rows.len() as f64;
        }
        profile
    }

    /// For each row, from the top, how many of its pixels are covered.
    pub fn y_profile(&self) -> Vec<f64> {
        // How many more pixels a row has than the one above it.
        let mut changes = vec![0.0; self.height + 1];
        for (_, rows) in self.columns() {
            changes[rows.start] += 1.0;
            changes[rows.end] -= 1.0;
        }
        let mut sum = 0.0;
        changes.pop();
        for change in &mut changes {
            sum += *change;
            *change = sum;
        }
        changes
    }

    /// Whether each pixel is covered, row by row.
    pub fn pixels(&self) -> Vec<bool> {
        let mut pixels = vec![false; self.width * self.height];
        for (column, rows) in self.columns() {
            for row in rows {
                pixels[row * self.width + column] = true;
            }
        }
        pixels
    }

    /// The covered runs, cut where a column ends: the column, and the rows in it.
    fn columns(&self) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
        let height = self.height;
        self.covered().flat_map(move |run| {
            let columns = run.start / height..=(run.end - 1) / height;
            columns.map(move |column| {
                let top = column * height;
                (
                    column,
                    run.start.max(top) - top..run.end.min(top + height) - top,
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_are_pixels(width in 0usize..7, height in 0usize..7, bits: u64) {
            let covered: Vec<bool> = (0..width * height).map(|i| bits >> i & 1 == 1).collect();
            let mask = Mask::new(width, height, covered.clone()).unwrap();
            let at = |x: usize, y: usize| covered[y * width + x];
            let count = |pixels: &mut dyn Iterator<Item = (usize, usize)>| pixels.filter(|&(x, y)| at(x, y)).count() as f64;
            let columns: Vec<f64> = (0..width).map(|x| count(&mut (0..height).map(|y| (x, y)))).collect();
            let rows: Vec<f64> = (0..height).map(|y| count(&mut (0..width).map(|x| (x, y)))).collect();
            prop_assert_eq!(mask.x_profile(), columns);
            prop_assert_eq!(mask.y_profile(), rows);
            prop_assert_eq!(mask.area(), covered.iter().filter(|covered| **covered).count());
            for (x, y) in (0..width + 1).flat_map(|x| (0..height + 1).map(move |y| (x, y))) {
                prop_assert_eq!(mask.contains(x, y), x < width && y < height && at(x, y));
            }
            prop_assert_eq!(mask.pixels(), covered);
        }

        #[test]
        fn equal_pixels_are_equal_masks(lengths in prop::collection::vec(0usize..3, 0..12)) {
            let pixels = lengths.iter().sum();
            let mask = Mask::of_runs(1, pixels, &lengths);
            let runs = lengths.iter().enumerate();
            let covered = runs.flat_map(|(run, length)| vec![run % 2 == 1; *length]).collect();
            prop_assert_eq!(&mask, &Mask::new(1, pixels, covered).unwrap());
            prop_assert_eq!(Mask::of_runs(1, pixels, &mask.lengths()), mask);
        }
    }
}
