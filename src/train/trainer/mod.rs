//! The loop: batches, losses, gradients, the optimiser's steps.

mod batch;

use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use prepose_dataset::order::Order;
use prepose_models::ip_adapter::IpAdapter;
use prepose_models::training::TrainableUNet;
use prepose_models::unet::{Memory, UNet};
use prepose_optimizer::clip;
use prepose_optimizer::objective::Target;
use prepose_optimizer::rule::Trained;
use prepose_optimizer::scale::Scale;
use prepose_optimizer::state::{self, Place};
use serde::{Deserialize, Serialize};

use super::error::TrainError;
use super::prepare::Prepared;
use super::recipe::Recipe;
use crate::dtype::Dtype;
use crate::engine::Engine;
use crate::sampling::schedulers::Prediction;

/// Where gradients are not finite with this scale of the loss, two to this power, it is not the scale.
const LEAST_SCALE: i32 = -14;

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// From 1.
    pub step: u64,
    /// The mean over the step's samples.
    pub loss: f64,
    /// The learning rate.
    pub rate: f64,
    /// The gradient's length before it was clipped; 0 where it was not finite and moved nothing.
    pub norm: f64,
    /// Samples that were trained on.
    pub samples: usize,
    /// What the loss was multiplied with, where the network computes in f16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f32>,
}

/// A training between two steps.
pub struct Trainer<'a> {
    recipe: &'a Recipe,
    data: &'a Prepared,
    unet: TrainableUNet,
    /// What a pass keeps for its gradient.
    memory: Memory,
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

impl<'a> Trainer<'a> {
    /// A training before its first step. `memory` changes what it takes, and nothing that comes out.
    ///
    /// # Errors
    /// A checkpoint that cannot be trained.
    pub fn new(
        recipe: &'a Recipe,
        data: &'a Prepared,
        engine: &Engine,
        unet: TrainableUNet,
        memory: Memory,
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
            place: Place {
                scale: (recipe.dtype == Dtype::F16).then(Scale::default),
                ..Place::default()
            },
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
            memory,
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

    /// The adapter with the values to be used, if it is one that is trained.
    pub fn adapter(&self) -> Option<IpAdapter> {
        let values = self.values().into_iter().map(|values| self.row(values));
        self.unet.adapter_with(values.collect())
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
        let scale = self.place.scale;
        let factor = scale.map(Scale::factor);
        if let Some(factor) = factor {
            sum.iter_mut().flatten().for_each(|g| *g /= factor);
        }
        let norm = clip::norm(sum.iter().map(Vec::as_slice));
        let finite = norm.is_finite();
        if !finite && scale.is_none_or(|scale| scale.exponent <= LEAST_SCALE) {
            let names = names.join(", ");
            return Err(not_finite(norm, format!("the gradient of {names}")));
        }
        let place = Place {
            step,
            batch: self.place.batch + accumulate,
            skipped: self.place.skipped + u64::from(!finite),
            scale: scale.map(|scale| scale.after(finite)),
        };
        // Steps that move nothing do not count for the rate or the optimiser.
        let moved = step - place.skipped;
        let rate = (self.recipe.rate).at(moved.saturating_sub(1), self.recipe.steps);
        if finite {
            self.move_by(sum, norm, rate, moved);
        }
        self.place = place;
        Ok(Step {
            step,
            loss: loss / samples.max(1) as f64,
            rate: if finite { rate } else { 0.0 },
            norm: if finite { norm } else { 0.0 },
            samples,
            scale: factor,
        })
    }

    /// Moves what is trained, for the time `step`, by gradients of this length.
    fn move_by(&mut self, mut gradients: Vec<Vec<f32>>, norm: f64, rate: f64, step: u64) {
        let factor = match self.recipe.clip > 0.0 {
            true => clip::factor(norm, self.recipe.clip) as f32,
            false => 1.0,
        };
        if factor < 1.0 {
            gradients.iter_mut().flatten().for_each(|g| *g *= factor);
        }
        let optimizer = &self.recipe.optimizer;
        optimizer.step_all(&mut self.trained, &gradients, rate, step);
        if let Some(average) = self.recipe.average {
            for (shadow, tensor) in self.averages.iter_mut().zip(&self.trained) {
                average.update(shadow, &tensor.values, step);
            }
        }
        self.update();
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
}
