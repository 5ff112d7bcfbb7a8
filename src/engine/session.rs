//! A batch on its way from noise to latents.

use std::sync::{Arc, PoisonError};

use burn::tensor::Tensor;
use prepose_models::vae::{LatentDistribution, VaeHalf};

use super::error::EngineError;
use super::fit::Task;
use super::init_image;
use super::needs::vae_dtype;
use super::networks::Engine;
use super::texts::schedule;
use super::upscale::interpolate;
use crate::guidance::Guidance;
use crate::guidance::classifier::Classifier;
use crate::request::{InitImage, Request, Upscale, Upscaler};
use crate::sampling::denoise::{Denoising, Hook, Run, UnetRows, draw};
use crate::sampling::noise::NoiseSource;
use crate::sampling::schedulers::Schedule;

/// A batch that is denoised bit by bit. The hooks that the requests themselves ask for are its own; those
/// of the caller must be the same in every call.
pub struct Session<'a> {
    engine: &'a Engine,
    /// Any of the batch: all agree in what takes memory.
    request: Request,
    denoising: Denoising<'a>,
    plugins: Vec<Box<dyn Hook>>,
}

impl Engine {
    /// Encodes the texts of `requests`, which must fit into one batch
    /// ([`batch_size`](Self::batch_size)), and draws their noise.
    ///
    /// # Errors
    /// A request that fails [`Blueprint::check`](super::Blueprint::check), a hook's error, want of memory.
    pub fn begin(
        &self,
        requests: &[Request],
        hooks: &mut [&mut dyn Hook],
    ) -> Result<Session<'_>, EngineError> {
        self.with_memory(Task::Encode, &requests[0], requests.len(), || {
            self.prepare(requests, hooks)
        })
    }

    fn prepare(
        &self,
        requests: &[Request],
        hooks: &mut [&mut dyn Hook],
    ) -> Result<Session<'_>, EngineError> {
        let first = &requests[0];
        let (schedule, start) = schedule(&self.blueprint.checkpoint, first)?;
        let plan = self.plan(requests, schedule.len() - start)?;
        let mut noise: Vec<NoiseSource> = requests
            .iter()
            .map(|request| NoiseSource::new(request.noise, request.seed))
            .collect();
        let latents = self.first_latents(requests, &schedule, start, &mut noise)?;
        let captures = self.make_room(requests)?;
        if !captures.calls {
            self.graphs.release();
        }
        if !captures.recordings {
            self.recordings.release();
        }
        let mut plugins: Vec<Box<dyn Hook>> = Vec::new();
        if let Some(guidance) = self.guidance(requests)? {
            plugins.push(Box::new(guidance));
        }
        let run = Run {
            unet: &self.unet,
            schedule,
            start,
            latents,
            plan,
            guidance_scale: first.guidance_scale,
            guidance_steps: first.guidance_steps,
            savings: self.blueprint.savings(first)?,
            noise,
            graphs: captures.calls.then_some(&self.graphs),
            recordings: captures.recordings.then_some(&self.recordings),
        };
        Ok(Session {
            engine: self,
            request: first.clone(),
            denoising: run.begin(&mut join(&mut plugins, hooks))?,
            plugins,
        })
    }

    /// The guidance that a batch asks for.
    fn guidance(&self, requests: &[Request]) -> Result<Option<Guidance>, EngineError> {
        let Some(config) = &requests[0].guide else {
            return Ok(None);
        };
        let mut targets = Vec::with_capacity(requests.len());
        for request in requests {
            targets.push(self.blueprint.target(request, config)?.1);
        }
        let mut settings = config.settings(self.blueprint.network())?;
        if let Some(file) = self.blueprint.classifier(config)? {
            let classifier = Arc::new(Classifier::load(&file, &self.device));
            settings.loss = settings.loss.taught(&classifier).unwrap_or(settings.loss);
        }
        let guidance = Guidance::new(settings, targets)?;
        Ok(Some(guidance.with_memory(self.guidance_memory)))
    }

    /// Pure noise, or the start pictures with noise on them.
    fn first_latents(
        &self,
        requests: &[Request],
        schedule: &Schedule,
        start: usize,
        noise: &mut [NoiseSource],
    ) -> Result<Tensor<4>, EngineError> {
        let first = &requests[0];
        let device = &self.device;
        let factor = self.blueprint.vae_factor();
        let channels = self.vae.config().latent_channels;
        let shape = [channels, first.height / factor, first.width / factor];
        let Some(init) = &first.init else {
            return Ok(draw(noise, shape, device) * schedule.init_noise_sigma());
        };
        if let Some(upscale) = init.upscale {
            let latents = requests.iter().filter_map(|request| request.init.as_ref());
            let latents = latents.map(|init| self.larger_latents(init, upscale, first));
            let latents = Tensor::cat(latents.collect::<Result<_, _>>()?, 0);
            return Ok(schedule.add_noise(latents, draw(noise, shape, device), start));
        }
        let mut pictures = Vec::with_capacity(requests.len());
        for request in requests {
            if let Some(init) = &request.init {
                pictures.push(init_image::load(
                    init,
                    request.width,
                    request.height,
                    device,
                )?);
            }
        }
        let pictures = Tensor::cat(pictures, 0);
        let distribution = self.encode_pictures(pictures, first.vae_tiling)?;
        // diffusers draws for the autoencoder's distribution first, then the noise to start from.
        let latents = distribution.sample(draw(noise, shape, device));
        let latents = (latents - self.vae.shift_factor()) * self.vae.scaling_factor();
        let fresh = draw(noise, shape, device);
        Ok(schedule.add_noise(latents, fresh, start))
    }

    /// The latents of a start picture made larger, of which the middle is taken, for a picture as `request` makes it.
    fn larger_latents(
        &self,
        init: &InitImage,
        Upscale { by, width, height }: Upscale,
        request: &Request,
    ) -> Result<Tensor<4>, EngineError> {
        let factor = self.blueprint.vae_factor();
        let [rows, columns] = [height / factor, width / factor];
        let picture = match by {
            Upscaler::Lanczos => {
                init_image::load(init, columns * factor, rows * factor, &self.device)?
            }
            _ => init_image::load_within(init, factor, [width, height], &self.device)?,
        };
        // What comes closest to the latents that the picture was decoded from.
        let latents = self.encode_pictures(picture, request.vae_tiling)?.mean;
        let latents = (latents - self.vae.shift_factor()) * self.vae.scaling_factor();
        let latents = interpolate(latents, [rows, columns], by);
        let wanted = [request.height / factor, request.width / factor];
        Ok(latents.narrow(2, (rows - wanted[0]) / 2, wanted[0]).narrow(
            3,
            (columns - wanted[1]) / 2,
            wanted[1],
        ))
    }

    pub(super) fn encode_pictures(
        &self,
        pictures: Tensor<4>,
        tiling: bool,
    ) -> Result<LatentDistribution, EngineError> {
        let mut encoder = self
            .vae_encoder
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let encoder = match &mut *encoder {
            Some(encoder) => encoder,
            empty => {
                let checkpoint = &self.blueprint.checkpoint;
                let dtype = vae_dtype(checkpoint.family(), self.dtype).float();
                let half = VaeHalf::Encoder;
                empty.insert(checkpoint.load_vae_half(half, &self.device, dtype)?)
            }
        };
        Ok(match tiling {
            true => encoder.encode_tiled(pictures),
            false => encoder.encode(pictures),
        })
    }
}

impl Session<'_> {
    /// Steps that are left.
    pub fn remaining(&self) -> usize {
        self.denoising.remaining()
    }

    /// Recorded passes of guidance so far, each over the whole batch.
    pub fn recorded_passes(&self) -> usize {
        (self.plugins.iter())
            .map(|hook| hook.recorded_passes())
            .sum()
    }

    /// Rows through the network so far, of each picture that is left; guidance's own passes are not counted.
    pub fn unet_rows(&self) -> UnetRows {
        self.denoising.unet_rows()
    }

    /// Every evaluation of the guidance's loss so far: the step, from 0, and the loss of each picture that was in the batch
    /// then, before the latents were moved.
    pub fn losses(&self) -> impl Iterator<Item = &(usize, Tensor<1>)> {
        self.plugins.iter().flat_map(|hook| hook.losses())
    }

    /// The latents after the steps taken so far, f32 [B, C, h, w].
    pub fn latents(&self) -> &Tensor<4> {
        self.denoising.latents()
    }

    /// Takes up to `steps` more steps.
    ///
    /// # Errors
    /// A hook's, want of memory.
    pub fn advance(
        &mut self,
        steps: usize,
        hooks: &mut [&mut dyn Hook],
    ) -> Result<(), EngineError> {
        let pictures = self.latents().dims()[0];
        let (engine, request) = (self.engine, &self.request);
        engine.with_memory(Task::Denoise, request, pictures, || {
            let mut hooks = join(&mut self.plugins, hooks);
            Ok(self.denoising.advance(steps, &mut hooks)?)
        })
    }

    /// Goes on with the pictures `keep` of the batch only, in that order.
    ///
    /// # Panics
    /// If `keep` names a picture that is not in the batch, or none.
    pub fn retain(&mut self, keep: &[usize], hooks: &mut [&mut dyn Hook]) {
        let mut hooks = join(&mut self.plugins, hooks);
        self.denoising.retain(keep, &mut hooks);
    }

    /// The latents, f32 [B, C, h, w], in the UNet's scaling.
    ///
    /// # Errors
    /// Non-finite latents, want of memory.
    pub fn finish(self) -> Result<Tensor<4>, EngineError> {
        let pictures = self.latents().dims()[0];
        let Self {
            engine,
            request,
            denoising,
            ..
        } = self;
        engine.with_memory(
            Task::Denoise,
            &request,
            pictures,
            || Ok(denoising.finish()?),
        )
    }
}

/// The batch's own hooks, then the caller's.
fn join<'a>(
    plugins: &'a mut [Box<dyn Hook>],
    hooks: &'a mut [&mut dyn Hook],
) -> Vec<&'a mut dyn Hook> {
    let plugins = plugins
        .iter_mut()
        .map(|hook| hook.as_mut() as &mut dyn Hook);
    let hooks = hooks.iter_mut().map(|hook| &mut **hook as &mut dyn Hook);
    plugins.chain(hooks).collect()
}
