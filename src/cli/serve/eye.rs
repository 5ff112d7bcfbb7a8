//! What is seen of a batch while it is made: what it is expected to become, and where the network looks.

use burn::tensor::Tensor;
use prepose::attention_maps::{Half, MapReader, StepMaps};
use prepose::guidance::maps::{LayerRule, Pooling};
use prepose::output::attention::ObjectMaps;
use prepose::sampling::denoise::{Hook, HookError, Rows, State};
use prepose_models::attention::AttentionProbe;
use prepose_serve::MapImage;

/// Keeps what the last step showed.
pub struct Eye {
    maps: bool,
    reader: Option<MapReader>,
    /// What the scheduler expected the final latents to be, f32 [B, C, h, w].
    pub denoised: Option<Tensor<4>>,
    seen: Option<StepMaps>,
}

impl Eye {
    /// Reads attention maps, or not.
    pub fn new(maps: bool) -> Self {
        Self {
            maps,
            reader: None,
            denoised: None,
            seen: None,
        }
    }

    /// The maps of the last step, for each row those of its objects, by their names and token positions.
    pub fn maps(&mut self, objects: &[Vec<(String, Vec<usize>)>]) -> Vec<Vec<MapImage>> {
        let Some(seen) = self
            .seen
            .take()
            .filter(|_| objects.iter().any(|row| !row.is_empty()))
        else {
            return Vec::new();
        };
        let read = ObjectMaps::read(&[seen], objects);
        let Some(finest) = read.into_iter().next() else {
            return Vec::new();
        };
        let rows = finest.into_iter().map(|row| {
            let maps = row.maps.into_iter().next().unwrap_or_default();
            let each = row.objects.into_iter().zip(maps).map(|(name, map)| {
                let peak = map.peak().max(f32::MIN_POSITIVE);
                MapImage {
                    name,
                    size: [map.height, map.width],
                    cells: map
                        .values
                        .iter()
                        .map(|value| (value / peak * 255.0).round() as u8)
                        .collect(),
                }
            });
            each.collect()
        });
        rows.collect()
    }
}

impl Hook for Eye {
    fn before_loop(&mut self, state: &mut State) -> Result<(), HookError> {
        if !self.maps {
            return Ok(());
        }
        let [_, _, height, width] = state.latents().dims();
        let rule = LayerRule::Size {
            side: None,
            down_only: false,
        };
        let filter = rule.resolve_in(state.unet, [height, width])?;
        self.reader = Some(MapReader::new(filter, Pooling::Mean, Half::Positive, None));
        Ok(())
    }

    fn probe(&mut self, state: &State, rows: Rows) -> Option<&mut dyn AttentionProbe> {
        // Another prompt's tokens stand elsewhere.
        self.reader
            .as_mut()
            .filter(|_| state.is_final_text())?
            .probe(rows)
    }

    fn after_step(&mut self, state: &mut State, denoised: &Tensor<4>) -> Result<(), HookError> {
        self.denoised = Some(denoised.clone());
        let groups = self
            .reader
            .as_mut()
            .map(MapReader::take)
            .unwrap_or_default();
        self.seen = (!groups.is_empty()).then(|| StepMaps {
            step: state.step,
            timestep: state.timestep,
            groups,
        });
        Ok(())
    }
}
