//! One optimiser of several, and what it remembers of each tensor.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::adafactor::Adafactor;
use crate::adamw::AdamW;
use crate::blockwise::{Blocks, Map};

/// How weights move.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum Rule {
    /// PyTorch's AdamW.
    AdamW(AdamW),
    /// bitsandbytes' AdamW with 8-bit moments of tensors of 4096 elements and more. A second moment below 1.6e-7 of the
    /// largest in its block of 256 is kept as 0, as there.
    AdamW8bit(AdamW),
    /// transformers' Adafactor.
    Adafactor(Adafactor),
}

/// Smaller tensors have moments of f32.
const SMALLEST_IN_BLOCKS: usize = 4096;

/// What a rule remembers of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Moments {
    /// Means of gradients and of their squares.
    Full([Vec<f32>; 2]),
    /// The same in 8 bits.
    Blocks([Blocks; 2]),
    /// Means of squares over rows and columns.
    Factored([Vec<f32>; 2]),
    /// Means of squares.
    Squares(Vec<f32>),
}

/// A part of moments, as it is kept in files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part<'a> {
    /// Numbers.
    F32(&'a [f32]),
    /// Codes.
    U8(&'a [u8]),
}

/// A part of moments that is to be filled from a file.
#[derive(Debug)]
pub enum PartMut<'a> {
    /// Numbers.
    F32(&'a mut [f32]),
    /// Codes.
    U8(&'a mut [u8]),
}

impl Moments {
    /// Its parts by name.
    pub fn parts(&self) -> Vec<(&'static str, Part<'_>)> {
        match self {
            Self::Full([mean, square]) => {
                vec![("mean", Part::F32(mean)), ("square", Part::F32(square))]
            }
            Self::Blocks([mean, square]) => vec![
                ("mean", Part::U8(&mean.codes)),
                ("mean_largest", Part::F32(&mean.largest)),
                ("square", Part::U8(&square.codes)),
                ("square_largest", Part::F32(&square.largest)),
            ],
            Self::Factored([rows, columns]) => {
                vec![("rows", Part::F32(rows)), ("columns", Part::F32(columns))]
            }
            Self::Squares(squares) => vec![("square", Part::F32(squares))],
        }
    }

    /// The same parts, to be written over.
    pub fn parts_mut(&mut self) -> Vec<(&'static str, PartMut<'_>)> {
        match self {
            Self::Full([mean, square]) => vec![
                ("mean", PartMut::F32(mean)),
                ("square", PartMut::F32(square)),
            ],
            Self::Blocks([mean, square]) => vec![
                ("mean", PartMut::U8(&mut mean.codes)),
                ("mean_largest", PartMut::F32(&mut mean.largest)),
                ("square", PartMut::U8(&mut square.codes)),
                ("square_largest", PartMut::F32(&mut square.largest)),
            ],
            Self::Factored([rows, columns]) => vec![
                ("rows", PartMut::F32(rows)),
                ("columns", PartMut::F32(columns)),
            ],
            Self::Squares(squares) => vec![("square", PartMut::F32(squares))],
        }
    }
}

/// A tensor that is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// In diffusers' naming.
    pub name: String,
    /// In PyTorch's layout.
    pub shape: Vec<usize>,
    /// Its elements in their order.
    pub values: Vec<f32>,
    /// What the rule remembers of it.
    pub moments: Moments,
}

impl Trained {
    /// A tensor that was never moved.
    ///
    /// # Panics
    /// If there are not as many values as the shape says.
    pub fn new(rule: &Rule, name: impl Into<String>, shape: &[usize], values: Vec<f32>) -> Self {
        assert_eq!(values.len(), shape.iter().product::<usize>());
        Self {
            name: name.into(),
            shape: shape.to_vec(),
            values,
            moments: rule.fresh(shape),
        }
    }
}

/// The last two axes, of a shape of two or more.
fn last_two(shape: &[usize]) -> Option<[usize; 2]> {
    match shape {
        [.., height, width] => Some([*height, *width]),
        _ => None,
    }
}

impl Rule {
    /// Moments of a tensor before the first step.
    pub fn fresh(&self, shape: &[usize]) -> Moments {
        let length: usize = shape.iter().product();
        match (self, last_two(shape)) {
            (Self::AdamW8bit(_), _) if length >= SMALLEST_IN_BLOCKS => Moments::Blocks([
                Blocks::zeros(Map::signed(), length),
                Blocks::zeros(Map::unsigned(), length),
            ]),
            (Self::AdamW(_) | Self::AdamW8bit(_), _) => {
                Moments::Full([vec![0.0; length], vec![0.0; length]])
            }
            (Self::Adafactor(_), Some([height, width])) if length > 0 => {
                Moments::Factored([vec![0.0; length / width], vec![0.0; length / height]])
            }
            (Self::Adafactor(_), _) => Moments::Squares(vec![0.0; length]),
        }
    }

    /// The share of themselves that weights lose at each step, times the learning rate.
    pub fn weight_decay(&self) -> f64 {
        match self {
            Self::AdamW(adam) | Self::AdamW8bit(adam) => adam.weight_decay,
            Self::Adafactor(adafactor) => adafactor.weight_decay,
        }
    }

    /// Moves one tensor: step number `step`, from 1, at the learning rate `rate`.
    ///
    /// # Panics
    /// If the gradient has another length.
    pub fn step(&self, tensor: &mut Trained, gradient: &[f32], rate: f64, step: u64) {
        assert_eq!(tensor.values.len(), gradient.len());
        let Trained {
            shape,
            values,
            moments,
            ..
        } = tensor;
        match (self, moments) {
            (Self::AdamW(adam), Moments::Full([mean, square])) => {
                adam.step(values, gradient, [mean, square], rate, step);
            }
            (Self::AdamW8bit(adam), Moments::Full([mean, square])) => {
                adam.step_small(values, gradient, [mean, square], rate, step);
            }
            (Self::AdamW8bit(adam), Moments::Blocks([mean, square])) => {
                adam.step_blocks(values, gradient, [mean, square], rate, step);
            }
            (Self::Adafactor(adafactor), Moments::Factored([rows, columns])) => {
                let size = last_two(shape).unwrap_or([1, 1]);
                adafactor.step_factored(values, gradient, [rows, columns], size, rate, step);
            }
            (Self::Adafactor(adafactor), Moments::Squares(squares)) => {
                adafactor.step_whole(values, gradient, squares, rate, step);
            }
            (rule, moments) => unreachable!("{rule:?} does not make {moments:?}"),
        }
    }

    /// Moves all tensors, side by side: each is moved by one thread, so that the result does not depend on their number.
    ///
    /// # Panics
    /// If there is not one gradient for each, of its length.
    pub fn step_all(&self, tensors: &mut [Trained], gradients: &[Vec<f32>], rate: f64, step: u64) {
        assert_eq!(tensors.len(), gradients.len());
        tensors
            .par_iter_mut()
            .zip(gradients)
            .for_each(|(tensor, gradient)| self.step(tensor, gradient, rate, step));
    }
}
