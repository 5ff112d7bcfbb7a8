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
use crate::sampling::denoise::{DenoiseError, Denoising, Hook, Run, UnetRows, draw};
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
        let captures = self.make_room(requests)?;
        if !captures.calls {
            self.graphs.release();
        }
        if !captures.recordings {
            self.recordings.release();
        }
        let latents = self.first_latents(requests, &schedule, start, &mut noise)?;
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
        let (mut means, mut logvars) = (Vec::new(), Vec::new());
        for request in requests {
            if let Some(init) = &request.init {
                // One at a time, so that a batch takes no more memory than a picture.
                let picture = init_image::load(init, request.width, request.height, device)?;
                let one = self.encode_picture(picture, first.vae_tiling)?;
                means.push(one.mean);
                logvars.push(one.logvar);
            }
        }
        let distribution = LatentDistribution {
            mean: Tensor::cat(means, 0),
            logvar: Tensor::cat(logvars, 0),
        };
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
        let latents = self.encode_picture(picture, request.vae_tiling)?.mean;
        let latents = (latents - self.vae.shift_factor()) * self.vae.scaling_factor();
        let latents = interpolate(latents, [rows, columns], by);
        let wanted = [request.height / factor, request.width / factor];
        Ok(latents.narrow(2, (rows - wanted[0]) / 2, wanted[0]).narrow(
            3,
            (columns - wanted[1]) / 2,
            wanted[1],
        ))
    }

    /// What the autoencoder says of a picture, f32 [1, 3, height, width] in [-1, 1].
    pub(super) fn encode_picture(
        &self,
        picture: Tensor<4>,
        tiling: bool,
    ) -> Result<LatentDistribution, EngineError> {
        #[cfg(test)]
        assert!(
            picture.dims()[0] == 1 && (tiling || !self.short_of_memory),
            "out of device memory allocating 64 bytes"
        );
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
            true => encoder.encode_tiled(picture),
            false => encoder.encode(picture),
        })
    }
}

impl Session<'_> {
    /// Steps that are left.
    pub fn remaining(&self) -> usize {
        self.denoising.remaining()
    }

    /// Recorded passes of guidance so far, of each picture that is left.
    pub fn recorded_passes(&self) -> Vec<usize> {
        let mut passes = vec![0; self.latents().dims()[0]];
        for hook in &self.plugins {
            for (all, of_hook) in passes.iter_mut().zip(hook.recorded_passes()) {
                *all += of_hook;
            }
        }
        passes
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

    /// Runs `read`, which brings something of the batch to the host: a GPU says only then that memory ran out in the
    /// steps before.
    ///
    /// # Errors
    /// Those of `read`, a device that fails, want of memory.
    pub fn reading<T>(
        &self,
        read: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let pictures = self.latents().dims()[0];
        (self.engine).with_memory(Task::Denoise, &self.request, pictures, || {
            let waited = self.engine.device.sync();
            waited.map_err(|error| DenoiseError::Device(format!("{error:?}")))?;
            read()
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

#[cfg(test)]
#[cfg(feature = "toybox")]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::device;
    use crate::engine::Blueprint;
    use crate::request::{Dtype, ModelRequest};

    /// An engine, and two requests that start from a picture.
    fn starts() -> (Engine, [Request; 2]) {
        crate::memory::silence_panics();
        let model = ModelRequest::new("toybox", Dtype::F32);
        let device = device::open("flex".parse().unwrap()).unwrap();
        let blueprint = Blueprint::open(&model).unwrap();
        let engine = blueprint.load(&model, &device).unwrap();
        let one = Request {
            steps: 2,
            width: 64,
            height: 64,
            init: Some(InitImage {
                path: Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pictures/rgb.png"),
                strength: 1.0,
                sha256: None,
                upscale: None,
            }),
            ..engine.request("a dog to the left of a cat")
        };
        let other = Request {
            seed: 1,
            ..one.clone()
        };
        (engine, [one, other])
    }

    #[test]
    fn start_pictures_are_encoded_one_at_a_time() {
        let (engine, requests) = starts();
        // Two at once would fail as if memory had run out.
        assert_eq!(engine.latents(&requests, &mut []).unwrap().dims()[0], 2);
    }

    #[test]
    fn tiles_are_offered_where_a_start_picture_has_no_room() {
        let (mut engine, requests) = starts();
        engine.short_of_memory = true;
        let error = engine.latents(&requests, &mut []).err().unwrap();
        let short = error.out_of_memory().unwrap();
        assert!(short.ways.contains(&"--vae-tiling".to_string()));
        let tiled = requests.map(|request| Request {
            vae_tiling: true,
            ..request
        });
        assert!(engine.latents(&tiled, &mut []).is_ok());
    }

    #[test]
    fn encoding_is_estimated_where_there_is_a_start_picture() {
        let (engine, [started, _]) = starts();
        let plain = Request {
            init: None,
            ..started.clone()
        };
        let needs = |request: &Request| engine.needs(request, 1).unwrap();
        assert_eq!(needs(&plain).encode, 0);
        let same = needs(&started);
        assert!(same.encode > 0 && same.work(false) == needs(&plain).work(false));
        // One that is cut afterwards is larger than what is decoded.
        let mut cut = started;
        if let Some(init) = &mut cut.init {
            init.upscale = Some(Upscale {
                by: Upscaler::Lanczos,
                width: 2048,
                height: 2048,
            });
        }
        assert_eq!(needs(&cut).work(false), needs(&cut).encode);
    }
}
