//! How far away each pixel of a picture is.

use thiserror::Error;

/// A map of relative depth, row by row; larger is nearer, and 0 is nothing or as far as can be.
///
/// That is the sense of the disparity that MiDaS, DPT and Depth Anything give. Maps of distances must be turned around
/// first.
#[derive(Clone, Debug, PartialEq)]
pub struct DepthMap {
    width: usize,
    height: usize,
    values: Vec<f64>,
}

/// Why values are no [`DepthMap`].
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum DepthError {
    /// Too many or too few.
    #[error("a depth map of {width} × {height} pixels needs {} values, not {values}", width * height)]
    Length {
        /// In pixels.
        width: usize,
        /// In pixels.
        height: usize,
        /// How many there are.
        values: usize,
    },
    /// Not a number, infinite or negative.
    #[error("the depth in column {x}, row {y} is {value}; depths are finite and not negative")]
    Value {
        /// Column.
        x: usize,
        /// Row.
        y: usize,
        /// What is there.
        value: f64,
    },
}

impl DepthMap {
    /// The map of a picture of `width` × `height` pixels, row by row.
    ///
    /// # Errors
    /// Another number of values, or one that is negative or not finite.
    pub fn new(width: usize, height: usize, values: Vec<f64>) -> Result<Self, DepthError> {
        if width.checked_mul(height) != Some(values.len()) {
            let values = values.len();
            return Err(DepthError::Length {
                width,
                height,
                values,
            });
        }
        let wrong = |value: &f64| !value.is_finite() || *value < 0.0;
        if let Some(at) = values.iter().position(wrong) {
            return Err(DepthError::Value {
                x: at % width,
                y: at / width,
                value: values[at],
            });
        }
        Ok(Self {
            width,
            height,
            values,
        })
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }

    /// The rows, from the top.
    pub fn rows(&self) -> impl Iterator<Item = &[f64]> {
        // Chunks of 0 would panic; a map without columns has no values to chunk.
        self.values.chunks(self.width.max(1))
    }

    /// The mean over a part; indices outside the map are passed over. None if nothing is left.
    pub fn mean(
        &self,
        columns: std::ops::Range<usize>,
        rows: std::ops::Range<usize>,
    ) -> Option<f64> {
        let rows = rows.start.min(self.height)..rows.end.min(self.height);
        let columns = columns.start.min(self.width)..columns.end.min(self.width);
        if rows.is_empty() || columns.is_empty() {
            return None;
        }
        let count = rows.len() * columns.len();
        let row = |y: usize| &self.values[y * self.width..(y + 1) * self.width];
        let sum: f64 = rows.flat_map(|y| &row(y)[columns.clone()]).sum();
        Some(sum / count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_parts() {
        let map = DepthMap::new(3, 2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        assert_eq!(map.mean(1..3, 0..2), Some(4.0));
        assert_eq!(map.mean(1..9, 1..9), Some(5.5));
        assert_eq!(map.mean(3..9, 0..2), None);
        let (right, left) = (2, 1);
        assert_eq!(map.mean(right..left, 0..2), None);
    }

    #[test]
    fn what_is_no_depth() {
        assert!(DepthMap::new(2, 2, vec![0.0; 3]).is_err());
        assert!(DepthMap::new(2, 1, vec![0.0, f64::NAN]).is_err());
        let error = DepthMap::new(2, 2, vec![0.0, 0.0, 0.0, -1.0]).unwrap_err();
        assert!(error.to_string().contains("column 1, row 1 is -1"));
    }
}
