//! The one denoising loop, and the points at which a guidance, a prompt schedule, a preview or a
//! progress bar hooks into it.

mod conditioning;
mod hook;
mod pictures;
mod savings;

use burn::tensor::{Device, Int, Tensor, TensorData};
use prepose_models::unet::{
    PreparedConditioning, RecordGraphs, RecordOptions, Reuse, StepGraphs, UNet,
};
use thiserror::Error;

use super::StepRange;
use super::noise::NoiseSource;
use super::schedulers::{History, Schedule};
pub use conditioning::{Composition, Conditioning, ConditioningPlan, TextConditioning};
use hook::Probes;
pub use hook::{Hook, HookError, Rows, State};
pub use pictures::PictureGroup;
use savings::Saving;
pub use savings::{Savings, UnetRows};

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
    pub schedule: Schedule,
    /// The index in the schedule of the first step: 0, or later in image-to-image.
    pub start: usize,
    /// Noisy latents at the first step's noise level, f32 [B, C, h, w].
    pub latents: Tensor<4>,
    /// What the UNet is told, step by step.
    pub plan: ConditioningPlan,
    /// The scale of classifier-free guidance; read only with a negative half.
    pub guidance_scale: f64,
    /// The steps in which it acts; none are all.
    pub guidance_steps: Option<StepRange>,
    /// What is left out of the network's calls.
    pub savings: Savings,
    /// One source a picture, for schedulers that add noise on the way.
    pub noise: Vec<NoiseSource>,
    /// The network's captured calls, which stand in for calls that no hook observes or records.
    pub graphs: Option<&'a StepGraphs>,
    /// Its captured recordings, which stand in for those of hooks.
    pub recordings: Option<&'a RecordGraphs>,
}

impl<'a> Run<'a> {
    /// Runs all steps and returns the final latents, f32 [B, C, h, w].
    pub fn denoise(self, hooks: &mut [&mut dyn Hook]) -> Result<Tensor<4>, DenoiseError> {
        let mut denoising = self.begin(hooks)?;
        denoising.advance(denoising.remaining(), hooks)?;
        denoising.finish()
    }

    /// Begins a run that is taken further bit by bit.
    pub fn begin(self, hooks: &mut [&mut dyn Hook]) -> Result<Denoising<'a>, DenoiseError> {
        let mut denoising = Denoising {
            next: self.start,
            start: self.start,
            noise: self.noise,
            graphs: self.graphs,
            saving: Saving::new(self.savings, self.latents.dims()[0]),
            state: State {
                unet: self.unet,
                step: 0,
                steps: self.schedule.len() - self.start,
                timestep: self.schedule.timestep(self.start),
                schedule: self.schedule,
                index: self.start,
                latents: self.latents,
                history: History::default(),
                plan: self.plan,
                guidance_scale: self.guidance_scale,
                guidance_steps: self.guidance_steps,
                savings: self.savings,
                recordings: self.recordings,
            },
        };
        for hook in hooks.iter_mut() {
            hook.before_loop(&mut denoising.state)
                .map_err(DenoiseError::Hook)?;
        }
        Ok(denoising)
    }
}

/// A run under way.
pub struct Denoising<'a> {
    state: State<'a>,
    start: usize,
    /// The index in the schedule of the next step.
    next: usize,
    noise: Vec<NoiseSource>,
    graphs: Option<&'a StepGraphs>,
    saving: Saving,
}

impl Denoising<'_> {
    /// Steps that are left.
    pub fn remaining(&self) -> usize {
        self.state.schedule.len() - self.next
    }

    /// The latents after the steps taken so far, f32 [B, C, h, w].
    pub fn latents(&self) -> &Tensor<4> {
        &self.state.latents
    }

    /// Rows through the network so far, of each picture that is left; guidance's own passes are not counted.
    pub fn unet_rows(&self) -> UnetRows {
        self.saving.rows()
    }

    /// Takes up to `steps` more steps. `hooks` must be those that the run began with.
    pub fn advance(
        &mut self,
        steps: usize,
        hooks: &mut [&mut dyn Hook],
    ) -> Result<(), DenoiseError> {
        for _ in 0..steps.min(self.remaining()) {
            self.step(hooks).map_err(DenoiseError::Hook)?;
            self.next += 1;
        }
        Ok(())
    }

    /// Goes on with the pictures `keep` of the batch only, in that order; the hooks are told. A picture
    /// does not depend on its neighbours, so the others' results do not change.
    ///
    /// # Panics
    /// If `keep` names a picture that is not in the batch, or none.
    pub fn retain(&mut self, keep: &[usize], hooks: &mut [&mut dyn Hook]) {
        let state = &mut self.state;
        let pictures = state.latents.dims()[0];
        assert!(
            !keep.is_empty() && keep.iter().all(|&row| row < pictures),
            "rows {keep:?} of a batch of {pictures}"
        );
        let rows: Vec<i32> = keep.iter().map(|&row| row as i32).collect();
        let rows = TensorData::new(rows, [keep.len()]);
        let rows: Tensor<1, Int> = Tensor::from_data(rows, &state.latents.device());
        state.latents = state.latents.clone().select(0, rows.clone());
        state.history.select(&rows);
        state.plan.select(&rows);
        self.saving.retain(keep);
        self.noise = keep.iter().map(|&row| self.noise[row].clone()).collect();
        for hook in hooks.iter_mut() {
            hook.retain(keep);
        }
    }

    /// The final latents, f32 [B, C, h, w], if they are finite.
    pub fn finish(self) -> Result<Tensor<4>, DenoiseError> {
        check_finite(&self.state.latents)?;
        Ok(self.state.latents)
    }

    fn step(&mut self, hooks: &mut [&mut dyn Hook]) -> Result<(), HookError> {
        let (state, index) = (&mut self.state, self.next);
        state.step = index - self.start;
        state.index = index;
        state.timestep = state.schedule.timestep(index);
        for hook in hooks.iter_mut() {
            hook.before_step(state)?;
        }
        for hook in hooks.iter_mut() {
            hook.before_unet(state)?;
        }
        let mut prediction = predict(state, hooks, self.graphs, &mut self.saving)?;
        for hook in hooks.iter_mut() {
            prediction = hook.after_prediction(state, prediction)?;
        }
        let [_, channels, height, width] = state.latents.dims();
        let device = state.latents.device();
        let fresh = (state.schedule)
            .needs_noise(index)
            .then(|| draw(&mut self.noise, [channels, height, width], &device));
        let latents = state.latents.clone();
        let output = (state.schedule).step(&mut state.history, index, prediction, latents, fresh);
        state.latents = output.prev_sample;
        for hook in hooks.iter_mut() {
            hook.after_step(state, &output.pred_original)?;
        }
        Ok(())
    }
}

/// The UNet's prediction. Both halves of classifier-free guidance are one call, with all parts of a composed prompt,
/// unless a hook records the conditional one.
fn predict(
    state: &mut State,
    hooks: &mut [&mut dyn Hook],
    graphs: Option<&StepGraphs>,
    saving: &mut Saving,
) -> Result<Tensor<4>, HookError> {
    let (unet, scale) = (state.unet, state.guidance_scale);
    let prepared = state.plan.prepare(state.step, unet, scale).clone();
    let rows = state.conditioning().rows();
    let guided = rows > 1 && state.is_guided();
    let composition = state.conditioning().composition.clone().filter(|_| guided);
    let input = state.model_input(state.latents.clone());
    let pictures = input.dims()[0];
    let prepared = match rows > 1 && !guided {
        true => {
            let positive = prepared.narrow((rows - 1) * pictures, pictures);
            match state.savings.is_gated(state.step) {
                // Of SDXL's added conditioning, T-GATE's authors go on with that of the unconditional half.
                true => positive.with_added(&prepared),
                false => positive,
            }
        }
        false => prepared,
    };
    let call = Call { state, graphs };
    let recorder = (hooks.iter_mut()).position(|hook| hook.recorder(state).is_some());
    let parts = if guided { rows } else { 1 };
    let moved = hooks.iter().any(|hook| hook.moves(state));
    let (negative, positive) =
        match recorder {
            None if !guided => {
                let reuse = saving.call(state, parts, moved);
                return Ok(call.forward(Rows::Positive, input, &prepared, hooks, reuse));
            }
            None => {
                let input = Tensor::cat(vec![input; rows], 0);
                let reuse = saving.call(state, parts, moved);
                let output = call.forward(Rows::Both { pictures }, input, &prepared, hooks, reuse);
                let part = |row: usize| output.clone().narrow(0, row * pictures, pictures);
                if let Some(composition) = composition {
                    return Ok(compose(&composition, scale, rows, part));
                }
                (part(0), part(1))
            }
            Some(recorder) => {
                saving.recorded(parts);
                let negative = guided.then(|| {
                    let prepared = prepared.narrow(0, pictures);
                    let mut merging = saving.merging_alone();
                    let merging = merging.as_mut();
                    call.forward(Rows::Negative, input.clone(), &prepared, hooks, merging)
                });
                let probes = hooks.iter_mut().enumerate().filter_map(|(index, hook)| {
                    match index == recorder {
                        true => hook.recorder(state),
                        false => hook.probe(state, Rows::Positive),
                    }
                });
                let mut probes = Probes(probes.collect());
                let prepared = prepared.narrow(if guided { pictures } else { 0 }, pictures);
                let options = RecordOptions {
                    whole: true,
                    merging: state.merging(),
                    ..RecordOptions::default()
                };
                let recording = RecordGraphs::record(
                    state.recordings,
                    unet,
                    input,
                    state.timestep,
                    &prepared,
                    &mut probes,
                    options,
                );
                let positive = recording.output().cloned().expect("a whole recording");
                hooks[recorder].recorded(state, recording)?;
                match negative {
                    Some(negative) => (negative, positive),
                    None => return Ok(positive),
                }
            }
        };
    Ok(negative.clone() + (positive - negative) * scale)
}

/// Calls of the network in one step.
struct Call<'a, 's> {
    state: &'a State<'s>,
    graphs: Option<&'a StepGraphs>,
}

impl Call<'_, '_> {
    /// The network's output for some rows, as hooks observe it.
    fn forward(
        &self,
        which: Rows,
        input: Tensor<4>,
        prepared: &PreparedConditioning,
        hooks: &mut [&mut dyn Hook],
        reuse: Option<&mut Reuse>,
    ) -> Tensor<4> {
        let state = self.state;
        let timestep = [state.timestep];
        let shallow = (reuse.as_ref()).is_some_and(|reuse| reuse.deep.get().is_some());
        let probes = hooks.iter_mut().filter(|_| !shallow);
        let probes = probes.filter_map(|hook| hook.probe(state, which));
        let probes: Vec<_> = probes.collect();
        if let Some(reuse) = reuse {
            let mut probes = Probes(probes);
            return (state.unet).forward_reusing(input, &timestep, prepared, &mut probes, reuse);
        }
        let graphs = match which {
            Rows::Negative => state.recordings.map(RecordGraphs::beside),
            Rows::Both { .. } | Rows::Positive => self.graphs,
        };
        match graphs.filter(|_| probes.is_empty()) {
            Some(graphs) => {
                let calls = state.steps - state.step;
                graphs.forward(state.unet, input, state.timestep, prepared, calls)
            }
            None => {
                let mut probes = Probes(probes);
                (state.unet).forward_probed(input, &timestep, prepared, &mut probes)
            }
        }
    }
}

/// The prediction of a composed prompt from those of its `rows`: the unconditional one, the further parts, the first.
fn compose(
    composition: &Composition,
    scale: f64,
    rows: usize,
    part: impl Fn(usize) -> Tensor<4>,
) -> Tensor<4> {
    let negative = part(0);
    let order = std::iter::once(rows - 1).chain(1..rows - 1);
    let weighted = order.zip(&composition.weights);
    weighted.fold(negative.clone(), |sum, (row, weights)| {
        sum + (part(row) - negative.clone()) * (weights.clone() * scale)
    })
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
