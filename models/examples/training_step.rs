//! Processor seconds and memory of a step of training on the CPU: forward, backward and a plain descent of what is trained.
//! Weights are random: they do not change either.
//!
//! ```text
//! RAYON_NUM_THREADS=1 cargo run --release -p prepose-models --example training_step -- weights/toybox/unet \
//!     --train all --batch 12 --size 16 --repeat 5
//! ```
//!
//! Prints one line of JSON. `scripts/bench/training.py` runs the same steps in PyTorch, in turns with these, and
//! `scripts/bench/training_memory.py` does so for the memory.

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

use burn::prelude::*;
use burn::tensor::{FloatDType, TensorData};
use prepose_models::params::ParamSource;
use prepose_models::training::{Batch, Choice, Lora, PartLoss, TrainableUNet};
use prepose_models::unet::{Memory, UNetConfig};

const USAGE: &str = "training_step UNET_FOLDER [--train all|lora] [--memory keep|recompute] [--batch N] [--size N] [--rank N] [--repeat N] [--parts N]";
const TOKENS: usize = 77;
/// What descends is scaled with.
const RATE: f64 = 1e-4;

/// Weights that keep the size of activations.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn tensor<const D: usize>(&mut self, shape: [usize; D]) -> Tensor<D> {
        let count = shape.iter().product();
        let data: Vec<f32> = (0..count).map(|_| self.next()).collect();
        Tensor::from_data(TensorData::new(data, shape), &Device::flex())
    }
}

impl ParamSource for Random {
    fn take(&mut self, _name: &str, shape: &[usize]) -> TensorData {
        let count = shape.iter().product();
        let inputs: usize = shape.iter().skip(1).product();
        let scale = 1.7 / (inputs as f32).sqrt();
        let data: Vec<f32> = (0..count).map(|_| scale * self.next()).collect();
        TensorData::new(data, shape.to_vec())
    }

    fn contains(&self, _name: &str) -> bool {
        true
    }
}

/// User and system time of the process, all threads together.
fn processor_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().ok_or("no fields")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // Fields 14 and 15 of the file, in hundredths of a second; the first of these is field 3.
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
}

/// The most that the process held at once.
fn peak_bytes() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next());
    Ok(kilobytes.ok_or("no VmHWM")?.parse::<u64>()? * 1024)
}

fn main() -> Result<(), Box<dyn Error>> {
    prepose_kernels::keep_freed_memory();
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or(USAGE)?;
    let mut options = HashMap::new();
    while let Some(name) = arguments.next() {
        options.insert(name, arguments.next().ok_or(USAGE)?);
    }
    let mut option = |name: &str, default: &str| {
        let value = options.remove(name);
        value.unwrap_or_else(|| default.to_string())
    };
    let train = option("--train", "all");
    let memory = match option("--memory", "keep").as_str() {
        "keep" => Memory::Keep,
        "recompute" => Memory::Recompute,
        _ => return Err(USAGE.into()),
    };
    let [batch, size, rank, repeat, parts] = [
        ("--batch", "12"),
        ("--size", "16"),
        ("--rank", "4"),
        ("--repeat", "5"),
        // As many as `prepose train` would make.
        ("--parts", "0"),
    ]
    .map(|(name, default)| option(name, default).parse::<usize>());
    let (batch, size, rank, repeat, parts) = (batch?, size?, rank?, repeat?, parts?);
    if !options.is_empty() {
        return Err(USAGE.into());
    }
    let text = std::fs::read_to_string(Path::new(&folder).join("config.json"))?;
    let config: UNetConfig = serde_json::from_str(&text)?;
    let choice = match train.as_str() {
        "all" => Choice::All,
        "lora" => Choice::Lora(Lora::attention(rank, rank as f64)),
        _ => return Err(USAGE.into()),
    };
    let (device, mut random) = (Device::flex(), Random(1));
    let mut unet = TrainableUNet::load(&config, &mut random, &device, FloatDType::F32, &choice, 1)?;
    let context = config.cross_attention_dim.first().ok_or("no context")?;
    let sample = random.tensor([batch, config.in_channels, size, size]);
    let target = random.tensor([batch, config.out_channels, size, size]);
    let context = random.tensor([batch, TOKENS, context]);
    let timesteps: Vec<f64> = (0..batch).map(|i| (i * 997 / batch) as f64).collect();
    let parts = match parts {
        0 => unet.parts(sample.dims()),
        _ => parts,
    };
    let (mut times, mut wall) = (Vec::new(), Vec::new());
    let mut last = 0.0;
    for _ in 0..repeat {
        let (before, started) = (processor_seconds()?, Instant::now());
        let batch = Batch::new(sample.clone(), &timesteps, context.clone());
        let elements = target.shape().num_elements() as f64;
        let (losses, gradients) =
            unet.gradients_in_parts(&batch, parts, memory, |part, prediction| {
                let target = target.clone().narrow(0, part.start, part.len());
                let off = prediction.clone() - target;
                PartLoss {
                    result: off.clone().square().sum().into_scalar::<f32>(),
                    // Of the mean of squares.
                    cotangent: off * (2.0 / elements),
                }
            });
        last = losses.into_iter().map(f64::from).sum::<f64>() / elements;
        let values = unet.values().into_iter().zip(gradients);
        let values = values.map(|(value, gradient)| value - gradient * RATE);
        let values = values.collect();
        unet.set_values(values);
        times.push(processor_seconds()? - before);
        wall.push(started.elapsed().as_secs_f64());
    }
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    println!(
        "{}",
        serde_json::json!({ "train": train, "batch": batch, "size": size, "rank": rank,
            "memory": format!("{memory:?}"), "cpu_seconds": times, "least": least, "wall_seconds": wall,
            "peak_bytes": peak_bytes()?, "loss": last })
    );
    Ok(())
}
