//! A batch: what it is made of, and its losses and gradients.

use std::ops::Range;

use burn::tensor::{Device, Tensor, TensorData};
use prepose_models::training::{self, PartLoss};
use prepose_models::unet::{AddedConditioning, Objects};
use prepose_optimizer::draws::Purpose;
use prepose_optimizer::objective::{error, noisy_parts};
use prepose_optimizer::scale::Scale;
use rayon::prelude::*;

use super::super::error::TrainError;
use super::super::recipe::{Beside, Kind, Recipe};
use super::Trainer;
use crate::sampling::noise::{NoiseKind, NoiseSource};

/// A batch as the network reads it, on the host.
#[derive(Default)]
struct Batch {
    noisy: Vec<f32>,
    targets: Vec<Vec<f32>>,
    factors: Vec<f64>,
    timesteps: Vec<f64>,
    contexts: Vec<f32>,
    pooled: Vec<f32>,
    time_ids: Vec<f32>,
    /// What a picture encoder says of what is shown.
    shown: Vec<f32>,
    latent: [usize; 3],
    text: [usize; 2],
    /// Rows and channels of what is shown.
    features: [usize; 2],
}

impl Batch {
    /// The samples of `other` after those that there are.
    fn append(&mut self, other: Self) {
        self.noisy.extend(other.noisy);
        self.targets.extend(other.targets);
        self.factors.extend(other.factors);
        self.timesteps.extend(other.timesteps);
        self.contexts.extend(other.contexts);
        self.pooled.extend(other.pooled);
        self.time_ids.extend(other.time_ids);
        self.shown.extend(other.shown);
        self.latent = other.latent;
        self.text = other.text;
        self.features = other.features;
    }

    /// SDXL's other conditions.
    fn added(&self, device: &Device) -> Option<AddedConditioning> {
        let count = self.timesteps.len();
        (!self.pooled.is_empty()).then(|| {
            let pooled = TensorData::new(self.pooled.clone(), [count, self.pooled.len() / count]);
            let ids = TensorData::new(self.time_ids.clone(), [count, 6]);
            AddedConditioning {
                text_embeds: Tensor::from_data(pooled, device),
                time_ids: Tensor::from_data(ids, device),
            }
        })
    }
}

impl Trainer<'_> {
    /// The losses of a batch's samples and the gradients of their mean, divided by the batches of a step, times the scale if
    /// there is one.
    pub(super) fn gradients(
        &self,
        number: u64,
        items: &[usize],
    ) -> Result<(Vec<f64>, Vec<Vec<f32>>), TrainError> {
        // Of batches there are fewer than 2⁴⁰, of samples in one fewer than 2²⁴.
        let sample = |(at, item): (usize, &usize)| self.sample(*item, (number << 24) | at as u64);
        let samples = items.par_iter().enumerate().map(sample);
        let samples: Vec<Batch> = samples.collect::<Result<_, _>>()?;
        let mut batch = Batch::default();
        samples.into_iter().for_each(|sample| batch.append(sample));
        let count = items.len();
        let added = batch.added(&self.device);
        let [channels, height, width] = batch.latent;
        let shape = [count, channels, height, width];
        let noisy = Tensor::from_data(TensorData::new(batch.noisy, shape), &self.device);
        let [tokens, states] = batch.text;
        let context = TensorData::new(batch.contexts, [count, tokens, states]);
        let context = Tensor::from_data(context, &self.device);
        let objects = self.objects(number, items)?;
        let shown = (!batch.shown.is_empty()).then(|| {
            let [rows, channels] = batch.features;
            let shown = TensorData::new(batch.shown, [count, rows, channels]);
            Tensor::from_data(shown, &self.device)
        });
        let told = training::Batch {
            added: added.as_ref(),
            objects: objects.as_ref(),
            shown,
            ..training::Batch::new(noisy, &batch.timesteps, context)
        };
        let scale = self.place.scale.map_or(1.0, Scale::factor);
        let samples = count * self.recipe.accumulate;
        let follow = |part: Range<usize>, prediction: &Tensor<4>| {
            let said: Vec<f32> = prediction.clone().into_data().iter::<f32>().collect();
            let mut losses = Vec::with_capacity(part.len());
            let mut cotangent = Vec::with_capacity(said.len());
            let rows = said.chunks_exact(channels * height * width);
            for (row, at) in rows.zip(part) {
                let (loss, gradient) = error(row, &batch.targets[at], batch.factors[at], samples);
                losses.push(loss);
                cotangent.extend(gradient.into_iter().map(|g| g * scale));
            }
            let cotangent = TensorData::new(cotangent, prediction.dims());
            PartLoss {
                result: losses,
                cotangent: Tensor::from_data(cotangent, &self.device),
            }
        };
        let (losses, gradients) = self.unet.gradients(&told, self.memory, follow);
        let gradients = gradients.into_iter();
        let gradients = gradients.map(|gradient| gradient.into_data().iter::<f32>().collect());
        Ok((losses.concat(), gradients.collect()))
    }

    /// What GLIGEN's layers are told of the batch with this number, if it is they that are trained. As with their authors, none
    /// or all of a batch's pictures are without objects.
    fn objects(&self, number: u64, items: &[usize]) -> Result<Option<Objects>, TrainError> {
        let Kind::Gligen { grounding_dropout } = self.recipe.kind else {
            return Ok(None);
        };
        let width = self.unet.config().object_width().unwrap_or(0);
        let mut rows = Vec::with_capacity(items.len());
        for item in items {
            let mut placed = Vec::new();
            for object in self.data.placed(*item) {
                let state = self.data.phrase(&object.phrase)?;
                placed.push((self.row(&state), object.corners));
            }
            rows.push(Objects::new(&placed, width, &self.device));
        }
        let objects = Objects::cat(rows);
        let dropped = self.recipe.seed.uniform(Purpose::Grounding, number) < grounding_dropout;
        Ok(Some(if dropped { objects.none() } else { objects }))
    }

    /// An item as a batch of its own; everything that is drawn for it depends on `number`.
    fn sample(&self, item: usize, number: u64) -> Result<Batch, TrainError> {
        let Recipe { seed, .. } = *self.recipe;
        let mut batch = Batch::default();
        let moments = self.data.moments(item)?;
        let normal = |purpose, count| {
            NoiseSource::new(NoiseKind::Philox, seed.bits(purpose, number)).randn(count)
        };
        let length = moments.mean.len();
        let [shift, scale] = self.scaling.map(|value| value as f32);
        let posterior = normal(Purpose::Posterior, length);
        let both = moments.mean.iter().zip(&moments.deviation).zip(posterior);
        let clean: Vec<f32> = both
            .map(|((mean, deviation), normal)| (mean + deviation * normal - shift) * scale)
            .collect();
        let mut noise = normal(Purpose::Noise, length);
        let channels = moments.shape[0];
        if self.recipe.offset > 0.0 {
            let offsets = normal(Purpose::Offset, channels);
            for (plane, offset) in noise.chunks_exact_mut(length / channels).zip(offsets) {
                let offset = self.recipe.offset as f32 * offset;
                plane.iter_mut().for_each(|value| *value += offset);
            }
        }
        let timestep = self.recipe.timesteps.draw(seed, number, self.alphas.len());
        let alpha = self.alphas[timestep];
        let mixed = |[clean_part, noise_part]: [f32; 2]| {
            let both = clean.iter().zip(&noise);
            both.map(move |(clean, noise)| clean_part * clean + noise_part * noise)
        };
        batch.noisy.extend(mixed(noisy_parts(alpha)));
        batch
            .targets
            .push(mixed(self.target.parts(alpha)).collect());
        batch
            .factors
            .push(self.recipe.weighting.factor(self.target, alpha));
        batch.timesteps.push(timestep as f64);
        batch.latent = moments.shape;
        let left_out = self.recipe.left_out(seed.uniform(Purpose::Dropout, number));
        let told = self.data.told((!left_out.caption).then_some(item))?;
        if self.recipe.kind.beside() == Beside::Shown {
            let (shape, features) = self.data.shown((!left_out.picture).then_some(item))?;
            batch.features = shape;
            batch.shown.extend(features);
        }
        batch.text = told.shape;
        batch.contexts.extend(told.context);
        if let Some(pooled) = told.pooled {
            batch.pooled.extend(pooled);
            let (original, fit) = (self.data.original(item), self.data.fit(item));
            // SDXL: the size as it was, top and left of the crop, and the size that is trained; height first.
            let ids = [
                original,
                [fit.offset[1], fit.offset[0]],
                [fit.size[1], fit.size[0]],
            ];
            batch
                .time_ids
                .extend(ids.as_flattened().iter().map(|id| *id as f32));
        }
        Ok(batch)
    }
}
