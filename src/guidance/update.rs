//! The hook that drives any of the losses: record, differentiate, move the latents.

use burn::tensor::{Tensor, TensorData};
use prepose_models::unet::{PreparedConditioning, UNet, UNetConfig};

use super::attend_excite::AttendExcite;
use super::boxdiff::BoxDiff;
use super::layout::Layout;
use super::maps::{LayerFilter, MapGroup, Pooling, Recorder};
use super::pos::Pos;
use super::{GuidanceError, Loss, Method, Settings, Target};
use crate::sampling::denoise::{Hook, HookError, State};

/// What a loss is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The loss that an ordinary update lowers.
    Update,
    /// The loss that is driven below a threshold by repeating a step. It may be a part of the other.
    Refine,
}

/// A loss on attention maps, for a batch with a target for each sample.
pub trait MapLoss {
    /// How the maps that it reads are put together.
    fn pooling(&self) -> Pooling;

    /// Which samples it has something to say about. The others' losses are 0 and have no gradient.
    fn acts_on(&self) -> Vec<bool>;

    /// The loss of each sample, `[B]`, on one group of maps; differentiable with respect to `maps.maps`.
    fn losses(&self, maps: &MapGroup, stage: Stage) -> Tensor<1>;
}

/// How far the latents move down the gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepSize {
    /// What the gradient is multiplied with, before the schedule.
    pub scale: f64,
    schedule: StepSchedule,
    /// Whether the step is meant for latents x₀ + σ·ε as Euler keeps them, or for √ᾱ·x₀ + √(1 − ᾱ)·ε. Under a scheduler
    /// of the other kind it is converted, so that it does the same to the picture.
    sigma_space: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum StepSchedule {
    /// √ of a line from 1 at the first step to ½ at the last, as in Attend-and-Excite's code and all that follow it.
    Decaying,
    /// σ².
    NoiseLevel,
}

impl StepSize {
    /// `scale` at the first step, falling to `scale` · √½ at the last.
    pub fn decaying(scale: f64) -> Self {
        Self {
            scale,
            schedule: StepSchedule::Decaying,
            sigma_space: false,
        }
    }

    /// `scale` · σ² for latents in σ's space.
    pub fn noise_level(scale: f64) -> Self {
        Self {
            scale,
            schedule: StepSchedule::NoiseLevel,
            sigma_space: true,
        }
    }

    /// The same numbers for latents in σ's space.
    pub fn in_sigma_space(self) -> Self {
        Self {
            sigma_space: true,
            ..self
        }
    }

    /// What the gradient with respect to the UNet's input is multiplied with to move the latents of step `step` of
    /// `steps` at noise level `sigma`, where the input is `input_scale` times the latents.
    pub fn factor(&self, step: usize, steps: usize, sigma: f64, input_scale: f64) -> f64 {
        let size = self.scale
            * match self.schedule {
                StepSchedule::Decaying => {
                    let done = step as f64 / (steps.max(2) - 1) as f64;
                    (1.0 - 0.5 * done).sqrt()
                }
                StepSchedule::NoiseLevel => sigma * sigma,
            };
        let of_input = match self.sigma_space {
            // Both the gradient and the move shrink by √(σ² + 1) on the way to the UNet's input.
            true => size / (sigma * sigma + 1.0),
            false => size,
        };
        of_input / input_scale
    }
}

/// When a step is repeated until the loss is low enough.
#[derive(Clone, Debug, PartialEq)]
pub enum Refinement {
    /// Never: one update a step.
    None,
    /// At some steps, before the ordinary update.
    AtSteps {
        /// Step and greatest loss.
        thresholds: Vec<(usize, f64)>,
        /// The most updates.
        updates: usize,
        /// As in the authors' code, which looks at the loss before the last update and so makes one too many.
        quirk: bool,
    },
    /// At every guided step, instead of the ordinary update.
    Until {
        /// The greatest loss.
        threshold: f64,
        /// The most updates.
        updates: usize,
        /// As in the authors' code of layout guidance, which looks at the loss before the last update, and never looks
        /// again once it was low enough: guidance then ends for good.
        quirk: bool,
    },
}

impl Refinement {
    /// The thresholds of Attend-and-Excite and BoxDiff: attention of at least 0.05, 0.5 and 0.8 at steps 0, 10 and 20.
    pub fn published(quirk: bool) -> Self {
        Self::AtSteps {
            thresholds: vec![(0, 0.95), (10, 0.5), (20, 0.2)],
            updates: 20,
            quirk,
        }
    }
}

impl Settings {
    /// Checks what does not need weights: the number of steps, and that the network has the layers.
    ///
    /// # Errors
    /// [`GuidanceError::Steps`] if more steps were asked for than there are; a preset's own number is only an upper
    /// limit. [`GuidanceError::NoMaps`], [`GuidanceError::NoLayer`].
    pub fn check(
        &self,
        steps: usize,
        unet: &UNetConfig,
        latents: [usize; 2],
    ) -> Result<(), GuidanceError> {
        let guided = match self.steps_asked {
            true => self.to_step - self.from_step,
            false => 1,
        };
        if self.from_step + guided > steps {
            return Err(GuidanceError::Steps {
                from: self.from_step,
                guided,
                steps,
            });
        }
        self.layers.resolve(unet, latents).map(|_| ())
    }
}

impl Loss {
    /// Whose loss it is.
    pub fn method(&self) -> Method {
        match self {
            Loss::Pos(_) => Method::Pos,
            Loss::BoxDiff(_) => Method::BoxDiff,
            Loss::AttendAndExcite(_) => Method::AttendAndExcite,
            Loss::Layout(_) => Method::Layout,
        }
    }

    /// The losses for a batch with these targets, to be applied one after the other within a step.
    ///
    /// # Errors
    /// [`GuidanceError::NotInThePlane`].
    pub fn passes(&self, targets: &[Target]) -> Result<Vec<Box<dyn MapLoss>>, GuidanceError> {
        Ok(match self {
            Loss::Pos(constants) => (Pos::passes(constants, targets)?.into_iter())
                .map(|pass| Box::new(pass) as Box<dyn MapLoss>)
                .collect(),
            Loss::BoxDiff(constants) => vec![Box::new(BoxDiff::new(constants, targets))],
            Loss::AttendAndExcite(constants) => {
                vec![Box::new(AttendExcite::new(constants, targets))]
            }
            Loss::Layout(constants) => vec![Box::new(Layout::new(constants, targets))],
        })
    }
}

/// A guidance method inside the loop.
pub struct Guidance {
    settings: Settings,
    targets: Vec<Target>,
    passes: Vec<Box<dyn MapLoss>>,
    filter: Option<LayerFilter>,
    /// The samples that layout guidance's quirk has not given up on.
    awake: Vec<bool>,
    losses: Vec<(usize, Tensor<1>)>,
}

impl Guidance {
    /// Guides a batch of pictures, each to its own target.
    ///
    /// # Errors
    /// [`GuidanceError::NotInThePlane`].
    pub fn new(settings: Settings, targets: Vec<Target>) -> Result<Self, GuidanceError> {
        Ok(Self {
            passes: settings.loss.passes(&targets)?,
            awake: vec![true; targets.len()],
            settings,
            targets,
            filter: None,
            losses: Vec::new(),
        })
    }

    /// Every evaluation of the loss so far: the step and the loss of each sample, `[B]`, before the update.
    pub fn losses(&self) -> &[(usize, Tensor<1>)] {
        &self.losses
    }

    /// One forward pass, and an update of the samples that `chosen` picks by their losses.
    fn update(
        &mut self,
        state: &mut State,
        pass: usize,
        stage: Stage,
        chosen: impl FnOnce(&Tensor<1>) -> Vec<bool>,
    ) {
        let Some(filter) = self.filter.clone() else {
            return;
        };
        let prepared = state.positive();
        let input = state.model_input(state.latents().clone());
        let loss = self.passes[pass].as_ref();
        let forward = Forward::run(
            state.unet,
            input,
            state.timestep,
            &prepared,
            filter,
            loss,
            stage,
        );
        self.losses.push((state.step, forward.losses.clone()));
        let chosen = chosen(&forward.losses);
        if !chosen.contains(&true) {
            return;
        }
        let size = self.settings.step_size;
        let factor = size.factor(state.step, state.steps, state.sigma(), state.input_scale());
        let mut step = forward.gradient() * factor;
        if chosen.contains(&false) {
            let chosen: Vec<f32> = chosen.into_iter().map(f32::from).collect();
            let data = TensorData::new(chosen, [step.dims()[0], 1, 1, 1]);
            step = step.clone() * Tensor::from_data(data, &step.device());
        }
        state.edit_latents(state.latents().clone() - step);
    }

    /// Updates each sample until its loss is at most `threshold`. `looked` says whether the first loss counts; with `quirk`
    /// later ones count only for the update after the next.
    fn refine(
        &mut self,
        state: &mut State,
        pass: usize,
        stage: Stage,
        Repeat {
            threshold,
            updates,
            quirk,
            looked,
        }: Repeat,
    ) {
        let mut active = self.passes[pass].acts_on();
        for (active, awake) in active.iter_mut().zip(&self.awake) {
            *active &= awake;
        }
        for iteration in 0..updates {
            if !active.contains(&true) {
                break;
            }
            let late = quirk && (iteration > 0 || !looked);
            let before = active.clone();
            let after = &mut active;
            self.update(state, pass, stage, |losses| {
                let losses: Vec<f32> = losses.to_data().iter().collect();
                for (active, loss) in after.iter_mut().zip(losses) {
                    *active &= f64::from(loss) > threshold;
                }
                if late { before } else { after.clone() }
            });
        }
        if quirk && !looked {
            let acts_on = self.passes[pass].acts_on();
            self.awake = active
                .iter()
                .zip(acts_on)
                .map(|(active, acts)| *active || !acts)
                .collect();
        }
    }
}

/// How [`Guidance::refine`] repeats.
struct Repeat {
    threshold: f64,
    updates: usize,
    quirk: bool,
    looked: bool,
}

impl Hook for Guidance {
    fn before_loop(&mut self, state: &mut State) -> Result<(), HookError> {
        let [_, _, height, width] = state.latents().dims();
        self.filter = Some((self.settings.layers).resolve(state.unet.config(), [height, width])?);
        Ok(())
    }

    fn before_step(&mut self, state: &mut State) -> Result<(), HookError> {
        if !(self.settings.from_step..self.settings.to_step).contains(&state.step) {
            return Ok(());
        }
        for pass in 0..self.passes.len() {
            let acts_on = self.passes[pass].acts_on();
            if !acts_on.contains(&true) {
                continue;
            }
            match self.settings.refinement.clone() {
                Refinement::None => {}
                Refinement::AtSteps {
                    thresholds,
                    updates,
                    quirk,
                } => {
                    let at = thresholds.into_iter().find(|(step, _)| *step == state.step);
                    if let Some((_, threshold)) = at {
                        let looked = true;
                        let repeat = Repeat {
                            threshold,
                            updates,
                            quirk,
                            looked,
                        };
                        self.refine(state, pass, Stage::Refine, repeat);
                    }
                }
                Refinement::Until {
                    threshold,
                    updates,
                    quirk,
                } => {
                    let looked = false;
                    let repeat = Repeat {
                        threshold,
                        updates,
                        quirk,
                        looked,
                    };
                    self.refine(state, pass, Stage::Update, repeat);
                    continue;
                }
            }
            self.update(state, pass, Stage::Update, |_| acts_on);
        }
        Ok(())
    }

    fn retain(&mut self, keep: &[usize]) {
        self.targets = keep.iter().map(|row| self.targets[*row].clone()).collect();
        self.awake = keep.iter().map(|row| self.awake[*row]).collect();
        self.passes =
            (self.settings.loss.passes(&self.targets)).expect("targets that were checked");
    }
}

/// A forward pass with the loss of what it recorded.
pub struct Forward {
    /// The loss of each sample, `[B]`.
    pub losses: Tensor<1>,
    input: Tensor<4>,
    total: Tensor<1>,
}

impl Forward {
    /// Runs the UNet on `input`, `[B, C, h, w]` as it wants them.
    pub fn run(
        unet: &UNet,
        input: Tensor<4>,
        timestep: f64,
        conditioning: &PreparedConditioning,
        filter: LayerFilter,
        loss: &dyn MapLoss,
        stage: Stage,
    ) -> Self {
        let mut recorder = Recorder::new(filter, loss.pooling());
        let input = input.autodiff().require_grad();
        unet.forward_probed(input.clone(), &[timestep], conditioning, &mut recorder);
        let losses = mean_losses(loss, &recorder.finish(), stage);
        Self {
            losses: losses.clone().inner(),
            input,
            total: losses.sum(),
        }
    }

    /// The gradient of the losses' sum with respect to the input, `[B, C, h, w]`; each sample's depends on its own loss
    /// only.
    pub fn gradient(self) -> Tensor<4> {
        let gradients = self.total.backward();
        (self.input.grad(&gradients)).unwrap_or_else(|| self.input.inner().zeros_like())
    }
}

/// The mean of the losses on all groups of maps, `[B]`.
pub fn mean_losses(loss: &dyn MapLoss, groups: &[MapGroup], stage: Stage) -> Tensor<1> {
    let each = groups.iter().map(|group| loss.losses(group, stage));
    let total = each.reduce(|sum, losses| sum + losses);
    total.expect("a layer that is read") / groups.len() as f64
}
