//! Does this device compute what it should? The operations against f64 loops, the networks against what PyTorch recorded.
//!
//! This is for devices and drivers that nobody has tested. It takes seconds on a CPU or a GPU; on a GPU that has not run this
//! program before, most of the time goes into compiling and choosing kernels.

use std::time::Instant;

use burn::tensor::DType;
use prepose_kernels::selftest::{Deviation, operations};
use serde::Serialize;

use crate::device::{OpenDevice, quietly};
use crate::request::Dtype;

/// What came of one operation or network in one type.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The operation or network.
    pub name: String,
    /// The type of its inputs, weights and results.
    pub dtype: Dtype,
    /// Sizes or requests that were tried.
    pub cases: usize,
    /// The largest error, as a share of the largest element; null if it is NaN or infinite, or if nothing came out.
    pub error: Option<f64>,
    /// The largest error that is right.
    pub tolerance: f64,
    /// Seconds for all cases, kernels compiled and chosen included.
    pub seconds: f64,
    /// What is wrong.
    pub failure: Option<String>,
}

/// Which part of the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// The operations that the networks are made of.
    Operations,
    /// The toybox's networks, plain and guided.
    Networks,
}

/// Runs what `wanted` lets through, in each of `dtypes` that the device computes in, and tells each outcome as it comes.
pub fn run(
    device: &OpenDevice,
    dtypes: &[Dtype],
    wanted: impl Fn(Part, &str) -> bool,
    mut tell: impl FnMut(Outcome),
) {
    for operation in operations().filter(|operation| wanted(Part::Operations, operation.name)) {
        for &dtype in dtypes {
            let burn_dtype = match dtype {
                Dtype::F32 => DType::F32,
                Dtype::F16 => DType::F16,
                Dtype::Bf16 => DType::BF16,
            };
            tell(outcome(operation.name, dtype, || {
                Ok(operation.run(&device.device, burn_dtype))
            }));
        }
    }
    #[cfg(feature = "toybox")]
    for &dtype in dtypes {
        networks::run(
            device,
            dtype,
            |name| wanted(Part::Networks, name),
            &mut tell,
        );
    }
}

/// Runs `cases` and sums up.
fn outcome(
    name: &str,
    dtype: Dtype,
    cases: impl FnOnce() -> Result<Vec<Deviation>, String>,
) -> Outcome {
    let started = Instant::now();
    let mut outcome = Outcome {
        name: name.into(),
        dtype,
        cases: 0,
        error: None,
        tolerance: 0.0,
        seconds: 0.0,
        failure: None,
    };
    match quietly(cases).and_then(|result| result) {
        Ok(deviations) => {
            for Deviation {
                case,
                error,
                tolerance,
            } in &deviations
            {
                tracing::debug!("{name} in {dtype:?}: {case}: {error:.1e} of {tolerance:.0e}");
            }
            // The worst for its tolerance; NaN is the worst of all.
            let badness = |d: &Deviation| match d.error.is_nan() {
                true => f64::INFINITY,
                false => d.error / d.tolerance,
            };
            let worst = (deviations.iter()).max_by(|a, b| badness(a).total_cmp(&badness(b)));
            outcome.cases = deviations.len();
            if let Some(worst) = worst {
                outcome.error = Some(worst.error).filter(|error| error.is_finite());
                outcome.tolerance = worst.tolerance;
                outcome.failure = (!worst.is_fine()).then(|| {
                    let wrong = deviations.iter().filter(|d| !d.is_fine()).count();
                    format!(
                        "{wrong} of {} cases, worst {}",
                        deviations.len(),
                        worst.case
                    )
                });
            }
        }
        Err(message) => outcome.failure = Some(message),
    }
    outcome.seconds = started.elapsed().as_secs_f64();
    outcome
}

#[cfg(feature = "toybox")]
mod networks;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said() {
        let deviation = |error: f64| Deviation {
            case: format!("case {error}"),
            error,
            tolerance: 1e-3,
        };
        let of = |errors: &[f64]| {
            let deviations = errors.iter().copied().map(deviation).collect();
            outcome("conv2d", Dtype::F32, || Ok(deviations))
        };
        let fine = of(&[1e-4, 1e-3]);
        assert_eq!(
            (fine.cases, fine.error, &fine.failure),
            (2, Some(1e-3), &None)
        );
        let wrong = of(&[1e-4, 0.5, 2e-3]);
        assert_eq!(wrong.failure.unwrap(), "2 of 3 cases, worst case 0.5");
        let nan = of(&[f64::NAN, 0.5]);
        assert_eq!(nan.error, None);
        assert_eq!(nan.failure.unwrap(), "2 of 2 cases, worst case NaN");
        let failed = outcome("conv2d", Dtype::F32, || Err("no such file".into()));
        assert_eq!(failed.failure.unwrap(), "no such file");
        let panicked = outcome("conv2d", Dtype::F32, || panic!("the driver is gone"));
        assert_eq!(panicked.failure.unwrap(), "the driver is gone");
    }
}
