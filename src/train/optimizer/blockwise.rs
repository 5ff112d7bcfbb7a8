//! Numbers of 8 bits in blocks, as bitsandbytes keeps moments (Dettmers et al. 2022, "8-bit optimizers via block-wise
//! quantization").

use std::sync::OnceLock;

/// The 256 values that a code can stand for, as shares of the largest of its block, rising.
#[derive(Debug)]
pub(crate) struct Map {
    values: [f32; 256],
    is_signed: bool,
}

impl Map {
    /// For numbers of either sign.
    pub(crate) fn signed() -> &'static Self {
        static MAP: OnceLock<Map> = OnceLock::new();
        MAP.get_or_init(|| Self::new(true))
    }

    /// For numbers of at least 0.
    pub(crate) fn unsigned() -> &'static Self {
        static MAP: OnceLock<Map> = OnceLock::new();
        MAP.get_or_init(|| Self::new(false))
    }

    /// bitsandbytes' `create_dynamic_map`: 7 decades, each with twice as many values as the one below.
    fn new(is_signed: bool) -> Self {
        let mut values = vec![0.0, 1.0];
        for decade in 0..7 {
            let cells = 1u32 << (decade + i32::from(!is_signed));
            let edge = |i: u32| 0.1 + 0.9 * f64::from(i) / f64::from(cells);
            for cell in 0..cells {
                let middle = (edge(cell) + edge(cell + 1)) / 2.0;
                let value = (middle * 10f64.powi(decade - 6)) as f32;
                values.push(value);
                if is_signed {
                    values.push(-value);
                }
            }
        }
        values.sort_by(f32::total_cmp);
        let mut all = [0.0; 256];
        all.copy_from_slice(&values);
        Self {
            values: all,
            is_signed,
        }
    }

    /// The code of the value nearest to `share`; of two that are as near the lower one.
    fn nearest(&self, share: f32) -> u8 {
        let above = self.values.partition_point(|value| *value < share);
        let code = match above {
            0 => 0,
            256 => 255,
            _ => {
                let (below, value) = (self.values[above - 1], self.values[above]);
                above - usize::from(share - below <= value - share)
            }
        };
        code as u8
    }

    /// The code to store: a number does not change its sign.
    fn code(&self, value: f32, share: f32) -> u8 {
        let code = self.nearest(share);
        let stored = self.values[usize::from(code)];
        match self.is_signed && stored.is_sign_negative() != value.is_sign_negative() {
            true if value > 0.0 => code.saturating_add(1),
            true => code.saturating_sub(1),
            false => code,
        }
    }

    #[cfg(test)]
    pub(crate) fn values(&self) -> &[f32; 256] {
        &self.values
    }
}

/// Numbers of 8 bits, in blocks that each have their largest as f32.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks {
    pub(crate) codes: Vec<u8>,
    pub(crate) largest: Vec<f32>,
}

impl Blocks {
    /// Consecutive elements in a block; the last may have fewer.
    pub const SIZE: usize = 256;

    /// So many zeros.
    pub(crate) fn zeros(map: &Map, length: usize) -> Self {
        Self {
            codes: vec![map.nearest(0.0); length],
            largest: vec![0.0; length.div_ceil(Self::SIZE)],
        }
    }

    pub(crate) fn value(&self, map: &Map, block: usize, at: usize) -> f32 {
        map.values[usize::from(self.codes[block * Self::SIZE + at])] * self.largest[block]
    }

    /// Rounds the values of a block.
    pub(crate) fn store(&mut self, map: &Map, block: usize, values: &[f32]) {
        let largest = values
            .iter()
            .fold(0f32, |most, value| most.max(value.abs()));
        self.largest[block] = largest;
        let start = block * Self::SIZE;
        for (code, value) in self.codes[start..].iter_mut().zip(values) {
            // A block of zeros has no shares.
            let share = if largest > 0.0 { value / largest } else { 0.0 };
            *code = map.code(*value, share);
        }
    }
}
