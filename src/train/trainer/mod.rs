//! The loop: batches, losses, gradients, the optimiser's steps.

mod batch;

use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use prepose_dataset::order::Order;
use prepose_models::ip_adapter::IpAdapter;
use prepose_models::training::TrainableUNet;
use prepose_models::unet::UNet;
use prepose_optimizer::clip;
use prepose_optimizer::objective::Target;
use prepose_optimizer::rule::Trained;
use prepose_optimizer::state::{self, Place};
use serde::{Deserialize, Serialize};

use super::error::TrainError;
use super::prepare::Prepared;
use super::recipe::Recipe;
use crate::engine::Engine;
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
}
