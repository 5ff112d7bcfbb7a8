//! `prepose info`

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prepose::output::png::{self, PngInfo};
use prepose_untrusted::{escaped, escaped_line, open_regular, printable};
use prepose_weights::{TOYBOX, describe_file};

use super::{OK, toybox};

/// Describe a file: a checkpoint, a LoRA, an autoencoder, what else came out of a training, or a picture with its request.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose info toybox                       # the built-in checkpoint, and the objects that it can draw
  prepose info v1-5-pruned-emaonly.safetensors
  prepose info out/a-dog-7.png")]
pub struct Args {
    /// A file, a diffusers folder, a training's folder, toybox, or a name that `prepose pull` fetched.
    #[arg(value_name = "PATH|NAME")]
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
    let is_training = args.path.join("training.json").is_file();
    let outcome = is_training.then(|| outcome(&args.path)).flatten();
    let description = match (
        describe_file(outcome.as_ref().unwrap_or(&args.path)),
        outcome,
    ) {
        (Err(_), None) if is_training => bail!(
            "{} is the folder of a training that has not ended: nothing has come out of it yet; the command that began it \
             goes on with it",
            args.path.display()
        ),
        (description, _) => description?,
    };
    let objects = match args.path == Path::new(TOYBOX) {
        true => Some(toybox::objects()?),
        false => None,
    };
    if args.json {
        let mut json = serde_json::to_value(&description)?;
        if let Some(objects) = objects {
            json["objects"] = objects.into();
        }
        writeln!(out, "{json}")?;
    } else {
        writeln!(out, "{}", escaped(&description.to_string()))?;
        if let Some(objects) = objects {
            writeln!(
                out,
                "It can draw {} objects, and its detector knows the same:\n",
                objects.len()
            )?;
            for row in objects.chunks(7) {
                writeln!(out, "  {}", row.join(", "))?;
            }
        }
    }
    Ok(OK)
}

/// What has come out of a training in its folder.
fn outcome(path: &Path) -> Option<PathBuf> {
    let files = [
        "lora.safetensors",
        "checkpoint",
        "gligen.safetensors",
        "ip_adapter.safetensors",
        "steer.safetensors",
    ];
    let files = files.map(|name| path.join(name));
    files.into_iter().find(|path| path.exists())
}

/// Whether there is a file that starts as every PNG does; a folder does not, and names are no files.
fn is_png(path: &Path) -> anyhow::Result<bool> {
    if !path.is_file() {
        return Ok(false);
    }
    let mut start = [0; 8];
    let mut file = open_regular(path).with_context(|| path.display().to_string())?;
    Ok(file.read_exact(&mut start).is_ok() && start == *b"\x89PNG\r\n\x1a\n")
}

fn png_json(path: &Path, info: &PngInfo) -> serde_json::Value {
    let mut json = serde_json::json!({
        "path": path.to_string_lossy(), "format": "png", "width": info.width, "height": info.height,
    });
    for (keyword, text) in &info.texts {
        json[keyword] = text.clone().into();
    }
    if let Ok(request) = png::read_request(path) {
        json["request"] = serde_json::json!(request);
    }
    json
}
