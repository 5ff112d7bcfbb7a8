//! The detectors that look at a run's pictures.

use anyhow::{bail, ensure};
use prepose::check::spatialbench::{CheckerConfig, Rule};
use prepose::detect::checker::Checker;
use prepose::detect::{Detector, RcnnDetector};
use prepose::device::OpenDevice;
use prepose::make::reward_kind;
use prepose::suite::examiner::{Examiner, NoExaminer};
use prepose::suite::plan::{CheckerId, Plan};
use prepose_weights::DetectorWeights;

use super::args::Settings;
use crate::cli::check::read_config;
use crate::cli::checker;

/// What `--checker` and `--secondary` take for no detector.
const NONE: &str = "none";

/// The detectors of a run, not yet loaded.
pub struct DetectorSpecs {
    primary: Option<DetectorWeights>,
    secondary: Option<DetectorWeights>,
    config: CheckerConfig,
    labels: Vec<String>,
}

impl DetectorSpecs {
    /// Opens what the arguments name; no weights are read.
    ///
    /// # Errors
    /// A detector that cannot be opened; settings that contradict each other.
    pub fn open(args: &Settings) -> anyhow::Result<Self> {
        let config = match &args.checker_config {
            Some(path) => read_config(path)?,
            None => CheckerConfig::default(),
        };
        if args.checker == NONE {
            let second = args.secondary.as_deref().is_some_and(|name| name != NONE);
            ensure!(
                !second && args.checker_config.is_none() && !args.known_objects,
                "--checker none looks at nothing: it goes without --secondary, --checker-config and --known-objects"
            );
        }
        if let (Some(path), None, Some(named)) = (
            &args.checker_config,
            &args.secondary,
            &config.detector.secondary,
        ) {
            bail!(
                "{} has a secondary detector, {:?}, but not its weights: name them with --secondary, or leave it out \
                 with --secondary none",
                path.display(),
                named.kind
            );
        }
        Self::named(&args.checker, args.secondary.as_deref(), config)
    }

    /// Opens detectors by their names or paths, to look with these thresholds; no weights are read.
    ///
    /// # Errors
    /// A detector that cannot be opened.
    pub fn named(
        primary: &str,
        secondary: Option<&str>,
        mut config: CheckerConfig,
    ) -> anyhow::Result<Self> {
        let primary = match primary {
            NONE => None,
            name => Some(checker::open(name)?),
        };
        let secondary = match secondary {
            None | Some(NONE) => None,
            Some(name) => Some(checker::open(name)?),
        };
        let detectors = &mut config.detector;
        // What is written beside the records is what looks.
        if let Some(primary) = &primary {
            checker::name_in(&mut detectors.primary, primary);
        }
        match &secondary {
            Some(weights) => {
                checker::name_in(detectors.secondary.get_or_insert_default(), weights);
            }
            None => detectors.secondary = None,
        }
        Ok(Self {
            labels: primary
                .as_ref()
                .map_or_else(Vec::new, |weights| RcnnDetector::labels(weights.config())),
            primary,
            secondary,
            config,
        })
    }

    /// What the primary can name; none if there is none.
    pub fn labels(&self) -> Option<&[String]> {
        self.primary.as_ref().map(|_| &*self.labels)
    }

    /// What the run's settings say of them.
    pub fn id(&self) -> anyhow::Result<Option<CheckerId>> {
        let Some(primary) = &self.primary else {
            return Ok(None);
        };
        let secondary = self.secondary.as_ref().map(DetectorWeights::file_hash);
        let secondary = secondary.transpose()?.map(|file| file.sha256);
        let primary = primary.file_hash()?.sha256;
        Ok(Some(CheckerId::new(primary, secondary, &self.config)))
    }

    /// Loads them to look at `batch` pictures at a time.
    pub fn load(&self, device: &OpenDevice, batch: usize) -> anyhow::Result<Box<dyn Examiner>> {
        let Some(primary) = &self.primary else {
            return Ok(Box::new(NoExaminer));
        };
        let load =
            |weights: &DetectorWeights, threshold| -> anyhow::Result<Box<dyn Detector + Send>> {
                Ok(Box::new(checker::load(weights, &device.device, threshold)?))
            };
        let detectors = &self.config.detector;
        let second = detectors.secondary.as_ref();
        let second = second.and_then(|config| config.params.score_threshold);
        Ok(Box::new(Checker {
            primary: load(primary, detectors.primary.params.score_threshold)?,
            secondary: (self.secondary.as_ref())
                .map(|weights| load(weights, second))
                .transpose()?,
            rule: Rule {
                config: self.config.clone(),
                published: false,
            },
            device: device.device.clone(),
            batch,
        }))
    }

    /// The detector that scores the candidates of searches, if a method of `plan` asks for one.
    pub fn load_judge(
        &self,
        device: &OpenDevice,
        plan: &Plan,
    ) -> anyhow::Result<Option<RcnnDetector>> {
        let mut searches = (plan.config.methods.iter()).filter_map(|method| method.search.as_ref());
        match &self.primary {
            Some(weights) if searches.any(|search| reward_kind(search.reward).is_some()) => {
                checker::load(weights, &device.device, None).map(Some)
            }
            _ => Ok(None),
        }
    }
}
