//! Masks in the picture.

/// The mask of an object, as the network gives it: probabilities for a square grid over its box.
#[derive(Debug, Clone, PartialEq)]
pub struct RoiMask {
    /// Cells along each side.
    pub size: usize,
    /// Probabilities row by row, in 0..=1.
    pub values: Vec<f32>,
}

/// Cells of zeros around the grid, so that a mask can fade out at the border of its box.
const PADDING: usize = 1;

/// Where the pixels of a resized row or column come from: the cells on both sides, in a grid with
/// padding, and the share of the second.
struct Place {
    cells: [usize; 2],
    part: f32,
}

/// For each pixel of the picture that the enlarged box covers along one axis, from the first on.
fn places(from: i64, to: i64, length: usize, cells: usize) -> (usize, Vec<Place>) {
    let size = (to - from + 1).max(1);
    let scale = cells as f32 / size as f32;
    let (first, last) = (from.max(0), (to + 1).min(length as i64));
    let place = |pixel: i64| {
        let at = (((pixel - from) as f32 + 0.5) * scale - 0.5).max(0.0);
        let low = (at as usize).min(cells - 1);
        Place {
            cells: [low, (low + 1).min(cells - 1)],
            part: at - low as f32,
        }
    };
    // A box that ends before it begins still has one pixel.
    let covered = (first..last).filter(|pixel| pixel - from < size);
    (first as usize, covered.map(place).collect())
}

impl RoiMask {
    /// The probabilities in a picture of `height` × `width` pixels, row by row and zero outside of the
    /// box with the corners `x0, y0, x1, y1` in pixels: torchvision's `paste_masks_in_image`.
    pub fn paste(&self, corners: [f32; 4], [height, width]: [usize; 2]) -> Vec<f32> {
        let mut picture = vec![0.0; height * width];
        let cells = self.size + 2 * PADDING;
        let grow = cells as f32 / self.size as f32;
        let axis = |low: usize, high: usize| {
            let half = (corners[high] - corners[low]) * 0.5 * grow;
            let centre = (corners[high] + corners[low]) * 0.5;
            ((centre - half) as i64, (centre + half) as i64)
        };
        let ((x0, x1), (y0, y1)) = (axis(0, 2), axis(1, 3));
        let (left, columns) = places(x0, x1, width, cells);
        let (top, rows) = places(y0, y1, height, cells);
        let cell = |row: usize, column: usize| {
            let inside = PADDING..PADDING + self.size;
            match inside.contains(&row) && inside.contains(&column) {
                true => self.values[(row - PADDING) * self.size + column - PADDING],
                false => 0.0,
            }
        };
        for (y, row) in (top..).zip(&rows) {
            for (x, column) in (left..).zip(&columns) {
                let line = |row: usize| {
                    let [low, high] = column.cells.map(|column| cell(row, column));
                    low * (1.0 - column.part) + high * column.part
                };
                let [low, high] = row.cells.map(line);
                picture[y * width + x] = low * (1.0 - row.part) + high * row.part;
            }
        }
        picture
    }
}
