//! What a UNet is conditioned on besides sample and time.

use std::sync::atomic::{AtomicU64, Ordering};

use burn::prelude::*;
use prepose_kernels as kernels;

use crate::attention::KeyValue;
use crate::ip_adapter::PictureLayer;

/// SDXL's conditioning besides the prompt's hidden states.
#[derive(Debug, Clone)]
pub struct AddedConditioning {
    /// The pooled text embedding `[B, C]`.
    pub text_embeds: Tensor<2>,
    /// Original height and width, crop top and left, target height and width, in pixels: `[B, 6]`.
    pub time_ids: Tensor<2>,
}

/// Tells conditionings apart: clones have the same one, and so have the same samples of one conditioning, but nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConditioningId {
    whole: u64,
    /// The first sample and how many there are, if it is a part.
    part: Option<[usize; 2]>,
}

impl ConditioningId {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            whole: NEXT.fetch_add(1, Ordering::Relaxed),
            part: None,
        }
    }

    fn narrow(self, start: usize, samples: usize) -> Self {
        let [before, _] = self.part.unwrap_or_default();
        Self {
            part: Some([before + start, samples]),
            ..self
        }
    }
}

/// What [`PreparedConditioning::shapes`] gives: conditionings with the same ones fit into each other's buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConditioningShapes {
    /// Keys and values.
    layers: Vec<[[usize; 4]; 2]>,
    objects: bool,
    /// How many pictures each layer has.
    pictures: Option<Vec<usize>>,
    masks: Vec<Option<[usize; 4]>>,
    added: Option<[usize; 2]>,
    guidance: Option<[usize; 2]>,
}

/// All that a UNet derives from its conditioning and that no timestep changes: the keys and values
/// of every cross-attention layer and the embedding of SDXL's added conditioning. Made once per
/// prompt by [`UNet::prepare`](super::UNet::prepare).
#[derive(Debug, Clone)]
pub struct PreparedConditioning {
    pub(super) id: ConditioningId,
    pub(super) context: Vec<KeyValue>,
    /// Those of the objects that GLIGEN's layers attend to, one a transformer block; none where they are off.
    pub(super) objects: Option<Vec<KeyValue>>,
    /// Those of pictures, several for each cross-attention layer; none without pictures.
    pub(super) pictures: Option<Vec<Vec<PictureLayer>>>,
    /// The embedding of SDXL's added conditioning, `[B, T]`, f32.
    pub(super) added: Option<Tensor<2>>,
    /// The embedded guidance scale of a distilled network, `[1, time_cond_proj_dim]`, f32.
    pub(super) guidance: Option<Tensor<2>>,
}

impl PreparedConditioning {
    /// The conditioning of the samples `start..start + samples` of the batch, such as the half with
    /// the prompt of a batch that also has one without.
    ///
    /// # Panics
    /// If the batch has fewer samples.
    pub fn narrow(&self, start: usize, samples: usize) -> Self {
        let narrow = |layers: &Vec<KeyValue>| {
            layers
                .iter()
                .map(|layer| layer.narrow(start, samples))
                .collect()
        };
        Self {
            // A guided pass narrows the same conditioning at every step, and graphs need not be told again.
            id: self.id.narrow(start, samples),
            context: narrow(&self.context),
            objects: self.objects.as_ref().map(narrow),
            pictures: self.map_pictures(|x| x.clone().narrow(0, start, samples)),
            added: (self.added.clone()).map(|added| added.narrow(0, start, samples)),
            guidance: self.guidance.clone(),
        }
    }

    /// The same without objects: what the network is without GLIGEN's layers.
    pub fn without_objects(&self) -> Self {
        Self {
            id: ConditioningId::new(),
            objects: None,
            ..self.clone()
        }
    }

    /// The same with SDXL's added conditioning of the first samples of `other`.
    pub fn with_added(&self, other: &Self) -> Self {
        let rows = self.added.as_ref().map_or(0, |added| added.dims()[0]);
        let added = other.added.as_ref();
        Self {
            id: ConditioningId::new(),
            added: added.map(|added| added.clone().narrow(0, 0, rows)),
            ..self.clone()
        }
    }

    /// Whether objects are told to GLIGEN's layers.
    pub fn has_objects(&self) -> bool {
        self.objects.is_some()
    }

    /// The pictures from other tensors.
    fn map_pictures(
        &self,
        change: impl Fn(&Tensor<4>) -> Tensor<4>,
    ) -> Option<Vec<Vec<PictureLayer>>> {
        let layers = self.pictures.as_ref()?.iter();
        let change =
            |layer: &Vec<PictureLayer>| layer.iter().map(|picture| picture.map(&change)).collect();
        Some(layers.map(change).collect())
    }

    /// A new conditioning from the tensors of this one.
    pub(super) fn map(
        &self,
        wide: impl Fn(&Tensor<4>) -> Tensor<4>,
        flat: impl Fn(&Tensor<2>) -> Tensor<2>,
    ) -> Self {
        let map = |layer: &KeyValue| KeyValue {
            key: wide(&layer.key),
            value: wide(&layer.value),
        };
        let map_all = |layers: &Vec<KeyValue>| layers.iter().map(map).collect();
        Self {
            id: ConditioningId::new(),
            context: map_all(&self.context),
            objects: self.objects.as_ref().map(map_all),
            pictures: self.map_pictures(&wide),
            added: self.added.as_ref().map(&flat),
            guidance: self.guidance.as_ref().map(&flat),
        }
    }

    /// The keys and values of the text, then those of the objects, then those of the pictures.
    pub(super) fn layers(&self) -> impl Iterator<Item = &KeyValue> {
        let pictures = self.pictures.iter().flatten().flatten();
        (self.context.iter())
            .chain(self.objects.iter().flatten())
            .chain(pictures.map(|picture| &picture.context))
    }

    /// The masks of the pictures.
    fn masks(&self) -> impl Iterator<Item = Option<&Tensor<4>>> {
        let pictures = self.pictures.iter().flatten().flatten();
        pictures.map(|picture| picture.mask.as_ref())
    }

    /// The shapes of its tensors, and which of them there are.
    pub(super) fn shapes(&self) -> ConditioningShapes {
        let pictures = self.pictures.as_ref().map(|layers| layers.iter());
        let layer = |layer: &KeyValue| [layer.key.dims(), layer.value.dims()];
        ConditioningShapes {
            layers: self.layers().map(layer).collect(),
            objects: self.objects.is_some(),
            pictures: pictures.map(|layers| layers.map(Vec::len).collect()),
            masks: self.masks().map(|mask| mask.map(Tensor::dims)).collect(),
            added: self.added.as_ref().map(Tensor::dims),
            guidance: self.guidance.as_ref().map(Tensor::dims),
        }
    }

    /// Puts the other's numbers into the buffers of this one, which has the same shapes.
    pub(super) fn overwrite(&mut self, other: &Self) {
        let mine = self
            .context
            .iter_mut()
            .chain(self.objects.iter_mut().flatten());
        let (mut pictures, mut masks) = (Vec::new(), Vec::new());
        for PictureLayer { context, mask } in self.pictures.iter_mut().flatten().flatten() {
            pictures.push(context);
            masks.push(mask);
        }
        for (mine, theirs) in mine.chain(pictures).zip(other.layers()) {
            kernels::overwrite(&mut mine.key, theirs.key.clone());
            kernels::overwrite(&mut mine.value, theirs.value.clone());
        }
        for (mine, theirs) in masks.into_iter().zip(other.masks()) {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                kernels::overwrite(mine, theirs.clone());
            }
        }
        let flat = [
            (&mut self.added, &other.added),
            (&mut self.guidance, &other.guidance),
        ];
        for (mine, theirs) in flat {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                kernels::overwrite(mine, theirs.clone());
            }
        }
        self.id = other.id;
    }
}
