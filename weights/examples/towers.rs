//! Runs a network that looks at pictures on prepared ones, and prints by how much its results are off, how long it takes and
//! how much memory the process held at most, for comparison with transformers (scripts/bench/towers.py):
//!
//!     towers FOLDER REPEATS
//!
//! The folder is as transformers writes it, with `input.safetensors` (`pictures`, f32 `[B, 3, H, W]`, `boxes` `[P, 4]`
//! for a SAM, `tokens` `[T, N]` for what reads) and `expected.safetensors` (`out`, and more of some networks).

mod measured;

use std::error::Error;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use measured::{deviation, peak, read, timed};
use prepose_models::sam::Prompt;
use prepose_weights::{
    DetrKind, EyeKind, EyeWeights, GroundingDinoWeights, OwlVitWeights, RtDetrWeights, detr_kind,
};
use serde_json::json;

/// Rows of token numbers.
fn read_tokens(input: &Path) -> Result<Vec<Vec<u32>>, Box<dyn Error>> {
    let tokens = read::<2>(input, "tokens")?;
    let [_, length] = tokens.dims();
    let ids: Vec<u32> = (tokens.into_data().iter::<f32>())
        .map(|id| id as u32)
        .collect();
    Ok(ids.chunks(length).map(<[u32]>::to_vec).collect())
}

/// Seconds, and how far each result is off.
type Measured = Result<(f64, Vec<f32>), Box<dyn Error>>;

/// The detectors of the DETR family and OWL-ViT; of those what their encoders come to is compared.
fn detector(folder: &Path, kind: DetrKind, repeats: usize) -> Measured {
    let (input, expected) = files(folder);
    let device = Device::flex();
    let pictures: Tensor<4> = read(&input, "pictures")?;
    Ok(match kind {
        DetrKind::GroundingDino => {
            let network = GroundingDinoWeights::open(folder)?.load(&device)?;
            let ids = read_tokens(&input)?.remove(0);
            let (seconds, trace) = timed(repeats, || {
                let trace = network.trace(pictures.clone(), &ids);
                trace.grounded.boxes.to_data();
                trace
            });
            let picture = deviation(trace.encoded, read(&expected, "out")?);
            let text = deviation(trace.encoded_text, read(&expected, "text")?);
            (seconds, vec![picture, text])
        }
        DetrKind::RtDetr => {
            let network = RtDetrWeights::open(folder)?.load(&device)?;
            let (seconds, trace) = timed(repeats, || {
                let trace = network.trace(pictures.clone());
                trace.detected.boxes.to_data();
                trace
            });
            let maps = trace.encoded.into_iter().enumerate();
            let off = maps.map(|(i, map)| Ok(deviation(map, read(&expected, &format!("out{i}"))?)));
            (seconds, off.collect::<Result<_, Box<dyn Error>>>()?)
        }
        DetrKind::OwlVit => {
            let network = OwlVitWeights::open(folder)?.load(&device)?;
            let tokens = read_tokens(&input)?;
            let [count, length] = [tokens.len(), tokens[0].len()];
            let ids: Vec<i32> = tokens.concat().iter().map(|id| *id as i32).collect();
            let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [count, length]), &device);
            let (seconds, seen) = timed(repeats, || {
                let texts = network.embed_texts(ids.clone(), &vec![length - 1; count]);
                network.forward(pictures.clone(), &texts)
            });
            let logits = deviation(seen.logits, read(&expected, "out")?);
            let boxes = deviation(seen.boxes, read(&expected, "boxes")?);
            (seconds, vec![logits, boxes])
        }
    })
}

/// What goes in, and what has to come out.
fn files(folder: &Path) -> (PathBuf, PathBuf) {
    (
        folder.join("input.safetensors"),
        folder.join("expected.safetensors"),
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, repeats] = &arguments[..] else {
        return Err("usage: towers FOLDER REPEATS".into());
    };
    prepose_kernels::keep_freed_memory();
    let (folder, repeats) = (Path::new(folder), repeats.parse()?);
    let (seconds, off) = match detr_kind(folder) {
        Some((_, kind)) => detector(folder, kind, repeats)?,
        None => tower(folder, repeats)?,
    };
    let report = json!({"seconds": seconds, "deviations": off, "peak": peak()});
    println!("{report}");
    Ok(())
}

/// What makes features, depths, masks or a reward of a picture.
fn tower(folder: &Path, repeats: usize) -> Measured {
    let (input, expected) = files(folder);
    let device = Device::flex();
    let weights = EyeWeights::open(folder)?;
    let pictures: Tensor<4> = read(&input, "pictures")?;
    let f32 = FloatDType::F32;
    Ok(match weights.kind() {
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
            let texts = vec![read_tokens(&input)?.remove(0); pictures.dims()[0]];
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
    })
}
