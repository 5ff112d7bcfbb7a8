//! Everything that decides what one picture looks like.

mod error;
mod model;
mod picture;
mod savings;
mod search;
mod upscale;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use error::RequestError;
pub use model::{Adapter, Lora, ModelRequest};
pub use picture::{BlockScale, PicturePrompt, PicturePromptError, PictureRegion};
pub use savings::{DeepCache, Gate, Savings};
pub use search::{Pruning, RewardKind, SearchConfig, SearchError};
pub use upscale::{Upscale, Upscaler};

pub use crate::dtype::Dtype;

use error::range;

use crate::guidance::GuidanceConfig;
use crate::guidance::boxes::{BBox, BoxError, ObjectBox};
use crate::guidance::grounding::Grounding;
use crate::prompt::scene::GivenRelation;
use crate::sampling::StepRange;
use crate::sampling::noise::NoiseKind;
use crate::sampling::schedulers::{SchedulerKind, Spacing};

/// One picture, as asked for. It is stored whole in the PNG, so that the picture can be made again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The prompt as typed, weights and all.
    pub prompt: String,
    /// What the picture should not be; empty for nothing in particular.
    #[serde(default)]
    pub negative_prompt: String,
    /// Another prompt from some step on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<PromptSwitch>,
    /// A neutral prompt for the first steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_order: Option<DelayedOrder>,
    /// Relations that hold instead of those that the prompt states, as `dog | left of | cat`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relations: Vec<GivenRelation>,
    /// Where objects belong, for what goes by boxes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boxes: Vec<ObjectBox>,
    /// Where parts of a composed prompt act.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<Region>,
    /// Pictures that IP-Adapters show to the network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<PicturePrompt>,
    /// Whether GLIGEN's layers put the objects into their boxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ground: Option<Grounding>,
    /// How the picture is guided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guide: Option<GuidanceConfig>,
    /// The search that found this picture's seed. It says where the picture comes from and changes nothing in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<FoundBy>,
    /// Seeds this picture's own noise.
    pub seed: u64,
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Denoising steps.
    pub steps: usize,
    /// Classifier-free guidance; at most 1 switches it off (Ho and Salimans, 2022).
    pub guidance_scale: f64,
    /// The steps in which classifier-free guidance acts (Kynkäänniemi et al., 2024); the others call the network for the
    /// prompt alone. None: in all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance_steps: Option<StepRange>,
    /// What is left out of the network's calls.
    #[serde(default, skip_serializing_if = "Savings::is_none")]
    pub savings: Savings,
    /// The scheduler's name, as `--scheduler` takes it; none means the checkpoint's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Which timesteps are visited; none means as the checkpoint says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestep_spacing: Option<Spacing>,
    /// The share of fresh noise in each step of TCD, from 0 to 1; none means 0.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta: Option<f64>,
    /// Layers of the text encoder to leave out at the end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub clip_skip: usize,
    /// Whose random numbers.
    pub noise: NoiseKind,
    /// The picture to start from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<InitImage>,
    /// Encode and decode in overlapping tiles: bounded memory for large pictures, faint differences.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub vae_tiling: bool,
    /// The networks.
    pub model: ModelRequest,
}

/// A change of the prompt while the picture is made, as in the order-swap experiments of OTS-Bench
/// (arXiv 2603.03714).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptSwitch {
    /// The prompt to go on with.
    pub to: String,
    /// The first step with it, from 1; the steps before it have the request's own prompt.
    pub at: usize,
}

/// Delayed order conditioning (arXiv 2603.03714): the layout forms under a prompt that names the objects in no order,
/// then the request's own prompt takes over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayedOrder {
    /// The prompt for the first steps.
    pub neutral_prompt: String,
    /// How many steps have it, at least 1.
    pub steps: usize,
}

/// Where a part of a composed prompt acts, from the command line's `--region "2: 0.5,0,1,1"`. Several of one part add up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Which part, from 1.
    pub part: usize,
    /// Where.
    #[serde(rename = "box")]
    pub bbox: BBox,
}

impl Region {
    /// 1 in the cells of latents of `rows` × `columns` whose middle is inside, 0 in the others.
    pub fn cells(&self, [rows, columns]: [usize; 2]) -> Vec<f32> {
        let [x0, y0, x1, y1] = self.bbox.corners();
        let inside = |cell: usize, cells: usize, from: f64, to: f64| {
            let middle = (cell as f64 + 0.5) / cells as f64;
            (from..to).contains(&middle)
        };
        let cells = (0..rows * columns).map(|cell| (cell / columns, cell % columns));
        let inside =
            cells.map(|(row, column)| inside(row, rows, y0, y1) && inside(column, columns, x0, x1));
        inside.map(f32::from).collect()
    }
}

impl FromStr for Region {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let syntax = || {
            format!(
                "{text:?} is not a region; write the part's number, a colon and four shares of the picture's width and \
                 height, as in \"2: 0.5,0,1,1\""
            )
        };
        let ObjectBox { object, bbox } = text.parse().map_err(|error| match error {
            BoxError::Syntax(_) => syntax(),
            error => error.to_string(),
        })?;
        match object.parse() {
            Ok(part) if part > 0 => Ok(Self { part, bbox }),
            _ => Err(syntax()),
        }
    }
}

/// Which search a picture was found by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundBy {
    /// What was asked of it.
    pub search: SearchConfig,
    /// The seed that it began with.
    pub seed: u64,
    /// Which of its candidates this is, from 0.
    pub candidate: usize,
    /// The candidate's score; higher is better.
    pub score: f64,
    /// Its rank among the finished candidates, from 1.
    pub rank: usize,
}

/// Image-to-image: start from a picture instead of pure noise (SDEdit, Meng et al., 2021).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InitImage {
    /// Where the picture is.
    pub path: PathBuf,
    /// In (0, 1]: the share of the steps that is run; 1 forgets the picture.
    pub strength: f64,
    /// SHA-256 of the file, filled in when it is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// How it is made larger; none stretches its pixels to the size of the picture that is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upscale: Option<Upscale>,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// The largest side of a picture; beyond it the latents alone would not fit anywhere.
const MAX_SIDE: usize = 8192;

impl Request {
    /// The prompts with the step, from 0, at which each begins; what a prompt itself schedules is still inside it.
    pub fn texts(&self) -> Vec<(usize, &str)> {
        match (&self.delay_order, &self.switch) {
            (Some(delay), _) => vec![(0, &delay.neutral_prompt), (delay.steps, &self.prompt)],
            (None, Some(switch)) => vec![(0, &self.prompt), (switch.at, &switch.to)],
            (None, None) => vec![(0, &self.prompt)],
        }
    }

    /// The prompt that the run ends with: what the picture should show.
    pub fn final_prompt(&self) -> &str {
        self.switch
            .as_ref()
            .map_or(&self.prompt, |switch| &switch.to)
    }

    /// UNet calls that it takes with `scheduler`, as far as these two tell: the steps that are run, and one more by PNDM,
    /// which makes nine more where the checkpoint asks for the warm-up of its paper.
    pub fn calls(&self, scheduler: Option<&str>) -> usize {
        let strength = self.init.as_ref().map_or(1.0, |init| init.strength);
        let run = (self.steps as f64 * strength) as usize;
        let pndm = scheduler == Some(SchedulerKind::Pndm.name());
        run.saturating_add(usize::from(pndm))
    }

    /// Puts `model` in the place of its networks. The classifier that came with another checkpoint is no longer asked for.
    pub fn put_networks(&mut self, model: ModelRequest) {
        if model.checkpoint != self.model.checkpoint
            && let Some(guide) = &mut self.guide
            && guide.classifier.is_none()
        {
            guide.classifier_sha256 = None;
        }
        self.model = model;
    }

    /// Checks that the prompt changes within a run of `steps` UNet calls.
    pub fn check_switch(&self, steps: usize) -> Result<(), RequestError> {
        match self.texts()[..] {
            [_, (at, _)] if at == 0 || at >= steps => Err(RequestError::Switch {
                at,
                steps,
                last: steps.saturating_sub(1),
            }),
            _ => Ok(()),
        }
    }

    /// Checks that classifier-free guidance acts somewhere in a run of `steps` UNet calls, if it is told where.
    pub fn check_guidance_steps(&self, steps: usize) -> Result<(), RequestError> {
        match self.guidance_steps {
            Some(StepRange { first, .. }) if first >= steps => {
                Err(RequestError::GuidanceSteps { first, steps })
            }
            Some(range) if range.last.is_some_and(|last| last < range.first) => Err(self::range(
                "the last of the guidance steps",
                range,
                "not before the first",
            )),
            _ => Ok(()),
        }
    }

    /// Checks everything that can be checked without opening a file. `factor` is the number of
    /// pixels to a latent.
    pub fn validate(&self, factor: usize) -> Result<(), RequestError> {
        if self.prompt.trim().is_empty() {
            return Err(RequestError::EmptyPrompt);
        }
        if self.switch.is_some() && self.delay_order.is_some() {
            return Err(RequestError::TwoSwitches);
        }
        for (_, text) in self.texts() {
            if text.trim().is_empty() {
                return Err(RequestError::EmptyPrompt);
            }
        }
        // Below 8 latents a side the UNet's lowest level would be empty or a single cell.
        let min = 8 * factor;
        let fits = |side: usize| side.is_multiple_of(factor) && (min..=MAX_SIDE).contains(&side);
        if !fits(self.width) || !fits(self.height) {
            let nearest = |side: usize| (side.clamp(min, MAX_SIDE) + factor / 2) / factor * factor;
            return Err(RequestError::Size {
                width: self.width,
                height: self.height,
                factor,
                min,
                max: MAX_SIDE,
                nearest_width: nearest(self.width),
                nearest_height: nearest(self.height),
            });
        }
        if !(1..=1000).contains(&self.steps) {
            return Err(range("steps", self.steps, "between 1 and 1000"));
        }
        if !self.guidance_scale.is_finite() || !(0.0..=100.0).contains(&self.guidance_scale) {
            return Err(range(
                "guidance scale",
                self.guidance_scale,
                "between 0 and 100",
            ));
        }
        if let Some(init) = &self.init {
            if !(init.strength > 0.0 && init.strength <= 1.0) {
                return Err(range("strength", init.strength, "above 0 and at most 1"));
            }
            if let Some(Upscale { width, height, .. }) = init.upscale {
                for (side, least) in [(width, self.width), (height, self.height)] {
                    if !(least..=MAX_SIDE).contains(&side) {
                        let expected = "no less than the picture's and at most 8192 pixels";
                        return Err(range("a side of the larger start picture", side, expected));
                    }
                }
            }
        }
        if let Some(lora) = self
            .model
            .loras
            .iter()
            .find(|lora| !lora.weight.is_finite())
        {
            return Err(range("a LoRA's weight", lora.weight, "a finite number"));
        }
        match self.paths().find(|path| path.to_str().is_none()) {
            Some(path) => Err(RequestError::Name {
                path: path.display().to_string(),
            }),
            None => Ok(()),
        }
    }

    /// The files that it names.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let model = &self.model;
        let init = self.init.as_ref().map(|init| &init.path);
        let loras = model.loras.iter().map(|lora| &lora.path);
        let adapters = model.adapters.iter();
        let adapters =
            adapters.flat_map(|adapter| std::iter::once(&adapter.path).chain(&adapter.encoder));
        let pictures = self.pictures.iter().flat_map(PicturePrompt::paths);
        (init.into_iter().chain(&model.config).chain(&model.vae))
            .chain(&model.gligen)
            .chain(adapters)
            .chain(pictures)
            .chain(loras)
            .map(PathBuf::as_path)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::guidance::steer::Steer;

    pub(crate) fn request() -> Request {
        Request {
            prompt: "a dog to the left of a cat".into(),
            negative_prompt: String::new(),
            switch: None,
            delay_order: None,
            relations: Vec::new(),
            boxes: Vec::new(),
            regions: Vec::new(),
            pictures: Vec::new(),
            ground: None,
            guide: None,
            found: None,
            seed: 7,
            width: 128,
            height: 128,
            steps: 20,
            guidance_scale: 7.5,
            guidance_steps: None,
            savings: Savings::default(),
            scheduler: None,
            timestep_spacing: None,
            eta: None,
            clip_skip: 0,
            noise: NoiseKind::Torch,
            init: None,
            vae_tiling: false,
            model: ModelRequest::new("toybox", Dtype::F32),
        }
    }

    #[test]
    fn a_request_survives_json() {
        let mut original = request();
        original.init = Some(InitImage {
            path: "a b.png".into(),
            strength: 0.6,
            sha256: None,
            upscale: Some(Upscale {
                by: Upscaler::LatentNearestExact,
                width: 192,
                height: 136,
            }),
        });
        original.model.loras.push(Lora {
            path: "l.safetensors".into(),
            weight: 0.8,
        });
        let json = serde_json::to_string(&original).unwrap();
        assert_eq!(serde_json::from_str::<Request>(&json).unwrap(), original);
    }

    #[test]
    fn other_networks_have_a_classifier_of_their_own() {
        let recorded = |checkpoint: &str, classifier: Option<&str>| {
            let mut request = request();
            request.guide = Some(GuidanceConfig {
                classifier: classifier.map(PathBuf::from),
                classifier_sha256: Some("1".into()),
                ..GuidanceConfig::new(&Steer)
            });
            request.put_networks(ModelRequest::new(checkpoint, Dtype::F16));
            assert_eq!(request.model, ModelRequest::new(checkpoint, Dtype::F16));
            request.guide.unwrap().classifier_sha256.is_some()
        };
        assert!(recorded("toybox", None) && !recorded("sd15", None));
        assert!(recorded("sd15", Some("mine.safetensors")));
    }

    #[test]
    fn regions_are_read() {
        let region: Region = "2: 0.5,0,1,1".parse().unwrap();
        assert_eq!(
            (region.part, region.bbox.corners()),
            (2, [0.5, 0.0, 1.0, 1.0])
        );
        for (wrong, why) in [
            ("0: 0,0,1,1", "not a region"),
            ("dog: 0,0,1,1", "not a region"),
            ("2", "not a region"),
            ("1: 0,0,512,512", "not within the picture"),
            ("1: 0.5,0,0.5,1", "is empty"),
        ] {
            let error = wrong.parse::<Region>().unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn bad_requests_are_refused() {
        let refused = |change: fn(&mut Request)| {
            let mut request = request();
            change(&mut request);
            request.validate(8).unwrap_err().to_string()
        };
        assert!(request().validate(8).is_ok());
        assert!(refused(|r| r.prompt = " \n".into()).contains("empty"));
        assert!(refused(|r| r.width = 130).contains("128x128"));
        assert!(refused(|r| r.height = 8).contains("128x64"));
        assert!(refused(|r| r.height = 100_000).contains("at most 8192"));
        let switch = |r: &mut Request| {
            let to = "a cat".into();
            r.switch = Some(PromptSwitch { to, at: 20 });
        };
        let mut late = request();
        switch(&mut late);
        assert!(
            late.check_switch(20)
                .unwrap_err()
                .to_string()
                .contains("1 to 19")
        );
        assert!(late.check_switch(21).is_ok());
        assert!(refused(|r| r.steps = 0).contains("steps is 0"));
        assert!(refused(|r| r.guidance_scale = f64::NAN).contains("NaN"));
        assert!(
            refused(|r| r.init = Some(InitImage {
                path: "x".into(),
                strength: 0.0,
                sha256: None,
                upscale: None,
            }))
            .contains("strength is 0")
        );
        let smaller = refused(|r| {
            r.init = Some(InitImage {
                path: "x".into(),
                strength: 0.5,
                sha256: None,
                upscale: Some(Upscale {
                    by: Upscaler::Lanczos,
                    width: 96,
                    height: 128,
                }),
            });
        });
        assert!(smaller.contains("is 96"), "{smaller}");
    }
}
