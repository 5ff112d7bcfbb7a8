//! `prepose info`

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use prepose::output::png::{self, PngInfo};
use prepose_untrusted::{escaped, escaped_line, open_regular, printable};
use prepose_weights::describe_file;

use super::OK;

/// Say what a file is: a checkpoint, a LoRA, an autoencoder, or a picture with its request.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A file, or a diffusers folder.
    path: PathBuf,
    /// One JSON object on standard output.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let mut out = std::io::stdout().lock();
    if is_png(&args.path)? {
        let info = png::read_info(&args.path)?;
        if args.json {
            writeln!(out, "{}", png_json(&args.path, &info))?;
        } else {
            writeln!(
                out,
                "{}: PNG, {}x{} pixels",
                escaped_line(&args.path.to_string_lossy()),
                info.width,
                info.height
            )?;
            for (keyword, text) in &info.texts {
                writeln!(out, "\n{}:\n{}", printable(keyword), escaped(text))?;
            }
            if info.texts.is_empty() {
                writeln!(out, "no text inside: not made by prepose, or edited since")?;
            }
        }
        return Ok(OK);
    }
    let description = describe_file(&args.path)?;
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&description)?)?;
    } else {
        writeln!(out, "{}", escaped(&description.to_string()))?;
    }
    Ok(OK)
}

/// Whether the file starts as every PNG does; a folder does not.
fn is_png(path: &Path) -> anyhow::Result<bool> {
    let metadata = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    if metadata.is_dir() {
        return Ok(false);
    }
    let mut start = [0; 8];
    let mut file = open_regular(path).with_context(|| path.display().to_string())?;
    Ok(file.read_exact(&mut start).is_ok() && start == *b"\x89PNG\r\n\x1a\n")
}

fn png_json(path: &Path, info: &PngInfo) -> serde_json::Value {
    let mut json = serde_json::json!({
        "path": path, "format": "png", "width": info.width, "height": info.height,
    });
    for (keyword, text) in &info.texts {
        json[keyword] = text.clone().into();
    }
    if let Ok(request) = png::read_request(path) {
        json["request"] = serde_json::json!(request);
    }
    json
}
