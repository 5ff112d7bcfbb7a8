//! Pictures that IP-Adapters show to the UNet, step by step.

use burn::tensor::{Int, Tensor};
use prepose_models::ip_adapter::PictureAttention;

/// Pictures in one softmax, for a batch of B pictures.
#[derive(Clone, Debug)]
pub struct PictureGroup {
    /// What the negative half is told: of no picture. B rows.
    pub negative: PictureAttention,
    /// What the positive half and further parts of the prompt are told. B rows.
    pub positive: PictureAttention,
    /// The first step with them, from 0.
    pub first_step: usize,
    /// The last step with them; none for the last of all.
    pub last_step: Option<usize>,
}

impl PictureGroup {
    pub(super) fn acts_at(&self, step: usize) -> bool {
        step >= self.first_step && self.last_step.is_none_or(|last| step <= last)
    }

    /// For a UNet call with `rows` rows a picture, the unconditional first if there are several.
    pub(super) fn rows(&self, rows: usize) -> PictureAttention {
        match rows {
            0 | 1 => self.positive.clone(),
            _ => {
                let mut parts = vec![self.positive.clone(); rows];
                parts[0] = self.negative.clone();
                PictureAttention::cat(&parts)
            }
        }
    }

    /// The rows `keep` of the batch.
    pub(super) fn select(&self, keep: &Tensor<1, Int>) -> Self {
        Self {
            negative: self.negative.select(keep),
            positive: self.positive.select(keep),
            ..self.clone()
        }
    }
}

/// What acts at a step besides the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Acting {
    /// GLIGEN's layers.
    pub objects: bool,
    /// Of each group of pictures, whether it does.
    pub pictures: Vec<bool>,
}

impl Acting {
    pub fn nothing(&self) -> bool {
        !self.objects && !self.pictures.contains(&true)
    }
}
