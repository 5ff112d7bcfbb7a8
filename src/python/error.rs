//! Errors of the library as the package's exceptions, with the command line's messages.

use std::panic::{AssertUnwindSafe, catch_unwind};

use prepose::check::detect::DetectError;
use prepose::device::DeviceError;
use prepose::engine::EngineError;
use prepose::guidance::GuidanceError;
use prepose::make::MakeError;
use prepose::request::{PicturePromptError, RequestError, SearchError};
use prepose_untrusted::message;
use prepose_weights::WeightsError;
use pyo3::prelude::*;

/// The package's exceptions.
#[derive(Clone, Copy, Debug)]
pub enum Class {
    /// Options, prompts and requests that make no sense.
    Option,
    /// A checkpoint, or another file of weights.
    Checkpoint,
    /// A device.
    Device,
    /// Memory.
    OutOfMemory,
    /// A picture that is none.
    Picture,
    /// A detector, a rule, or what they read.
    Check,
    /// A set of prompts, or a run.
    Run,
    /// A judge.
    Judge,
    /// Whatever else ends the making of pictures.
    Engine,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Option => "OptionError",
            Self::Checkpoint => "CheckpointError",
            Self::Device => "DeviceError",
            Self::OutOfMemory => "OutOfMemoryError",
            Self::Picture => "PictureError",
            Self::Check => "CheckError",
            Self::Run => "RunError",
            Self::Judge => "JudgeError",
            Self::Engine => "EngineError",
        }
    }
}

/// An exception with this message.
pub fn new(py: Python, class: Class, message: impl Into<String>) -> PyErr {
    let made = py
        .import("prepose._errors")
        .and_then(|errors| errors.getattr(class.name()))
        .and_then(|class| class.call1((message.into(),)));
    made.map_or_else(|error| error, |made| PyErr::from_value(made))
}

/// What clap says of options, without its advice about `--help`.
pub fn of_clap(error: &clap::Error) -> PyErr {
    let said = error.render().to_string();
    let said = said.strip_prefix("error: ").unwrap_or(&said);
    let end = said
        .find("\n\nUsage:")
        .or_else(|| said.find("\n\nFor more information"));
    let said = said[..end.unwrap_or(said.len())].trim();
    Python::attach(|py| new(py, Class::Option, message([said.to_owned()])))
}

/// An error of the library; of class `otherwise` where nothing in it says more.
pub fn of(py: Python, otherwise: Class, error: impl Into<anyhow::Error>) -> PyErr {
    let error = error.into();
    let said = message(error.chain().map(ToString::to_string));
    new(py, class(&error).unwrap_or(otherwise), said)
}

/// What kind of error it is, by the first of its reasons that tells.
fn class(error: &anyhow::Error) -> Option<Class> {
    error.chain().find_map(|reason| {
        if let Some(error) = reason.downcast_ref::<MakeError>() {
            return match error {
                MakeError::Engine(error) => of_engine(error),
                MakeError::Reward { .. } | MakeError::NoJudge | MakeError::NoCandidateJudge => {
                    Some(Class::Option)
                }
                _ => None,
            };
        }
        if let Some(error) = reason.downcast_ref::<EngineError>() {
            return of_engine(error);
        }
        let is_option = reason.is::<RequestError>()
            || reason.is::<GuidanceError>()
            || reason.is::<SearchError>()
            || reason.is::<PicturePromptError>();
        if is_option {
            return Some(Class::Option);
        }
        if reason.is::<WeightsError>() {
            return Some(Class::Checkpoint);
        }
        if reason.is::<DeviceError>() {
            return Some(Class::Device);
        }
        reason.is::<DetectError>().then_some(Class::Check)
    })
}

fn of_engine(error: &EngineError) -> Option<Class> {
    if error.out_of_memory().is_some() {
        return Some(Class::OutOfMemory);
    }
    Some(match error {
        EngineError::Request(_)
        | EngineError::Prompt { .. }
        | EngineError::Schedule { .. }
        | EngineError::Scheduler(_)
        | EngineError::Guidance(_)
        | EngineError::Search(_)
        | EngineError::PicturePrompt(_)
        | EngineError::Scene { .. } => Class::Option,
        EngineError::Picture { .. } | EngineError::PictureChanged { .. } => Class::Picture,
        EngineError::Weights(_) => Class::Checkpoint,
        _ => return None,
    })
}

/// Does something that takes long while other threads of Python go on. A panic becomes an exception that can be caught as
/// any other.
///
/// # Errors
/// What `act` returns, of class `otherwise` where nothing in it says more.
pub fn without_gil<T: Send>(
    py: Python,
    otherwise: Class,
    act: impl FnOnce() -> anyhow::Result<T> + Send,
) -> PyResult<T> {
    // Nothing of what a panic leaves behind is looked at again but engines, whose locks survive it.
    match py.detach(|| catch_unwind(AssertUnwindSafe(act))) {
        Ok(done) => done.map_err(|error| match error.downcast::<PyErr>() {
            Ok(own) => own,
            Err(error) => of(py, otherwise, error),
        }),
        Err(panic) => {
            let said = (panic.downcast_ref::<String>().map(String::as_str))
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("it says nothing more");
            Err(new(
                py,
                otherwise,
                format!("this is a mistake in prepose; please report it: {said}"),
            ))
        }
    }
}
