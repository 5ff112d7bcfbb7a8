//! What multistep methods remember between steps.

use burn::tensor::{Int, Tensor};

/// The memory of one run. Methods of one step leave it empty.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Steps taken in this run.
    pub(super) steps: usize,
    /// The UNet's answers at earlier steps as the method keeps them, newest last.
    pub(super) outputs: Vec<Remembered>,
    /// An earlier sample that a later step starts from again.
    pub(super) sample: Option<Remembered>,
    /// PNDM: the answers within a Runge–Kutta step, weighted.
    pub(super) sum: Option<Remembered>,
    /// √ᾱ of the sample that the last step returned.
    pub(super) alpha: f32,
    /// UniPC: the order of the last step.
    pub(super) order: usize,
}

/// A tensor of the past, and how it depends on the picture that is being made.
#[derive(Debug, Clone)]
pub(super) struct Remembered {
    pub value: Tensor<4>,
    /// How far it moves when the clean latents x₀ move by 1 and the noise stays: √ᾱ for a sample, 1 for a predicted
    /// x₀, 0 for predicted noise, −√(1 − ᾱ) for a velocity.
    pub per_x0: f32,
}

impl History {
    /// Tells the method that the sample which the last step returned was changed from `before` to `after`
    /// before the next UNet call.
    ///
    /// Without this, methods that remember a sample forget the edit: PNDM's second call and every call of
    /// UniPC start again from the old one, so that of an edit in the middle of 30 UniPC steps about a tenth
    /// arrives in the picture. An edit by δ says that the picture moves by δ / √ᾱ while the noise stays;
    /// so everything remembered is moved as if the run had been that picture's from the start. Under fixed
    /// noise predictions the edit then arrives whole, as with DDIM. A run without edits is untouched.
    pub fn edited(&mut self, before: &Tensor<4>, after: &Tensor<4>) {
        let past = (self.outputs.iter_mut())
            .chain(&mut self.sample)
            .chain(&mut self.sum);
        let moved = past.filter(|past| past.per_x0 != 0.0);
        let mut moved = moved.peekable();
        if moved.peek().is_none() {
            return;
        }
        let x0 = (after.clone() - before.clone()) / self.alpha;
        for past in moved {
            past.value = past.value.clone() + x0.clone() * past.per_x0;
        }
    }

    /// Goes on with the rows `keep` of the batch.
    pub fn select(&mut self, keep: &Tensor<1, Int>) {
        let past = (self.outputs.iter_mut())
            .chain(&mut self.sample)
            .chain(&mut self.sum);
        for past in past {
            past.value = past.value.clone().select(0, keep.clone());
        }
    }

    /// Appends an answer and forgets all but the newest `keep`.
    pub(super) fn remember(&mut self, value: Tensor<4>, per_x0: f32, keep: usize) {
        self.outputs.push(Remembered { value, per_x0 });
        let surplus = self.outputs.len().saturating_sub(keep);
        self.outputs.drain(..surplus);
    }

    /// The answer `back` steps ago; 0 is the newest.
    pub(super) fn output(&self, back: usize) -> Tensor<4> {
        self.outputs[self.outputs.len() - 1 - back].value.clone()
    }
}
