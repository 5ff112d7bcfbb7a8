//! Runs a detector on pictures and prints what it finds and how long that takes, for comparison with
//! torchvision (scripts/bench/detector.py):
//!
//!     detect DETECTOR PICTURES.safetensors REPEATS MASKS.safetensors
//!
//! The pictures are f32 tensors `[3, H, W]` named 0, 1, …, and go through the network as one batch.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Instant;

use burn::tensor::{DType, Device, Tensor, TensorData};
use prepose_models::rcnn::Instance;
use prepose_weights::DetectorWeights;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::json;

/// Processor time of all threads so far, where the system tells (Linux): fair also on a machine with
/// other work.
fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    // utime and stime, in hundredths of a second.
    let times = fields.split_whitespace().skip(11).take(2);
    Some(
        times
            .filter_map(|ticks| ticks.parse::<f64>().ok())
            .sum::<f64>()
            / 100.0,
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [detector, pictures, repeats, masks] = &arguments[..] else {
        return Err("usage: detect DETECTOR PICTURES REPEATS MASKS".into());
    };
    prepose_kernels::keep_freed_memory();
    let device = Device::flex();
    let start = Instant::now();
    let weights = DetectorWeights::open(detector)?;
    let network = weights.load(&device)?;
    let load = start.elapsed().as_secs_f64();

    let bytes = std::fs::read(pictures)?;
    let file = SafeTensors::deserialize(&bytes)?;
    let mut batch = Vec::new();
    for i in 0..file.len() {
        let view = file.tensor(&i.to_string())?;
        let data =
            TensorData::from_bytes_vec(view.data().to_vec(), view.shape().to_vec(), DType::F32);
        batch.push(Tensor::<3>::from_data(data, &device));
    }

    let mut seconds = Vec::new();
    let mut found = Vec::new();
    let before = processor_seconds();
    for _ in 0..repeats.parse::<usize>()? {
        let start = Instant::now();
        found = network.detect(&batch);
        seconds.push(start.elapsed().as_secs_f64());
    }
    let spent = processor_seconds()
        .zip(before)
        .map(|(after, before)| after - before);
    let object = |object: &Instance| json!([object.label, object.score, object.corners]);
    let objects: Vec<Vec<_>> = found
        .iter()
        .map(|found| found.iter().map(object).collect())
        .collect();
    let report = json!({
        "detector": weights.name(),
        "load": load,
        "seconds": seconds,
        "processor": spent,
        "objects": objects,
    });
    println!("{report}");

    let mut pasted = BTreeMap::new();
    for (i, (found, picture)) in found.iter().zip(&batch).enumerate() {
        let [_, height, width] = picture.dims();
        let mut values = Vec::new();
        for object in found {
            if let Some(mask) = &object.mask {
                let mask = mask.paste(object.corners, [height, width]);
                values.extend(mask.iter().flat_map(|value| value.to_le_bytes()));
            }
        }
        if !values.is_empty() {
            pasted.insert(i.to_string(), (vec![found.len(), height, width], values));
        }
    }
    let views: Result<Vec<_>, _> = pasted
        .iter()
        .map(|(name, (shape, values))| {
            Ok::<_, safetensors::SafeTensorError>((
                name,
                TensorView::new(Dtype::F32, shape.clone(), values)?,
            ))
        })
        .collect();
    safetensors::serialize_to_file(views?, None, masks.as_ref())?;
    Ok(())
}
