//! `prepose pull`

use std::io::Write;

use prepose_weights::hub::{self, HubSettings, PullEvent, PullRequest};

use super::OK;
use super::progress::Progress;

/// Download a known checkpoint into the Hugging Face cache, shared with Python.
///
/// No other command downloads a checkpoint. Besides this one the network is used by `serve`, by runs in object stores, and by
/// options that name a server, such as `--judge`, `--endpoint`, `--extract-with` and `--chat`.
///
/// An interrupted download resumes where it stopped, and every file's size and hash are checked before it gets its
/// name. The token is sent only to the hub's host. HF_HOME, HF_ENDPOINT, HF_HUB_OFFLINE, HF_TOKEN and
/// HF_HUB_DOWNLOAD_TIMEOUT (seconds of silence, 10 by default) are honoured.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A known name, OWNER/NAME for a folder of diffusers or transformers, or OWNER/NAME/FILE; without it, the known names are listed.
    name: Option<String>,
    /// The commit, branch or tag to fetch [default: the pinned commit of a known checkpoint].
    #[arg(long, value_name = "COMMIT")]
    revision: Option<String>,
    /// Print JSON on standard output: what was fetched or, without a name, one object per line.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let mut out = std::io::stdout().lock();
    let Some(name) = &args.name else {
        let width = hub::CATALOG
            .iter()
            .map(|known| known.name.len())
            .max()
            .unwrap_or(0);
        for known in hub::CATALOG {
            if args.json {
                let line = serde_json::json!({
                    "name": known.name, "bytes": known.size, "about": known.about, "repo": known.repo,
                });
                writeln!(out, "{line}")?;
                continue;
            }
            let size = match known.size {
                size if size < 1_000_000_000 => format!("{:.0} MB", size as f64 / 1e6),
                size => format!("{:.1} GB", size as f64 / 1e9),
            };
            writeln!(
                out,
                "{:<width$} {size:>8}  {} ({})",
                known.name, known.about, known.repo
            )?;
        }
        return Ok(OK);
    };
    let request = PullRequest {
        name: name.clone(),
        revision: args.revision.clone(),
    };
    let quiet = quiet || args.json;
    let mut progress = Progress::new(0, "bytes", true);
    let pulled = hub::pull(
        &request,
        &HubSettings::from_env(),
        &mut |event| match event {
            PullEvent::Start { file, size } => {
                progress.finish();
                progress = Progress::bytes(size, file, quiet);
            }
            PullEvent::Advance(bytes) => progress.advance(bytes),
            PullEvent::Verify { file } => progress.message(format!("checking {file}")),
            PullEvent::Done { file } => {
                progress.finish();
                tracing::info!("{file} is complete");
            }
        },
    )?;
    if args.json {
        let files: Vec<_> = pulled
            .files
            .iter()
            .map(|(path, sha256)| serde_json::json!({"path": path.to_string_lossy(), "sha256": sha256}))
            .collect();
        let report = serde_json::json!({
            "path": pulled.path.to_string_lossy(), "repo": pulled.repo, "commit": pulled.commit, "files": files,
        });
        writeln!(out, "{report}")?;
    } else {
        writeln!(out, "{}", pulled.path.display())?;
    }
    Ok(OK)
}
