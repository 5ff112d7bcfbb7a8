//! What a request says about guidance, and what it means.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::maps::LayerRule;
use super::steps::Refinement;
use super::{GuidanceError, Method, Settings};
use crate::prompt::scene::TokenPolicy;

/// Where a method's constants come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// The published step sizes for the network at hand (measured ones for the toybox), without the quirks of the code.
    #[default]
    Default,
    /// The authors' code for SD 1.x, quirks included.
    Sd14Reference,
    /// The authors' code for SDXL, quirks included.
    SdxlReference,
    /// diffusers' pipeline, where it differs from the authors' code.
    Diffusers,
}

impl Preset {
    /// The name on the command line and in requests.
    pub fn as_str(self) -> &'static str {
        match self {
            Preset::Default => "default",
            Preset::Sd14Reference => "sd14-reference",
            Preset::SdxlReference => "sdxl-reference",
            Preset::Diffusers => "diffusers",
        }
    }
}

/// What is guided: the default preset takes its step sizes from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// The built-in one, by measurement.
    Toybox,
    /// SD 1.x, as published.
    Sd1,
    /// SDXL, as published.
    Sdxl,
}

/// Which loss PoS guidance lowers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum PosLoss {
    /// The squared probability of the wrong order, as in the authors' code: pulls while the order is wrong, and
    /// rests when it is right.
    WrongOrder,
    /// −PoS², as in the paper: pulls weakly while the order is wrong, and most when it is right.
    Paper,
}

/// How several relations of one scene are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Combination {
    /// The sum of their losses, one update.
    Sum,
    /// One update after the other within the step, each with its own forward pass.
    Sequence,
}

/// Which layers' maps are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layers {
    /// All that the method's authors read.
    Reference,
    /// Of those only the ones on the way down, so that the network need not go on.
    Cheap,
    /// Those whose names begin so.
    Named(Vec<String>),
}

/// What a request says about guidance. Everything that is not said is the preset's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuidanceConfig {
    /// Which method.
    pub method: Method,
    /// Whose constants.
    #[serde(default)]
    pub preset: Preset,
    /// How many steps are guided, from the first on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// The first guided step, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<usize>,
    /// What the gradient is multiplied with at the first step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Cells along the shorter side of the maps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<usize>,
    /// Whether the maps are smoothed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smoothing: Option<bool>,
    /// Which layers' maps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<Layers>,
    /// Which tokens stand for an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenPolicy>,
    /// Whether single steps are repeated until the loss is low.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refine: Option<bool>,
    /// Record the step's own UNet call instead of one before it, and move the latents after the step. All relations
    /// count at once then, and nothing is repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_pass: bool,
    /// Every so many guided steps the gradient is taken; in between the latents move by the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<usize>,
    /// In between, go on along the line through the last two gradients instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub extrapolate: bool,
    /// PoS: which loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<PosLoss>,
    /// PoS: how several relations are combined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub combine: Option<Combination>,
    /// PoS: what is near and what is far, as a share of the picture's shorter side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<f64>,
    /// Methods that learn: the classifier's file; none for the one that the checkpoint comes with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classifier: Option<PathBuf>,
    /// Methods that learn: the SHA-256 of the classifier's file, which is filled in where a run is begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classifier_sha256: Option<String>,
    /// Methods that learn: the most updates in a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<usize>,
    /// Methods that learn: the loss below which a step is not updated any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
}

impl GuidanceConfig {
    /// A method with the constants of its default preset.
    pub fn new(method: impl Into<Method>) -> Self {
        Self {
            method: method.into(),
            preset: Preset::Default,
            steps: None,
            from_step: None,
            scale: None,
            resolution: None,
            smoothing: None,
            layers: None,
            tokens: None,
            refine: None,
            one_pass: false,
            every: None,
            extrapolate: false,
            loss: None,
            combine: None,
            distance: None,
            classifier: None,
            classifier_sha256: None,
            updates: None,
            threshold: None,
        }
    }

    /// The preset's constants for a network, with everything that was said put over them.
    ///
    /// # Errors
    /// A preset that the method does not have, an option that it does not read, a number out of range.
    pub fn settings(&self, network: Network) -> Result<Settings, GuidanceError> {
        let Self { method, preset, .. } = *self;
        if !method.presets().contains(&preset) {
            return Err(GuidanceError::Preset { method, preset });
        }
        let mut settings = method.settings(self, network);
        self.check(&settings.layers)?;

        settings.from_step = self.from_step.unwrap_or(settings.from_step);
        settings.steps_asked = self.steps.is_some();
        let steps = self.steps.unwrap_or(settings.to_step);
        settings.to_step = settings.from_step.saturating_add(steps);
        if let Some(scale) = self.scale {
            settings.step_size.scale = scale;
        }
        if let Some(policy) = self.tokens {
            settings.tokens = policy;
        }
        if self.refine == Some(false) {
            settings.refinement = Refinement::None;
        }
        if self.refine == Some(true) && settings.refinement == Refinement::None {
            settings.refinement = method.refinement();
        }
        if self.one_pass {
            settings.one_pass = true;
            settings.refinement = Refinement::None;
        }
        if let Refinement::InTurn {
            thresholds,
            updates,
        } = &mut settings.refinement
        {
            *updates = self.updates.unwrap_or(*updates);
            if let Some(threshold) = self.threshold {
                *thresholds = vec![threshold];
            }
        }
        settings.every = self.every.unwrap_or(1);
        settings.extrapolate = self.extrapolate;
        if settings.every > 1
            && matches!(
                settings.refinement,
                Refinement::Until { .. } | Refinement::InTurn { .. }
            )
        {
            return Err(GuidanceError::EveryUntil(method));
        }
        settings.layers = match (&self.layers, settings.layers) {
            (Some(Layers::Named(names)), _) => LayerRule::Named(names.clone()),
            (layers, LayerRule::Size { .. }) => LayerRule::Size {
                side: self.resolution,
                down_only: *layers == Some(Layers::Cheap),
            },
            (_, rule) => rule,
        };
        Ok(settings)
    }

    /// Refuses numbers out of range, and options that the method does not read, whose preset reads `layers`.
    fn check(&self, layers: &LayerRule) -> Result<(), GuidanceError> {
        let range = |name, value: String, range| GuidanceError::Range { name, value, range };
        if let Some(scale) = self.scale
            && !(scale.is_finite() && scale > 0.0)
        {
            return Err(range("guide scale", scale.to_string(), "a positive number"));
        }
        if self.steps == Some(0) {
            return Err(range("guide steps", "0".into(), "at least 1"));
        }
        if let Some(updates) = self.updates
            && !(1..=1000).contains(&updates)
        {
            let updates = updates.to_string();
            return Err(range("guide updates", updates, "from 1 to 1000"));
        }
        if let Some(threshold) = self.threshold
            && !(threshold.is_finite() && threshold >= 0.0)
        {
            let threshold = threshold.to_string();
            return Err(range(
                "guide threshold",
                threshold,
                "0 or a positive number",
            ));
        }
        if self.every == Some(0) {
            return Err(range("guide every", "0".into(), "at least 1"));
        }
        if self.extrapolate && self.every.is_none_or(|every| every < 2) {
            return Err(GuidanceError::ExtrapolateAlone);
        }
        if let Some(distance) = self.distance
            && !(0.0..1.0).contains(&distance)
        {
            let distance = distance.to_string();
            return Err(range(
                "guide distance",
                distance,
                "at least 0 and less than 1",
            ));
        }
        let method = self.method;
        if let Some(option) = self.unread(layers) {
            return Err(GuidanceError::Unread { option, method });
        }
        match self.refine == Some(true) && self.loss == Some(PosLoss::Paper) {
            true => Err(GuidanceError::PaperRefined(method)),
            false => Ok(()),
        }
    }

    /// The first option that is given and not read: a mistake, not to be passed over.
    fn unread(&self, layers: &LayerRule) -> Option<&'static str> {
        let reads = |option| self.method.reads().contains(&option);
        let by_size = matches!(layers, LayerRule::Size { .. });
        let (cheap, named, nameless) = match &self.layers {
            Some(Layers::Named(names)) => (false, true, names.is_empty()),
            layers => (*layers == Some(Layers::Cheap), false, false),
        };
        let sequence = self.combine == Some(Combination::Sequence);
        let once = self.one_pass || self.method.refinement() == Refinement::None;
        let learned = self.method.is_learned();
        // What a repeated step ends by is nothing to a method that repeats none.
        let repeats = |option| reads(option) && self.refine != Some(false);
        let unread = [
            ("steer", self.classifier.is_some() && !learned),
            ("updates", self.updates.is_some() && !repeats("updates")),
            (
                "threshold",
                self.threshold.is_some() && !repeats("threshold"),
            ),
            ("layers", self.layers.is_some() && learned),
            ("resolution", self.resolution.is_some() && learned),
            ("one-pass", self.one_pass && learned),
            ("loss", self.loss.is_some() && !reads("loss")),
            ("combine", self.combine.is_some() && !reads("combine")),
            ("distance", self.distance.is_some() && !reads("distance")),
            ("refine", self.refine == Some(true) && once),
            ("combine", sequence && self.one_pass),
            ("smoothing", self.smoothing.is_some() && !reads("smoothing")),
            ("layers cheap", cheap && !by_size),
            (
                "resolution",
                self.resolution.is_some() && (!by_size || named),
            ),
            ("layers", nameless),
        ];
        let first = unread.into_iter().find(|(_, given)| *given);
        first.map(|(option, _)| option)
    }
}
