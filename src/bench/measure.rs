//! Measuring rows on a device.

use std::time::Instant;

use super::error::BenchError;
use super::row::{Outcome, Row, What};
use super::timing::{Timer, wait};
use super::{networks, pictures};
use crate::device::OpenDevice;
use crate::engine::{Blueprint, Engine};
use crate::memory::MemoryMeter;
use crate::request::Dtype;

/// A device with the checkpoint that was last asked for.
pub struct Bench {
    device: OpenDevice,
    loaded: Option<Loaded>,
}

struct Loaded {
    checkpoint: String,
    dtype: Dtype,
    engine: Engine,
}

impl Bench {
    /// Nothing is loaded yet.
    pub fn new(device: OpenDevice) -> Self {
        Self {
            device,
            loaded: None,
        }
    }

    /// Measures `row`. What goes wrong is in the outcome; a backend may panic, too.
    pub fn measure(&mut self, row: &Row) -> Outcome {
        self.try_measure(row)
            .unwrap_or_else(|error| Outcome::failed(row, message(&error)))
    }

    fn try_measure(&mut self, row: &Row) -> Result<Outcome, BenchError> {
        self.device.check_dtype(row.dtype)?;
        let mut outcome = Outcome::empty(row);
        if row.what == What::Load {
            let meter = MemoryMeter::start(&self.device.device);
            let started = Instant::now();
            self.load(row)?;
            outcome.seconds = vec![started.elapsed().as_secs_f64()];
            (outcome.peak_bytes, outcome.extra_bytes) = (meter.peak(), meter.extra());
            return Ok(outcome);
        }
        if row.what != What::Matmul {
            self.load(row)?;
        }
        let meter = MemoryMeter::start(&self.device.device);
        let timer = Timer {
            device: &self.device,
            row,
        };
        let times = match (row.what, &self.loaded) {
            (What::Matmul, _) => networks::matmul(&timer, &mut outcome)?,
            (What::Unet | What::Families, Some(loaded)) => {
                networks::unet(&timer, &loaded.engine, &mut outcome)?
            }
            (_, Some(loaded)) => pictures::measure(&timer, &loaded.engine)?,
            (what, None) => return Err(BenchError::Outside { what }),
        };
        outcome.first_seconds = Some(times.first);
        outcome.seconds = times.counted;
        outcome.cpu_seconds = times.cpu;
        (outcome.peak_bytes, outcome.extra_bytes) = (meter.peak(), meter.extra());
        Ok(outcome)
    }

    /// Has the row's checkpoint on the device, and no other.
    fn load(&mut self, row: &Row) -> Result<(), BenchError> {
        let there = self
            .loaded
            .as_ref()
            .is_some_and(|loaded| loaded.checkpoint == row.checkpoint && loaded.dtype == row.dtype);
        if there && row.what != What::Load {
            return Ok(());
        }
        self.loaded = None;
        self.device.device.memory_cleanup();
        let model = row.model_request();
        let engine = Blueprint::open(&model)?.load(&model, &self.device)?;
        wait(&self.device.device)?;
        self.loaded = Some(Loaded {
            checkpoint: row.checkpoint.clone(),
            dtype: row.dtype,
            engine,
        });
        Ok(())
    }
}

/// An error with its causes, on one line.
fn message(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text.replace('\n', " ")
}
