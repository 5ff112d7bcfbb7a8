//! Search for a noise.

use anyhow::ensure;
use prepose::detect::OpenDetector;
use prepose::make::reward_kind;
use prepose::search::{Pruning, RewardKind, SearchConfig};

use crate::cli::checker;
use crate::cli::looking::{Looking, LookingArgs};
use crate::cli::values::parse_numbers;

/// Try several noises and keep the best (docs/search.md).
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Search")]
pub struct SearchArgs {
    /// Try N noises and keep the best.
    #[arg(long, value_name = "N")]
    best_of: Option<usize>,
    /// How candidates are scored [default: attention].
    #[arg(long, value_name = "REWARD", requires = "best_of")]
    reward: Option<RewardKind>,
    /// The detector that `--reward checker`, `pse` or `relations` uses: toybox, frcnn-v2, rtdetr-v2-r18 and others
    /// (docs/detectors.md), or the path of one [default: toybox].
    #[arg(
        long,
        value_name = "NAME|PATH",
        requires = "reward",
        hide_short_help = true
    )]
    checker: Option<String>,
    #[command(flatten)]
    looking: LookingArgs,
    /// Drop the worse half early.
    ///
    /// `auto` means after 15, 25 and 40 % of the steps; or give a list of steps such as 3,5,8.
    #[arg(long, value_name = "STEPS", num_args = 0..=1, default_missing_value = "auto",
          require_equals = true, value_parser = parse_pruning, requires = "best_of")]
    prune: Option<Pruning>,
    /// Write every finished candidate, best first.
    #[arg(long, requires = "best_of", hide_short_help = true)]
    pub(in crate::cli::generate) keep_all: bool,
}

impl SearchArgs {
    /// What they ask for.
    pub(in crate::cli::generate) fn config(&self) -> Option<SearchConfig> {
        Some(SearchConfig {
            best_of: self.best_of?,
            reward: self.reward.unwrap_or_default(),
            pruning: self.prune.clone(),
        })
    }

    /// What looks at pictures besides the detector.
    ///
    /// # Errors
    /// A network that cannot be opened.
    pub(in crate::cli::generate) fn looking(&self) -> anyhow::Result<Looking> {
        self.looking.open()
    }

    /// The detector that the reward needs.
    ///
    /// # Errors
    /// It cannot be opened, or the reward needs none.
    pub(in crate::cli::generate) fn detector(&self) -> anyhow::Result<Option<OpenDetector>> {
        if reward_kind(self.reward.unwrap_or_default()).is_none() {
            ensure!(
                self.checker.is_none() && self.looking.open()?.is_empty(),
                "--checker, --masks and --depth are for --reward checker, pse and relations"
            );
            return Ok(None);
        }
        let name = self.checker.as_deref().unwrap_or("toybox");
        checker::open(name).map(Some)
    }
}

fn parse_pruning(text: &str) -> Result<Pruning, String> {
    if text == "auto" {
        return Ok(Pruning::Auto);
    }
    let steps = parse_numbers(text);
    let steps =
        steps.map_err(|why| format!("give `auto`, or numbers of steps such as 3,5,8: {why}"))?;
    Ok(Pruning::After(steps.0))
}
