//! A second pass over a picture that is made first.

use std::path::PathBuf;

use prepose::engine::{Blueprint, EngineError};
use prepose::request::{InitImage, Request, Upscale, Upscaler};
use prepose_serve::{Refusal, SecondPassWanted};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::refusal::refused;
use super::request::value;

/// The second pass of a picture.
#[derive(Serialize, Deserialize)]
pub struct Second {
    /// Its request; the start picture's file is still to come.
    pub request: Request,
    /// The share of the noise that was asked for.
    pub denoising: f64,
    /// Steps that it makes.
    pub steps: usize,
    /// The first pass's prompt and negative prompt as written, whose changes are counted through both passes.
    pub written: [String; 2],
}

impl Second {
    /// The second pass over the picture of `first`, whose prompts end with its own steps from here on. Neither of both is checked
    /// yet.
    pub(super) fn over(
        blueprint: &Blueprint,
        first: &mut Request,
        wanted: &SecondPassWanted,
    ) -> Result<Self, Refusal> {
        // What is wrong with the steps of both is said of the first.
        let valid = first.validate(blueprint.vae_factor());
        let valid = valid.map_err(EngineError::from);
        let counted = valid.and_then(|()| blueprint.steps(first));
        counted.map_err(|error| refused(&error, "request.prompt"))?;
        let request = request_over(blueprint, first, wanted)?;
        let steps = blueprint.steps(&request);
        let steps = steps.map_err(|error| refused_second(&error, "second_pass"))?;
        let written = [first.prompt.clone(), first.negative_prompt.clone()];
        let ended = blueprint.end_prompts(first, &request);
        ended.map_err(|error| refused(&error, "request.prompt"))?;
        Ok(Self {
            request,
            denoising: wanted.strength,
            steps,
            written,
        })
    }

    /// Counts its prompts from its own first step on, and checks it as far as that is possible without the picture of `first`.
    pub(super) fn check(
        &mut self,
        blueprint: &Blueprint,
        first: &Request,
        wanted: &SecondPassWanted,
    ) -> Result<(), Refusal> {
        let prompt = match wanted.prompt {
            Some(_) => "second_pass.prompt",
            None => "request.prompt",
        };
        let checked = blueprint.continue_prompts(first, &mut self.request);
        let checked = checked.and_then(|()| blueprint.check_but_start(&mut self.request));
        checked.map_err(|error| refused_second(&error, prompt))
    }

    /// The request of the first pass with its prompts as written.
    pub fn as_written(&self, first: &Request) -> Request {
        let [prompt, negative_prompt] = self.written.clone();
        Request {
            prompt,
            negative_prompt,
            ..first.clone()
        }
    }
}

/// The request of a second pass over the picture of `first`, by the rules of AUTOMATIC1111's web UI: `steps` are all made, the last
/// ones of a schedule of `steps / strength`, and what changes in its prompts is counted through both passes. Guidance by attention
/// maps has put things into their places in the first pass, and classifier-free guidance acts in all steps of the second.
fn request_over(
    blueprint: &Blueprint,
    first: &Request,
    wanted: &SecondPassWanted,
) -> Result<Request, Refusal> {
    let steps = wanted.steps.unwrap_or(first.steps);
    if steps == 0 {
        let message = "second_pass.steps is at least 1";
        return Err(Refusal::new("second_pass.steps", message));
    }
    let denoising = wanted.strength;
    if !(denoising > 0.0 && denoising <= 1.0) {
        let message = format!("strength is {denoising}; it is above 0 and at most 1");
        return Err(Refusal::new("second_pass.strength", message));
    }
    let whole = whole_schedule(steps, denoising);
    if whole > MOST_STEPS {
        let message = format!(
            "{steps} steps with a strength of {denoising} are the end of a schedule of {whole}, and {MOST_STEPS} is the most"
        );
        return Err(Refusal::new("second_pass.strength", message));
    }
    let by: Upscaler = value(&json!(wanted.upscaler), "second_pass.upscaler")?;
    let factor = blueprint.vae_factor();
    let [width, height] = kept(wanted, factor);
    let mut request = Request {
        prompt: wanted.prompt.clone().unwrap_or(first.prompt.clone()),
        negative_prompt: (wanted.negative_prompt.clone()).unwrap_or(first.negative_prompt.clone()),
        scheduler: wanted.scheduler.clone().or(first.scheduler.clone()),
        width,
        height,
        steps: whole,
        guide: None,
        guidance_steps: None,
        init: Some(InitImage {
            path: PathBuf::new(),
            strength: strength(steps, whole, denoising),
            sha256: None,
            upscale: Some(Upscale {
                by,
                width: wanted.width,
                height: wanted.height,
            }),
        }),
        ..first.clone()
    };
    // With another scheduler the first pass's settings may do nothing.
    let dropped = blueprint.drop_inert(&mut request);
    dropped.map_err(|error| refused_second(&error, "second_pass"))?;
    if request.ground.is_none() {
        // They were guidance's.
        request.boxes.clear();
    }
    Ok(request)
}

/// As [`refused`], of a second pass, whose fields may be the first one's.
fn refused_second(error: &EngineError, otherwise: &'static str) -> Refusal {
    let refusal = refused(error, otherwise);
    let param = match refusal.param {
        Some("request.width") => Some("second_pass.width"),
        param => param,
    };
    Refusal {
        param,
        message: format!("in the second pass: {}", refusal.message),
        ..refusal
    }
}

/// The longest schedule that there is.
const MOST_STEPS: usize = 1000;

/// The steps of the schedule of which the last `steps` are made.
fn whole_schedule(steps: usize, denoising: f64) -> usize {
    (steps as f64 / denoising.min(0.999)) as usize
}

/// The engine's strength that makes `steps` of a `whole` schedule: what was asked for where that says so.
fn strength(steps: usize, whole: usize, denoising: f64) -> f64 {
    let runs = |strength: f64| (whole as f64 * strength) as usize == steps;
    let share = steps as f64 / whole as f64;
    let found = [denoising, share, share.next_up()]
        .into_iter()
        .find(|strength| runs(*strength));
    found.unwrap_or(1.0).min(1.0)
}

/// The size of the picture in pixels: whole latents of what it is scaled to, without what is cut.
fn kept(wanted: &SecondPassWanted, factor: usize) -> [usize; 2] {
    let scaled = [wanted.width, wanted.height];
    let crop = wanted.crop.unwrap_or(scaled);
    [0, 1].map(|axis| {
        let cut = scaled[axis].saturating_sub(crop[axis]) / factor;
        (scaled[axis] / factor).saturating_sub(cut) * factor
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_steps_are_made_as_the_web_ui_makes() {
        for steps in 1..=150 {
            for percent in 1..=100 {
                let denoising = f64::from(percent) / 100.0;
                let whole = whole_schedule(steps, denoising);
                let strength = strength(steps, whole, denoising);
                assert_eq!((whole as f64 * strength) as usize, steps, "{denoising}");
                assert!(strength > 0.0 && strength <= 1.0);
            }
        }
        assert_eq!(whole_schedule(20, 0.7), 28);
        assert_eq!(whole_schedule(20, 1.0), 20);
    }

    #[test]
    fn latents_are_cut_whole() {
        let of = |width, height, crop| {
            let wanted =
                serde_json::from_value(json!({"width": width, "height": height, "crop": crop}));
            kept(&wanted.unwrap(), 8)
        };
        assert_eq!(of(1000, 1500, None), [1000, 1496]);
        assert_eq!(of(1024, 1536, Some([1024, 1024])), [1024, 1024]);
        assert_eq!(of(1030, 1536, Some([1024, 1029])), [1024, 1032]);
    }
}
