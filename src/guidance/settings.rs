//! A method with all of its constants.

use std::sync::Arc;

use prepose_models::unet::UNetConfig;

use super::maps::LayerRule;
use super::method::{Loss, Method};
use super::steps::{Refinement, StepSize};
use super::{GuidanceConfig, GuidanceError, Preset};
use crate::prompt::scene::TokenPolicy;

/// A method with all of its constants.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The method.
    pub method: Method,
    /// The loss with its constants.
    pub loss: Arc<dyn Loss>,
    /// The layers that are read.
    pub layers: LayerRule,
    /// The first guided step, from 0.
    pub from_step: usize,
    /// The first step that is not guided any more.
    pub to_step: usize,
    /// Whether the number of guided steps was asked for. A preset's own is only an upper limit.
    pub steps_asked: bool,
    /// How far the latents move.
    pub step_size: StepSize,
    /// When a step is repeated.
    pub refinement: Refinement,
    /// Which tokens stand for an object.
    pub tokens: TokenPolicy,
    /// Whether the step's own UNet call is recorded.
    pub one_pass: bool,
    /// Every so many guided steps the gradient is taken; at least 1.
    pub every: usize,
    /// Whether the steps in between go on along the line through the last two gradients, or by the last one.
    pub extrapolate: bool,
}

impl Settings {
    /// What most methods share: the maps of one size are read, no step is repeated, and an object's first token stands
    /// for it in the presets that do as the authors' code, all of its tokens in the default one.
    pub(super) fn new(
        config: &GuidanceConfig,
        loss: impl Loss + 'static,
        steps: usize,
        step_size: StepSize,
    ) -> Self {
        Self {
            method: config.method,
            loss: Arc::new(loss),
            layers: LayerRule::Size {
                side: None,
                down_only: false,
            },
            from_step: 0,
            to_step: steps,
            steps_asked: false,
            step_size,
            refinement: Refinement::None,
            tokens: match config.preset {
                Preset::Default => TokenPolicy::Mean,
                _ => TokenPolicy::First,
            },
            one_pass: false,
            every: 1,
            extrapolate: false,
        }
    }

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
        if self.from_step.saturating_add(guided) > steps {
            return Err(GuidanceError::Steps {
                from: self.from_step,
                guided,
                steps,
            });
        }
        self.layers.resolve(unet, latents).map(|_| ())
    }
}
