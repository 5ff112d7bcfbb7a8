//! Gradients that serve several steps.

use burn::tensor::{Int, Tensor, TensorData};

/// The last two gradients with respect to the UNet's input, `[B, C, h, w]`, with their steps.
#[derive(Default)]
pub(super) struct Held {
    last: Option<(usize, Tensor<4>)>,
    before: Option<(usize, Tensor<4>)>,
}

impl Held {
    /// Takes in the gradient of a step; of one step the last counts.
    pub fn push(&mut self, step: usize, gradient: Tensor<4>) {
        match &mut self.last {
            Some((last, kept)) if *last == step => *kept = gradient,
            last => self.before = last.replace((step, gradient)),
        }
    }

    /// What stands for the gradient of a later `step`: the last one, or what the line through the last two comes to there,
    /// if there are two and it is `extrapolated`.
    pub fn at(&self, step: usize, extrapolated: bool) -> Option<Tensor<4>> {
        let (last, gradient) = self.last.as_ref()?;
        Some(match &self.before {
            Some((before, older)) if extrapolated => {
                let further = (step - last) as f64 / (last - before) as f64;
                gradient.clone() + (gradient.clone() - older.clone()) * further
            }
            _ => gradient.clone(),
        })
    }

    /// Goes on with the samples `keep`, in that order.
    pub fn retain(&mut self, keep: &[usize]) {
        let rows: Vec<i32> = keep.iter().map(|row| *row as i32).collect();
        for (_, gradient) in [&mut self.last, &mut self.before].into_iter().flatten() {
            let rows = TensorData::new(rows.clone(), [keep.len()]);
            let rows: Tensor<1, Int> = Tensor::from_data(rows, &gradient.device());
            *gradient = gradient.clone().select(0, rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn of(value: f32) -> Tensor<4> {
        Tensor::<1>::from_floats([value, -value], &Device::flex()).reshape([2, 1, 1, 1])
    }

    #[test]
    fn gradients_are_held_or_continued() {
        let mut held = Held::default();
        assert!(held.at(3, true).is_none());
        let read = |held: &Held, step, extrapolated| -> Vec<f32> {
            held.at(step, extrapolated)
                .unwrap()
                .into_data()
                .iter()
                .collect()
        };
        held.push(2, of(9.0));
        held.push(2, of(1.0));
        assert_eq!(read(&held, 3, true), [1.0, -1.0]);
        held.push(4, of(2.0));
        assert_eq!(read(&held, 5, false), [2.0, -2.0]);
        assert_eq!(read(&held, 5, true), [2.5, -2.5]);
        assert_eq!(read(&held, 6, true), [3.0, -3.0]);
        held.retain(&[1]);
        assert_eq!(read(&held, 6, true), [-3.0]);
    }
}
