//! The arguments of `prepose generate` about what is where: guidance, prompt changes, search, attention maps.

use std::path::PathBuf;

use anyhow::ensure;
use prepose::attention_maps::{Half, MapSelection};
use prepose::guidance::boxes::ObjectBox;
use prepose::guidance::config::Preset;
use prepose::guidance::maps::LayerRule;
use prepose::guidance::{Combination, GuidanceConfig, Layers, Method, PosLoss};
use prepose::make::{MapOptions, reward_kind};
use prepose::prompt::neutral::neutral;
use prepose::prompt::scene::{GivenRelation, TokenPolicy};
use prepose::request::DelayedOrder;
use prepose::search::{Pruning, RewardKind, SearchConfig};
use prepose_weights::DetectorWeights;

use crate::cli::checker;
use crate::cli::extract::ExtractArgs;

/// Put things where the prompt says (docs/guidance).
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Guidance")]
pub struct GuideArgs {
    /// Guide by attention.
    #[arg(long, value_name = "METHOD")]
    guide: Option<Method>,
    /// Whose constants [default: default].
    #[arg(
        long,
        value_name = "PRESET",
        requires = "guide",
        hide_short_help = true
    )]
    guide_preset: Option<Preset>,
    /// How many steps are guided, from the first on [default: the preset's].
    #[arg(long, value_name = "N", requires = "guide", hide_short_help = true)]
    guide_steps: Option<usize>,
    /// The first guided step, from 0 [default: 0].
    #[arg(long, value_name = "STEP", requires = "guide", hide_short_help = true)]
    guide_from: Option<usize>,
    /// What the gradient is multiplied with [default: the preset's].
    #[arg(
        long,
        value_name = "FACTOR",
        requires = "guide",
        hide_short_help = true
    )]
    guide_scale: Option<f64>,
    /// Cells along the shorter side of the maps that are read [default: the smallest maps with 12].
    #[arg(long, value_name = "CELLS", requires = "guide", hide_short_help = true)]
    guide_resolution: Option<usize>,
    /// Layers that are read: reference, cheap, or names such as up_blocks.1,mid_block [default: reference].
    #[arg(long, value_name = "LAYERS", value_parser = parse_layers, requires = "guide", hide_short_help = true)]
    guide_layers: Option<Layers>,
    /// Record the step's own UNet call instead of one before it: cheaper, and the correction comes a step late.
    #[arg(long, requires = "guide", hide_short_help = true)]
    guide_one_pass: bool,
    /// Smooth the maps: true or false [default: the preset's].
    #[arg(long, value_name = "BOOL", requires = "guide", hide_short_help = true)]
    guide_smoothing: Option<bool>,
    /// Repeat steps until the loss is low: true or false [default: the preset's].
    #[arg(long, value_name = "BOOL", requires = "guide", hide_short_help = true)]
    guide_refine: Option<bool>,
    /// pos: the loss [default: the preset's].
    #[arg(long, value_name = "LOSS", requires = "guide", hide_short_help = true)]
    guide_loss: Option<PosLoss>,
    /// pos: several relations as a sum or in sequence [default: the preset's].
    #[arg(long, value_name = "HOW", requires = "guide", hide_short_help = true)]
    guide_combine: Option<Combination>,
    /// pos: what is near and what is far, as a share of the picture's shorter side [default: the preset's].
    #[arg(long, value_name = "SHARE", requires = "guide", hide_short_help = true)]
    guide_distance: Option<f64>,
    /// Tokens that stand for an object: all of its phrase, or the first as in the authors' code [default: the preset's].
    #[arg(
        long,
        value_name = "POLICY",
        requires = "guide",
        hide_short_help = true
    )]
    guide_tokens: Option<TokenPolicy>,
    /// What holds instead of the prompt's own relations, as "dog | left of | cat"; may be repeated.
    #[arg(long, value_name = "A | RELATION | B")]
    pub(super) relation: Vec<GivenRelation>,
    #[command(flatten)]
    pub(super) extract: ExtractArgs,
    /// boxdiff, layout: where an object belongs, as "dog: 0.05,0.25,0.35,0.75"; may be repeated.
    #[arg(
        long = "box",
        value_name = "OBJECT: X0,Y0,X1,Y1",
        requires = "guide",
        hide_short_help = true
    )]
    pub(super) boxes: Vec<ObjectBox>,
}

impl GuideArgs {
    /// What they ask for.
    pub(super) fn config(&self) -> Option<GuidanceConfig> {
        Some(GuidanceConfig {
            preset: self.guide_preset.unwrap_or_default(),
            steps: self.guide_steps,
            from_step: self.guide_from,
            scale: self.guide_scale,
            resolution: self.guide_resolution,
            smoothing: self.guide_smoothing,
            layers: self.guide_layers.clone(),
            tokens: self.guide_tokens,
            refine: self.guide_refine,
            loss: self.guide_loss,
            combine: self.guide_combine,
            distance: self.guide_distance,
            one_pass: self.guide_one_pass,
            ..GuidanceConfig::new(self.guide?)
        })
    }
}

/// Change the prompt on the way (docs/prompts.md).
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Prompt changes")]
pub struct ChangeArgs {
    /// Go on with this prompt ...
    #[arg(long, value_name = "PROMPT", requires = "switch_at")]
    pub(super) switch_to: Option<String>,
    /// ... from this step on, counted from 0.
    #[arg(long, value_name = "STEP", requires = "switch_to")]
    pub(super) switch_at: Option<usize>,
    /// Begin with a neutral prompt ("two animals" for "a dog and a cat") for so many steps, so that the order of
    /// the words does not decide the layout.
    #[arg(long, value_name = "STEPS", conflicts_with = "switch_to")]
    pub(super) delay_order: Option<usize>,
    /// The neutral prompt [default: derived from the prompt].
    #[arg(long, value_name = "PROMPT", requires = "delay_order")]
    pub(super) neutral_prompt: Option<String>,
}

impl ChangeArgs {
    /// Delayed order conditioning for `prompt`, if it was asked for.
    pub(super) fn delay(&self, prompt: &str) -> anyhow::Result<Option<DelayedOrder>> {
        let Some(steps) = self.delay_order else {
            return Ok(None);
        };
        let neutral_prompt = match &self.neutral_prompt {
            Some(given) => given.clone(),
            None => {
                let derived = neutral(prompt)?;
                tracing::warn!("the first {steps} steps have {derived:?}, neutral for {prompt:?}");
                derived
            }
        };
        Ok(Some(DelayedOrder {
            neutral_prompt,
            steps,
        }))
    }
}

/// Try several noises and keep the best (docs/search.md).
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Search")]
pub struct SearchArgs {
    /// Make so many candidates of each picture and keep the best.
    #[arg(long, value_name = "N")]
    best_of: Option<usize>,
    /// What makes a candidate good.
    #[arg(long, value_name = "REWARD", requires = "best_of")]
    reward: Option<RewardKind>,
    /// The detector that `--reward checker` or `pse` asks: toybox, frcnn, frcnn-v2, mask-rcnn, mask-rcnn-v2, or the path
    /// of one [default: toybox].
    #[arg(long, value_name = "NAME|PATH", requires = "reward")]
    checker: Option<String>,
    /// Drop the worse half after some steps: `auto` (15, 25 and 40 % of the steps) or a list such as 3,5,8.
    #[arg(long, value_name = "STEPS", num_args = 0..=1, default_missing_value = "auto",
          require_equals = true, value_parser = parse_pruning, requires = "best_of")]
    prune: Option<Pruning>,
    /// Write every finished candidate, best first.
    #[arg(long, requires = "best_of")]
    pub(super) keep_all: bool,
}

impl SearchArgs {
    /// What they ask for.
    pub(super) fn config(&self) -> Option<SearchConfig> {
        Some(SearchConfig {
            best_of: self.best_of?,
            reward: self.reward.unwrap_or_default(),
            pruning: self.prune.clone(),
        })
    }

    /// The detector that the reward needs.
    ///
    /// # Errors
    /// It cannot be opened, or the reward needs none.
    pub(super) fn detector(&self) -> anyhow::Result<Option<DetectorWeights>> {
        if reward_kind(self.reward.unwrap_or_default()).is_none() {
            ensure!(
                self.checker.is_none(),
                "--checker is for --reward checker and pse"
            );
            return Ok(None);
        }
        let name = self.checker.as_deref().unwrap_or("toybox");
        checker::open(name).map(Some)
    }
}

/// Show where the network looks (docs/attention-maps.md).
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Attention maps")]
pub struct MapArgs {
    /// Write a heat map over the picture for each object, sheets over time, and the values.
    #[arg(long, value_name = "DIR")]
    pub(super) attention_maps: Option<PathBuf>,
    /// Cells along the shorter side of the maps [default: the smallest maps with 12].
    #[arg(
        long,
        value_name = "CELLS",
        requires = "attention_maps",
        conflicts_with = "attention_layers"
    )]
    pub(super) attention_resolution: Option<usize>,
    /// Layers, by name, such as up_blocks.1,mid_block.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        requires = "attention_maps"
    )]
    pub(super) attention_layers: Vec<String>,
    /// Words of the prompt to show instead of its objects.
    #[arg(
        long,
        value_name = "WORDS",
        value_delimiter = ',',
        requires = "attention_maps"
    )]
    pub(super) attention_words: Vec<String>,
    /// Heads, from 0 [default: all].
    #[arg(
        long,
        value_name = "HEADS",
        value_delimiter = ',',
        requires = "attention_maps"
    )]
    pub(super) attention_heads: Vec<usize>,
    /// Every so many steps.
    #[arg(
        long,
        value_name = "STEPS",
        default_value_t = 1,
        requires = "attention_maps"
    )]
    pub(super) attention_every: usize,
    /// Which half of classifier-free guidance.
    #[arg(long, value_enum, default_value_t, requires = "attention_maps")]
    pub(super) attention_half: Half,
}

impl MapArgs {
    /// Which maps they ask for.
    pub(super) fn options(&self) -> Option<MapOptions> {
        self.attention_maps.as_ref()?;
        let layers = match self.attention_layers.as_slice() {
            [] => LayerRule::Size {
                side: self.attention_resolution,
                down_only: false,
            },
            names => LayerRule::Named(names.to_vec()),
        };
        Some(MapOptions {
            selection: MapSelection {
                layers,
                heads: Some(self.attention_heads.clone()).filter(|heads| !heads.is_empty()),
                every: self.attention_every,
                half: self.attention_half,
                ..MapSelection::default()
            },
            words: self.attention_words.clone(),
        })
    }
}

fn parse_layers(text: &str) -> Result<Layers, String> {
    match text {
        "reference" => Ok(Layers::Reference),
        "cheap" => Ok(Layers::Cheap),
        "" => Err("name at least one layer, or reference, or cheap".into()),
        names => Ok(Layers::Named(
            names.split(',').map(|name| name.trim().into()).collect(),
        )),
    }
}

fn parse_pruning(text: &str) -> Result<Pruning, String> {
    if text == "auto" {
        return Ok(Pruning::Auto);
    }
    let steps = text.split(',').map(|step| step.trim().parse::<usize>());
    let steps: Result<Vec<_>, _> = steps.collect();
    steps
        .map(Pruning::After)
        .map_err(|_| "give `auto`, or numbers of steps such as 3,5,8".into())
}
