//! Every operation of the crate on any device, compared with loops in f64 on the host: for users who want to know whether
//! their device and driver compute what they should, and for tests on devices that no test machine has.

mod detection;
mod forward;
mod gradients;
pub(crate) mod reference;

use burn::tensor::{DType, Device, Tensor, TensorData};
use half::{bf16, f16};

/// An operation and the cases it is tried on.
pub struct Operation {
    /// The function's name.
    pub name: &'static str,
    run: fn(&mut Trial),
}

/// How far a result was from what it should be.
#[derive(Debug, Clone)]
pub struct Deviation {
    /// The shapes that were tried, and what else tells the case apart, as text.
    pub case: String,
    /// The largest error, as a share of the largest element; NaN if an element is NaN.
    pub error: f64,
    /// The largest error that is right for the type.
    pub tolerance: f64,
}

impl Deviation {
    /// Whether the result is right. NaN never is.
    pub fn is_fine(&self) -> bool {
        self.error <= self.tolerance
    }
}

impl Operation {
    /// Runs all cases on `device` with inputs and results of type `dtype`: f32, f16 or bf16.
    ///
    /// # Panics
    /// As the device's backend does where a driver or a kernel fails.
    pub fn run(&self, device: &Device, dtype: DType) -> Vec<Deviation> {
        let mut trial = Trial {
            device: device.clone(),
            dtype,
            seed: 0,
            deviations: Vec::new(),
        };
        (self.run)(&mut trial);
        trial.deviations
    }
}

/// All operations that can be tried, forward ones before gradients.
pub fn operations() -> impl Iterator<Item = &'static Operation> {
    let forward = forward::OPERATIONS.iter().chain(detection::OPERATIONS);
    forward.chain(gradients::OPERATIONS)
}

/// Inputs for the cases of one operation, and what came of them.
struct Trial {
    device: Device,
    dtype: DType,
    seed: u64,
    deviations: Vec<Deviation>,
}

impl Trial {
    /// A random tensor on the device and its elements, which the type can hold.
    fn tensor<const D: usize>(&mut self, shape: [usize; D]) -> (Tensor<D>, Vec<f64>) {
        self.seed += 1;
        let values: Vec<f32> = noise(shape.iter().product(), self.seed)
            .into_iter()
            .map(|x| match self.dtype {
                DType::F16 => f16::from_f32(x).to_f32(),
                DType::BF16 => bf16::from_f32(x).to_f32(),
                _ => x,
            })
            .collect();
        let wide = values.iter().copied().map(f64::from).collect();
        let data = TensorData::new(values, shape);
        (
            Tensor::<D>::from_data(data, &self.device).cast(self.dtype),
            wide,
        )
    }

    /// One rounding of the result in the half types; in f32 the error of sums of some thousand products, or of factors
    /// with 10 bits of mantissa where the device multiplies f32 on tensor cores, as CUDA devices do.
    fn tolerance(&self) -> f64 {
        match self.dtype {
            DType::F16 => 2e-3,
            DType::BF16 => 1e-2,
            _ if is_flex(&self.device) => 1e-5,
            _ => 2e-3,
        }
    }

    /// Records the distance of `got` from `want`.
    fn compare<const D: usize>(&mut self, case: String, got: Tensor<D>, want: &[f64]) {
        let got = values(got);
        let right = got.len() == want.len();
        let all = got.into_iter().zip(want.iter().copied());
        self.push(case, all, if right { 0.0 } else { f64::INFINITY });
    }

    /// Records the largest distance within the pairs; at least `error`.
    fn push(&mut self, case: String, pairs: impl Iterator<Item = (f64, f64)>, error: f64) {
        let (mut largest, mut error) = (0.0f64, error);
        for (got, want) in pairs {
            largest = largest.max(want.abs());
            let off = (got - want).abs();
            // `max` would lose a NaN.
            error = if off <= error { error } else { off };
        }
        let deviation = Deviation {
            case,
            error: error / largest,
            tolerance: self.tolerance(),
        };
        self.deviations.push(deviation);
    }
}

fn is_flex(device: &Device) -> bool {
    *device == Device::flex()
}

/// The elements in row-major order.
fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    let data = tensor.cast(DType::F32).into_data();
    data.iter::<f32>().map(f64::from).collect()
}

/// Numbers between -1 and 1 (xorshift64*), none of them zero.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            let bits = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40;
            (bits as f32 + 0.5) / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flex_is_fine() {
        for operation in operations() {
            for dtype in [DType::F32, DType::F16, DType::BF16] {
                let deviations = operation.run(&Device::flex(), dtype);
                assert!(!deviations.is_empty());
                for deviation in deviations {
                    assert!(
                        deviation.is_fine(),
                        "{} {dtype:?}: {deviation:?}",
                        operation.name
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_is_found() {
        let mut trial = Trial {
            device: Device::flex(),
            dtype: DType::F32,
            seed: 0,
            deviations: Vec::new(),
        };
        let wrong = [
            [1.0, 2.0, f32::NAN],
            [1.0, 2.0, 3.1],
            [1.0, f32::INFINITY, 3.0],
        ];
        for row in wrong {
            let got = Tensor::<1>::from_data(row, &trial.device);
            trial.compare("wrong".into(), got, &[1.0, 2.0, 3.0]);
        }
        let short = Tensor::<1>::from_data([1.0, 2.0], &trial.device);
        trial.compare("short".into(), short, &[1.0, 2.0, 3.0]);
        assert!(
            trial
                .deviations
                .iter()
                .all(|deviation| !deviation.is_fine())
        );
        let right = Tensor::<1>::from_data([1.0, 2.0, 3.0], &trial.device);
        trial.compare("right".into(), right, &[1.0, 2.0, 3.0]);
        assert!(trial.deviations[4].is_fine());
    }
}
