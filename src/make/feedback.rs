//! Scene-Bench's feedback (section 4 of its paper): a picture of what is missing in a first picture, and a last picture that is shown
//! both.

use std::path::Path;

use crate::request::{PicturePrompt, Request};

/// How strongly the pictures are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feedback {
    /// λ₀ and λ₁ of the paper's equation 5: of the first picture, and of that of what is missing.
    pub scales: [f64; 2],
}

impl Default for Feedback {
    /// The paper's: one half each.
    fn default() -> Self {
        Self { scales: [0.5; 2] }
    }
}

impl Feedback {
    /// The request for the picture of what is missing: as the first one, with another prompt and the noise of the next seed. What is
    /// missing is often the whole of a small graph; from the same noise it would be missing again.
    pub fn reference(&self, first: &Request, missing: &str) -> Request {
        Request {
            prompt: missing.to_owned(),
            pictures: Vec::new(),
            seed: first.seed.wrapping_add(1),
            ..first.clone()
        }
    }

    /// The request for the last picture: as the first one, shown `pictures`, the first and that of what is missing, each by a
    /// softmax of its own. One with a scale of 0 is left out.
    pub fn last(&self, first: &Request, pictures: [&Path; 2]) -> Request {
        let shown = pictures.into_iter().zip(self.scales);
        let shown = shown.filter(|(_, scale)| *scale != 0.0);
        let pictures = shown.map(|(path, scale)| PicturePrompt {
            scale,
            own_softmax: true,
            ..PicturePrompt::new(path)
        });
        Request {
            pictures: pictures.collect(),
            ..first.clone()
        }
    }
}
