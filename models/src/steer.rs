//! A classifier that reads off cross-attention maps how two things stand to each other, after Learn-to-Steer (Yiflach et
//! al. 2025, arXiv 2509.02295): an extractor makes one map of the many that there are of a word, the same for both
//! words, and a head says the relation of the two.
//!
//! It is a function of tensors by name, so that the same code runs it, differentiates it by the maps (guidance) and by its
//! parameters (training).

use std::collections::HashMap;

use burn::prelude::*;
use burn::tensor::{TensorData, activation};
use prepose_kernels::matmul;
use serde::{Deserialize, Serialize};

/// Cells along a side of the maps that are read; larger and smaller ones are resized.
pub const SIDE: usize = 16;

/// Cells of such a map.
pub const CELLS: usize = SIDE * SIDE;

/// Width of the step's vector in the head.
const STEP: usize = 16;

/// How large the classifier is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteerSize {
    /// Channels of a map's vector.
    pub width: usize,
    /// Transformer layers of the extractor.
    pub layers: usize,
    /// Heads of their attention, and of the pooling.
    pub heads: usize,
    /// Channels between their two linear layers, and the head's.
    pub hidden: usize,
    /// Residual layers of the head.
    pub head_layers: usize,
}

impl SteerSize {
    /// The published one for SD 1.x and 2.x.
    pub const PUBLISHED: Self = Self {
        width: 256,
        layers: 2,
        heads: 2,
        hidden: 128,
        head_layers: 2,
    };

    /// For networks with few maps: under 2 MB as f16.
    pub const SMALL: Self = Self {
        width: 128,
        layers: 2,
        heads: 2,
        hidden: 128,
        head_layers: 2,
    };
}

/// A classifier's parameters by name, with their shapes in PyTorch's layout.
///
/// `steps` are the noise levels that it knows, `classes` the relations.
pub fn parameters(size: &SteerSize, steps: usize, classes: usize) -> Vec<(String, Vec<usize>)> {
    let SteerSize { width, hidden, .. } = *size;
    let mut all: Vec<(String, Vec<usize>)> = Vec::new();
    let linear = |all: &mut Vec<(String, Vec<usize>)>, name: String, out, inputs| {
        all.push((format!("{name}.weight"), vec![out, inputs]));
        all.push((format!("{name}.bias"), vec![out]));
    };
    let norm = |all: &mut Vec<(String, Vec<usize>)>, name: String, channels| {
        all.push((format!("{name}.weight"), vec![channels]));
        all.push((format!("{name}.bias"), vec![channels]));
    };
    linear(&mut all, "extractor.input".into(), width, CELLS);
    all.push(("extractor.steps".into(), vec![steps, width]));
    for layer in 0..size.layers {
        let name = |part: &str| format!("extractor.layers.{layer}.{part}");
        norm(&mut all, name("norm1"), width);
        linear(&mut all, name("attention.input"), 3 * width, width);
        linear(&mut all, name("attention.output"), width, width);
        norm(&mut all, name("norm2"), width);
        linear(&mut all, name("linear1"), hidden, width);
        linear(&mut all, name("linear2"), width, hidden);
    }
    all.push(("extractor.query".into(), vec![width]));
    linear(&mut all, "extractor.pool.input".into(), 3 * width, width);
    linear(&mut all, "extractor.pool.output".into(), width, width);
    linear(&mut all, "extractor.output".into(), CELLS, width);
    linear(&mut all, "head.input".into(), width, 2 * CELLS);
    for layer in 0..size.head_layers {
        let name = |part: &str| format!("head.layers.{layer}.{part}");
        norm(&mut all, name("norm1"), width);
        linear(&mut all, name("mix"), width, width);
        norm(&mut all, name("norm2"), width);
        linear(&mut all, name("linear1"), hidden, width);
        linear(&mut all, name("linear2"), width, hidden);
    }
    all.push(("head.steps".into(), vec![steps, STEP]));
    linear(&mut all, "head.fc.0".into(), width, width + STEP);
    norm(&mut all, "head.fc.0.norm".into(), width);
    linear(&mut all, "head.fc.1".into(), width / 2, width);
    norm(&mut all, "head.fc.1.norm".into(), width / 2);
    linear(&mut all, "head.fc.2".into(), classes, width / 2);
    all
}

/// Zeroes shares of activations; given their number, the factors by which they are multiplied.
pub type Dropout<'a> = &'a mut dyn FnMut(usize) -> Vec<f32>;

/// A classifier with its parameters on a device.
#[derive(Clone, Debug)]
pub struct SteerNet {
    size: SteerSize,
    values: HashMap<String, (Vec<usize>, Tensor<1>)>,
}

impl SteerNet {
    /// Of the tensors in the order of [`parameters`], each flat; leaves of the tape or not.
    ///
    /// # Panics
    /// If their number is another.
    pub fn new(
        size: &SteerSize,
        parameters: &[(String, Vec<usize>)],
        values: Vec<Tensor<1>>,
    ) -> Self {
        assert_eq!(parameters.len(), values.len());
        let named = parameters.iter().zip(values);
        Self {
            size: size.clone(),
            values: named
                .map(|((name, shape), value)| (name.clone(), (shape.clone(), value)))
                .collect(),
        }
    }

    fn vector(&self, name: &str) -> Tensor<1> {
        self.values[name].1.clone()
    }

    fn matrix(&self, name: &str) -> Tensor<2> {
        let (shape, value) = &self.values[name];
        value.clone().reshape([shape[0], shape[1]])
    }

    fn linear<const D: usize>(&self, x: Tensor<D>, name: &str) -> Tensor<D> {
        let mut shape = x.dims();
        let weight = self.matrix(&format!("{name}.weight"));
        let bias = self.vector(&format!("{name}.bias"));
        let rows = shape[..D - 1].iter().product::<usize>();
        let flat: Tensor<2> = x.reshape([rows, shape[D - 1]]);
        shape[D - 1] = weight.dims()[0];
        let out = matmul(flat, weight.transpose()) + bias.unsqueeze();
        out.reshape(shape)
    }

    fn norm<const D: usize>(&self, x: Tensor<D>, name: &str) -> Tensor<D> {
        let centred = x.clone() - x.mean_dim(D - 1);
        let variance = centred.clone().square().mean_dim(D - 1);
        let normal = centred / (variance + 1e-5).sqrt();
        normal * self.vector(&format!("{name}.weight")).unsqueeze()
            + self.vector(&format!("{name}.bias")).unsqueeze()
    }

    /// Rows of a table of the steps' vectors, `[B, width]`.
    fn rows(&self, name: &str, steps: &[usize]) -> Tensor<2> {
        let table = self.matrix(name);
        let device = table.device().without_autodiff();
        let rows: Vec<i32> = steps.iter().map(|step| *step as i32).collect();
        let rows = TensorData::new(rows, [steps.len()]);
        table.select(0, Tensor::<1, Int>::from_data(rows, &device))
    }

    /// Attention of `queries` `[B, Q, C]` to `keys` `[B, K, C]`, with the parameters `name`.
    fn attention(&self, queries: Tensor<3>, keys: Tensor<3>, name: &str) -> Tensor<3> {
        let [batch, asked, width] = queries.dims();
        let count = keys.dims()[1];
        let heads = self.size.heads;
        let weight = self.matrix(&format!("{name}.input.weight"));
        let bias = self.vector(&format!("{name}.input.bias"));
        let part = |x: Tensor<3>, which: usize, length: usize| -> Tensor<4> {
            let weight = weight.clone().narrow(0, which * width, width);
            let bias = bias.clone().narrow(0, which * width, width);
            let flat: Tensor<2> = x.reshape([batch * length, width]);
            let out = matmul(flat, weight.transpose()) + bias.unsqueeze();
            out.reshape([batch, length, heads, width / heads])
                .swap_dims(1, 2)
        };
        let scale = ((width / heads) as f64).sqrt();
        let scores = matmul(
            part(queries, 0, asked),
            part(keys.clone(), 1, count).swap_dims(2, 3),
        );
        let shares = activation::softmax(scores / scale, 3);
        let mixed = matmul(shares, part(keys, 2, count)).swap_dims(1, 2);
        self.linear(
            mixed.reshape([batch, asked, width]),
            &format!("{name}.output"),
        )
    }

    /// What the classifier makes of the maps of two words, as scores of the relations `[B, classes]` before the softmax.
    ///
    /// `maps` are f32 `[B, 2, maps, CELLS]`, each with the mean 1 ([`normalised`]); `steps` which of the known noise levels
    /// each sample has. `dropout` is for training.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn forward(
        &self,
        maps: Tensor<4>,
        steps: &[usize],
        mut dropout: Option<Dropout>,
    ) -> Tensor<2> {
        let [batch, words, count, cells] = maps.dims();
        assert!(words == 2 && cells == CELLS && steps.len() == batch);
        let width = self.size.width;
        let device = maps.device().without_autodiff();
        let both: Vec<usize> = steps.iter().flat_map(|step| [*step, *step]).collect();

        let each: Tensor<3> = maps.reshape([2 * batch, count, cells]);
        let mut x = self.linear(each, "extractor.input") + positions(count, width, &device);
        let step: Tensor<3> = self.rows("extractor.steps", &both).unsqueeze_dim(1);
        for layer in 0..self.size.layers {
            let name = |part: &str| format!("extractor.layers.{layer}.{part}");
            x = x + step.clone();
            let normal = self.norm(x.clone(), &name("norm1"));
            let seen = self.attention(normal.clone(), normal, &name("attention"));
            x = x + dropped(seen, &mut dropout);
            let normal = self.norm(x.clone(), &name("norm2"));
            let inner = activation::relu(self.linear(normal, &name("linear1")));
            x = x + dropped(self.linear(inner, &name("linear2")), &mut dropout);
        }
        let query: Tensor<3> = self.vector("extractor.query").reshape([1, 1, width]);
        let pooled = self.attention(query.repeat_dim(0, 2 * batch), x, "extractor.pool");
        let maps = self.linear(pooled, "extractor.output");

        let pair: Tensor<2> = maps.reshape([batch, 2 * CELLS]);
        let first: Tensor<2> = positions(1, width, &device).squeeze_dim(0);
        let mut x = self.linear(pair, "head.input") + first;
        for layer in 0..self.size.head_layers {
            let name = |part: &str| format!("head.layers.{layer}.{part}");
            let normal = self.norm(x.clone(), &name("norm1"));
            x = x + self.linear(normal, &name("mix"));
            let normal = self.norm(x.clone(), &name("norm2"));
            let inner = activation::relu(self.linear(normal, &name("linear1")));
            x = x + self.linear(inner, &name("linear2"));
        }
        let mut x = Tensor::cat(vec![x, self.rows("head.steps", steps)], 1);
        for layer in 0..2 {
            let name = format!("head.fc.{layer}");
            let normal = self.norm(self.linear(x, &name), &format!("{name}.norm"));
            x = dropped(activation::leaky_relu(normal, 0.1), &mut dropout);
        }
        self.linear(x, "head.fc.2")
    }
}

fn dropped<const D: usize>(x: Tensor<D>, dropout: &mut Option<Dropout>) -> Tensor<D> {
    match dropout {
        None => x,
        Some(draw) => {
            let shape = x.dims();
            let factors = TensorData::new(draw(shape.iter().product()), shape);
            let device = x.device().without_autodiff();
            x * Tensor::from_data(factors, &device)
        }
    }
}

/// Sines and cosines over the order of the maps, `[1, count, width]`.
fn positions(count: usize, width: usize, device: &Device) -> Tensor<3> {
    let mut values = vec![0f32; count * width];
    for (place, row) in values.chunks_mut(width).enumerate() {
        for (channel, value) in row.iter_mut().enumerate() {
            let pair = (channel / 2 * 2) as f64;
            let angle = place as f64 * 10_000f64.powf(-pair / width as f64);
            *value = match channel % 2 {
                0 => angle.sin() as f32,
                _ => angle.cos() as f32,
            };
        }
    }
    Tensor::from_data(TensorData::new(values, [1, count, width]), device)
}

/// Maps `[B, G, rows · columns, M]` of one layer, as the classifier reads them: `[B, M, G, CELLS]`, resized with half-pixel
/// centres and without smoothing, each divided by its mean.
pub fn normalised(maps: Tensor<4>, [rows, columns]: [usize; 2]) -> Tensor<4> {
    let [batch, heads, _, words] = maps.dims();
    let device = maps.device().without_autodiff();
    let maps = maps.permute([0, 3, 1, 2]);
    let maps = match [rows, columns] == [SIDE, SIDE] {
        true => maps,
        false => {
            let images = maps.reshape([batch * words, heads, rows, columns]);
            let down = resizing(rows, &device).unsqueeze::<4>();
            let across = resizing(columns, &device).transpose().unsqueeze::<4>();
            matmul(matmul(down, images), across)
        }
    };
    let maps: Tensor<4> = maps.reshape([batch, words, heads, CELLS]);
    // A sum of 1e-8 is that of a word which nobody looks at.
    let mean = (maps.clone().sum_dim(3) + 1e-8) / CELLS as f64;
    maps / mean
}

/// Linear interpolation from `n` cells to [`SIDE`], as a matrix `[SIDE, n]`.
fn resizing(n: usize, device: &Device) -> Tensor<2> {
    let mut weights = vec![0f32; SIDE * n];
    for (row, to) in weights.chunks_mut(n).zip(0..) {
        let place = (f64::from(to) + 0.5) * n as f64 / SIDE as f64 - 0.5;
        let place = place.max(0.0);
        let below = (place.floor() as usize).min(n - 1);
        let share = place - below as f64;
        row[below] += (1.0 - share) as f32;
        row[(below + 1).min(n - 1)] += share as f32;
    }
    Tensor::from_data(TensorData::new(weights, [SIDE, n]), device)
}

/// The cross entropy of each sample's wanted class, `[B]`, from scores `[B, classes]`.
pub fn cross_entropy(scores: Tensor<2>, wanted: &[usize]) -> Tensor<1> {
    let [batch, classes] = scores.dims();
    let device = scores.device().without_autodiff();
    let mut chosen = vec![0f32; batch * classes];
    for (row, class) in chosen.chunks_mut(classes).zip(wanted) {
        row[*class] = -1.0;
    }
    let chosen: Tensor<2> = Tensor::from_data(TensorData::new(chosen, [batch, classes]), &device);
    (activation::log_softmax(scores, 1) * chosen)
        .sum_dim(1)
        .squeeze_dim(1)
}
