//! The detectors that look at a run's pictures.

use anyhow::{bail, ensure};
use prepose::check::spatialbench::config::DetectorParams;
use prepose::check::spatialbench::{CheckerConfig, Rule};
use prepose::detect::checker::Checker;
use prepose::detect::{Detector, OpenDetector};
use prepose::device::OpenDevice;
use prepose::make::reward_kind;
use prepose::request::RewardKind;
use prepose::suite::SuitePrompt;
use prepose::suite::examiner::{Examiner, NoExaminer};
use prepose::suite::method::Method;
use prepose::suite::plan::{CheckerId, Plan};

use super::args::Settings;
use crate::cli::check::read_config;
use crate::cli::checker;
use crate::cli::judge::prompted::PromptedArgs;
use crate::cli::looking::Looking;

/// What `--checker` and `--secondary` take for no detector.
pub const NONE: &str = "none";

/// The detectors of a run, not yet loaded.
pub struct DetectorSpecs {
    primary: Option<OpenDetector>,
    secondary: Option<OpenDetector>,
    config: CheckerConfig,
    labels: Option<Vec<String>>,
    /// What looks besides the primary.
    looking: Looking,
    /// Whether the released code decides.
    published: bool,
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
        if args.checker() == NONE {
            let second = args.secondary.as_deref().is_some_and(|name| name != NONE);
            ensure!(
                !second && args.checker_config.is_none() && !args.known_objects && !args.published,
                "--checker none looks at nothing: leave out --secondary, --checker-config, --known-objects and --published"
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
        let looking = args.looking.open()?;
        ensure!(
            args.checker() != NONE || looking.is_empty(),
            "--checker none looks at nothing: leave out --masks and --depth"
        );
        let detectors = Self::named(
            args.checker(),
            args.secondary.as_deref(),
            config,
            args.published,
        )?;
        Ok(detectors.with(looking))
    }

    /// The same with what looks besides the primary.
    pub fn with(self, looking: Looking) -> Self {
        Self { looking, ..self }
    }

    /// Whether depths are looked at.
    pub fn sees_depth(&self) -> bool {
        self.looking.sees_depth()
    }

    /// Opens detectors by their names or paths, to look with these thresholds and to decide as the released code if `published`; no
    /// weights are read.
    ///
    /// # Errors
    /// A detector that cannot be opened.
    pub fn named(
        primary: &str,
        secondary: Option<&str>,
        mut config: CheckerConfig,
        published: bool,
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
            labels: primary.as_ref().and_then(OpenDetector::vocabulary),
            primary,
            secondary,
            config,
            looking: Looking::default(),
            published,
        })
    }

    /// What the primary can name; none if there is none, or if it takes any phrase.
    pub fn labels(&self) -> Option<&[String]> {
        self.labels.as_deref()
    }

    /// What the run's settings say of them.
    pub fn id(&self) -> anyhow::Result<Option<CheckerId>> {
        let Some(primary) = &self.primary else {
            return Ok(None);
        };
        let secondary = self.secondary.as_ref().map(OpenDetector::file_hash);
        let secondary = secondary.transpose()?.map(|file| file.sha256);
        let primary = primary.file_hash()?.sha256;
        let [masks_sha256, depth_sha256] = self.looking.hashes()?;
        Ok(Some(CheckerId {
            published: self.published,
            masks_sha256,
            depth_sha256,
            mask_choice: self.looking.choice(),
            ..CheckerId::new(primary, secondary, &self.config)
        }))
    }

    /// Refuses a search for relations in depth without something that sees it.
    ///
    /// # Errors
    /// There are such prompts, and no depth network.
    pub fn check_depth(&self, plan: &Plan) -> anyhow::Result<()> {
        let by_relations = |method: &&Method| {
            let search = method.search.as_ref();
            search.is_some_and(|search| search.reward == RewardKind::Relations)
        };
        let method = plan.config.methods.iter().find(by_relations);
        let Some(method) = method.filter(|_| !self.sees_depth()) else {
            return Ok(());
        };
        let is_of_depth = |prompt: &&SuitePrompt| {
            let mut relations = prompt.relations.iter();
            relations.any(|stated| stated.relation.is_of_depth())
        };
        let prompts = plan.prompts.iter().filter(is_of_depth).count();
        ensure!(
            prompts == 0,
            "{prompts} of {} prompts are about depth, which the method {} searches by: name a Depth Anything with --depth \
             (docs/eyes.md)",
            plan.prompts.len(),
            method.name
        );
        Ok(())
    }

    /// Loads them to look at `batch` pictures at a time.
    pub fn load(&self, device: &OpenDevice, batch: usize) -> anyhow::Result<Box<dyn Examiner>> {
        let Some(primary) = &self.primary else {
            return Ok(Box::new(NoExaminer));
        };
        let detectors = &self.config.detector;
        let second = detectors.secondary.as_ref().map(|config| &config.params);
        let second = second.unwrap_or(&detectors.primary.params);
        Ok(Box::new(Checker {
            primary: self.looking.complete(
                checker::load(primary, &device.device, &detectors.primary.params)?,
                &device.device,
            )?,
            secondary: (self.secondary.as_ref())
                .map(|weights| checker::load(weights, &device.device, second))
                .transpose()?,
            rule: Rule {
                config: self.config.clone(),
                published: self.published,
            },
            device: device.device.clone(),
            batch,
        }))
    }

    /// The detector that scores the candidates of searches, if a method of `plan` asks for one, or for the oracle.
    pub fn load_judge(
        &self,
        device: &OpenDevice,
        plan: &Plan,
        judge: Option<&PromptedArgs>,
    ) -> anyhow::Result<Option<Box<dyn Detector + Send>>> {
        let mut searches = (plan.config.methods.iter()).filter_map(|method| method.search.as_ref());
        let oracle = judge.is_some_and(|judge| judge.model.is_oracle()) && plan.config.asks_judge();
        let asked = searches.any(|search| reward_kind(search.reward).is_some());
        match &self.primary {
            Some(weights) if asked || oracle => {
                let params = DetectorParams::default();
                let judge = checker::load(weights, &device.device, &params)?;
                self.looking.complete(judge, &device.device).map(Some)
            }
            _ => Ok(None),
        }
    }
}
