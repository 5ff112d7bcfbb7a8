//! The classifier's own training: small, on maps that are there.

use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use prepose_models::steer::{CELLS, SteerNet, cross_entropy};
use prepose_optimizer::AdamW;
use prepose_optimizer::clip;
use prepose_optimizer::draws::{Draws, Purpose};
use prepose_optimizer::rate::{Decay, Rate};
use prepose_optimizer::rule::{Rule, Trained};
use prepose_optimizer::state::{self, Place};
use prepose_weights::steer::{SteerConfig, SteerFile};

use super::maps::Mapping;
use super::{SteerRecipe, Tried};
use crate::train::error::TrainError;
use crate::train::trainer::Step;

/// Samples that are tried at a time.
const TOGETHER: usize = 64;

/// A picture's maps at one timestep, under one of its two words.
#[derive(Clone, Copy)]
struct Sample {
    picture: usize,
    /// Of the picture's maps.
    row: usize,
}

/// A training between two steps.
pub(super) struct Fit<'a> {
    recipe: &'a SteerRecipe,
    config: &'a SteerConfig,
    mapping: &'a Mapping,
    device: Device,
    rule: Rule,
    rate: Rate,
    trained: Vec<Trained>,
    place: Place,
    samples: Vec<Sample>,
    tried: Vec<usize>,
    epoch: Option<(u64, Vec<usize>)>,
}

/// The first values of a tensor: 1 and 0 of norms, 0 of biases, weights uniform in ±1/√inputs, and all others uniform with a
/// standard deviation of 0.02.
fn first(name: &str, shape: &[usize], draws: Draws, number: u64) -> Vec<f32> {
    let length: usize = shape.iter().product();
    if name.contains("norm") {
        let value = f32::from(name.ends_with("weight"));
        return vec![value; length];
    }
    if name.ends_with("bias") {
        return vec![0.0; length];
    }
    let own = Draws(draws.bits(Purpose::Start, number));
    let spread = match shape {
        [_, inputs] if name.ends_with("weight") => 1.0 / (*inputs as f64).sqrt(),
        _ => 0.02 * 3f64.sqrt(),
    };
    let value = |at| (2.0 * own.uniform(Purpose::Start, at) - 1.0) * spread;
    (0..length as u64).map(|at| value(at) as f32).collect()
}

impl<'a> Fit<'a> {
    /// Before the first step; pictures that are `tried` are not trained on.
    pub fn new(
        recipe: &'a SteerRecipe,
        config: &'a SteerConfig,
        mapping: &'a Mapping,
        tried: &[bool],
        device: &Device,
    ) -> Self {
        let rule = Rule::AdamW(AdamW {
            weight_decay: recipe.weight_decay,
            ..AdamW::default()
        });
        let parameters = SteerFile::parameters(config).into_iter().enumerate();
        let trained = parameters.map(|(number, (name, shape))| {
            let values = first(&name, &shape, recipe.seed, number as u64);
            Trained::new(&rule, name, &shape, values)
        });
        let kinds = if recipe.wrong_words { 2 } else { 1 };
        let rows = kinds * recipe.timesteps.len();
        let (held, learned): (Vec<usize>, Vec<usize>) =
            (0..tried.len()).partition(|picture| tried[*picture]);
        let samples = learned
            .into_iter()
            .flat_map(|picture| (0..rows).map(move |row| Sample { picture, row }));
        Self {
            recipe,
            config,
            mapping,
            device: device.clone(),
            trained: trained.collect(),
            rule,
            rate: Rate {
                peak: recipe.rate,
                warmup: 0,
                decay: Decay::Cosine,
            },
            place: Place::default(),
            samples: samples.collect(),
            tried: held,
            epoch: None,
        }
    }

    pub fn place(&self) -> Place {
        self.place
    }

    /// Samples in an epoch.
    pub fn samples(&self) -> usize {
        self.samples.len()
    }

    /// Numbers that are trained.
    pub fn parameters(&self) -> usize {
        self.trained.iter().map(|tensor| tensor.values.len()).sum()
    }

    pub fn values(&self) -> Vec<Vec<f32>> {
        self.trained.iter().map(|one| one.values.clone()).collect()
    }

    pub fn resume(&mut self, path: &Path) -> Result<(), TrainError> {
        self.place = state::load(path, &mut self.trained, &mut [])?;
        Ok(())
    }

    pub fn save(&self, path: &Path) -> Result<(), TrainError> {
        Ok(state::save(path, &self.place, &self.trained, &[])?)
    }

    fn net(&self, tracked: bool) -> (SteerNet, Vec<Tensor<1>>) {
        let tensor = |one: &Trained| {
            let data = TensorData::new(one.values.clone(), [one.values.len()]);
            let values = Tensor::<1>::from_data(data, &self.device);
            match tracked {
                true => values.autodiff().require_grad(),
                false => values,
            }
        };
        let values: Vec<Tensor<1>> = self.trained.iter().map(tensor).collect();
        let parameters = SteerFile::parameters(self.config);
        let net = SteerNet::new(&self.recipe.size, &parameters, values.clone());
        (net, values)
    }

    /// The samples of the next step.
    fn batch(&mut self) -> Vec<Sample> {
        let count = self.samples.len() as u64;
        let first = self.place.batch * self.recipe.batch as u64;
        let numbers = first..first + self.recipe.batch as u64;
        let mut batch = Vec::with_capacity(self.recipe.batch);
        for number in numbers {
            let epoch = number / count;
            if self.epoch.as_ref().is_none_or(|(known, _)| *known != epoch) {
                let seed = self.recipe.seed;
                let order = seed.shuffled(Purpose::Order, epoch, self.samples.len());
                self.epoch = Some((epoch, order));
            }
            if let Some((_, order)) = &self.epoch {
                batch.push(self.samples[order[(number % count) as usize]]);
            }
        }
        batch
    }

    /// Maps `[B, 2, maps, CELLS]` of samples with their steps.
    fn read(&self, batch: &[Sample]) -> Result<(Tensor<4>, Vec<usize>), TrainError> {
        let levels = self.recipe.timesteps.len();
        let mut values = Vec::new();
        for sample in batch {
            values.extend(self.mapping.rows(sample.picture, &[sample.row])?.concat());
        }
        let count = values.len() / (2 * CELLS * batch.len());
        let data = TensorData::new(values, [batch.len(), 2, count, CELLS]);
        let steps = batch.iter().map(|sample| sample.row % levels).collect();
        Ok((Tensor::from_data(data, &self.device), steps))
    }

    fn class(&self, sample: &Sample) -> usize {
        self.mapping.pictures[sample.picture].shown.class
    }

    /// One step of the optimiser. Where it fails nothing has changed.
    pub fn step(&mut self, kept: u64, path: &Path) -> Result<Step, TrainError> {
        let step = self.place.step + 1;
        let batch = self.batch();
        let (maps, steps) = self.read(&batch)?;
        let classes: Vec<usize> = batch.iter().map(|sample| self.class(sample)).collect();
        let (net, leaves) = self.net(true);
        let (share, mut drawn) = (self.recipe.dropout, 0u64);
        let own = Draws(self.recipe.seed.bits(Purpose::Dropout, step));
        let mut dropout = |count: usize| {
            let kept = (1.0 / (1.0 - share)) as f32;
            let factors = (drawn..drawn + count as u64).map(|number| {
                match own.uniform(Purpose::Dropout, number) < share {
                    true => 0.0,
                    false => kept,
                }
            });
            drawn += count as u64;
            factors.collect()
        };
        let dropout: Option<prepose_models::steer::Dropout> = match share > 0.0 {
            true => Some(&mut dropout),
            false => None,
        };
        let scores = net.forward(maps, &steps, dropout);
        let loss = cross_entropy(scores, &classes).mean();
        let value = f64::from(loss.clone().into_scalar::<f32>());
        let mut gradients = loss.backward();
        let gradients = leaves
            .iter()
            .map(|leaf| match leaf.grad_remove(&mut gradients) {
                Some(gradient) => gradient.into_data().iter::<f32>().collect(),
                None => vec![0.0; leaf.dims()[0]],
            });
        let mut gradients: Vec<Vec<f32>> = gradients.collect();
        let norm = clip::norm(gradients.iter().map(Vec::as_slice));
        if !value.is_finite() || !norm.is_finite() {
            let names = batch.iter().map(|sample| {
                let file = &self.mapping.pictures[sample.picture].shown.file;
                file.display().to_string()
            });
            return Err(TrainError::NotFinite {
                step,
                loss: value,
                sample: names.take(3).collect::<Vec<_>>().join(", "),
                kept,
                path: path.to_owned(),
            });
        }
        let factor = clip::factor(norm, 1.0) as f32;
        if factor < 1.0 {
            gradients.iter_mut().flatten().for_each(|g| *g *= factor);
        }
        let rate = self.rate.at(self.place.step, self.recipe.steps);
        (self.rule).step_all(&mut self.trained, &gradients, rate, step);
        self.place = Place {
            step,
            batch: self.place.batch + 1,
            ..self.place
        };
        Ok(Step {
            scale: None,
            step,
            loss: value,
            rate,
            norm,
            samples: batch.len(),
        })
    }

    /// Tries the classifier on the pictures that it is not trained on.
    pub fn tried(&self) -> Result<Tried, TrainError> {
        let levels = self.recipe.timesteps.len();
        let (net, _) = self.net(false);
        let mut right = vec![[0usize; 2]; levels];
        let mut word = 0;
        let all = self.tried.iter().flat_map(|picture| {
            (0..2 * levels).map(move |row| Sample {
                picture: *picture,
                row,
            })
        });
        let all: Vec<Sample> = all.collect();
        for batch in all.chunks(TOGETHER) {
            let (maps, steps) = self.read(batch)?;
            let scores = net.forward(maps, &steps, None);
            let said = scores.argmax(1).into_data();
            for (sample, said) in batch.iter().zip(said.iter::<i64>()) {
                let kind = sample.row / levels;
                let wrong = self.mapping.pictures[sample.picture].wrong;
                right[sample.row % levels][kind] +=
                    usize::from(said as usize == self.class(sample));
                word += usize::from(kind == 1 && said as usize == wrong);
            }
        }
        let samples = self.tried.len() * levels;
        let share = |count: usize, of: usize| count as f64 / of.max(1) as f64;
        let sum = |kind: usize| right.iter().map(|one| one[kind]).sum::<usize>();
        Ok(Tried {
            step: self.place.step,
            right_words: share(sum(0), samples),
            wrong_words: share(sum(1), samples),
            says_word: share(word, samples),
            samples,
            by_timestep: (right.iter())
                .map(|one| one.map(|count| share(count, self.tried.len())))
                .collect(),
        })
    }
}
