//! The points at which something acts inside the loop, and what it sees there.

use burn::tensor::Tensor;
use prepose_models::attention::{AttentionProbe, LayerInfo};
use prepose_models::unet::{PreparedConditioning, RecordGraphs, Recording, UNet};

use super::conditioning::{Conditioning, ConditioningPlan};
use super::savings::Savings;
use crate::sampling::StepRange;
use crate::sampling::schedulers::{History, Schedule};

/// What a hook sees and may change. It lives for one run of the loop.
pub struct State<'a> {
    /// The network, for a guidance's own forward passes.
    pub unet: &'a UNet,
    /// Timesteps and noise levels.
    pub schedule: Schedule,
    /// The step that is being taken, from 0.
    pub step: usize,
    /// The number of steps (UNet calls) of this run.
    pub steps: usize,
    /// The training timestep of this step, in [0, 1000).
    pub timestep: f64,
    /// The step's index in the whole schedule: larger than `step` in image-to-image.
    pub(super) index: usize,
    pub(super) latents: Tensor<4>,
    pub(super) history: History,
    pub(super) plan: ConditioningPlan,
    pub(super) guidance_scale: f64,
    pub(super) guidance_steps: Option<StepRange>,
    pub(super) savings: Savings,
    pub(super) recordings: Option<&'a RecordGraphs>,
}

impl<'a> State<'a> {
    /// The latents as the scheduler keeps them, f32 [B, C, h, w].
    pub fn latents(&self) -> &Tensor<4> {
        &self.latents
    }

    /// Replaces the latents. Multistep schedulers are told, so that the edit survives the samples
    /// that they remember.
    pub fn edit_latents(&mut self, edited: Tensor<4>) {
        self.history.edited(&self.latents, &edited);
        self.latents = edited;
    }

    /// What the UNet is told at this step.
    pub fn conditioning(&self) -> &Conditioning {
        self.plan.at(self.step)
    }

    /// Tells the UNet something else from this step on.
    pub fn set_conditioning(&mut self, conditioning: Conditioning) {
        self.plan.replace(self.step, conditioning);
    }

    /// Whether the prompts of this step are those that the run ends with: without a prompt schedule always. Negative
    /// prompts may be others.
    pub fn is_final_text(&self) -> bool {
        self.plan.is_final(self.step)
    }

    /// Whether the negative prompts of this step are those that the run ends with.
    pub fn is_final_negative(&self) -> bool {
        self.plan.is_final_negative(self.step)
    }

    /// `latents` as the UNet wants them at this step; linear in `latents`, with the factor
    /// [`input_scale`](Self::input_scale).
    pub fn model_input(&self, latents: Tensor<4>) -> Tensor<4> {
        self.schedule.scale_model_input(latents, self.index)
    }

    /// The gradient with respect to the latents is this many times that with respect to the UNet's
    /// input: 1 for most schedulers, 1/√(σ² + 1) where the latents are kept in σ's space.
    pub fn input_scale(&self) -> f64 {
        self.schedule.input_scale(self.index)
    }

    /// Whether classifier-free guidance acts in this step, if there is any.
    pub fn is_guided(&self) -> bool {
        let asked = (self.guidance_steps).is_none_or(|steps| steps.contains(self.step));
        asked && !self.savings.is_gated(self.step)
    }

    /// The share of tokens that the network's self-attention merges in this run, for a guidance's own forward passes.
    pub fn merging(&self) -> Option<f64> {
        self.savings.merging
    }

    /// The network's captured recordings, for a guidance's own forward passes.
    pub fn recordings(&self) -> Option<&'a RecordGraphs> {
        self.recordings
    }

    /// The noise level of this step as σ = √(1 − ᾱ) / √ᾱ.
    pub fn sigma(&self) -> f64 {
        self.schedule.sigma(self.index)
    }

    /// The conditional half of what the run ends with, ready for the UNet: what a guidance's own
    /// forward pass reads, since the prompt before a switch may not name the objects. GLIGEN's layers act in it where
    /// they act in this step.
    pub fn positive(&mut self) -> PreparedConditioning {
        (self.plan).prepare_positive(self.step, self.unet, self.guidance_scale)
    }
}

/// Why a hook ended the run.
pub type HookError = Box<dyn std::error::Error + Send + Sync>;

/// The rows of a batch of B pictures in one UNet call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// The B unconditional ones first, the B conditional ones last; between them those of the further parts of a
    /// composed prompt.
    Both {
        /// B.
        pictures: usize,
    },
    /// The unconditional ones.
    Negative,
    /// The conditional ones; all there are without classifier-free guidance.
    Positive,
}

/// Something that acts inside the loop. Each method is one point of a step, in this order; a hook
/// implements those it needs. Hooks run in the order in which they are given.
pub trait Hook {
    /// Once, before the first step.
    fn before_loop(&mut self, _state: &mut State) -> Result<(), HookError> {
        Ok(())
    }

    /// Before a step: may edit the latents. Gradient steps happen here.
    fn before_step(&mut self, _state: &mut State) -> Result<(), HookError> {
        Ok(())
    }

    /// Right before the UNet call: may swap the conditioning.
    fn before_unet(&mut self, _state: &mut State) -> Result<(), HookError> {
        Ok(())
    }

    /// Whether the hook moves the latents of this step by what it sees in the network. The network then runs whole, whatever
    /// earlier steps have left: what they left is from before the move. The same for every picture, so that one does not
    /// depend on its neighbours.
    fn moves(&self, _state: &State) -> bool {
        false
    }

    /// Asked before each UNet call of the step that runs the whole network: an observer of its cross-attention, which will see
    /// these `rows` of classifier-free guidance.
    fn probe(&mut self, _state: &State, _rows: Rows) -> Option<&mut dyn AttentionProbe> {
        None
    }

    /// Asked before the step's UNet calls: an observer of the conditional half, which is then recorded, so
    /// that [`recorded`](Self::recorded) can differentiate what was observed. This is how a guidance gets by
    /// without a forward pass of its own. Of several hooks that ask, the first gets it; its
    /// [`probe`](Self::probe) is not asked for the conditional half then.
    fn recorder(&mut self, _state: &State) -> Option<&mut dyn AttentionProbe> {
        None
    }

    /// After the conditional half was recorded, on [`State::model_input`] of the latents.
    fn recorded(&mut self, _state: &State, _recording: Recording) -> Result<(), HookError> {
        Ok(())
    }

    /// After both halves of the prediction, [B, C, h, w], were combined; what is returned goes to
    /// the scheduler.
    fn after_prediction(
        &mut self,
        _state: &State,
        prediction: Tensor<4>,
    ) -> Result<Tensor<4>, HookError> {
        Ok(prediction)
    }

    /// After a step: `denoised`, [B, C, h, w], is what the scheduler now expects the final latents
    /// to be. May edit the new latents.
    fn after_step(&mut self, _state: &mut State, _denoised: &Tensor<4>) -> Result<(), HookError> {
        Ok(())
    }

    /// In a search: which of its candidates the rows are. Told before they are taken further and before some of them are
    /// dropped, since candidates that do not fit into one batch are taken through the steps in turn.
    fn candidates(&mut self, _rows: &[usize]) {}

    /// The batch shrinks to its rows `keep`, in that order.
    fn retain(&mut self, _keep: &[usize]) {}

    /// Recorded passes so far for each picture that is in the batch, those instead of the loop's own included: what a
    /// guidance costs it, whatever its neighbours need. Empty if there are none.
    fn recorded_passes(&self) -> &[usize] {
        &[]
    }

    /// Every evaluation of a guidance's loss so far: the step, from 0, and the loss of each picture that was in the batch
    /// then, before the latents were moved.
    fn losses(&self) -> &[(usize, Tensor<1>)] {
        &[]
    }
}

/// Several observers of one UNet call.
pub(super) struct Probes<'a>(pub(super) Vec<&'a mut dyn AttentionProbe>);

impl AttentionProbe for Probes<'_> {
    fn wants(&self, layer: &LayerInfo) -> bool {
        self.0.iter().any(|probe| probe.wants(layer))
    }

    fn record(&mut self, layer: &LayerInfo, probabilities: Tensor<4>) {
        for probe in self.0.iter_mut().filter(|probe| probe.wants(layer)) {
            probe.record(layer, probabilities.clone());
        }
    }
}
