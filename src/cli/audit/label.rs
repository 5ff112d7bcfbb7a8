//! `prepose audit label`

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prepose::audit::page::{self, embed, link, picture_type};
use prepose::audit::table::{SampleRow, relative};
use prepose::output::files::{parent, prepare_folder, write_atomically};
use prepose_untrusted::{escaped, read_regular};
use serde_json::json;

use super::super::OK;
use super::input;
use crate::cli::input::{absolute, count};

/// More than any picture's file has.
const MOST_BYTES: u64 = 1 << 30;

/// Make a page on which people label a sample, offline, in any browser.
///
/// The page is one HTML file that works offline, with the keyboard alone or on a phone. It hides the checker's verdicts at
/// first, keeps labels in the browser, can continue from an export, and exports labels_filled.json.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose audit label --sample audit/sample.csv
  prepose audit label --sample audit/sample.csv --embed --out audit.html    # one file to send away")]
pub struct Args {
    /// The table from `audit sample`.
    #[arg(long, value_name = "FILE")]
    sample: PathBuf,
    /// The page to write [default: label.html beside the table].
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Put the pictures into the page instead of linking to them.
    #[arg(long)]
    embed: bool,
    /// Where the pictures are, if not where the table says.
    #[arg(long, value_name = "FOLDER")]
    pictures: Option<PathBuf>,
    /// The seed for the order in which pictures are shown; the table's own order would give verdicts away.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Show the pictures in the table's order.
    #[arg(long, conflicts_with = "seed")]
    in_order: bool,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let rows = input::sample(&args.sample)?;
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| parent(&args.sample).join("label.html"));
    let pictures = find_pictures(&rows, parent(&args.sample), args.pictures.as_deref())?;
    let folder = absolute(parent(&out))?;
    let images = pictures
        .iter()
        .map(|picture| address(picture, args.embed, &folder))
        .collect::<anyhow::Result<Vec<_>>>()?;

    let seed = (!args.in_order).then_some(args.seed);
    prepare_folder(&folder)?;
    write_atomically(&out, page::page(&rows, &images, seed).as_bytes())?;
    let mut stdout = std::io::stdout().lock();
    if args.json {
        let report =
            json!({ "page": out.to_string_lossy(), "samples": rows.len(), "embedded": args.embed });
        writeln!(stdout, "{report}")?;
    } else {
        let how = match args.embed {
            true => "inside it",
            false => "linked from where they are",
        };
        writeln!(
            stdout,
            "{}: {} to label, {how}. Open it in a browser; ? shows the keys.",
            escaped(&out.display().to_string()),
            count(rows.len(), "picture")
        )?;
    }
    Ok(OK)
}

/// The address of a picture, which is absolute, as a page in this folder should use it.
pub fn address(picture: &Path, inside: bool, folder: &Path) -> anyhow::Result<String> {
    let bytes = read_regular(picture, MOST_BYTES)
        .with_context(|| format!("cannot read {}", picture.display()))?;
    let address = match inside {
        true => embed(&bytes),
        false => picture_type(&bytes).map(|_| link(&relative(picture, folder))),
    };
    address.with_context(|| {
        format!(
            "{} is not a picture that a browser shows (PNG, JPEG, WebP, GIF or BMP)",
            picture.display()
        )
    })
}

/// Where each picture is, absolute and without `..`.
fn find_pictures(
    rows: &[SampleRow],
    beside: &Path,
    given: Option<&Path>,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for row in rows {
        // Tables written on Windows have backslashes.
        let path = row.image_path.replace('\\', "/");
        let path = match given {
            None => beside.join(path),
            Some(folder) => {
                let name = path.rsplit('/').next().unwrap_or_default();
                folder.join(name)
            }
        };
        if path.is_file() {
            found.push(absolute(&path)?);
        } else {
            missing.push(path);
        }
    }
    match missing.first() {
        None => Ok(found),
        Some(first) => bail!(
            "{} of {} pictures are not there (the first is {}); say where they are with --pictures FOLDER",
            missing.len(),
            rows.len(),
            first.display()
        ),
    }
}
