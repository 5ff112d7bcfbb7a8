//! How long the program takes from its start to a picture, with empty and with filled caches.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use prepose::bench::row::{Outcome, PROMPT, Row};
use prepose_weights::hub::HubSettings;

use super::worker::last_words;

/// The states of the caches, in the order in which they are measured.
pub const STATES: [&str; 2] = ["empty caches", "filled caches"];

/// Runs `generate` as `row` says. `folder` is where it finds its caches, so that it is empty before the first.
pub fn measure(row: &Row, device: &str, folder: &Path, limit: Duration) -> anyhow::Result<Outcome> {
    let complaints = folder.join("complaints.txt");
    let mut program = program(row, device, folder)?;
    let started = Instant::now();
    let mut child = program
        .stderr(File::create(&complaints)?)
        .spawn()
        .context("cannot start this program")?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if started.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let seconds = started.elapsed().as_secs_f64();
    let problem = match status {
        Some(status) if status.success() => {
            return Ok(Outcome {
                seconds: vec![seconds],
                ..Outcome::empty(row)
            });
        }
        Some(status) => {
            let text = std::fs::read_to_string(&complaints).unwrap_or_default();
            last_words(&text).unwrap_or_else(|| status.to_string())
        }
        None => format!("stopped: not done after {seconds:.0} s"),
    };
    Ok(Outcome::failed(row, problem))
}

/// `generate` as `row` says, with its caches in `folder`.
fn program(row: &Row, device: &str, folder: &Path) -> anyhow::Result<Command> {
    let dtype = format!("{:?}", row.dtype).to_lowercase();
    let size = format!("{0}x{0}", row.size);
    // It would look for them below the empty caches.
    let downloads = std::path::absolute(HubSettings::from_env().cache)
        .context("cannot find the folder of downloads")?;
    let mut program = Command::new(std::env::current_exe().context("cannot find this program")?);
    program
        .args([
            "--quiet",
            "generate",
            PROMPT,
            "--checkpoint",
            &row.checkpoint,
        ])
        .args(["--device", device, "--dtype", &dtype, "--size", &size])
        .args([
            "--steps",
            &row.steps.to_string(),
            "--scheduler",
            "ddim",
            "--seed",
            "1",
        ])
        .args(["--out", "picture.png"])
        // Burn keeps compiled kernels and tuning below the first, NVIDIA's driver its own below the second.
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .env("CUDA_CACHE_PATH", folder.join("driver"))
        .env("HF_HUB_CACHE", downloads)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Ok(program)
}

#[cfg(test)]
mod tests {
    use prepose::bench::row::What;
    use prepose::request::{Dtype, Savings};

    use super::*;

    #[test]
    fn downloads_are_found_beside_empty_caches() {
        let row = Row {
            what: What::Start,
            variant: STATES[0].into(),
            model: "sd15".into(),
            checkpoint: "owner/sd15".into(),
            dtype: Dtype::F32,
            size: 512,
            batch: 1,
            steps: 1,
            repeats: 1,
            savings: Savings::default(),
        };
        let program = program(&row, "flex", Path::new("here")).unwrap();
        let given = |name: &str| {
            let mut all = program.get_envs();
            let (_, value) = all.find(|(key, _)| *key == name)?;
            value.map(Path::new)
        };
        assert_eq!(given("XDG_CACHE_HOME"), Some(Path::new("here/cache")));
        // As they are without other caches.
        let downloads = std::path::absolute(HubSettings::from_env().cache).unwrap();
        assert_eq!(given("HF_HUB_CACHE"), Some(downloads.as_path()));
    }
}
