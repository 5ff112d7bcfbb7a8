//! Where something was measured.

use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::check::clock;
use crate::device::OpenDevice;
use crate::request::Dtype;

/// The device as the process that opened it sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// As `--device` names it.
    pub device: String,
    /// What the hardware calls itself.
    pub name: String,
    /// Whether it is the CPU.
    pub is_cpu: bool,
    /// The types that it computes in.
    pub dtypes: Vec<Dtype>,
}

impl DeviceFacts {
    /// What is known of `device`.
    pub fn of(device: &OpenDevice) -> Self {
        let dtypes = [Dtype::F32, Dtype::F16, Dtype::Bf16];
        Self {
            device: device.spec.to_string(),
            name: device.name.clone(),
            is_cpu: device.is_cpu(),
            dtypes: (dtypes.into_iter())
                .filter(|dtype| device.check_dtype(*dtype).is_ok())
                .collect(),
        }
    }
}

/// The machine and the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The device.
    #[serde(flatten)]
    pub device: DeviceFacts,
    /// Version of the GPU's driver, where it can be found out.
    pub driver: Option<String>,
    /// The processor.
    pub cpu: Option<String>,
    /// The widest of its instructions that were used, as `PREPOSE_INSTRUCTIONS` names them; empty in older sheets.
    #[serde(default)]
    pub instructions: String,
    /// Processors that the program may use.
    pub cores: usize,
    /// Threads that it uses.
    pub threads: usize,
    /// Of the machine.
    pub memory_bytes: Option<u64>,
    /// Operating system and architecture.
    pub system: String,
    /// Processes that were waiting or running over the last minute before the first row: those of others.
    pub load_average: Option<f64>,
    /// Of prepose.
    pub version: String,
    /// That it was built from.
    pub git_commit: Option<String>,
    /// It was built with.
    pub features: Vec<String>,
    /// UTC.
    pub date: String,
}

impl Machine {
    /// This machine, now.
    pub fn with(device: DeviceFacts) -> Self {
        let built_in = [
            ("cuda", cfg!(feature = "cuda")),
            ("fusion", cfg!(feature = "fusion")),
            ("metal", cfg!(feature = "metal")),
            ("toybox", cfg!(feature = "toybox")),
            ("vulkan", cfg!(feature = "vulkan")),
            ("wgpu", cfg!(feature = "wgpu")),
        ];
        Self {
            driver: (!device.is_cpu).then(driver).flatten(),
            cpu: line_of("/proc/cpuinfo", "model name"),
            instructions: prepose_kernels::instructions().unwrap_or_default().into(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            threads: rayon::current_num_threads(),
            memory_bytes: line_of("/proc/meminfo", "MemTotal").and_then(|line| kibibytes(&line)),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            load_average: load_average(),
            version: env!("CARGO_PKG_VERSION").into(),
            git_commit: option_env!("PREPOSE_GIT_COMMIT").map(Into::into),
            features: (built_in.into_iter())
                .filter(|(_, there)| *there)
                .map(|(name, _)| name.into())
                .collect(),
            date: clock::now(),
            device,
        }
    }

    /// A beginning for names of files: the hardware and the day.
    pub fn slug(&self) -> String {
        let name = match self.device.is_cpu {
            true => self.device.device.as_str(),
            false => self.device.name.as_str(),
        };
        let mut slug = String::new();
        for part in name.split(|c: char| !c.is_ascii_alphanumeric()) {
            if !part.is_empty() {
                slug.push_str(&part.to_lowercase());
                slug.push('-');
            }
        }
        slug + self.date.get(..10).unwrap_or_default()
    }
}

/// What is after the colon in the first line of a file that begins so.
fn line_of(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_start().strip_prefix(':')?.trim().to_string())
}

fn kibibytes(value: &str) -> Option<u64> {
    Some(1024 * value.strip_suffix("kB")?.trim().parse::<u64>().ok()?)
}

fn load_average() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// NVIDIA's, from its own tool.
fn driver() -> Option<String> {
    let output = Command::new("nvidia-smi")
        .args(["--query-gpu=driver_version", "--format=csv,noheader"])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().next()?.trim().to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn machine() -> Machine {
        let facts = DeviceFacts {
            device: "cuda".into(),
            name: "NVIDIA Tesla  T4 (16 GB)".into(),
            is_cpu: false,
            dtypes: vec![Dtype::F32, Dtype::F16],
        };
        Machine {
            driver: Some("550.1".into()),
            date: "2026-11-22T10:00:00Z".into(),
            ..Machine::with(facts)
        }
    }

    #[test]
    fn files_are_named_after_device_and_day() {
        assert_eq!(machine().slug(), "nvidia-tesla-t4-16-gb-2026-11-22");
        let mut cpu = machine();
        cpu.device.is_cpu = true;
        cpu.device.device = "flex".into();
        assert_eq!(cpu.slug(), "flex-2026-11-22");
    }
}
