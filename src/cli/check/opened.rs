//! The detectors and the rule that the arguments name.

use std::path::Path;

use prepose::check::detect::checker::Checker;
use prepose::check::spatialbench::config::DetectorConfig;
use prepose::check::spatialbench::{CheckerConfig, Rule};
use prepose::detect::OpenDetector;
use prepose::device;
use prepose_weights::TOYBOX;

use super::Args;
use super::records::read_config;
use crate::cli::checker;
use crate::cli::looking::Looking;

/// What the arguments name to look at pictures and to decide, without its weights.
pub(super) struct Opened {
    config: CheckerConfig,
    pub primary: OpenDetector,
    secondary: Option<OpenDetector>,
    pub looking: Looking,
}

/// The detectors and the rule that the arguments name, loaded.
///
/// # Errors
/// What they name cannot be used.
pub fn open_checker(args: &Args) -> anyhow::Result<Checker> {
    Opened::new(args)?.load(args)
}

impl Opened {
    pub fn new(args: &Args) -> anyhow::Result<Self> {
        args.detecting.check()?;
        let (_, network) = depths(args.depth.as_deref());
        Ok(Self {
            looking: Looking::open(
                args.masks.as_deref(),
                network,
                args.mask_choice.unwrap_or_default(),
            )?,
            config: match &args.config {
                Some(path) => read_config(path)?,
                None => CheckerConfig::default(),
            },
            primary: checker::open(args.checker.as_deref().unwrap_or(TOYBOX))?,
            secondary: args.secondary.as_deref().map(checker::open).transpose()?,
        })
    }

    /// Loads the detectors; what is written beside the records names what looked.
    pub fn load(&self, args: &Args) -> anyhow::Result<Checker> {
        let opened = device::open(args.detecting.device)?;
        let load = |weights: &OpenDetector, config: &mut DetectorConfig| {
            let detector = checker::load(weights, &opened.device, &config.params)?;
            checker::name_in(config, weights);
            anyhow::Ok(detector)
        };
        let mut config = self.config.clone();
        let primary = load(&self.primary, &mut config.detector.primary)?;
        let secondary = match &self.secondary {
            Some(weights) => Some(load(
                weights,
                config.detector.secondary.get_or_insert_default(),
            )?),
            None => {
                if let Some(named) = config.detector.secondary.take() {
                    tracing::warn!(
                        "the configuration's secondary detector, {:?}, does not run without --secondary; nothing \
                         disagrees, so confidences are higher",
                        named.kind
                    );
                }
                None
            }
        };
        Ok(Checker {
            primary: self.looking.complete(primary, &opened.device)?,
            secondary,
            rule: Rule {
                config,
                published: args.published.unwrap_or(false),
            },
            device: opened.device,
            batch: args.detecting.batch,
        })
    }
}

/// What `--depth` names: a folder of maps, or a network.
pub(super) fn depths(given: Option<&Path>) -> (Option<&Path>, Option<&Path>) {
    match given {
        Some(path) if path.is_dir() && !path.join("config.json").exists() => (given, None),
        _ => (None, given),
    }
}
