//! Boxes and points as tokens.

use std::f64::consts::PI;

use burn::module::Param;
use burn::prelude::*;
use burn::tensor::{DType, TensorData};

use super::config::SamConfig;
use crate::params::Params;

/// What is to be cut out, in pixels of the picture as the network sees it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prompt {
    /// Corners `x0, y0, x1, y1` of a box around it.
    pub corners: Option<[f32; 4]>,
    /// Points `x, y` that are on it (true), or not (false).
    pub points: Vec<([f32; 2], bool)>,
}

impl Prompt {
    /// A box by its corners `x0, y0, x1, y1`.
    pub fn of_box(corners: [f32; 4]) -> Self {
        Self {
            corners: Some(corners),
            points: Vec::new(),
        }
    }

    /// A point `x, y` on it.
    pub fn of_point(point: [f32; 2]) -> Self {
        Self {
            corners: None,
            points: vec![(point, true)],
        }
    }

    /// The prompt for a picture that was resized from height and width `from` to `to`.
    pub fn scaled(&self, from: [usize; 2], to: [usize; 2]) -> Self {
        let [y, x] = [0, 1].map(|axis| to[axis] as f64 / from[axis] as f64);
        let place = |value: f32, scale: f64| (f64::from(value) * scale) as f32;
        let corners =
            |[x0, y0, x1, y1]: [f32; 4]| [place(x0, x), place(y0, y), place(x1, x), place(y1, y)];
        let points = self.points.iter();
        Self {
            corners: self.corners.map(corners),
            points: points
                .map(|([px, py], on)| ([place(*px, x), place(*py, y)], *on))
                .collect(),
        }
    }

    /// Tokens that it becomes.
    pub(super) fn tokens(&self) -> usize {
        let others = if self.corners.is_some() { 2 } else { 1 };
        self.points.len() + others
    }

    /// Its tokens: where they are and which row of [`PromptEncoder::kinds`] is added.
    fn places(&self) -> Vec<([f32; 2], usize)> {
        let points = self.points.iter();
        let mut places: Vec<_> = points
            .map(|(place, on)| (*place, usize::from(*on)))
            .collect();
        match self.corners {
            Some([x0, y0, x1, y1]) => places.extend([([x0, y0], 2), ([x1, y1], 3)]),
            // Points without a box are followed by one that is none.
            None => places.push(([0.0, 0.0], NO_POINT)),
        }
        places
    }
}

/// The row of [`PromptEncoder::kinds`] that stands for no point.
const NO_POINT: usize = 4;

/// Encodes places by random Fourier features (Tancik et al. 2020).
#[derive(Module, Debug)]
pub(super) struct PromptEncoder {
    /// `[2, C/2]`.
    frequencies: Param<Tensor<2>>,
    /// Off the object, on it, upper left corner, lower right corner, no point, `[5, C]`.
    kinds: Param<Tensor<2>>,
    /// What a picture without a given mask has added everywhere, `[1, C]`.
    no_mask: Param<Tensor<2>>,
    image_size: usize,
    side: usize,
}

impl PromptEncoder {
    /// Computes in f32, whatever the type of the weights: half a type's places are no longer a pixel apart.
    pub fn load(params: Params, config: &SamConfig) -> Self {
        let mut params = params.f32();
        let channels = config.prompt_encoder_config.hidden_size;
        let frequencies = [2, config.vision_config.num_pos_feats];
        let key = "shared_image_embedding.positional_embedding";
        let frequencies = params.tensor(key, frequencies);
        let mut prompts = params.pp("prompt_encoder");
        let points = (0..NO_POINT).map(|i| format!("point_embed.{i}.weight"));
        let rows = points.chain(["not_a_point_embed.weight".to_string()]);
        let rows: Vec<_> = rows.map(|name| (name, 1)).collect();
        Self {
            frequencies,
            kinds: prompts.stacked(&rows, [rows.len(), channels]),
            no_mask: prompts.tensor("no_mask_embed.weight", [1, channels]),
            image_size: config.vision_config.image_size,
            side: config.vision_config.side(),
        }
    }

    /// Tokens `[P, T, C]` of prompts that have `T` each, f32.
    pub fn forward(&self, prompts: &[Prompt]) -> Tensor<3> {
        let places: Vec<_> = prompts.iter().flat_map(Prompt::places).collect();
        let each = places.len() / prompts.len().max(1);
        let size = self.image_size as f32;
        let coordinates = places
            .iter()
            .flat_map(|(at, _)| at.map(|x| (x + 0.5) / size));
        let x = self.encode(coordinates.collect());
        let device = x.device();
        let here = places.iter().map(|(_, kind)| f32::from(*kind != NO_POINT));
        let here = TensorData::new(here.collect::<Vec<f32>>(), [places.len(), 1]);
        let here = Tensor::<2>::from_data(here, (&device, DType::F32));
        let kinds: Vec<i32> = places.iter().map(|(_, kind)| *kind as i32).collect();
        let kinds = Tensor::<1, Int>::from_data(kinds.as_slice(), &device);
        let x = x * here + self.kinds.val().select(0, kinds);
        let channels = x.dims()[1];
        x.reshape([prompts.len(), each, channels])
    }

    /// The encoding of the places of all patches, `[side², C]`, row by row.
    pub fn grid(&self) -> Tensor<2> {
        let side = self.side;
        let middle = |i: usize| (i as f32 + 0.5) / side as f32;
        let places = (0..side * side).flat_map(|i| [middle(i % side), middle(i / side)]);
        self.encode(places.collect())
    }

    /// What is added to the picture where no mask is given, `[1, C]`.
    pub fn no_mask(&self) -> Tensor<2> {
        self.no_mask.val()
    }

    /// Places `x, y` in 0..=1 to `[N, C]`.
    fn encode(&self, coordinates: Vec<f32>) -> Tensor<2> {
        let frequencies = self.frequencies.val();
        let count = coordinates.len() / 2;
        let centred = coordinates.into_iter().map(|x| 2.0 * x - 1.0);
        let data = TensorData::new(centred.collect::<Vec<f32>>(), [count, 2]);
        let places = Tensor::<2>::from_data(data, (&frequencies.device(), DType::F32));
        let angles = places.matmul(frequencies) * (2.0 * PI);
        Tensor::cat(vec![angles.clone().sin(), angles.cos()], 1)
    }
}
