//! Cross-attention maps of a run: where the network looks for each word while it draws.
//!
//! The maps are read in the step's own UNet calls, so a run with maps costs little more than one without, and
//! layers that nobody reads stay on the fused path. Where the text of the half that is read changes on the way, only steps with
//! its final text have maps. [`crate::guidance::maps`] says which layers there are and how their maps are put together.

use burn::tensor::{Int, Tensor, TensorData};
use prepose_models::attention::{AttentionProbe, LayerInfo};

use crate::guidance::maps::{LayerFilter, LayerRule, MapGroup, Pooling, Recorder};
use crate::sampling::denoise::{Hook, HookError, Rows, State};

/// A half of classifier-free guidance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Half {
    /// With the prompt.
    #[default]
    Positive,
    /// With the negative prompt.
    Negative,
}

/// Reads the maps of one half in the step's own UNet calls; the part that a [`Hook`] which wants maps is made of.
pub struct MapReader {
    filter: LayerFilter,
    pooling: Pooling,
    half: Half,
    heads: Option<Vec<usize>>,
    recorder: Recorder,
    rows: Rows,
}

impl MapReader {
    /// Reads the layers that `filter` names, for all heads or those of `heads` (from 0; what a layer does not have
    /// is passed over).
    pub fn new(
        filter: LayerFilter,
        pooling: Pooling,
        half: Half,
        heads: Option<Vec<usize>>,
    ) -> Self {
        Self {
            recorder: Recorder::new(filter.clone(), pooling.clone()),
            filter,
            pooling,
            half,
            heads,
            rows: Rows::Positive,
        }
    }

    /// What a hook's [`probe`](Hook::probe) answers.
    pub fn probe(&mut self, rows: Rows) -> Option<&mut dyn AttentionProbe> {
        self.rows = rows;
        let sees = match rows {
            Rows::Both { .. } => true,
            Rows::Negative => self.half == Half::Negative,
            Rows::Positive => self.half == Half::Positive,
        };
        sees.then_some(self)
    }

    /// The batch shrinks to its rows `keep`, in that order.
    pub fn retain(&mut self, keep: &[usize]) {
        self.pooling = self.pooling.select(keep);
        self.recorder.retain(keep);
    }

    /// What was read since the last call.
    pub fn take(&mut self) -> Vec<MapGroup> {
        let fresh = Recorder::new(self.filter.clone(), self.pooling.clone());
        std::mem::replace(&mut self.recorder, fresh).finish()
    }
}

impl AttentionProbe for MapReader {
    fn wants(&self, layer: &LayerInfo) -> bool {
        self.filter.wants(layer)
    }

    fn record(&mut self, layer: &LayerInfo, mut probabilities: Tensor<4>) {
        if let Rows::Both { pictures } = self.rows {
            let start = match self.half {
                Half::Negative => 0,
                Half::Positive => probabilities.dims()[0] - pictures,
            };
            probabilities = probabilities.narrow(0, start, pictures);
        }
        let mut layer = *layer;
        if let Some(heads) = &self.heads {
            let there = heads.iter().filter(|head| **head < layer.heads);
            let heads: Vec<i32> = there.map(|head| *head as i32).collect();
            if heads.is_empty() {
                return;
            }
            layer.heads = heads.len();
            let heads = TensorData::new(heads, [layer.heads]);
            let heads: Tensor<1, Int> = Tensor::from_data(heads, &probabilities.device());
            probabilities = probabilities.select(1, heads);
        }
        self.recorder.record(&layer, probabilities);
    }
}

/// Which maps of a run are kept.
#[derive(Clone, Debug)]
pub struct MapSelection {
    /// The layers.
    pub layers: LayerRule,
    /// The mean over layers and heads for all tokens, or each on its own for some tokens.
    pub pooling: Pooling,
    /// The heads, from 0; none for all.
    pub heads: Option<Vec<usize>>,
    /// Every so many steps, from the first; at least 1. Of these, only steps with the half's final text have maps.
    pub every: usize,
    /// Which half of classifier-free guidance.
    pub half: Half,
}

/// The smallest maps with 12 cells along the shorter side, the mean of all heads at every step, with the prompt.
impl Default for MapSelection {
    fn default() -> Self {
        Self {
            layers: LayerRule::Size {
                side: None,
                down_only: false,
            },
            pooling: Pooling::Mean,
            heads: None,
            every: 1,
            half: Half::default(),
        }
    }
}

impl MapSelection {
    /// Whether `step`, from 0, is one of those that are asked for.
    pub fn is_due(&self, step: usize) -> bool {
        step.is_multiple_of(self.every)
    }
}

/// The maps of one step.
#[derive(Clone, Debug)]
pub struct StepMaps {
    /// The step, from 0.
    pub step: usize,
    /// Its training timestep, in [0, 1000).
    pub timestep: f64,
    /// The maps, on the device: with [`Pooling::Mean`] one group for each size of map, f32 [B, 1, cells, tokens];
    /// with [`Pooling::Each`] one for each layer, f32 [B, heads, cells, objects], with as many objects as any picture had that
    /// was in the batch at this step.
    pub groups: Vec<MapGroup>,
}

/// The hook that keeps a run's maps.
pub struct AttentionMaps {
    selection: MapSelection,
    reader: Option<MapReader>,
    steps: Vec<StepMaps>,
}

impl AttentionMaps {
    /// Has not seen anything yet.
    pub fn new(selection: MapSelection) -> Self {
        Self {
            selection,
            reader: None,
            steps: Vec::new(),
        }
    }

    /// What was seen, in the order of the steps.
    pub fn into_steps(self) -> Vec<StepMaps> {
        self.steps
    }
}

impl Hook for AttentionMaps {
    fn before_loop(&mut self, state: &mut State) -> Result<(), HookError> {
        let [_, _, height, width] = state.latents().dims();
        let selection = &self.selection;
        let filter = (selection.layers).resolve_in(state.unet, [height, width])?;
        self.reader = Some(MapReader::new(
            filter,
            selection.pooling.clone(),
            selection.half,
            selection.heads.clone(),
        ));
        Ok(())
    }

    fn probe(&mut self, state: &State, rows: Rows) -> Option<&mut dyn AttentionProbe> {
        // Another text's tokens stand elsewhere.
        let is_final = match self.selection.half {
            Half::Positive => state.is_final_text(),
            Half::Negative => state.is_final_negative(),
        };
        let due = is_final && self.selection.is_due(state.step);
        self.reader.as_mut().filter(|_| due)?.probe(rows)
    }

    fn after_step(&mut self, state: &mut State, _denoised: &Tensor<4>) -> Result<(), HookError> {
        let groups = self
            .reader
            .as_mut()
            .map(MapReader::take)
            .unwrap_or_default();
        if !groups.is_empty() {
            self.steps.push(StepMaps {
                step: state.step,
                timestep: state.timestep,
                groups,
            });
        }
        Ok(())
    }

    fn retain(&mut self, keep: &[usize]) {
        if let Some(reader) = &mut self.reader {
            reader.retain(keep);
        }
        for group in self.steps.iter_mut().flat_map(|step| &mut step.groups) {
            *group = group.select(keep);
        }
    }
}
