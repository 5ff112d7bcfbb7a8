//! The hook that drives any of the losses: record, differentiate, move the latents.

use burn::tensor::{Tensor, TensorData};
use prepose_models::attention::AttentionProbe;
use prepose_models::unet::{Memory, Recording};

use super::gradient::{MapGradient, MapLoss, NoiseLevel, Reading, Stage};
use super::held::Held;
use super::maps::{LayerFilter, MapGroup, Recorder};
use super::steps::Refinement;
use super::{GuidanceError, Settings, Target};
use crate::sampling::denoise::{Hook, HookError, State};
use crate::sampling::schedulers::Schedule;

/// A guidance method inside the loop.
pub struct Guidance {
    settings: Settings,
    memory: Memory,
    targets: Vec<Target>,
    passes: Vec<Box<dyn MapLoss>>,
    filter: Option<LayerFilter>,
    /// The samples that layout guidance's quirk has not given up on.
    awake: Vec<bool>,
    /// In one pass: what observes the step's own UNet call, and how far the latents are to move after the step.
    recorder: Option<Recorder>,
    pending: Option<Tensor<4>>,
    losses: Vec<(usize, Tensor<1>)>,
    /// Recorded passes that each sample needed.
    recorded: Vec<usize>,
    /// The gradients of each pass, where one serves several steps.
    held: Vec<Held>,
    /// The maps of the last guided pass, and of the last one of the step before.
    maps: Vec<MapGroup>,
    maps_before: Vec<MapGroup>,
}

impl Guidance {
    /// Guides a batch of pictures, each to its own target.
    ///
    /// # Errors
    /// [`GuidanceError::NotInThePlane`].
    pub fn new(settings: Settings, targets: Vec<Target>) -> Result<Self, GuidanceError> {
        let passes = settings.loss.passes(&targets)?;
        Ok(Self {
            held: passes.iter().map(|_| Held::default()).collect(),
            passes,
            awake: vec![true; targets.len()],
            recorded: vec![0; targets.len()],
            settings,
            memory: Memory::default(),
            targets,
            filter: None,
            recorder: None,
            pending: None,
            losses: Vec::new(),
            maps: Vec::new(),
            maps_before: Vec::new(),
        })
    }

    /// Chooses what the guided forward passes keep; results do not change.
    pub fn with_memory(self, memory: Memory) -> Self {
        Self { memory, ..self }
    }

    /// Whether this step is guided at all.
    fn guides(&self, state: &State) -> bool {
        (self.settings.from_step..self.settings.to_step).contains(&state.step)
    }

    /// Whether this guided step takes a gradient of its own.
    fn is_fresh(&self, state: &State) -> bool {
        let Settings {
            every,
            from_step,
            refinement,
            ..
        } = &self.settings;
        let refined = match refinement {
            Refinement::AtSteps { thresholds, .. } => {
                thresholds.iter().any(|(step, _)| *step == state.step)
            }
            Refinement::None | Refinement::Until { .. } | Refinement::InTurn { .. } => false,
        };
        refined || (state.step - from_step).is_multiple_of(*every)
    }

    /// Keeps a gradient for the steps to come, if they need it.
    fn hold(&mut self, step: usize, pass: usize, gradient: &Tensor<4>) {
        if self.settings.every > 1 {
            self.held[pass].push(step, gradient.clone());
        }
    }

    /// How far the latents move by the gradients of earlier steps; none if there are none.
    fn held_movement(&self, state: &State, pass: usize) -> Option<Tensor<4>> {
        let gradient = self.held[pass].at(state.step, self.settings.extrapolate)?;
        Some(self.movement(state, gradient, self.passes[pass].acts_on()))
    }

    /// How far the latents move for a gradient with respect to the UNet's input, `[B, C, h, w]`; samples that are not
    /// `chosen` do not.
    fn movement(&self, state: &State, gradient: Tensor<4>, chosen: Vec<bool>) -> Tensor<4> {
        let size = self.settings.step_size;
        let factor = size.factor(state.step, state.steps, state.sigma(), state.input_scale());
        let movement = gradient * -factor;
        if chosen.iter().all(|chosen| *chosen) {
            return movement;
        }
        let chosen: Vec<f32> = chosen.into_iter().map(f32::from).collect();
        let data = TensorData::new(chosen, [movement.dims()[0], 1, 1, 1]);
        let mask = Tensor::from_data(data, &movement.device());
        movement * mask
    }

    /// Counts a pass for the samples that `need` it; the others are along because they are in the same batch.
    fn count(&mut self, need: &[bool]) {
        for (passes, needed) in self.recorded.iter_mut().zip(need) {
            *passes += usize::from(*needed);
        }
    }

    /// One forward pass, and an update of the samples that `chosen` picks by their losses.
    fn update(
        &mut self,
        state: &mut State,
        pass: usize,
        stage: Stage,
        chosen: impl FnOnce(&Tensor<1>) -> Vec<bool>,
    ) {
        let Some(filter) = &self.filter else {
            return;
        };
        let reading = Reading {
            filter,
            loss: self.passes[pass].as_ref(),
            before: &self.maps_before,
            stage,
            merging: state.merging(),
            graphs: state.recordings(),
        };
        let prepared = state.positive();
        let input = state.model_input(state.latents().clone());
        let level = NoiseLevel::of(state);
        let (maps, recording) = reading.run(state.unet, input, level, &prepared, self.memory);
        let chosen = chosen(&maps.losses);
        self.losses.push((state.step, maps.losses.clone()));
        if chosen.contains(&true) {
            let gradient = recording.sample_gradient(&maps);
            self.hold(state.step, pass, &gradient);
            let movement = self.movement(state, gradient, chosen);
            state.edit_latents(state.latents().clone() + movement);
        }
        self.maps = maps.maps;
    }

    /// Updates each sample until its loss is low enough.
    fn refine(&mut self, state: &mut State, pass: usize, stage: Stage, repeat: Repeat) {
        let mut active = self.passes[pass].acts_on();
        for (active, awake) in active.iter_mut().zip(&self.awake) {
            *active &= awake;
        }
        for iteration in 0..repeat.updates {
            if !active.contains(&true) {
                break;
            }
            let unseen = repeat.quirk && (iteration > 0 || !repeat.looks_first);
            let before = active.clone();
            self.count(&active);
            let after = &mut active;
            self.update(state, pass, stage, |losses| {
                let losses: Vec<f32> = losses.to_data().iter().collect();
                for (active, loss) in after.iter_mut().zip(losses) {
                    *active &= f64::from(loss) > repeat.threshold;
                }
                if unseen { before } else { after.clone() }
            });
        }
        if repeat.quirk && !repeat.looks_first {
            let acts_on = self.passes[pass].acts_on();
            let awake = active.iter().zip(acts_on);
            self.awake = awake.map(|(active, acts)| *active || !acts).collect();
        }
    }
}

// Steps that are repeated with the passes taking turns.
impl Guidance {
    /// Updates each sample by one pass after the other, until the loss of the one whose turn it is is low enough.
    fn take_turns(&mut self, state: &mut State, threshold: f64, updates: usize) {
        let mut active = vec![true; self.targets.len()];
        for turn in 0..updates {
            if self.passes.is_empty() {
                return;
            }
            let pass = turn % self.passes.len();
            for (active, acts) in active.iter_mut().zip(self.passes[pass].acts_on()) {
                *active &= acts;
            }
            if !active.contains(&true) {
                return;
            }
            self.count(&active);
            let after = &mut active;
            self.update(state, pass, Stage::Update, |losses| {
                let losses: Vec<f32> = losses.to_data().iter().collect();
                for (active, loss) in after.iter_mut().zip(losses) {
                    *active &= f64::from(loss) > threshold;
                }
                after.clone()
            });
        }
    }
}

/// How [`Guidance::refine`] repeats.
struct Repeat {
    threshold: f64,
    updates: usize,
    /// Whether a loss counts only for the update after the next.
    quirk: bool,
    /// Whether the first loss counts at once nevertheless.
    looks_first: bool,
}

impl Hook for Guidance {
    fn before_loop(&mut self, state: &mut State) -> Result<(), HookError> {
        let [_, _, height, width] = state.latents().dims();
        self.filter = Some((self.settings.layers).resolve_in(state.unet, [height, width])?);
        Ok(())
    }

    fn before_step(&mut self, state: &mut State) -> Result<(), HookError> {
        if !self.guides(state) {
            return Ok(());
        }
        let fresh = self.is_fresh(state);
        if self.settings.one_pass {
            if !fresh && state.is_final_text() && !self.passes.is_empty() {
                self.pending = self.held_movement(state, 0);
            }
            return Ok(());
        }
        if !fresh {
            for pass in 0..self.passes.len() {
                if let Some(movement) = self.held_movement(state, pass) {
                    state.edit_latents(state.latents().clone() + movement);
                }
            }
            return Ok(());
        }
        self.maps_before = std::mem::take(&mut self.maps);
        if let Refinement::InTurn {
            thresholds,
            updates,
        } = self.settings.refinement.clone()
        {
            let guided = state.step - self.settings.from_step;
            let threshold = thresholds.get(guided).or(thresholds.last());
            self.take_turns(state, threshold.copied().unwrap_or(0.0), updates);
            return Ok(());
        }
        for pass in 0..self.passes.len() {
            let acts_on = self.passes[pass].acts_on();
            if !acts_on.contains(&true) {
                continue;
            }
            let repeat = |threshold, updates, quirk, looks_first| Repeat {
                threshold,
                updates,
                quirk,
                looks_first,
            };
            match self.settings.refinement.clone() {
                Refinement::None | Refinement::InTurn { .. } => {}
                Refinement::AtSteps {
                    thresholds,
                    updates,
                    quirk,
                } => {
                    let at = thresholds.into_iter().find(|(step, _)| *step == state.step);
                    if let Some((_, threshold)) = at {
                        let repeat = repeat(threshold, updates, quirk, true);
                        self.refine(state, pass, Stage::Refine, repeat);
                    }
                }
                Refinement::Until {
                    threshold,
                    updates,
                    quirk,
                } => {
                    let repeat = repeat(threshold, updates, quirk, false);
                    self.refine(state, pass, Stage::Update, repeat);
                    continue;
                }
            }
            self.count(&acts_on);
            self.update(state, pass, Stage::Update, |_| acts_on);
        }
        Ok(())
    }

    fn moves(&self, state: &State) -> bool {
        self.guides(state)
    }

    fn recorder(&mut self, state: &State) -> Option<&mut dyn AttentionProbe> {
        // Before a switch the prompt may not name the objects.
        let records = self.settings.one_pass && self.guides(state) && self.is_fresh(state);
        if !records || !state.is_final_text() {
            return None;
        }
        let loss = self.passes.first()?;
        if !loss.acts_on().contains(&true) {
            return None;
        }
        let recorder = Recorder::new(self.filter.clone()?, loss.pooling());
        Some(self.recorder.insert(recorder))
    }

    fn recorded(&mut self, state: &State, recording: Recording) -> Result<(), HookError> {
        if let (Some(recorder), Some(loss)) = (self.recorder.take(), self.passes.first()) {
            let acts_on = loss.acts_on();
            let groups = recorder.finish();
            let maps = MapGradient::new(
                loss.as_ref(),
                groups,
                &self.maps,
                Stage::Update,
                NoiseLevel::of(state),
            );
            self.losses.push((state.step, maps.losses.clone()));
            self.count(&acts_on);
            let gradient = recording.sample_gradient(&maps);
            self.hold(state.step, 0, &gradient);
            self.pending = Some(self.movement(state, gradient, acts_on));
            self.maps = maps.maps;
        }
        Ok(())
    }

    fn after_step(&mut self, state: &mut State, _denoised: &Tensor<4>) -> Result<(), HookError> {
        if let Some(movement) = self.pending.take() {
            let movement = movement
                * carried_over(
                    &state.schedule,
                    state.schedule.len() - state.steps + state.step,
                );
            state.edit_latents(state.latents().clone() + movement);
        }
        Ok(())
    }

    fn retain(&mut self, keep: &[usize]) {
        self.targets = keep.iter().map(|row| self.targets[*row].clone()).collect();
        self.awake = keep.iter().map(|row| self.awake[*row]).collect();
        self.recorded = keep.iter().map(|row| self.recorded[*row]).collect();
        self.maps = self.maps.iter().map(|maps| maps.select(keep)).collect();
        self.held.iter_mut().for_each(|held| held.retain(keep));
        let passes = self.settings.loss.passes(&self.targets);
        self.passes = passes.expect("targets that were checked");
    }

    fn recorded_passes(&self) -> &[usize] {
        &self.recorded
    }

    fn losses(&self) -> &[(usize, Tensor<1>)] {
        &self.losses
    }
}

/// What becomes of a movement of the latents of step `index` in those of the next step if the predicted noise stays: so many
/// times the movement.
fn carried_over(schedule: &Schedule, index: usize) -> f64 {
    // How much of the clean latents is in the latents: √ᾱ, or all of them where latents are x₀ + σ·ε.
    let signal = |index: usize| match index < schedule.len() {
        true => 1.0 / ((schedule.sigma(index).powi(2) + 1.0).sqrt() * schedule.input_scale(index)),
        false => 1.0,
    };
    match signal(index) {
        // Pure noise: moving it is not moving the clean latents, so that there is nothing to carry over, and no quotient.
        0.0 => 0.0,
        now => signal(index + 1) / now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::schedulers::{Scheduler, SchedulerKind};

    #[test]
    fn movements_grow_with_the_signal() {
        let config = serde_json::json!({
            "_class_name": "DDIMScheduler", "beta_start": 0.00085, "beta_end": 0.012,
            "beta_schedule": "scaled_linear", "num_train_timesteps": 1000, "steps_offset": 1,
        });
        let schedule = |kind| {
            let scheduler = Scheduler::from_config(&config, Some(kind)).unwrap();
            scheduler.schedule(20).unwrap()
        };
        let ddim = schedule(SchedulerKind::Ddim);
        let all: f64 = (0..20).map(|index| carried_over(&ddim, index)).product();
        let first = (ddim.sigma(0).powi(2) + 1.0).sqrt();
        assert!((all / first - 1.0).abs() < 1e-6, "{all} and {first}");
        let euler = schedule(SchedulerKind::Euler);
        assert!((0..20).all(|index| (carried_over(&euler, index) - 1.0).abs() < 1e-6));
    }

    #[test]
    fn pure_noise_carries_no_movement() {
        let config = serde_json::json!({
            "_class_name": "DDIMScheduler", "beta_start": 0.00085, "beta_end": 0.012,
            "beta_schedule": "scaled_linear", "num_train_timesteps": 1000, "prediction_type": "v_prediction",
            "rescale_betas_zero_snr": true, "timestep_spacing": "trailing",
        });
        for kind in [SchedulerKind::Ddim, SchedulerKind::Lcm, SchedulerKind::Tcd] {
            let scheduler = Scheduler::from_config(&config, Some(kind)).unwrap();
            let schedule = scheduler.schedule(4).unwrap();
            let first = schedule.sigma(0);
            assert!(first.is_infinite(), "{kind:?} begins at {first}");
            let carried: Vec<f64> = (0..4).map(|index| carried_over(&schedule, index)).collect();
            assert_eq!(carried[0], 0.0, "{kind:?}");
            assert!(
                carried[1..]
                    .iter()
                    .all(|carried| carried.is_finite() && *carried > 0.0),
                "{kind:?}"
            );
        }
    }
}
