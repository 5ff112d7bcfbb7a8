//! The reward that needs no detector: how well the attention maps obey the prompt's relations.

use burn::tensor::Tensor;
use prepose_models::attention::AttentionProbe;

use super::scorer::Scorer;
use crate::attention_maps::{Half, MapReader};
use crate::engine::{Blueprint, EngineError};
use crate::guidance::maps::{LayerRule, MapGroup, Pooling};
use crate::guidance::pos::Pos;
use crate::guidance::score::{ScoreOptions, pos_scores};
use crate::guidance::{GuidanceConfig, GuidanceError, Target};
use crate::request::Request;
use crate::sampling::denoise::{Hook, HookError, Rows, State};

/// What is left of a step's maps in the average after the next step.
const MEMORY: f64 = 0.5;

/// Scores pictures by the probability of superiority of their relations on the attention maps, averaged over the
/// last few steps.
pub struct AttentionScorer {
    layers: LayerRule,
    targets: Vec<Target>,
    reader: Option<MapReader>,
    maps: Vec<MapGroup>,
}

impl AttentionScorer {
    /// Scores the pictures of `requests`, each by the relations of its own prompt.
    ///
    /// # Errors
    /// A prompt without relations, or with relations of depth.
    pub fn for_batch(blueprint: &Blueprint, requests: &[Request]) -> Result<Self, EngineError> {
        let config = GuidanceConfig::new(&Pos);
        let mut targets = Vec::with_capacity(requests.len());
        for request in requests {
            targets.push(blueprint.target(request, &config)?.1);
        }
        let layers = config.settings(blueprint.network())?.layers;
        Ok(Self::new(layers, targets)?)
    }

    /// Scores a batch, each picture by its own target.
    ///
    /// # Errors
    /// [`GuidanceError::NoRelation`], [`GuidanceError::NotInThePlane`].
    pub fn new(layers: LayerRule, targets: Vec<Target>) -> Result<Self, GuidanceError> {
        if targets.iter().any(|target| target.relations.is_empty()) {
            return Err(GuidanceError::NoRelation);
        }
        // Finds relations of depth before the first step.
        pos_scores(&[], &targets, ScoreOptions::default())?;
        Ok(Self {
            layers,
            targets,
            reader: None,
            maps: Vec::new(),
        })
    }
}

impl Scorer for AttentionScorer {
    fn scores(&mut self) -> Result<Vec<f64>, HookError> {
        let scores = pos_scores(&self.maps, &self.targets, ScoreOptions::default())?;
        let score = |score: Option<f32>| score.map_or(f64::NEG_INFINITY, f64::from);
        Ok(scores.into_iter().map(score).collect())
    }
}

impl Hook for AttentionScorer {
    fn before_loop(&mut self, state: &mut State) -> Result<(), HookError> {
        let [_, _, height, width] = state.latents().dims();
        let filter = self.layers.resolve_in(state.unet, [height, width])?;
        self.reader = Some(MapReader::new(filter, Pooling::Mean, Half::Positive, None));
        Ok(())
    }

    fn probe(&mut self, state: &State, rows: Rows) -> Option<&mut dyn AttentionProbe> {
        // Another prompt's tokens stand elsewhere.
        let reader = self.reader.as_mut().filter(|_| state.is_final_text());
        reader?.probe(rows)
    }

    fn after_step(&mut self, _state: &mut State, _denoised: &Tensor<4>) -> Result<(), HookError> {
        let new = self
            .reader
            .as_mut()
            .map(MapReader::take)
            .unwrap_or_default();
        if self.maps.is_empty() {
            self.maps = new;
            return Ok(());
        }
        for (kept, new) in self.maps.iter_mut().zip(new) {
            kept.maps = kept.maps.clone() * MEMORY + new.maps * (1.0 - MEMORY);
        }
        Ok(())
    }

    fn retain(&mut self, keep: &[usize]) {
        self.targets = keep.iter().map(|row| self.targets[*row].clone()).collect();
        self.maps = self.maps.iter().map(|group| group.select(keep)).collect();
    }
}
