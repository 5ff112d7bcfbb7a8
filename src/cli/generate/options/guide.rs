//! Guidance.

use std::path::PathBuf;

use anyhow::ensure;
use prepose::guidance::boxes::ObjectBox;
use prepose::guidance::config::Preset;
use prepose::guidance::grounding::Grounding;
use prepose::guidance::{Combination, GuidanceConfig, Layers, METHODS, Method, PosLoss};
use prepose::prompt::scene::{GivenRelation, TokenPolicy};
use prepose::request::{Region, Request};

use crate::cli::extract::ExtractArgs;

/// Put things where the prompt says (docs/guidance).
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Guidance")]
pub struct GuideArgs {
    /// Guide by attention.
    #[arg(long, value_name = "METHOD")]
    guide: Option<Method>,
    /// With --again: drop the picture's guidance.
    #[arg(
        long,
        requires = "again",
        conflicts_with = "guide",
        hide_short_help = true
    )]
    no_guide: bool,
    /// The preset that the constants are taken from [default: default].
    #[arg(
        long,
        value_name = "PRESET",
        requires = "guided",
        hide_short_help = true
    )]
    guide_preset: Option<Preset>,
    /// How many steps are guided, from the first on [default: the preset's].
    #[arg(long, value_name = "N", requires = "guided", hide_short_help = true)]
    guide_steps: Option<usize>,
    /// The first guided step, counted from 0 [default: 0].
    #[arg(long, value_name = "STEP", requires = "guided", hide_short_help = true)]
    guide_from: Option<usize>,
    /// What the gradient is multiplied by [default: the preset's].
    #[arg(
        long,
        value_name = "FACTOR",
        requires = "guided",
        hide_short_help = true
    )]
    guide_scale: Option<f64>,
    /// Cells along the shorter side of the maps to read [default: the smallest maps with at least 12].
    #[arg(
        long,
        value_name = "CELLS",
        requires = "guided",
        hide_short_help = true
    )]
    guide_resolution: Option<usize>,
    /// Layers to read: reference, cheap, or names such as up_blocks.1,mid_block [default: reference].
    #[arg(long, value_name = "LAYERS", value_parser = parse_layers, requires = "guided", hide_short_help = true)]
    guide_layers: Option<Layers>,
    /// Record the step's own UNet call instead of one before it: cheaper, but the correction comes one step late.
    #[arg(long, requires = "guided", hide_short_help = true)]
    guide_one_pass: bool,
    /// Take the gradient only in every N-th guided step, and use the last one in between [default: 1].
    #[arg(long, value_name = "N", requires = "guided", hide_short_help = true)]
    guide_every: Option<usize>,
    /// Between the gradients of --guide-every, extrapolate from the last two instead of using the last.
    #[arg(long, requires = "guided", hide_short_help = true)]
    guide_extrapolate: bool,
    /// Smooth the maps: true or false [default: the preset's].
    #[arg(long, value_name = "BOOL", requires = "guided", hide_short_help = true)]
    guide_smoothing: Option<bool>,
    /// Repeat steps until the loss is low: true or false [default: the preset's].
    #[arg(long, value_name = "BOOL", requires = "guided", hide_short_help = true)]
    guide_refine: Option<bool>,
    /// pos: the loss [default: the preset's].
    #[arg(long, value_name = "LOSS", requires = "guided", hide_short_help = true)]
    guide_loss: Option<PosLoss>,
    /// pos: combine several relations as a sum or in sequence [default: the preset's].
    #[arg(long, value_name = "HOW", requires = "guided", hide_short_help = true)]
    guide_combine: Option<Combination>,
    /// pos: the distance at which near becomes far, as a share of the picture's shorter side [default: the preset's].
    #[arg(
        long,
        value_name = "SHARE",
        requires = "guided",
        hide_short_help = true
    )]
    guide_distance: Option<f64>,
    /// steer: the classifier, as `prepose train steer` writes it [default: the checkpoint's own; the toybox has one].
    #[arg(long, value_name = "FILE", requires = "guided", hide_short_help = true)]
    steer: Option<PathBuf>,
    /// steer: the maximum number of updates in a step [default: the preset's].
    #[arg(long, value_name = "N", requires = "guided", hide_short_help = true)]
    guide_updates: Option<usize>,
    /// steer: the loss below which a step is no longer updated [default: the preset's].
    #[arg(long, value_name = "LOSS", requires = "guided", hide_short_help = true)]
    guide_threshold: Option<f64>,
    /// Tokens that stand for an object: all of its phrase, or only the first, as in the authors' code [default: the preset's].
    #[arg(
        long,
        value_name = "POLICY",
        requires = "guided",
        hide_short_help = true
    )]
    guide_tokens: Option<TokenPolicy>,
    /// A relation to use instead of the prompt's own.
    ///
    /// Written as "dog | left of | cat"; may be repeated.
    #[arg(long, value_name = "A | REL | B", hide_short_help = true)]
    pub(in crate::cli::generate) relation: Vec<GivenRelation>,
    #[command(flatten)]
    pub(in crate::cli::generate) extract: ExtractArgs,
    /// --ground, boxdiff, layout: where an object belongs, as "dog: 0.05,0.25,0.35,0.75"; may be repeated.
    #[arg(
        long = "box",
        value_name = "OBJECT: X0,Y0,X1,Y1",
        requires = "boxed",
        hide_short_help = true
    )]
    pub(in crate::cli::generate) boxes: Vec<ObjectBox>,
    /// Put objects into boxes with GLIGEN's layers in this share of the steps [default: 0.3].
    ///
    /// This needs the toybox, a checkpoint with such layers, or --gligen. Boxes come from --box, or from the layout of
    /// a prompt with one relation. It can be combined with --guide.
    #[arg(long, value_name = "SHARE", num_args = 0..=1, require_equals = true, default_missing_value = "0.3",
          hide_short_help = true)]
    ground: Option<f64>,
    /// With --again: leave out GLIGEN's layers.
    #[arg(
        long,
        requires = "again",
        conflicts_with = "ground",
        hide_short_help = true
    )]
    no_ground: bool,
    /// With --again: leave out the pictures that IP-Adapters showed.
    #[arg(
        long,
        requires = "again",
        conflicts_with = "ip_picture",
        hide_short_help = true
    )]
    no_ip_picture: bool,
    /// Where a part of a prompt joined by AND acts, as "2: 0.5,0,1,1"; may be repeated.
    #[arg(long, value_name = "PART: X0,Y0,X1,Y1", hide_short_help = true)]
    pub(in crate::cli::generate) region: Vec<Region>,
}

impl GuideArgs {
    /// Whether a method is named.
    pub(in crate::cli::generate) fn is_asked(&self) -> bool {
        self.guide.is_some()
    }

    /// `method` with the constants that were given.
    pub(in crate::cli::generate) fn config(&self, method: Method) -> GuidanceConfig {
        let mut config = GuidanceConfig::new(method);
        self.set(&mut config);
        config
    }

    /// Whether GLIGEN's layers are asked for.
    pub(in crate::cli::generate) fn is_grounded(&self) -> bool {
        self.ground.is_some()
    }

    /// Puts the guidance that is asked for into `request`: another method with its own constants, or other constants of
    /// the method that it has. `later` says that something else will choose the method.
    ///
    /// # Errors
    /// Constants without a method.
    pub(in crate::cli::generate) fn apply(
        &self,
        request: &mut Request,
        later: bool,
    ) -> anyhow::Result<()> {
        if self.no_guide {
            request.guide = None;
        }
        if self.no_ground {
            request.ground = None;
        }
        if self.no_ip_picture {
            request.pictures.clear();
        }
        if let Some(share) = self.ground {
            request.ground = Some(Grounding { share });
        }
        match (self.guide, &mut request.guide) {
            (Some(method), guide) => *guide = Some(self.config(method)),
            (None, Some(config)) => self.set(config),
            (None, None) => ensure!(
                later || self.config(METHODS[0]) == GuidanceConfig::new(METHODS[0]),
                "the picture is not guided, so there are no constants to change; name a method with --guide"
            ),
        }
        Ok(())
    }

    /// What was given.
    fn set(&self, config: &mut GuidanceConfig) {
        fn put<T: Clone>(given: &Option<T>, to: &mut Option<T>) {
            if given.is_some() {
                to.clone_from(given);
            }
        }
        if let Some(preset) = self.guide_preset {
            config.preset = preset;
        }
        put(&self.guide_steps, &mut config.steps);
        put(&self.guide_from, &mut config.from_step);
        put(&self.guide_scale, &mut config.scale);
        put(&self.guide_resolution, &mut config.resolution);
        put(&self.guide_smoothing, &mut config.smoothing);
        put(&self.guide_layers, &mut config.layers);
        put(&self.guide_tokens, &mut config.tokens);
        put(&self.guide_refine, &mut config.refine);
        put(&self.guide_loss, &mut config.loss);
        put(&self.guide_combine, &mut config.combine);
        put(&self.guide_distance, &mut config.distance);
        put(&self.guide_every, &mut config.every);
        if self.steer.is_some() {
            config.classifier.clone_from(&self.steer);
            // Recorded was another one.
            config.classifier_sha256 = None;
        }
        if self.guide_refine == Some(false) {
            // Where no step is repeated, recorded limits of that would be refused.
            (config.updates, config.threshold) = (None, None);
        }
        put(&self.guide_updates, &mut config.updates);
        put(&self.guide_threshold, &mut config.threshold);
        config.extrapolate |= self.guide_extrapolate;
        config.one_pass |= self.guide_one_pass;
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
