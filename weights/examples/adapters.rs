//! Runs a UNet call without anything, with GLIGEN's objects and with pictures of IP-Adapters, and prints by how much the results are
//! off and how long they take, for comparison with diffusers (scripts/bench/adapters.py):
//!
//!     adapters FOLDER CHECKPOINT REPEATS
//!
//! The folder has `gligen.safetensors`, `plain.safetensors` and `plus.safetensors`, what goes in (`input.safetensors`: `sample`
//! `[B, 4, H, W]`, `context` `[B, N, D]`, `boxes`, `masks` and `positive_embeddings` of the objects, and for each adapter what the
//! picture's encoder made, `[B, S, D]`) and `expected.safetensors` with a result for each.

mod measured;

use std::error::Error;
use std::path::Path;

use burn::tensor::{Device, FloatDType, Tensor};
use measured::{deviation, peak, read};
use prepose_models::ip_adapter::{IpAdapter, PictureRow};
use prepose_models::unet::{Objects, PreparedConditioning, UNet};
use prepose_weights::{AdapterSpec, Checkpoint, LoadOptions};
use serde_json::json;

const TIMESTEP: f64 = 601.0;
const ADAPTERS: [&str; 2] = ["plain", "plus"];

/// A conditioning with the picture of `features` `[B, S, D]` at the scale 1.
fn shown(
    unet: &UNet,
    prepared: &PreparedConditioning,
    adapter: &IpAdapter,
    features: Tensor<3>,
    latents: [usize; 2],
) -> PreparedConditioning {
    let layers = unet.cross_attention_names().count();
    let row = |row| PictureRow {
        tokens: adapter.tokens(features.clone().narrow(0, row, 1)),
        scales: vec![1.0; layers],
        region: None,
    };
    let rows: Vec<_> = (0..features.dims()[0]).map(row).collect();
    unet.show(prepared.clone(), &[adapter.attention(&rows, latents)])
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, checkpoint, repeats] = &arguments[..] else {
        return Err("usage: adapters FOLDER CHECKPOINT REPEATS".into());
    };
    prepose_kernels::keep_freed_memory();
    let (folder, repeats) = (Path::new(folder), repeats.parse::<usize>()?);
    let input = folder.join("input.safetensors");
    let spec = |name: &str| AdapterSpec {
        path: folder.join(format!("{name}.safetensors")),
        encoder: None,
    };
    let options = LoadOptions {
        gligen: Some(folder.join("gligen.safetensors")),
        adapters: ADAPTERS.map(spec).into(),
        ..LoadOptions::default()
    };
    let checkpoint = Checkpoint::open(checkpoint, &options)?;
    let (device, dtype) = (Device::flex(), FloatDType::F32);
    let unet = checkpoint.load_unet(&device, dtype)?;

    let sample = read::<4>(&input, "sample")?;
    let [.., height, width] = sample.dims();
    let plain = unet.prepare(read(&input, "context")?, None);
    let objects = Objects {
        phrases: read(&input, "positive_embeddings")?,
        boxes: read(&input, "boxes")?,
        mask: read::<2>(&input, "masks")?.unsqueeze_dim(2),
    };
    let grounded = unet.ground(plain.clone(), &objects);
    let mut ways = vec![("nothing", plain.clone()), ("gligen", grounded)];
    for (name, weights) in ADAPTERS.into_iter().zip(checkpoint.adapters()) {
        let adapter = weights.load(&device, dtype)?;
        let features = read(&input, name)?;
        let way = shown(&unet, &plain, &adapter, features, [height, width]);
        ways.push((name, way));
    }

    // In turns, so that what slows the machine down slows all of them.
    let mut report: Vec<_> = (ways.iter())
        .map(|(name, _)| json!({"what": name, "seconds": Vec::<f64>::new()}))
        .collect();
    for repeat in 0..repeats {
        for ((name, way), row) in ways.iter().zip(&mut report) {
            let run = || unet.forward_prepared(sample.clone(), &[TIMESTEP], way);
            let (seconds, out) = measured::timed(1, run);
            if let Some(all) = row["seconds"].as_array_mut() {
                all.push(json!(seconds));
            }
            if repeat == 0 {
                let expected = read(&folder.join("expected.safetensors"), name)?;
                row["deviation"] = json!(deviation(out, expected));
            }
        }
    }
    println!("{}", json!({"rows": report, "peak": peak()}));
    Ok(())
}
