//! Every operation against f64 loops on random inputs, at every vector width the processor has; the
//! plain references against the same loops; gradients through an autodiff device.

#[cfg(feature = "gpu")]
mod cache;
mod detection;
mod edges;
mod fast;
#[cfg(feature = "gpu")]
mod gpu;
mod gradients;
mod in_place;
mod input_gradients;
mod layout;
mod narrow;
mod parameter_gradients;
mod parts;
mod simd;
mod stand_ins;

use crate::selftest::{noise, reference};
use burn::tensor::{DType, Device, Tensor, TensorData};

/// A random tensor on `flex`.
fn random<const D: usize>(shape: [usize; D], seed: u64, dtype: DType) -> Tensor<D> {
    let data = TensorData::new(noise(shape.iter().product(), seed), shape);
    Tensor::<D>::from_data(data, &Device::flex()).cast(dtype)
}

/// The elements in row-major order.
fn values<const D: usize>(tensor: &Tensor<D>) -> Vec<f64> {
    let data = tensor.clone().cast(DType::F32).into_data();
    let values = data.try_to_vec::<f32>().expect("f32");
    values.into_iter().map(f64::from).collect()
}

/// Largest error allowed for results of a type, relative to the largest result: in f32 for sums of
/// some thousand products; in the half types one rounding of the result, computed in f32.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 6e-4,
        DType::BF16 => 5e-3,
        _ => 5e-6,
    }
}

/// Panics if an element is off by more than `tolerance` times the largest of `want`.
#[track_caller]
fn assert_close<const D: usize>(got: &Tensor<D>, want: &[f64], tolerance: f64, what: &str) {
    let got = values(got);
    assert_eq!(got.len(), want.len(), "{what}: size");
    let largest = want.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    assert!(
        largest > 1e-3,
        "{what}: a reference of zeros proves nothing"
    );
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        // Written so that NaN fails.
        let close = (got - want).abs() <= tolerance * largest;
        assert!(close, "{what}: element {i} is {got}, should be {want}");
    }
}
