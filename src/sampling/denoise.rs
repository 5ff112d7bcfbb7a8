//! The one denoising loop, and the points at which a guidance, a prompt schedule, a preview or a
//! progress bar hooks into it.

use burn::tensor::{Device, Tensor, TensorData};
use prepose_models::unet::{AddedConditioning, PreparedConditioning, UNet};
use thiserror::Error;

use super::noise::NoiseSource;
use super::schedulers::{History, Schedule};

/// What the UNet is told about the text, for a batch of B pictures.
#[derive(Clone, Debug)]
pub struct TextConditioning {
    /// Hidden states of the text encoders, [B, N, C].
    pub context: Tensor<3>,
    /// SDXL's pooled text and sizes.
    pub added: Option<AddedConditioning>,
}

/// Both halves of classifier-free guidance.
#[derive(Clone, Debug)]
pub struct Conditioning {
    /// What the pictures should show.
    pub positive: TextConditioning,
    /// What they should not; `None` runs without classifier-free guidance.
    pub negative: Option<TextConditioning>,
}

impl Conditioning {
    /// Both halves as one batch of [negative, positive], ready for the UNet.
    fn prepare(&self, unet: &UNet, guidance_scale: f64) -> PreparedConditioning {
        let Some(negative) = &self.negative else {
            let TextConditioning { context, added } = &self.positive;
            // Without a negative half, a guidance-distilled network (LCM) takes the scale itself.
            return unet.prepare_distilled(context.clone(), added.as_ref(), guidance_scale);
        };
        let stack = |a: &Tensor<2>, b: &Tensor<2>| Tensor::cat(vec![a.clone(), b.clone()], 0);
        let halves = negative.added.as_ref().zip(self.positive.added.as_ref());
        let added = halves.map(|(negative, positive)| AddedConditioning {
            text_embeds: stack(&negative.text_embeds, &positive.text_embeds),
            time_ids: stack(&negative.time_ids, &positive.time_ids),
        });
        let context = vec![negative.context.clone(), self.positive.context.clone()];
        unet.prepare(Tensor::cat(context, 0), added.as_ref())
    }
}

/// What a hook sees and may change. It lives for one run of the loop.
pub struct State<'a> {
    /// The network, for a guidance's own forward passes.
    pub unet: &'a UNet,
    /// Timesteps and noise levels.
    pub schedule: &'a Schedule,
    /// The step that is being taken, from 0.
    pub step: usize,
    /// The number of steps (UNet calls) of this run.
    pub steps: usize,
    /// The training timestep of this step, in [0, 1000).
    pub timestep: f64,
    /// The step's index in the whole schedule: larger than `step` in image-to-image.
    index: usize,
    latents: Tensor<4>,
    history: History,
    conditioning: Conditioning,
    prepared: Option<PreparedConditioning>,
}

impl State<'_> {
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

    /// What the UNet is told.
    pub fn conditioning(&self) -> &Conditioning {
        &self.conditioning
    }

    /// Tells the UNet something else from this step on.
    pub fn set_conditioning(&mut self, conditioning: Conditioning) {
        self.conditioning = conditioning;
        self.prepared = None;
    }
}

/// Why a hook ended the run.
pub type HookError = Box<dyn std::error::Error + Send + Sync>;

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
    /// to be.
    fn after_step(&mut self, _state: &State, _denoised: &Tensor<4>) -> Result<(), HookError> {
        Ok(())
    }
}

/// Why a run did not end with latents.
#[derive(Debug, Error)]
pub enum DenoiseError {
    /// A hook ended it.
    #[error(transparent)]
    Hook(HookError),
    /// The device failed; backends say so when results are read.
    #[error("the device failed while denoising: {}", .0.lines().next().unwrap_or_default())]
    Device(String),
    /// Not-a-number or infinity in the latents.
    #[error(
        "the latents of picture {picture} of the batch became non-finite; the weights' type is too \
         narrow for this checkpoint (try --dtype f32 or bf16), or the checkpoint is damaged"
    )]
    NonFinite {
        /// Which picture of the batch, from 0.
        picture: usize,
    },
}

/// One run of the loop.
pub struct Run<'a> {
    /// The network.
    pub unet: &'a UNet,
    /// Which steps to take.
    pub schedule: &'a Schedule,
    /// The index in the schedule of the first step: 0, or later in image-to-image.
    pub start: usize,
    /// Noisy latents at the first step's noise level, f32 [B, C, h, w].
    pub latents: Tensor<4>,
    /// What the UNet is told.
    pub conditioning: Conditioning,
    /// The scale of classifier-free guidance; read only with a negative half.
    pub guidance_scale: f64,
    /// One source a picture, for schedulers that add noise on the way.
    pub noise: &'a mut [NoiseSource],
}

impl Run<'_> {
    /// Runs all steps and returns the final latents, f32 [B, C, h, w].
    pub fn denoise(self, hooks: &mut [&mut dyn Hook]) -> Result<Tensor<4>, DenoiseError> {
        let Run {
            unet,
            schedule,
            start,
            latents,
            conditioning,
            guidance_scale,
            noise,
        } = self;
        let mut state = State {
            unet,
            schedule,
            step: 0,
            steps: schedule.len() - start,
            timestep: schedule.timestep(start),
            index: start,
            latents,
            history: History::default(),
            conditioning,
            prepared: None,
        };
        for hook in hooks.iter_mut() {
            hook.before_loop(&mut state).map_err(DenoiseError::Hook)?;
        }
        for index in start..schedule.len() {
            state.step = index - start;
            state.index = index;
            state.timestep = schedule.timestep(index);
            for hook in hooks.iter_mut() {
                hook.before_step(&mut state).map_err(DenoiseError::Hook)?;
            }
            for hook in hooks.iter_mut() {
                hook.before_unet(&mut state).map_err(DenoiseError::Hook)?;
            }
            let mut prediction = predict(&mut state, guidance_scale);
            for hook in hooks.iter_mut() {
                prediction = hook
                    .after_prediction(&state, prediction)
                    .map_err(DenoiseError::Hook)?;
            }
            let [_, channels, height, width] = state.latents.dims();
            let fresh = schedule
                .needs_noise(index)
                .then(|| draw(noise, [channels, height, width], &state.latents.device()));
            let output = schedule.step(
                &mut state.history,
                index,
                prediction,
                state.latents.clone(),
                fresh,
            );
            state.latents = output.prev_sample;
            for hook in hooks.iter_mut() {
                hook.after_step(&state, &output.pred_original)
                    .map_err(DenoiseError::Hook)?;
            }
        }
        check_finite(&state.latents)?;
        Ok(state.latents)
    }
}

/// The UNet's prediction, both halves of classifier-free guidance in one call.
fn predict(state: &mut State, guidance_scale: f64) -> Tensor<4> {
    let input = state
        .schedule
        .scale_model_input(state.latents.clone(), state.index);
    let guided = state.conditioning.negative.is_some();
    let input = match guided {
        true => Tensor::cat(vec![input.clone(), input], 0),
        false => input,
    };
    let unet = state.unet;
    let conditioning = &state.conditioning;
    let prepared = state
        .prepared
        .get_or_insert_with(|| conditioning.prepare(unet, guidance_scale));
    let output = unet.forward_prepared(input, &[state.timestep], prepared);
    if !guided {
        return output;
    }
    let pictures = output.dims()[0] / 2;
    let negative = output.clone().narrow(0, 0, pictures);
    let positive = output.narrow(0, pictures, pictures);
    negative.clone() + (positive - negative) * guidance_scale
}

/// One draw for each picture, [B, C, h, w] for a `shape` of [C, h, w].
pub(crate) fn draw(sources: &mut [NoiseSource], shape: [usize; 3], device: &Device) -> Tensor<4> {
    let [channels, height, width] = shape;
    let numbers: Vec<f32> = sources
        .iter_mut()
        .flat_map(|source| source.randn(channels * height * width))
        .collect();
    let data = TensorData::new(numbers, [sources.len(), channels, height, width]);
    Tensor::from_data(data, device)
}

fn check_finite(latents: &Tensor<4>) -> Result<(), DenoiseError> {
    let pictures = latents.dims()[0];
    let data = latents
        .try_to_data()
        .map_err(|error| DenoiseError::Device(format!("{error:?}")))?;
    let values = data.as_slice::<f32>().unwrap_or_default();
    let each = values.len() / pictures.max(1);
    match values
        .chunks(each.max(1))
        .position(|picture| picture.iter().any(|value| !value.is_finite()))
    {
        Some(picture) => Err(DenoiseError::NonFinite { picture }),
        None => Ok(()),
    }
}
