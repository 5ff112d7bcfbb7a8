//! The clock: calls are timed from an idle device until the device has done them.

use std::time::Instant;

use burn::tensor::{Device, Tensor};

use super::error::BenchError;
use super::row::Row;
use crate::device::OpenDevice;

/// Seconds of a row's calls, the first not counted.
pub(super) struct Times {
    pub first: f64,
    pub counted: Vec<f64>,
    /// The processors', for those that count; on the CPU only.
    pub cpu: Vec<f64>,
}

/// Times the calls of a row.
pub(super) struct Timer<'a> {
    pub device: &'a OpenDevice,
    pub row: &'a Row,
}

impl Timer<'_> {
    /// Calls `call` once and then as often as it counts, each from an idle device until the device has done it.
    pub fn time(
        &self,
        mut call: impl FnMut() -> Result<Tensor<4>, BenchError>,
    ) -> Result<Times, BenchError> {
        let (row, device) = (self.row, &self.device.device);
        let mut seconds = Vec::with_capacity(row.repeats + 1);
        let mut cpu = Vec::new();
        for number in 0..=row.repeats {
            wait(device)?;
            let (started, worked) = (Instant::now(), processor_seconds());
            let result = call()?;
            wait(device)?;
            seconds.push(started.elapsed().as_secs_f64());
            let worked = worked.zip(processor_seconds());
            if let Some((before, after)) = worked.filter(|_| number > 0 && self.device.is_cpu()) {
                cpu.push(after - before);
            }
            let value: f32 = result.slice([0..1, 0..1, 0..1, 0..1]).into_scalar();
            if !value.is_finite() {
                return Err(BenchError::NonFinite { dtype: row.dtype });
            }
        }
        Ok(Times {
            first: seconds.remove(0),
            counted: seconds,
            cpu,
        })
    }
}

/// Waits until `device` has done what it was given.
pub(super) fn wait(device: &Device) -> Result<(), BenchError> {
    device.sync().map_err(|error| BenchError::Execution {
        reason: format!("{error:?}"),
    })
}

/// What the processors have worked for this process, on all its threads, where the system tells: in hundredths.
fn processor_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program is in brackets and may hold anything; user and system time are 12 and 13 fields on.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    // Linux counts in hundredths of a second here, whatever its clock.
    Some((ticks()? + ticks()?) / 100.0)
}
