//! Runs a network that looks at pictures on prepared ones, and prints what comes out and how long that takes, for
//! comparison with transformers (scripts/bench/towers.py):
//!
//!     towers FOLDER REPEATS
//!
//! The folder is as transformers writes it, with `input.safetensors` (`pictures`, f32 `[B, 3, H, W]`, and `boxes` `[P, 4]`
//! for a SAM) and `expected.safetensors` (`out`, and `masks` for a SAM).

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use prepose_models::sam::Prompt;
use prepose_weights::{EyeKind, EyeWeights};
use safetensors::SafeTensors;
use serde_json::json;

fn read<const D: usize>(path: &Path, name: &str) -> Result<Tensor<D>, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let file = SafeTensors::deserialize(&bytes)?;
    let view = file.tensor(name)?;
    let shape = view.shape().to_vec();
    let data = TensorData::from_bytes_vec(view.data().to_vec(), shape, DType::F32);
    Ok(Tensor::from_data(data, (&Device::flex(), DType::F32)))
}

/// The largest difference as a share of the largest expected value.
fn deviation<const D: usize>(actual: Tensor<D>, expected: Tensor<D>) -> f32 {
    let scale: f32 = expected.clone().abs().max().into_scalar();
    let off: f32 = (actual - expected).abs().max().into_scalar();
    off / scale
}

/// The fastest of some runs in seconds, and the last result.
fn timed<T>(repeats: usize, mut run: impl FnMut() -> T) -> (f64, T) {
    let mut best = f64::INFINITY;
    let mut last = None;
    for _ in 0..repeats.max(1) {
        let start = Instant::now();
        last = Some(run());
        best = best.min(start.elapsed().as_secs_f64());
    }
    (best, last.expect("it ran at least once"))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, repeats] = &arguments[..] else {
        return Err("usage: towers FOLDER REPEATS".into());
    };
    prepose_kernels::keep_freed_memory();
    let (folder, repeats) = (Path::new(folder), repeats.parse()?);
    let (input, expected) = (
        folder.join("input.safetensors"),
        folder.join("expected.safetensors"),
    );
    let device = Device::flex();
    let weights = EyeWeights::open(folder)?;
    let pictures: Tensor<4> = read(&input, "pictures")?;
    let f32 = FloatDType::F32;
    let (seconds, off) = match weights.kind() {
        EyeKind::Clip | EyeKind::ClipVision => {
            let network = weights.load_clip_vision(&device, f32)?;
            let run = || network.forward(pictures.clone(), 0).pooled;
            let (seconds, out) = timed(repeats, run);
            (seconds, vec![deviation(out, read(&expected, "out")?)])
        }
        EyeKind::Dinov2 => {
            let network = weights.load_dinov2(&device, f32)?;
            let (seconds, out) = timed(repeats, || network.features(pictures.clone()));
            (seconds, vec![deviation(out, read(&expected, "out")?)])
        }
        EyeKind::DepthAnything => {
            let network = weights.load_depth(&device, f32)?;
            let (seconds, out) = timed(repeats, || network.forward(pictures.clone()));
            (seconds, vec![deviation(out, read(&expected, "out")?)])
        }
        EyeKind::Inception => {
            let network = weights.load_inception(&device, f32)?;
            let run = || network.forward(pictures.clone()).features;
            let (seconds, out) = timed(repeats, run);
            (seconds, vec![deviation(out, read(&expected, "out")?)])
        }
        EyeKind::ImageReward => {
            // With one text of some length: the text encoder looks at each picture's states in every layer.
            let network = weights.load_image_reward(&device, f32)?;
            let ids: Vec<u32> = (read::<2>(&input, "tokens")?.into_data().iter::<f32>())
                .map(|id| id as u32)
                .collect();
            let texts = vec![ids; pictures.dims()[0]];
            let run = || network.rewards(pictures.clone(), &texts);
            let (seconds, out) = timed(repeats, run);
            (seconds, vec![deviation(out, read(&expected, "out")?)])
        }
        EyeKind::Sam => {
            let network = weights.load_sam(&device, f32)?;
            let (seconds, out) = timed(repeats, || network.encode(pictures.clone()));
            let boxes: Vec<f32> = read::<2>(&input, "boxes")?.into_data().iter().collect();
            let (boxes, _) = boxes.as_chunks::<4>();
            let prompts: Vec<Prompt> = boxes.iter().copied().map(Prompt::of_box).collect();
            let (of_boxes, masks) = timed(repeats, || network.segment(&out, &prompts, true));
            eprintln!("{} boxes in {of_boxes:.3} s", prompts.len());
            let masks = deviation(masks.logits, read(&expected, "masks")?);
            (
                seconds,
                vec![deviation(out, read(&expected, "out")?), masks],
            )
        }
    };
    println!("{}", json!({"seconds": seconds, "deviations": off}));
    Ok(())
}
