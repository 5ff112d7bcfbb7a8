//! The engine's errors in the words of the wire.

use std::path::PathBuf;

use prepose::engine::EngineError;
use prepose::make::MakeError;
use prepose::request::RequestError;
use prepose::sampling::schedulers::SchedulerError;
use prepose_serve::Refusal;

/// The message of an error, without the folders of this machine.
pub fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let text = prepose_untrusted::message(causes.map(ToString::to_string));
    let words = text.split(' ').map(|word| {
        let path = PathBuf::from(
            word.trim_matches(|letter| matches!(letter, '"' | ',' | ';' | ':' | ')' | '(')),
        );
        match (path.is_absolute(), path.file_name()) {
            (true, Some(name)) => name.to_string_lossy().into_owned(),
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What is wrong with a request that cannot be made.
pub(super) fn refused_make(error: &MakeError) -> Refusal {
    match error {
        MakeError::Engine(error) => refused(error, "request.prompt"),
        MakeError::Reward { .. } => Refusal::new("search.reward", told(error)),
        error => Refusal::new(None, told(error)),
    }
}

/// The field that an error is about, or `otherwise`, and its message.
pub(super) fn refused(error: &EngineError, otherwise: &'static str) -> Refusal {
    let param = match error {
        EngineError::Request(RequestError::Size { .. }) => "request.width",
        EngineError::Request(RequestError::Range { name, .. }) => match *name {
            "steps" => "request.steps",
            "guidance scale" => "request.guidance_scale",
            "the last of the guidance steps" => "request.guidance_steps",
            "strength" => "request.init.strength",
            "a side of the larger start picture" => "second_pass.width",
            "deep cache" | "tgate" | "token merging" => "request.savings",
            _ => otherwise,
        },
        EngineError::Request(RequestError::ClipSkip { .. }) => "request.clip_skip",
        EngineError::Request(
            RequestError::GuidanceSteps { .. }
            | RequestError::UnguidedSteps { .. }
            | RequestError::DistilledSteps,
        ) => "request.guidance_steps",
        EngineError::Request(
            RequestError::Gate { .. }
            | RequestError::Branch { .. }
            | RequestError::DeepCacheGuided { .. }
            | RequestError::GatedPrompt { .. }
            | RequestError::GatedComposition
            | RequestError::GatedGuidance { .. },
        ) => "request.savings",
        EngineError::Scheduler(SchedulerError::NoSpacing(_) | SchedulerError::KarrasSpacing(_)) => {
            "request.timestep_spacing"
        }
        EngineError::Request(RequestError::Region { .. } | RequestError::SmallRegion { .. }) => {
            "request.regions"
        }
        EngineError::Prompt {
            which: "negative prompt",
            ..
        } => "request.negative_prompt",
        EngineError::Scheduler(_) => "request.scheduler",
        EngineError::Guidance(_) => "request.guide",
        EngineError::Search(_) => "search",
        EngineError::Scene { .. } => "request.relations",
        EngineError::Picture {
            which: "start picture",
            ..
        } => "request.init.image",
        EngineError::Picture { .. } | EngineError::PicturePrompt(_) => "request.pictures",
        _ => otherwise,
    };
    Refusal::new(param, told(error))
}
