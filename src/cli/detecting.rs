//! Where detectors look at pictures, and at how many at a time.

use anyhow::ensure;
use prepose::device::DeviceSpec;

/// Where detectors look at pictures, and at how many at a time.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Device")]
pub struct DetectingArgs {
    /// auto, cuda[:i], vulkan[:i], metal, wgpu[:i] or flex (the CPU).
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub device: DeviceSpec,
    /// Pictures at a time; the result does not depend on it.
    #[arg(
        short,
        long,
        value_name = "N",
        default_value_t = 8,
        hide_short_help = true
    )]
    pub batch: usize,
}

impl DetectingArgs {
    /// Refuses to look at no picture at a time.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(self.batch > 0, "--batch is 0, but must be at least 1");
        Ok(())
    }
}
