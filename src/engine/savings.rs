//! What a request leaves out of the network's calls, and what does not go together with that.

use super::blueprint::Blueprint;
use super::error::EngineError;
use super::texts::parts;
use crate::request::{Request, RequestError};
use crate::sampling::denoise::Savings;

impl Blueprint {
    /// Whether classifier-free guidance calls the network for the negative prompt, too. A distilled network takes the scale
    /// itself, and has no negative half.
    pub(super) fn is_guided(&self, request: &Request) -> bool {
        request.guidance_scale > 1.0 && !self.distilled
    }

    /// What `request` leaves out of the network's calls.
    ///
    /// # Errors
    /// Numbers out of range, and what cannot be combined.
    pub(super) fn savings(&self, request: &Request) -> Result<Savings, EngineError> {
        if request.savings.is_none() {
            return Ok(Savings::default());
        }
        let steps = self.steps(request)?;
        let savings = request.savings.in_steps(steps)?;
        let guided = self.guided_steps(request, steps)?;
        if savings.deep_every.is_some() {
            let unet = self.checkpoint.unet_config()?;
            let branches = unet.branches().map_err(|source| self.unusable(source))?;
            if savings.deep_branch >= branches {
                let branch = savings.deep_branch;
                return Err(RequestError::Branch { branch, branches }.into());
            }
            if guided.is_some_and(|[first, last]| first == 0 && last + 1 >= steps) {
                return Err(RequestError::DeepCacheGuided { steps }.into());
            }
        }
        if let Some(gate) = savings.gate {
            self.check_gate(request, gate, guided)?;
        }
        Ok(savings)
    }

    /// The first and the last step, of `steps`, in which guidance by attention moves the latents.
    fn guided_steps(
        &self,
        request: &Request,
        steps: usize,
    ) -> Result<Option<[usize; 2]>, EngineError> {
        let Some(config) = &request.guide else {
            return Ok(None);
        };
        let settings = config.settings(self.network())?;
        let end = settings.to_step.min(steps);
        Ok((settings.from_step < end).then(|| [settings.from_step, end - 1]))
    }

    /// Refuses what would want another cross-attention after T-GATE's gate.
    fn check_gate(
        &self,
        request: &Request,
        gate: usize,
        guided: Option<[usize; 2]>,
    ) -> Result<(), EngineError> {
        let texts = self.read_texts(request, self.steps(request)?)?;
        let kept = &texts[gate - 1];
        if let Some(after) = texts[gate..].iter().position(|text| text != kept) {
            let step = gate + after;
            return Err(RequestError::GatedPrompt { step, gate }.into());
        }
        if !request.regions.is_empty() || parts(&kept.0)?.len() > 1 {
            return Err(RequestError::GatedComposition.into());
        }
        let changes = |picture: &crate::request::PicturePrompt| {
            let begins = picture.first_step >= gate;
            begins
                || picture
                    .last_step
                    .is_some_and(|last| (gate - 1..texts.len() - 1).contains(&last))
        };
        if request.pictures.iter().any(changes) {
            return Err(RequestError::GatedPicture { gate }.into());
        }
        if let Some(range) = request.guidance_steps
            && range.first >= gate
            && self.is_guided(request)
        {
            let first = range.first;
            return Err(RequestError::GatedGuidanceSteps { first, gate }.into());
        }
        let one_pass = request.guide.as_ref().is_some_and(|guide| guide.one_pass);
        match guided {
            // A recorded call is made of two, which leave nothing.
            Some([_, last]) if last >= gate - usize::from(one_pass) => {
                Err(RequestError::GatedGuidance {
                    last,
                    gate,
                    one_pass,
                }
                .into())
            }
            _ => Ok(()),
        }
    }
}
