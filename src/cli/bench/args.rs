//! The arguments of `prepose bench sheet`.

use std::path::PathBuf;

use anyhow::ensure;
use prepose::bench::row::{What, guided_variants};
use prepose::device::DeviceSpec;
use prepose::request::{Dtype, Savings};

use crate::cli::sampling::SavingsArgs;

/// Measure networks, pictures, guidance and memory on a device, and write them down.
///
/// Writes DEVICE-DATE.json and DEVICE-DATE.md.
///
/// Random weights do as well as real ones: `sd15` and `sdxl` are generated if they are not there yet. When time is
/// short, first timed calls, then steps of pictures, then rows are left out, and the sheet says which.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to measure: toybox, sd15 and sdxl (random weights), or checkpoints, as for `prepose generate`.
    #[arg(short, long, value_delimiter = ',', default_value = "toybox,sd15,sdxl")]
    pub checkpoints: Vec<String>,
    /// Where random weights are kept [default: prepose-weights in the system's folder for temporary files].
    #[arg(long, value_name = "DIR")]
    pub weights: Option<PathBuf>,
    /// The device.
    #[arg(long, default_value = "auto")]
    pub device: DeviceSpec,
    /// Types of the weights [default: f16 and bf16, or f32 on the CPU].
    #[arg(long, value_delimiter = ',')]
    pub dtypes: Vec<Dtype>,
    /// Pictures at a time; most measurements use the first of these.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16")]
    pub batches: Vec<usize>,
    /// The side of the pictures in pixels [default: the checkpoint's].
    #[arg(long)]
    pub size: Option<usize>,
    /// Steps of whole pictures.
    #[arg(long, default_value_t = 20)]
    pub steps: usize,
    /// Timed calls of each row, after one that is not counted.
    #[arg(long, default_value_t = 5)]
    pub repeat: usize,
    /// Measure only these rows.
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<What>,
    /// Measure only guided steps whose names begin with one of these: pos, boxdiff ...
    #[arg(long, value_delimiter = ',')]
    pub guidance: Vec<String>,
    #[command(flatten)]
    pub savings: SavingsArgs,
    /// How long it may take, such as 8m or 1h.
    #[arg(long, default_value = "8m")]
    pub budget: humantime::Duration,
    /// Measure the same rows as in the JSON of another sheet, with nothing cut as long as there is time.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["checkpoints", "dtypes", "batches", "size", "steps", "repeat", "only", "guidance", "deep_cache", "tgate", "token_merging"])]
    pub like: Option<PathBuf>,
    /// The folder for the two files; nothing there is overwritten.
    #[arg(
        short,
        long,
        alias = "output",
        value_name = "FOLDER",
        default_value = "."
    )]
    pub out: PathBuf,
    /// Print the JSON on standard output, too.
    #[arg(long)]
    pub json: bool,
}

impl Args {
    pub fn wants(&self, what: What) -> bool {
        self.only.is_empty() || self.only.contains(&what)
    }

    pub fn wants_variant(&self, name: &str) -> bool {
        self.guidance.is_empty()
            || self
                .guidance
                .iter()
                .any(|wanted| name.starts_with(&**wanted))
    }

    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.batches.iter().all(|&batch| batch >= 1),
            "--batches has a 0, but a batch is at least 1 picture"
        );
        ensure!(self.repeat >= 1, "--repeat is 0, but must be at least 1");
        ensure!(
            (1..=1000).contains(&self.steps),
            "--steps is {}, but must be between 1 and 1000",
            self.steps
        );
        (self.savings.over(Savings::default())).in_steps(self.steps)?;
        ensure!(
            guided_variants()
                .iter()
                .any(|(name, _)| self.wants_variant(name)),
            "there is no guided step that begins with {:?}; the guided steps are {}",
            self.guidance.join(" or "),
            guided_variants().map_names()
        );
        ensure!(
            !self.budget.is_zero(),
            "--budget is 0; 8m, for example, is eight minutes"
        );
        Ok(())
    }
}

/// Names in a row.
trait MapNames {
    fn map_names(&self) -> String;
}

impl<T> MapNames for Vec<(&'static str, T)> {
    fn map_names(&self) -> String {
        let names: Vec<&str> = self.iter().map(|(name, _)| *name).collect();
        names.join("; ")
    }
}
