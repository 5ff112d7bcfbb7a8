//! What the texts of a request say at each step.

use prepose_weights::tokenizer::ClipTokenizer;
use prepose_weights::{Checkpoint, Family};

use super::blueprint::Blueprint;
use super::error::EngineError;
use crate::guidance::GuidanceError;
use crate::prompt::Prompt;
use crate::prompt::compose::{self, Part};
use crate::prompt::schedule::{ScheduleError, Segment, first_pass, second_pass, sequence};
use crate::request::Request;
use crate::sampling::schedulers::{Schedule, Scheduler, SchedulerError, SchedulerKind};

/// Pairs of a prompt and a negative prompt.
pub(super) type Texts = Vec<(String, String)>;

/// The prompt of the last step of `request`, which takes so many UNet `calls`: what the picture should show, with every
/// prompt schedule resolved. PNGs say how many; [`Blueprint::steps`] counts them with the checkpoint at hand.
///
/// # Errors
/// A prompt that changes at a step that the run does not have.
pub fn final_prompt(request: &Request, calls: usize) -> Result<String, EngineError> {
    let last = timeline(request, calls)?.pop();
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

impl Blueprint {
    /// Ends the prompts of `first` with its own last step. As written they are counted through both passes, its own and that of
    /// `second` ([`first_pass`]).
    ///
    /// # Errors
    /// A change that comes after the last step of both, and as [`steps`](Self::steps).
    pub fn end_prompts(&self, first: &mut Request, second: &Request) -> Result<(), EngineError> {
        let (steps, after) = (self.steps(first)?, self.steps(second)?);
        rewrite_prompts(first, |prompt| first_pass(prompt, steps, after))
    }

    /// Counts the changes in the prompts of `second` from its own first step. As written they are counted through both passes,
    /// that of `first` and its own ([`second_pass`]).
    ///
    /// # Errors
    /// A change that comes after the last step, and as [`steps`](Self::steps).
    pub fn continue_prompts(
        &self,
        first: &Request,
        second: &mut Request,
    ) -> Result<(), EngineError> {
        let (before, steps) = (self.steps(first)?, self.steps(second)?);
        rewrite_prompts(second, |prompt| second_pass(prompt, before, steps))
    }

    /// Takes out of `request` what does nothing with its scheduler, its guidance scale and this checkpoint: the share of
    /// fresh noise, the spacing of timesteps, the steps of classifier-free guidance. For a request with which a picture was
    /// made before: nobody asks for them now. Where somebody does, [`check`](Self::check) refuses them.
    ///
    /// # Errors
    /// As [`scheduler_name`](Self::scheduler_name).
    pub fn drop_inert(&self, request: &mut Request) -> Result<(), EngineError> {
        let scheduler = plain_scheduler(&self.checkpoint, request)?;
        request.eta = request.eta.filter(|_| scheduler.kind().has_eta());
        let spacing = request.timestep_spacing;
        request.timestep_spacing = spacing.filter(|_| scheduler.reads_spacing());
        let guided = self.is_guided(request);
        request.guidance_steps = request.guidance_steps.filter(|_| guided);
        Ok(())
    }

    /// The texts that the network reads at each of `steps` steps: those of [`timeline`], without the negative prompt where no
    /// call is made for it, so that it changes nothing there.
    ///
    /// # Errors
    /// As [`timeline`]; a prompt whose parts cannot be told apart.
    pub(super) fn read_texts(&self, request: &Request, steps: usize) -> Result<Texts, EngineError> {
        let mut texts = timeline(request, steps)?;
        if self.is_guided(request) || !request.regions.is_empty() {
            return Ok(texts);
        }
        for (prompt, negative) in &mut texts {
            // A composed prompt's parts are measured against it at any scale.
            if parts(prompt)?.len() <= 1 {
                negative.clear();
            }
        }
        Ok(texts)
    }

    /// For each step of `request` whether its prompt is the one that the run ends with, at whose tokens attention maps are read.
    ///
    /// # Errors
    /// A schedule that cannot be followed.
    pub fn has_final_prompt(&self, request: &Request) -> Result<Vec<bool>, EngineError> {
        let texts = timeline(request, self.steps(request)?)?;
        let last = texts.last().map(|(prompt, _)| prompt);
        let is_last = |(prompt, _): &(String, String)| Some(prompt) == last;
        Ok(texts.iter().map(is_last).collect())
    }

    /// For each step of `request` whether the network sees the negative prompt that the run ends with, at whose tokens attention
    /// maps of the negative half are read. An empty one has none.
    ///
    /// # Errors
    /// A schedule that cannot be followed, savings that cannot be combined.
    pub fn has_final_negative(&self, request: &Request) -> Result<Vec<bool>, EngineError> {
        let texts = self.read_texts(request, self.steps(request)?)?;
        let savings = self.savings(request)?;
        let last = texts.last().map(|(_, negative)| negative);
        let sees = |(step, (_, negative)): (usize, &(String, String))| {
            let asked = (request.guidance_steps).is_none_or(|steps| steps.contains(step));
            let guided = asked && !savings.is_gated(step);
            guided && !negative.is_empty() && Some(negative) == last
        };
        Ok(texts.iter().enumerate().map(sees).collect())
    }

    /// Token positions of a phrase of the negative prompt that the run of `request` ends with, at its first occurrence.
    ///
    /// # Errors
    /// A phrase that the negative prompt does not have.
    pub fn negative_positions(
        &self,
        request: &Request,
        phrase: &str,
    ) -> Result<Vec<usize>, EngineError> {
        let last = timeline(request, self.steps(request)?)?.pop();
        let text = last.map_or_else(String::new, |(_, negative)| negative);
        let tokenizer = &self.tokenizers[0];
        let prompt = parse("negative prompt", &text, tokenizer)?;
        let found = prompt.occurrences(phrase, tokenizer);
        let first = found.map_err(GuidanceError::from)?.into_iter().next();
        let span = first.ok_or_else(|| GuidanceError::NotInNegative(phrase.to_string()))?;
        Ok(span.positions)
    }
}

/// Puts others in place of the prompt and the negative prompt of `request`.
fn rewrite_prompts(
    request: &mut Request,
    rewritten: impl Fn(&str) -> Result<String, ScheduleError>,
) -> Result<(), EngineError> {
    for (which, prompt) in [
        ("prompt", &mut request.prompt),
        ("negative prompt", &mut request.negative_prompt),
    ] {
        *prompt = rewritten(prompt).map_err(|source| EngineError::Schedule {
            which,
            text: beginning(prompt),
            source,
        })?;
    }
    Ok(())
}

/// For each of `items` the place of the first one that is equal.
pub(super) fn firsts<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<usize> {
    let items: Vec<T> = items.collect();
    let first = |item| items.iter().position(|other| other == item);
    items.iter().filter_map(first).collect()
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

/// As [`parse`], of a text in which nothing is notation.
pub(super) fn literal(
    which: &'static str,
    text: &str,
    tokenizer: &ClipTokenizer,
) -> Result<Prompt, EngineError> {
    Prompt::literal(text, tokenizer).map_err(|source| EngineError::Prompt {
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

/// The scheduler of `request`, without what else it says about sampling.
fn plain_scheduler(checkpoint: &Checkpoint, request: &Request) -> Result<Scheduler, EngineError> {
    let kind = request
        .scheduler
        .as_deref()
        .map(str::parse::<SchedulerKind>)
        .transpose()?;
    let scheduler = Scheduler::from_config(checkpoint.scheduler_config(), kind)?;
    Ok(match checkpoint.family() {
        Family::Sd1 | Family::Sd2 => scheduler.corrected(),
        // SDXL's pipeline takes it as it is.
        Family::Sdxl => scheduler,
    })
}

fn scheduler(checkpoint: &Checkpoint, request: &Request) -> Result<Scheduler, EngineError> {
    let scheduler = plain_scheduler(checkpoint, request)?;
    let Some(spacing) = request.timestep_spacing else {
        return Ok(scheduler);
    };
    let kind = scheduler.kind();
    let reads = scheduler.reads_spacing();
    let spaced = scheduler.with_spacing(spacing)?;
    match reads {
        true => Ok(spaced),
        false => Err(SchedulerError::KarrasSpacing(kind).into()),
    }
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
