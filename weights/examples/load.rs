//! Loads all networks of a checkpoint and prints how long it took, the peak of this process's memory
//! (Linux) and a fingerprint of the parameters, by which containers of the same weights can be
//! compared.
//!
//! `cargo run --release -p prepose-weights --example load -- CHECKPOINT [CONFIG_FOLDER]`

use std::hash::{DefaultHasher, Hasher};
use std::time::Instant;

use burn::module::{Module, ModuleVisitor, Param};
use burn::prelude::*;
use burn::tensor::FloatDType;
use prepose_weights::{Checkpoint, LoadOptions, WeightsError};

/// Hashes every parameter's bytes.
struct Fingerprint(DefaultHasher);

impl ModuleVisitor for Fingerprint {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.write(param.val().into_data().as_bytes());
    }
}

fn fingerprint(module: &impl Module) -> u64 {
    let mut hasher = Fingerprint(DefaultHasher::new());
    module.visit(&mut hasher);
    hasher.0.finish()
}

fn peak_mebibytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? / 1024)
}

fn main() -> Result<(), WeightsError> {
    let mut arguments = std::env::args_os().skip(1);
    let path = arguments.next().unwrap_or_else(|| "toybox".into());
    let options = LoadOptions {
        config: arguments.next().map(Into::into),
        ..LoadOptions::default()
    };
    let (device, dtype) = (Device::flex(), FloatDType::F16);
    let start = Instant::now();
    let checkpoint = Checkpoint::open(&path, &options)?;
    let opened = start.elapsed().as_secs_f64();
    let text = checkpoint.load_text_encoders(&device, dtype)?;
    let unet = checkpoint.load_unet(&device, dtype)?;
    let vae = checkpoint.load_vae(&device, dtype)?;
    let loaded = start.elapsed().as_secs_f64();
    let peak = peak_mebibytes();
    let parameters =
        text.iter().map(Module::num_params).sum::<usize>() + unet.num_params() + vae.num_params();

    println!("{}: {}", checkpoint.name(), checkpoint.family());
    println!("parameters   {parameters}");
    println!("opened in    {opened:.2} s");
    println!("loaded in    {loaded:.2} s");
    if let Some(peak) = peak {
        println!("peak memory  {peak} MiB");
    }
    for encoder in &text {
        println!("text         {:016x}", fingerprint(encoder));
    }
    println!("unet         {:016x}", fingerprint(&unet));
    println!("vae          {:016x}", fingerprint(&vae));
    Ok(())
}
