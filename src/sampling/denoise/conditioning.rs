//! What the UNet is told about the text.

use burn::tensor::{Int, Tensor};
use prepose_models::unet::{AddedConditioning, Objects, PreparedConditioning, UNet};

use super::pictures::{Acting, PictureGroup};

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
    /// What else they should show, each by itself; read only with a negative half.
    pub composition: Option<Composition>,
    /// What GLIGEN's layers put where.
    pub objects: Option<Objects>,
}

/// The further prompts of Composable Diffusion (Liu et al. 2022): the prediction is ε∅ + s · Σᵢ wᵢ · (εᵢ − ε∅).
#[derive(Clone, Debug)]
pub struct Composition {
    /// The prompts besides the positive half.
    pub others: Vec<TextConditioning>,
    /// What each prompt counts in each cell of the latents, the positive half first: [B, 1, h, w], f32.
    pub weights: Vec<Tensor<4>>,
}

impl Composition {
    fn select(self, keep: &Tensor<1, Int>) -> Self {
        Self {
            others: (self.others.into_iter())
                .map(|other| other.select(keep))
                .collect(),
            weights: (self.weights.into_iter())
                .map(|weights| weights.select(0, keep.clone()))
                .collect(),
        }
    }
}

impl Conditioning {
    /// Rows of the UNet's batch for each picture.
    pub(super) fn rows(&self) -> usize {
        let others = self.composition.as_ref();
        match self.negative {
            Some(_) => 2 + others.map_or(0, |composition| composition.others.len()),
            None => 1,
        }
    }

    /// All as one batch of [negative, others, positive], ready for the UNet, without objects.
    pub(super) fn prepare(&self, unet: &UNet, guidance_scale: f64) -> PreparedConditioning {
        let Some(negative) = &self.negative else {
            let TextConditioning { context, added } = &self.positive;
            // Without a negative half, a guidance-distilled network (LCM) takes the scale itself.
            return unet.prepare_distilled(context.clone(), added.as_ref(), guidance_scale);
        };
        let others = self
            .composition
            .iter()
            .flat_map(|composition| &composition.others);
        let texts: Vec<&TextConditioning> = (std::iter::once(negative).chain(others))
            .chain(std::iter::once(&self.positive))
            .collect();
        let stack = |of: fn(&AddedConditioning) -> &Tensor<2>| {
            let parts: Option<Vec<_>> = (texts.iter())
                .map(|text| text.added.as_ref().map(|added| of(added).clone()))
                .collect();
            parts.map(|parts| Tensor::cat(parts, 0))
        };
        let added = stack(|added| &added.text_embeds).zip(stack(|added| &added.time_ids));
        let added = added.map(|(text_embeds, time_ids)| AddedConditioning {
            text_embeds,
            time_ids,
        });
        let contexts = texts.iter().map(|text| text.context.clone());
        unet.prepare(Tensor::cat(contexts.collect(), 0), added.as_ref())
    }

    /// `prepared` with the objects in all rows but the unconditional ones.
    fn ground(&self, unet: &UNet, prepared: PreparedConditioning) -> PreparedConditioning {
        let Some(objects) = &self.objects else {
            return prepared;
        };
        let mut rows = vec![objects.clone(); self.rows()];
        if self.negative.is_some() {
            rows[0] = objects.none();
        }
        unet.ground(prepared, &Objects::cat(rows))
    }

    /// The rows `keep` of the batch.
    pub(super) fn select(self, keep: &Tensor<1, Int>) -> Self {
        Self {
            positive: self.positive.select(keep),
            negative: self.negative.map(|negative| negative.select(keep)),
            composition: (self.composition).map(|composition| composition.select(keep)),
            objects: self.objects.map(|objects| objects.select(keep)),
        }
    }
}

/// What the UNet is told at each step: a prompt schedule with its texts encoded once each.
#[derive(Clone, Debug)]
pub struct ConditioningPlan {
    texts: Vec<Planned>,
    /// For each of `texts` the first one with the same positive half.
    prompts: Vec<usize>,
    /// For each of `texts` the first one with the same negative half.
    negatives: Vec<usize>,
    /// Which of `texts` holds at a step; the last entry holds for all later steps.
    steps: Vec<usize>,
    /// In how many steps, from the first on, GLIGEN's layers act.
    grounded: usize,
    /// What IP-Adapters show.
    pictures: Vec<PictureGroup>,
}

/// A conditioning with what the UNet derives from it, once that was needed.
#[derive(Clone, Debug)]
struct Planned {
    conditioning: Conditioning,
    prepared: Option<PreparedConditioning>,
    /// The same with its objects and with pictures, by what acts.
    acting: Vec<(Acting, PreparedConditioning)>,
}

impl Planned {
    /// With what acts besides the text; `pictures` are all there are.
    fn prepare(
        &mut self,
        mut acting: Acting,
        pictures: &[PictureGroup],
        unet: &UNet,
        scale: f64,
    ) -> &PreparedConditioning {
        let conditioning = &self.conditioning;
        let prepared = &mut self.prepared;
        let plain = prepared.get_or_insert_with(|| conditioning.prepare(unet, scale));
        acting.objects &= conditioning.objects.is_some();
        if acting.nothing() {
            return plain;
        }
        let known = self.acting.iter().position(|(known, _)| *known == acting);
        let index = known.unwrap_or_else(|| {
            let mut prepared = plain.clone();
            if acting.objects {
                prepared = conditioning.ground(unet, prepared);
            }
            let rows = conditioning.rows();
            let shown = acting.pictures.iter().zip(pictures);
            let shown = shown
                .filter(|(acts, _)| **acts)
                .map(|(_, group)| group.rows(rows));
            let shown: Vec<_> = shown.collect();
            if !shown.is_empty() {
                prepared = unet.show(prepared, &shown);
            }
            self.acting.push((acting, prepared));
            self.acting.len() - 1
        });
        &self.acting[index].1
    }
}

impl From<Conditioning> for Planned {
    fn from(conditioning: Conditioning) -> Self {
        Self {
            conditioning,
            prepared: None,
            acting: Vec::new(),
        }
    }
}

impl From<Conditioning> for ConditioningPlan {
    /// The same text from the first step to the last.
    fn from(conditioning: Conditioning) -> Self {
        Self {
            texts: vec![conditioning.into()],
            prompts: vec![0],
            negatives: vec![0],
            steps: vec![0],
            grounded: 0,
            pictures: Vec::new(),
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
            prompts: (0..texts.len()).collect(),
            negatives: (0..texts.len()).collect(),
            texts: texts.into_iter().map(Planned::from).collect(),
            steps,
            grounded: 0,
            pictures: Vec::new(),
        }
    }

    /// The same, where `prompts[i]` is the first text that has the same positive half as text `i`, and `negatives[i]` the first
    /// that has the same negative half. Without it no two have.
    ///
    /// # Panics
    /// If there is not one of each for each text.
    pub fn with_halves(self, prompts: Vec<usize>, negatives: Vec<usize>) -> Self {
        assert_eq!(prompts.len(), self.texts.len(), "prompts of texts");
        assert_eq!(negatives.len(), self.texts.len(), "negatives of texts");
        Self {
            prompts,
            negatives,
            ..self
        }
    }

    /// The same with GLIGEN's layers in the first `steps` steps.
    pub fn grounded_for(self, steps: usize) -> Self {
        Self {
            grounded: steps,
            ..self
        }
    }

    /// The same with pictures.
    pub fn showing(self, pictures: Vec<PictureGroup>) -> Self {
        Self { pictures, ..self }
    }

    /// What acts at `step` besides the text.
    pub(super) fn acting(&self, step: usize) -> Acting {
        Acting {
            objects: step < self.grounded,
            pictures: self
                .pictures
                .iter()
                .map(|group| group.acts_at(step))
                .collect(),
        }
    }

    pub(super) fn text(&self, step: usize) -> usize {
        self.steps[step.min(self.steps.len() - 1)]
    }

    /// Whether the positive half of `step` is the one that the run ends with.
    pub(super) fn is_final(&self, step: usize) -> bool {
        let prompt = |step| self.prompts[self.text(step)];
        prompt(step) == prompt(usize::MAX)
    }

    /// Whether the negative half of `step` is the one that the run ends with.
    pub(super) fn is_final_negative(&self, step: usize) -> bool {
        let negative = |step| self.negatives[self.text(step)];
        negative(step) == negative(usize::MAX)
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
        self.prompts.push(self.texts.len());
        self.negatives.push(self.texts.len());
        self.texts.push(conditioning.into());
    }

    /// [`Conditioning::prepare`] of what holds at `step`, once for each text.
    pub(super) fn prepare(
        &mut self,
        step: usize,
        unet: &UNet,
        guidance_scale: f64,
    ) -> &PreparedConditioning {
        let (text, acting) = (self.text(step), self.acting(step));
        self.texts[text].prepare(acting, &self.pictures, unet, guidance_scale)
    }

    /// The conditional half of the text that the run ends with, with the objects and pictures of `step`.
    pub(super) fn prepare_positive(
        &mut self,
        step: usize,
        unet: &UNet,
        guidance_scale: f64,
    ) -> PreparedConditioning {
        let conditioning = self.at(usize::MAX);
        let [pictures, _, _] = conditioning.positive.context.dims();
        let start = (conditioning.rows() - 1) * pictures;
        let (text, acting) = (self.text(usize::MAX), self.acting(step));
        let prepared = self.texts[text].prepare(acting, &self.pictures, unet, guidance_scale);
        prepared.narrow(start, pictures)
    }

    /// The rows `keep` of the batch.
    pub(super) fn select(&mut self, keep: &Tensor<1, Int>) {
        for text in &mut self.texts {
            *text = text.conditioning.clone().select(keep).into();
        }
        for group in &mut self.pictures {
            *group = group.select(keep);
        }
    }
}
