//! What the examples that are measured against other engines share.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use burn::tensor::{DType, Device, Tensor, TensorData};
use safetensors::SafeTensors;

/// A tensor of a file of f32.
pub fn read<const D: usize>(path: &Path, name: &str) -> Result<Tensor<D>, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let file = SafeTensors::deserialize(&bytes)?;
    let view = file.tensor(name)?;
    let shape = view.shape().to_vec();
    let data = TensorData::from_bytes_vec(view.data().to_vec(), shape, DType::F32);
    Ok(Tensor::from_data(data, (&Device::flex(), DType::F32)))
}

/// The largest difference as a share of the largest expected value.
pub fn deviation<const D: usize>(actual: Tensor<D>, expected: Tensor<D>) -> f32 {
    let scale: f32 = expected.clone().abs().max().into_scalar();
    let off: f32 = (actual - expected).abs().max().into_scalar();
    off / scale
}

/// The fastest of some runs in seconds, and the last result.
pub fn timed<T>(repeats: usize, mut run: impl FnMut() -> T) -> (f64, T) {
    let mut best = f64::INFINITY;
    let mut last = None;
    for _ in 0..repeats.max(1) {
        let start = Instant::now();
        last = Some(run());
        best = best.min(start.elapsed().as_secs_f64());
    }
    (best, last.expect("it ran at least once"))
}

/// The most memory in bytes that this process held, mapped files included; 0 where the system does not say.
pub fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    1024 * kib.unwrap_or(0)
}
