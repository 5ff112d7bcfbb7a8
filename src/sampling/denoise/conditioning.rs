//! What the UNet is told about the text.

use burn::tensor::{Int, Tensor};
use prepose_models::unet::{AddedConditioning, PreparedConditioning, UNet};

/// What the UNet is told about the text, for a batch of B pictures.
#[derive(Clone, Debug)]
pub struct TextConditioning {
    /// Hidden states of the text encoders, [B, N, C].
    pub context: Tensor<3>,
    /// SDXL's pooled text and sizes.
    pub added: Option<AddedConditioning>,
}

impl TextConditioning {
    /// The rows `keep` of the batch.
    fn select(self, keep: &Tensor<1, Int>) -> Self {
        Self {
            context: self.context.select(0, keep.clone()),
            added: self.added.map(|added| AddedConditioning {
                text_embeds: added.text_embeds.select(0, keep.clone()),
                time_ids: added.time_ids.select(0, keep.clone()),
            }),
        }
    }
}

/// Both halves of classifier-free guidance.
#[derive(Clone, Debug)]
pub struct Conditioning {
    /// What the pictures should show.
    pub positive: TextConditioning,
    /// What they should not; `None` runs without classifier-free guidance.
    pub negative: Option<TextConditioning>,
}

impl Conditioning {
    /// Both halves as one batch of [negative, positive], ready for the UNet.
    pub(super) fn prepare(&self, unet: &UNet, guidance_scale: f64) -> PreparedConditioning {
        let Some(negative) = &self.negative else {
            let TextConditioning { context, added } = &self.positive;
            // Without a negative half, a guidance-distilled network (LCM) takes the scale itself.
            return unet.prepare_distilled(context.clone(), added.as_ref(), guidance_scale);
        };
        let stack = |a: &Tensor<2>, b: &Tensor<2>| Tensor::cat(vec![a.clone(), b.clone()], 0);
        let halves = negative.added.as_ref().zip(self.positive.added.as_ref());
        let added = halves.map(|(negative, positive)| AddedConditioning {
            text_embeds: stack(&negative.text_embeds, &positive.text_embeds),
            time_ids: stack(&negative.time_ids, &positive.time_ids),
        });
        let context = vec![negative.context.clone(), self.positive.context.clone()];
        unet.prepare(Tensor::cat(context, 0), added.as_ref())
    }

    /// The rows `keep` of the batch.
    pub(super) fn select(self, keep: &Tensor<1, Int>) -> Self {
        Self {
            positive: self.positive.select(keep),
            negative: self.negative.map(|negative| negative.select(keep)),
        }
    }
}

/// What the UNet is told at each step: a prompt schedule with its texts encoded once each.
#[derive(Clone, Debug)]
pub struct ConditioningPlan {
    texts: Vec<Planned>,
    /// Which of `texts` holds at a step; the last entry holds for all later steps.
    steps: Vec<usize>,
}

/// A conditioning with what the UNet derives from it, once that was needed.
#[derive(Clone, Debug)]
struct Planned {
    conditioning: Conditioning,
    prepared: Option<PreparedConditioning>,
}

impl From<Conditioning> for Planned {
    fn from(conditioning: Conditioning) -> Self {
        Self {
            conditioning,
            prepared: None,
        }
    }
}

impl From<Conditioning> for ConditioningPlan {
    /// The same text from the first step to the last.
    fn from(conditioning: Conditioning) -> Self {
        Self {
            texts: vec![conditioning.into()],
            steps: vec![0],
        }
    }
}

impl ConditioningPlan {
    /// `texts[steps[i]]` holds at step `i`, and the last entry of `steps` for all later steps.
    ///
    /// # Panics
    /// If `steps` is empty or names a text that is not there.
    pub fn new(texts: Vec<Conditioning>, steps: Vec<usize>) -> Self {
        assert!(
            !steps.is_empty() && steps.iter().all(|&text| text < texts.len()),
            "{} texts for the plan {steps:?}",
            texts.len()
        );
        Self {
            texts: texts.into_iter().map(Planned::from).collect(),
            steps,
        }
    }

    fn text(&self, step: usize) -> usize {
        self.steps[step.min(self.steps.len() - 1)]
    }

    /// Whether the text of `step` is the one that the run ends with.
    pub(super) fn is_final(&self, step: usize) -> bool {
        self.text(step) == self.text(usize::MAX)
    }

    /// What holds at `step`, from 0.
    pub fn at(&self, step: usize) -> &Conditioning {
        &self.texts[self.text(step)].conditioning
    }

    /// Replaces what holds from `step` on.
    pub(super) fn replace(&mut self, step: usize, conditioning: Conditioning) {
        let last = self.text(usize::MAX);
        self.steps.resize(self.steps.len().max(step), last);
        self.steps.truncate(step);
        self.steps.push(self.texts.len());
        self.texts.push(conditioning.into());
    }

    /// [`Conditioning::prepare`] of what holds at `step`, once for each text.
    pub(super) fn prepare(
        &mut self,
        step: usize,
        unet: &UNet,
        guidance_scale: f64,
    ) -> &PreparedConditioning {
        let text = self.text(step);
        let Planned {
            conditioning,
            prepared,
        } = &mut self.texts[text];
        prepared.get_or_insert_with(|| conditioning.prepare(unet, guidance_scale))
    }

    /// The conditional half of the text that the run ends with.
    pub(super) fn prepare_positive(
        &mut self,
        unet: &UNet,
        guidance_scale: f64,
    ) -> PreparedConditioning {
        let conditioning = self.at(usize::MAX);
        let [pictures, _, _] = conditioning.positive.context.dims();
        let start = if conditioning.negative.is_some() {
            pictures
        } else {
            0
        };
        (self.prepare(usize::MAX, unet, guidance_scale)).narrow(start, pictures)
    }

    /// The rows `keep` of the batch.
    pub(super) fn select(&mut self, keep: &Tensor<1, Int>) {
        for text in &mut self.texts {
            *text = text.conditioning.clone().select(keep).into();
        }
    }
}
