//! The kernels for GPUs against f64 loops, on the device that `PREPOSE_TEST_DEVICE` names (`wgpu`, `vulkan`, `metal` or
//! `cuda`): a GPU, or Mesa's software Vulkan, which `scripts/gpu/software-vulkan.sh` installs and runs these tests on.
//! They are ignored unless asked for (`cargo test … -- --ignored tests::gpu`), so that none passes without a device.
//!
//! Burn's own kernels would be tuned first, half a minute each on a software device. So these tests
//! upload, run a kernel of ours and read back; only those of convolutions wait for it.

mod activation;
mod attention;
mod conv;
mod detection;
mod gaps;
mod gradients;
mod layout;
mod linear;
mod norm;
mod overwrite;

use super::*;
use burn::tensor::DeviceType;
use gaps::{picture, rows};
use std::panic::catch_unwind;
use std::sync::OnceLock;

/// The device to test on.
///
/// # Panics
/// If `PREPOSE_TEST_DEVICE` names none, or one that is not there or not built in.
fn device() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    let find = || {
        let kinds = [
            #[cfg(feature = "cuda")]
            ("cuda", DeviceType::Cuda),
            #[cfg(feature = "metal")]
            ("metal", DeviceType::Metal),
            #[cfg(feature = "vulkan")]
            ("vulkan", DeviceType::Vulkan),
            #[cfg(feature = "wgpu")]
            ("wgpu", DeviceType::Wgpu),
        ];
        let named = std::env::var("PREPOSE_TEST_DEVICE");
        let named = named.expect("PREPOSE_TEST_DEVICE names the device to test on");
        let found = kinds
            .into_iter()
            .filter(|(name, _)| named == *name)
            // Drivers that are not there panic.
            .filter_map(|(_, kind)| catch_unwind(|| Device::enumerate(kind).into_vec()).ok())
            .find_map(|devices| devices.into_iter().next());
        found.unwrap_or_else(|| panic!("there is no device {named} to test on"))
    };
    DEVICE.get_or_init(find).clone()
}

/// Whether this process runs the test `name` alone. If not, runs one that does, which must pass: what a device holds is counted
/// by process, and other tests hold something too.
fn alone(name: &str) -> bool {
    const ALONE: &str = "PREPOSE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let run = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", name, "--nocapture", "--include-ignored"])
        .env(ALONE, "1")
        .output()
        .expect("a process");
    let said = String::from_utf8_lossy(&run.stdout);
    println!("{said}{}", String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && said.contains("1 passed"));
    false
}

/// The types of the device.
fn types(device: &Device) -> Vec<DType> {
    let types = [DType::F32, DType::F16, DType::BF16];
    let types = types
        .into_iter()
        .filter(|dtype| device.supports_dtype(*dtype));
    types.collect()
}

/// A copy on the device.
fn upload<const D: usize>(tensor: &Tensor<D>, device: &Device) -> Tensor<D> {
    Tensor::from_data(tensor.clone().into_data(), (device, tensor.dtype()))
}

/// A tensor on `flex` and its copy on the device.
fn pair<const D: usize>(
    shape: [usize; D],
    seed: u64,
    dtype: DType,
    device: &Device,
) -> (Tensor<D>, Tensor<D>) {
    let here = random(shape, seed, dtype);
    let there = upload(&here, device);
    (here, there)
}

/// Leaves NaN in memory that results of `bytes` will be put in, as far as the allocator reuses it.
fn poison(device: &Device, bytes: usize) {
    let data = || TensorData::new(vec![f32::NAN; bytes.div_ceil(4)], [bytes.div_ceil(4)]);
    let filled: Vec<Tensor<1>> = (0..3).map(|_| Tensor::from_data(data(), device)).collect();
    drop(filled);
}

/// A copy on `flex`, read as it is: a cast on the device would be a kernel of Burn's.
fn download<const D: usize>(tensor: &Tensor<D>) -> Tensor<D> {
    Tensor::from_data(
        tensor.clone().into_data(),
        (&Device::flex(), tensor.dtype()),
    )
}

/// As [`assert_close`] for a tensor on the device.
#[track_caller]
fn assert_close_there<const D: usize>(got: &Tensor<D>, want: &[f64], tolerance: f64, what: &str) {
    assert_close(&download(got), want, tolerance, what);
}
