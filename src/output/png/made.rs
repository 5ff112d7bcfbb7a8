//! How a picture was made, as its PNG says.

use crate::engine::{EngineError, final_prompt};
use crate::request::Request;

/// The most UNet calls that a picture takes: a thousand steps, and what PNDM warms up with.
const MOST_CALLS: usize = 1009;

/// What sampled a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled<'a> {
    /// The scheduler's name, also where the request leaves the choice to the checkpoint.
    pub scheduler: &'a str,
    /// UNet calls that it took, if somebody counted.
    pub calls: Option<usize>,
}

impl<'a> From<&'a str> for Sampled<'a> {
    fn from(scheduler: &'a str) -> Self {
        Self {
            scheduler,
            calls: None,
        }
    }
}

/// The picture that a second pass starts from.
pub struct FirstPass<'a> {
    /// Its request.
    pub request: &'a Request,
    /// The share of noise that was asked for, which is the strength but for what whole steps allow.
    pub denoising: f64,
}

/// What a PNG says of how its picture was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// The request.
    pub request: Request,
    /// UNet calls that it took, in which changes of its prompt are counted.
    pub calls: usize,
}

impl Made {
    /// `told` are the calls where the file says them, `parameters` what it says in the form of AUTOMATIC1111's web UI.
    pub(super) fn new(request: Request, told: Option<usize>, parameters: Option<&str>) -> Self {
        let calls = told.unwrap_or_else(|| {
            // Files of earlier versions never say it, but they say which scheduler the checkpoint chose.
            let scheduler = request.scheduler.as_deref();
            request.calls(scheduler.or_else(|| sampler(parameters?)))
        });
        Self {
            calls: calls.min(MOST_CALLS),
            request,
        }
    }

    /// The prompt of its last step: what it should show.
    ///
    /// # Errors
    /// A prompt that changes at a step that the run does not have.
    pub fn final_prompt(&self) -> Result<String, EngineError> {
        final_prompt(&self.request, self.calls)
    }
}

/// The scheduler among the settings, which come after the prompts, whatever these say.
fn sampler(parameters: &str) -> Option<&str> {
    let (_, settings) = parameters.rsplit_once("\nSteps: ")?;
    let (_, name) = settings.split_once("Sampler: ")?;
    name.split(',').next()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::output::png::{encode, read_made_in, read_request_in};
    use crate::picture::Picture;
    use crate::request::InitImage;
    use crate::request::tests::request;

    /// A request of 20 steps whose prompt is another one in every other of them.
    fn alternating() -> Request {
        Request {
            prompt: "[a dog|a cat]".into(),
            ..request()
        }
    }

    fn written<'a>(request: &Request, sampled: impl Into<Sampled<'a>>) -> Made {
        let picture = Picture {
            width: 1,
            height: 1,
            rgb: vec![0; 3],
        };
        let bytes = encode(&picture, request, sampled, "flex").unwrap();
        let name = Path::new("picture 1");
        assert_eq!(read_request_in(&bytes, name).unwrap(), *request);
        read_made_in(&bytes, name).unwrap()
    }

    #[test]
    fn prompts_are_counted_in_the_calls_that_were_made() {
        let shows = |request: &Request, sampled: Sampled, calls, shown| {
            let made = written(request, sampled);
            assert_eq!(made.calls, calls);
            assert_eq!(made.final_prompt().unwrap(), shown);
        };
        let plain = alternating();
        shows(&plain, "ddim".into(), 20, "a cat");
        let mut started = plain.clone();
        started.init = Some(InitImage {
            path: "x.png".into(),
            strength: 0.25,
            sha256: None,
            upscale: None,
        });
        shows(&started, "ddim".into(), 5, "a dog");
        shows(&started, "pndm".into(), 6, "a cat");
        // The checkpoint's own scheduler, with the warm-up that its files ask for.
        let counted = Sampled {
            scheduler: "pndm",
            calls: Some(29),
        };
        shows(&plain, counted, 29, "a dog");
        let one = Request {
            scheduler: Some("pndm".into()),
            prompt: "a dog\nSteps: 3, Sampler: euler, and [a cat:a fish:20]".into(),
            ..plain
        };
        let made = written(&one, "pndm");
        assert_eq!(made.calls, 21);
        assert!(made.final_prompt().unwrap().ends_with("a fish"));
    }

    #[test]
    fn calls_are_written_where_the_request_does_not_say_them() {
        let parameters =
            "x\nSteps: 9, Sampler: euler, in a prompt\nSteps: 20, Sampler: pndm, Seed: 7";
        assert_eq!(sampler(parameters), Some("pndm"));
        assert_eq!(sampler("a dog"), None);
        // A number that nobody has counted takes no memory.
        assert_eq!(
            Made::new(request(), Some(usize::MAX), None).calls,
            MOST_CALLS
        );
        assert_eq!(Made::new(request(), None, Some(parameters)).calls, 21);
    }
}
