//! `prepose devices`

use std::io::Write;

use prepose::device::{self, Backend};
use prepose_kernels::{Bf16Products, bf16_products, instructions};

use super::OK;

/// List the devices that can be used, and why the others cannot.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// One JSON object on standard output.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let mut rows = Vec::new();
    let mut cache = None;
    for listing in device::list() {
        for (index, device) in listing.devices.iter().enumerate() {
            let spec = match index {
                0 => listing.backend.to_string(),
                _ => format!("{}:{index}", listing.backend),
            };
            rows.push(match device {
                Ok(device) => {
                    cache = cache.or(device.kernel_cache);
                    (listing.backend, spec, true, device.name.clone())
                }
                Err(error) => (listing.backend, spec, false, error.to_string()),
            });
        }
    }
    let auto = device::find(device::DeviceSpec::Auto)?.spec.to_string();
    // None where they cannot be kept.
    let kept = cache.map(|cache| {
        let size = std::fs::metadata(&cache.file).map_or(0, |file| file.len());
        (&cache.file, cache.is_usable().then_some(size))
    });
    let mut out = std::io::stdout().lock();
    if args.json {
        let devices: Vec<_> = rows
            .iter()
            .map(|(backend, spec, usable, text)| {
                let key = if *usable { "name" } else { "reason" };
                let mut device = serde_json::json!(
                    {"device": spec, "backend": backend, "usable": usable, key: text}
                );
                if *backend == Backend::Flex {
                    device["bf16"] = bf16(bf16_products()).0.into();
                    device["instructions"] = instructions().unwrap_or_default().into();
                }
                device
            })
            .collect();
        writeln!(
            out,
            "{}",
            serde_json::json!({
                "auto": auto,
                "devices": devices,
                "kernel_cache": kept.map(|(file, bytes)| serde_json::json!({
                    "file": file,
                    "usable": bytes.is_some(),
                    "bytes": bytes,
                })),
            })
        )?;
    } else {
        for (backend, spec, usable, text) in &rows {
            let mark = match (usable, *spec == auto) {
                (true, true) => "auto  ",
                (true, false) => "usable",
                (false, _) => "  -   ",
            };
            let products = match backend {
                Backend::Flex => format!(
                    "; {}; bf16 {}",
                    instructions().unwrap_or_default(),
                    bf16(bf16_products()).1
                ),
                _ => String::new(),
            };
            writeln!(out, "{mark}  {spec:<9} {text}{products}")?;
        }
        if let Some((file, bytes)) = kept {
            let file = file.display();
            match bytes {
                Some(bytes) => {
                    let megabytes = bytes as f64 / 1e6;
                    writeln!(
                        out,
                        "\ncompiled kernels are kept in {file} ({megabytes:.1} MB)"
                    )?;
                }
                None => writeln!(out, "\ncompiled kernels cannot be kept in {file}")?,
            }
        }
    }
    Ok(OK)
}

/// One word and some, of what a CPU does with bf16.
fn bf16(products: Bf16Products) -> (&'static str, &'static str) {
    match products {
        Bf16Products::Tiles => ("tiles", "in tiles (AMX), much faster than f32"),
        Bf16Products::Pairs => ("pairs", "in pairs (AVX512-BF16)"),
        Bf16Products::Widened => ("widened", "is slower than f32"),
    }
}
