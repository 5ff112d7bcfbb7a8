//! What the texts of a request say at each step.

use prepose_weights::Checkpoint;
use prepose_weights::tokenizer::ClipTokenizer;

use super::error::EngineError;
use crate::prompt::Prompt;
use crate::prompt::compose::{self, Part};
use crate::prompt::schedule::{Segment, sequence};
use crate::request::Request;
use crate::sampling::schedulers::{Schedule, Scheduler, SchedulerKind};

/// Pairs of a prompt and a negative prompt.
pub(super) type Texts = Vec<(String, String)>;

/// The prompt of the last step of `request`: what the picture should show, with every prompt schedule resolved.
///
/// # Errors
/// A prompt that changes at a step that the run does not have.
pub fn final_prompt(request: &Request) -> Result<String, EngineError> {
    last_prompt(request, request.steps)
}

pub(super) fn last_prompt(request: &Request, steps: usize) -> Result<String, EngineError> {
    let last = timeline(request, steps)?.pop();
    Ok(last.map_or_else(|| request.prompt.clone(), |(prompt, _)| prompt))
}

/// The prompt and the negative prompt of `request` at each of `steps` steps, with every prompt schedule resolved.
pub(super) fn timeline(request: &Request, steps: usize) -> Result<Texts, EngineError> {
    let follow = |which, prompt: &str, texts: &[(usize, &str)]| {
        sequence(texts, steps).map_err(|source| EngineError::Schedule {
            which,
            text: beginning(prompt),
            source,
        })
    };
    let positive = follow("prompt", &request.prompt, &request.texts())?;
    let negative = &*request.negative_prompt;
    let negative = follow("negative prompt", negative, &[(0, negative)])?;
    let at = |segments: &[Segment], step: usize| {
        let mut begun = segments.iter().rev();
        let segment = begun.find(|segment| segment.first_step <= step);
        segment.map_or_else(String::new, |segment| segment.text.clone())
    };
    let texts = (0..steps).map(|step| (at(&positive, step), at(&negative, step)));
    Ok(texts.collect())
}

/// The parts of a prompt that may be composed of several.
pub(super) fn parts(text: &str) -> Result<Vec<Part>, EngineError> {
    compose::parts(text).map_err(|source| EngineError::Prompt {
        which: "prompt",
        text: beginning(text),
        source,
    })
}

pub(super) fn parse(
    which: &'static str,
    text: &str,
    tokenizer: &ClipTokenizer,
) -> Result<Prompt, EngineError> {
    Prompt::parse(text, tokenizer).map_err(|source| EngineError::Prompt {
        which,
        text: beginning(text),
        source,
    })
}

/// The first 60 characters of a text, to quote in an error.
fn beginning(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

fn scheduler(checkpoint: &Checkpoint, request: &Request) -> Result<Scheduler, EngineError> {
    let kind = request
        .scheduler
        .as_deref()
        .map(str::parse::<SchedulerKind>)
        .transpose()?;
    let scheduler = Scheduler::from_config(checkpoint.scheduler_config(), kind)?;
    Ok(match request.timestep_spacing {
        Some(spacing) => scheduler.with_spacing(spacing)?,
        None => scheduler,
    })
}

/// The schedule of `request` and the index of its first step.
pub(super) fn schedule(
    checkpoint: &Checkpoint,
    request: &Request,
) -> Result<(Schedule, usize), EngineError> {
    let mut schedule = scheduler(checkpoint, request)?.schedule(request.steps)?;
    if let Some(eta) = request.eta {
        schedule = schedule.with_eta(eta)?;
    }
    let start = match &request.init {
        Some(init) => schedule.start_index(init.strength)?,
        None => 0,
    };
    Ok((schedule, start))
}
