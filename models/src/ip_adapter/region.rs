//! Where a picture acts: a mask, brought to the resolution of each layer as diffusers does it.

use burn::tensor::TensorData;

use super::PictureRow;

/// A mask in the pixels of the picture that is made.
#[derive(Debug, Clone, PartialEq)]
pub struct RegionMask {
    width: usize,
    height: usize,
    /// 1 inside, 0 outside, row by row.
    values: Vec<f32>,
}

impl RegionMask {
    /// One of `width` × `height` pixels, 1 where `inside` a column and row, else 0.
    pub fn new(width: usize, height: usize, inside: impl Fn(usize, usize) -> bool) -> Self {
        let value = |i| f32::from(inside(i % width, i / width));
        Self {
            width,
            height,
            values: (0..width * height).map(value).collect(),
        }
    }

    /// Whether it lets nothing through.
    pub fn is_empty(&self) -> bool {
        self.values.iter().all(|value| *value == 0.0)
    }

    /// What counts at each of `positions` positions of a layer: diffusers' `IPAdapterMaskProcessor.downsample`. It guesses
    /// the layer's height from the mask's shape, resizes (bicubic, without smoothing and without limits, so that values
    /// outside of 0 to 1 occur), and leaves out or fills up with zeros what is too much or too little.
    pub fn at(&self, positions: usize) -> Vec<f32> {
        let ratio = self.width as f64 / self.height as f64;
        let rows = ((positions as f64 / ratio).sqrt() as usize).max(1);
        let rows = rows + usize::from(!positions.is_multiple_of(rows));
        let columns = (positions / rows).max(1);
        let down = taps(self.height, rows);
        let across = taps(self.width, columns);
        let mut values = Vec::with_capacity(positions);
        for row in &down {
            for column in &across {
                let line = |y: usize| -> f32 {
                    let of = |(x, weight): &(usize, f32)| self.values[y * self.width + x] * weight;
                    column.iter().map(of).sum()
                };
                values.push(row.iter().map(|(y, weight)| line(*y) * weight).sum());
            }
        }
        values.resize(positions, 0.0);
        values
    }
}

/// For each of `to` places along an axis of `from` what it is made of, by PyTorch's bicubic interpolation: Keys' kernel
/// with a = −3/4 around the middle of the place.
fn taps(from: usize, to: usize) -> Vec<[(usize, f32); 4]> {
    let scale = from as f32 / to as f32;
    let place = |i: usize| {
        let centre = (i as f32 + 0.5) * scale - 0.5;
        let first = centre.floor();
        let t = centre - first;
        let weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
        [0, 1, 2, 3].map(|tap| {
            let at = first as i64 + tap as i64 - 1;
            let at = at.clamp(0, from as i64 - 1) as usize;
            (at, weights[tap])
        })
    };
    (0..to).map(place).collect()
}

const A: f32 = -0.75;

/// Keys' kernel up to 1.
fn near(x: f32) -> f32 {
    ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
}

/// Keys' kernel from 1 to 2.
fn far(x: f32) -> f32 {
    ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A
}

/// The masks of `rows` at a layer of so many positions, `[B, 1, positions, 1]`; none if none of them has one.
pub(super) fn masks(rows: &[PictureRow], positions: usize) -> Option<TensorData> {
    if rows.iter().all(|row| row.region.is_none()) {
        return None;
    }
    let of = |row: &PictureRow| match &row.region {
        Some(region) => region.at(positions),
        None => vec![1.0; positions],
    };
    let values: Vec<f32> = rows.iter().flat_map(of).collect();
    Some(TensorData::new(values, [rows.len(), 1, positions, 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_mask_is_one_everywhere_and_a_layer_of_another_shape_is_filled_up() {
        let open = RegionMask::new(24, 16, |_, _| true);
        for positions in [6, 24, 96, 384] {
            let values = open.at(positions);
            assert!(
                values.iter().all(|value| (value - 1.0).abs() < 1e-6),
                "{positions}"
            );
        }
        // 5 × 5 positions of a mask of 3 : 2: four rows become five, of five columns.
        assert_eq!(open.at(25).len(), 25);
        // 7 positions: two rows become three of two columns, and one is missing.
        let values = open.at(7);
        assert_eq!((values.len(), values[6]), (7, 0.0));
        assert!(RegionMask::new(8, 8, |_, _| false).is_empty() && !open.is_empty());
    }

    #[test]
    fn halves_stay_halves() {
        let left = RegionMask::new(64, 32, |x, _| x < 32);
        let values = left.at(8 * 4);
        for row in values.chunks(8) {
            assert!(row[..3].iter().all(|value| (value - 1.0).abs() < 0.2));
            assert!(row[5..].iter().all(|value| value.abs() < 0.2));
        }
    }
}
