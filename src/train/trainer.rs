//! The loop: batches, losses, gradients, the optimiser's steps.

use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use prepose_dataset::order::Order;
use prepose_models::training::TrainableUNet;
use prepose_models::unet::{AddedConditioning, Objects, UNet};
use prepose_optimizer::clip;
use prepose_optimizer::draws::Purpose;
use prepose_optimizer::objective::{Target, error, noisy_parts};
use prepose_optimizer::rule::Trained;
use prepose_optimizer::state::{self, Place};
use serde::{Deserialize, Serialize};

use super::error::TrainError;
use super::prepare::Prepared;
use super::recipe::{Kind, Recipe};
use crate::engine::Engine;
use crate::sampling::noise::{NoiseKind, NoiseSource};
use crate::sampling::schedulers::Prediction;

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// From 1.
    pub step: u64,
    /// The mean over the step's samples.
    pub loss: f64,
    /// The learning rate.
    pub rate: f64,
    /// The gradient's length before it was clipped.
    pub norm: f64,
    /// Samples that were trained on.
    pub samples: usize,
}

/// A training between two steps.
pub struct Trainer<'a> {
    recipe: &'a Recipe,
    data: &'a Prepared,
    unet: TrainableUNet,
    device: Device,
    trained: Vec<Trained>,
    averages: Vec<Vec<f32>>,
    place: Place,
    order: Order,
    /// The epoch whose batches are at hand.
    epoch: Option<(u64, Vec<Vec<usize>>)>,
    target: Target,
    alphas: Vec<f64>,
    /// Shift and scale of latents.
    scaling: [f64; 2],
}

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
    latent: [usize; 3],
    text: [usize; 2],
}

impl<'a> Trainer<'a> {
    /// A training before its first step.
    ///
    /// # Errors
    /// A checkpoint that cannot be trained.
    pub fn new(
        recipe: &'a Recipe,
        data: &'a Prepared,
        engine: &Engine,
        unet: TrainableUNet,
    ) -> Result<Self, TrainError> {
        let schedule = engine.noise_schedule()?;
        let target = match schedule.prediction() {
            Prediction::Epsilon => Target::Epsilon,
            Prediction::V => Target::Velocity,
            Prediction::Sample => return Err(TrainError::Prediction),
        };
        let values = unet.values();
        let parameters = unet.parameters().iter().zip(values);
        let trained: Vec<Trained> = parameters
            .map(|(parameter, value)| {
                let value = value.into_data().iter::<f32>().collect();
                Trained::new(&recipe.optimizer, &parameter.name, &parameter.shape, value)
            })
            .collect();
        let averages = match recipe.average {
            Some(_) => trained.iter().map(|tensor| tensor.values.clone()).collect(),
            None => Vec::new(),
        };
        Ok(Self {
            recipe,
            data,
            device: engine.device().clone(),
            trained,
            averages,
            place: Place::default(),
            order: Order::new(recipe.seed, recipe.batch, data.sizes()),
            epoch: None,
            target,
            alphas: schedule
                .alphas_cumprod()
                .iter()
                .map(|alpha| f64::from(*alpha))
                .collect(),
            scaling: engine.latent_scaling(),
            unet,
        })
    }

    /// How far it is.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Steps of the optimiser in an epoch, at least 1.
    pub fn steps_per_epoch(&self) -> u64 {
        (self.order.batches() as u64)
            .div_ceil(self.recipe.accumulate as u64)
            .max(1)
    }

    /// What is trained, as it is now.
    pub fn trained(&self) -> &[Trained] {
        &self.trained
    }

    /// The values to be used: the average where there is one.
    pub fn values(&self) -> Vec<&[f32]> {
        match self.averages.is_empty() {
            true => self.trained.iter().map(|tensor| &*tensor.values).collect(),
            false => self.averages.iter().map(|average| &**average).collect(),
        }
    }

    /// The network with the values to be used.
    pub fn network(&self) -> UNet {
        let values = self.values().into_iter().map(|values| self.row(values));
        self.unet.network_with(values.collect())
    }

    /// The layers of a LoRA, with their alphas.
    pub fn unet(&self) -> &TrainableUNet {
        &self.unet
    }

    fn row(&self, values: &[f32]) -> Tensor<1> {
        Tensor::from_data(
            TensorData::new(values.to_vec(), [values.len()]),
            &self.device,
        )
    }

    /// Takes up the state in a file.
    ///
    /// # Errors
    /// It is not this training's.
    pub fn resume(&mut self, path: &Path) -> Result<(), TrainError> {
        self.place = state::load(path, &mut self.trained, &mut self.averages)?;
        self.update();
        Ok(())
    }

    /// Writes the state to a file: the new one is there whole, or the one before.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), TrainError> {
        Ok(state::save(
            path,
            &self.place,
            &self.trained,
            &self.averages,
        )?)
    }

    /// Brings the values to the device.
    fn update(&mut self) {
        let values = self.trained.iter().map(|tensor| self.row(&tensor.values));
        self.unet.set_values(values.collect());
    }

    /// One step of the optimiser. Where it fails nothing has changed.
    ///
    /// # Errors
    /// [`TrainError::NotFinite`] with the sample at which it happened; `kept` and `path` are of the last state.
    pub fn step(&mut self, kept: u64, path: &Path) -> Result<Step, TrainError> {
        let step = self.place.step + 1;
        let not_finite = |loss: f64, sample: String| TrainError::NotFinite {
            step,
            loss,
            sample,
            kept,
            path: path.to_owned(),
        };
        let accumulate = self.recipe.accumulate as u64;
        let mut sum: Vec<Vec<f32>> = Vec::new();
        let (mut loss, mut samples, mut names) = (0.0, 0, Vec::new());
        for micro in 0..accumulate {
            let number = self.place.batch + micro;
            let items = self.items(number);
            let (losses, gradients) = self.gradients(number, &items)?;
            for (value, item) in losses.iter().zip(&items) {
                if !value.is_finite() {
                    return Err(not_finite(*value, self.data.name(*item).to_owned()));
                }
                loss += value;
            }
            samples += items.len();
            names.extend(items.iter().map(|item| self.data.name(*item).to_owned()));
            if sum.is_empty() {
                sum = gradients;
            } else {
                for (sum, gradient) in sum.iter_mut().zip(gradients) {
                    sum.iter_mut().zip(gradient).for_each(|(sum, g)| *sum += g);
                }
            }
        }
        let norm = clip::norm(sum.iter().map(Vec::as_slice));
        if !norm.is_finite() {
            return Err(not_finite(
                norm,
                format!("the gradient of {}", names.join(", ")),
            ));
        }
        let factor = match self.recipe.clip > 0.0 {
            true => clip::factor(norm, self.recipe.clip) as f32,
            false => 1.0,
        };
        if factor < 1.0 {
            sum.iter_mut().flatten().for_each(|g| *g *= factor);
        }
        let rate = self.recipe.rate.at(self.place.step, self.recipe.steps);
        self.recipe
            .optimizer
            .step_all(&mut self.trained, &sum, rate, step);
        if let Some(average) = self.recipe.average {
            for (shadow, tensor) in self.averages.iter_mut().zip(&self.trained) {
                average.update(shadow, &tensor.values, step);
            }
        }
        self.place = Place {
            step,
            batch: self.place.batch + accumulate,
        };
        self.update();
        Ok(Step {
            step,
            loss: loss / samples.max(1) as f64,
            rate,
            norm,
            samples,
        })
    }

    /// The items of the batch with this number.
    fn items(&mut self, number: u64) -> Vec<usize> {
        let batches = self.order.batches().max(1) as u64;
        let epoch = number / batches;
        if self.epoch.as_ref().is_none_or(|(known, _)| *known != epoch) {
            self.epoch = Some((epoch, self.order.epoch(epoch)));
        }
        let at = (number % batches) as usize;
        let known = self.epoch.as_ref();
        known.map_or_else(Vec::new, |(_, batches)| batches[at].clone())
    }

    /// The losses of a batch's samples and the gradients of their mean, divided by the batches of a step.
    fn gradients(
        &self,
        number: u64,
        items: &[usize],
    ) -> Result<(Vec<f64>, Vec<Vec<f32>>), TrainError> {
        let mut batch = Batch::default();
        for (at, item) in items.iter().enumerate() {
            // Of batches there are fewer than 2⁴⁰, of samples in one fewer than 2²⁴.
            self.add(&mut batch, *item, (number << 24) | at as u64)?;
        }
        let count = items.len();
        let [channels, height, width] = batch.latent;
        let shape = [count, channels, height, width];
        let noisy = Tensor::from_data(TensorData::new(batch.noisy, shape), &self.device);
        let [tokens, states] = batch.text;
        let context = TensorData::new(batch.contexts, [count, tokens, states]);
        let context = Tensor::from_data(context, &self.device);
        let added = (!batch.pooled.is_empty()).then(|| {
            let pooled = TensorData::new(batch.pooled.clone(), [count, batch.pooled.len() / count]);
            let ids = TensorData::new(batch.time_ids, [count, 6]);
            AddedConditioning {
                text_embeds: Tensor::from_data(pooled, &self.device),
                time_ids: Tensor::from_data(ids, &self.device),
            }
        });
        let objects = self.objects(number, items)?;
        let prediction = self.unet.forward_grounded(
            noisy,
            &batch.timesteps,
            context,
            added.as_ref(),
            objects.as_ref(),
        );
        let said: Vec<f32> = prediction
            .clone()
            .inner()
            .into_data()
            .iter::<f32>()
            .collect();
        let mut losses = Vec::with_capacity(count);
        let mut cotangent = Vec::with_capacity(said.len());
        let rows = said
            .chunks_exact(channels * height * width)
            .zip(&batch.targets);
        for ((row, target), factor) in rows.zip(&batch.factors) {
            let samples = count * self.recipe.accumulate;
            let (loss, gradient) = error(row, target, *factor, samples);
            losses.push(loss);
            cotangent.extend(gradient);
        }
        if losses.iter().any(|loss| !loss.is_finite()) {
            return Ok((losses, Vec::new()));
        }
        let cotangent = Tensor::<4>::from_data(TensorData::new(cotangent, shape), &self.device);
        // Its gradient to the prediction is the cotangent.
        let mut tape = (prediction * cotangent).sum().backward();
        let gradients = self.unet.gradients(&mut tape).into_iter();
        let gradients = gradients.map(|gradient| gradient.into_data().iter::<f32>().collect());
        Ok((losses, gradients.collect()))
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

    /// Adds an item to a batch; everything that is drawn for it depends on `number`.
    fn add(&self, batch: &mut Batch, item: usize, number: u64) -> Result<(), TrainError> {
        let Recipe { seed, .. } = *self.recipe;
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
        let dropped = seed.uniform(Purpose::Dropout, number) < self.recipe.dropout;
        let told = self.data.told((!dropped).then_some(item))?;
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
        Ok(())
    }
}
