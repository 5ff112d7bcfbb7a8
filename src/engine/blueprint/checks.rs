//! What can be refused before a network is loaded.

use crate::engine::blueprint::{Blueprint, always_skipped};
use crate::engine::error::EngineError;
use crate::engine::init_image;
use crate::engine::texts::{parse, parts, timeline};
use crate::request::{Request, RequestError};

impl Blueprint {
    /// Checks `request` as far as possible without weights, and records the hashes of the pictures that it names.
    pub fn check(&self, request: &mut Request) -> Result<(), EngineError> {
        self.check_but_start(request)?;
        if let Some(init) = &mut request.init {
            init.sha256 = Some(init_image::check(init)?);
        }
        Ok(())
    }

    /// As [`check`](Self::check), where the file of the start picture is still to come.
    pub fn check_but_start(&self, request: &mut Request) -> Result<(), EngineError> {
        request.validate(self.vae_factor())?;
        self.check_clip_skip(request)?;
        let steps = self.steps(request)?;
        request.check_switch(steps)?;
        self.check_guidance_steps(request, steps)?;
        let mut texts = timeline(request, steps)?;
        texts.dedup();
        // Brackets alone are no prompt either; a schedule may be without one for some steps.
        let mut empty = true;
        let mut most = 1;
        for (positive, negative) in &texts {
            let parts = parts(positive)?;
            most = most.max(parts.len());
            for tokenizer in &self.tokenizers {
                for part in &parts {
                    empty &= parse("prompt", &part.text, tokenizer)?.is_empty();
                }
                parse("negative prompt", negative, tokenizer)?;
            }
        }
        if empty {
            return Err(RequestError::EmptyPrompt.into());
        }
        self.check_regions(request, most)?;
        self.check_guidance(request, steps)?;
        self.savings(request)?;
        self.grounded(request)?;
        self.check_pictures(request, steps)
    }

    /// Refuses regions of parts that are not there, or between the latents, of a prompt with at most `parts` parts.
    fn check_regions(&self, request: &Request, parts: usize) -> Result<(), EngineError> {
        let factor = self.vae_factor();
        let (height, width) = (request.height / factor, request.width / factor);
        for region in &request.regions {
            let part = region.part;
            if !(1..=parts).contains(&part) {
                return Err(RequestError::Region { part, parts }.into());
            }
            if !region.cells([height, width]).contains(&1.0) {
                return Err(RequestError::SmallRegion {
                    part,
                    width,
                    height,
                }
                .into());
            }
        }
        let composed = parts > 1 || !request.regions.is_empty();
        if composed && self.distilled {
            return Err(RequestError::ComposedDistilled.into());
        }
        if composed && request.guide.as_ref().is_some_and(|guide| guide.one_pass) {
            return Err(RequestError::ComposedOnePass.into());
        }
        match composed && request.guidance_steps.is_some() {
            true => Err(RequestError::ComposedGuidanceSteps.into()),
            false => Ok(()),
        }
    }

    /// Refuses steps of classifier-free guidance where there is none.
    fn check_guidance_steps(&self, request: &Request, steps: usize) -> Result<(), EngineError> {
        request.check_guidance_steps(steps)?;
        if request.guidance_steps.is_none() || self.is_guided(request) {
            return Ok(());
        }
        let scale = request.guidance_scale;
        Err(match self.distilled {
            true => RequestError::DistilledSteps,
            false => RequestError::UnguidedSteps { scale },
        }
        .into())
    }

    /// Refuses to leave out more layers than the shortest text encoder has.
    fn check_clip_skip(&self, request: &Request) -> Result<(), EngineError> {
        let encoders = self.checkpoint.text_encoder_configs()?;
        let layers = encoders.iter().map(|encoder| encoder.num_hidden_layers);
        let layers = layers.min().unwrap_or(0);
        let most = layers.saturating_sub(always_skipped(self.checkpoint.family()));
        match request.clip_skip <= most {
            true => Ok(()),
            false => Err(RequestError::ClipSkip {
                asked: request.clip_skip,
                layers,
                most,
            }
            .into()),
        }
    }

    /// Checks guidance as far as possible without weights.
    fn check_guidance(&self, request: &Request, steps: usize) -> Result<(), EngineError> {
        if let Some(config) = &request.guide {
            let (settings, target) = self.target(request, config)?;
            settings.loss.passes(std::slice::from_ref(&target))?;
            self.classifier(config)?;
            let factor = self.vae_factor();
            let latents = [request.height / factor, request.width / factor];
            settings.check(steps, &self.checkpoint.unet_config()?, latents)?;
        } else if !request.relations.is_empty() {
            // A relation that is misspelt should be known before the picture is made.
            self.scene(request)?;
        }
        Ok(())
    }
}
