//! Where a parameter is stored, and how it gets its shape.

use std::sync::Arc;

use burn::tensor::TensorData;
use prepose_formats::{TensorFile, TensorPart};

use crate::error::WeightsError;
use crate::tensors;

/// How a stored tensor becomes a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum View {
    /// As it is.
    Whole,
    /// One of several equal parts along the first axis: fused query, key and value.
    Rows { index: usize, of: usize },
    /// With its two axes exchanged: stored input first.
    Transposed,
    /// Without trailing axes of 1: a 1×1 convolution that is a linear layer here.
    Linear,
}

/// A stored tensor under the name by which the network asks for it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub file: Arc<TensorFile>,
    pub key: String,
    pub view: View,
}

impl Entry {
    /// The shape that the network sees.
    pub fn shape(&self) -> Vec<usize> {
        let mut shape = self
            .file
            .info(&self.key)
            .map(|info| info.shape.clone())
            .unwrap_or_default();
        match self.view {
            View::Whole => {}
            View::Rows { of, .. } => {
                if let Some(rows) = shape.first_mut() {
                    // Not divisible: leave the shape, which then fits nothing and is reported.
                    if *rows % of == 0 {
                        *rows /= of;
                    }
                }
            }
            View::Transposed => shape.reverse(),
            View::Linear => {
                while shape.len() > 2 && shape.last() == Some(&1) {
                    shape.pop();
                }
            }
        }
        shape
    }

    /// The values, and whether all are finite.
    pub(super) fn read(&self) -> Result<(TensorData, bool), WeightsError> {
        let part = match self.view {
            View::Rows { index, of } => TensorPart { index, of },
            _ => TensorPart::WHOLE,
        };
        let values = tensors::read(&self.file, &self.key, part)?;
        let data = match self.view {
            View::Transposed => transpose(values.data),
            View::Linear => values.data.reshape_to(self.shape()),
            _ => values.data,
        };
        Ok((data, values.finite))
    }
}

/// Gives the same values another shape of the same size.
trait ReshapeTo {
    fn reshape_to(self, shape: Vec<usize>) -> Self;
}

impl ReshapeTo for TensorData {
    fn reshape_to(self, shape: Vec<usize>) -> Self {
        let (bytes, _, dtype) = self.into_parts();
        TensorData::from_bytes(bytes, shape, dtype)
    }
}

/// A matrix with its axes exchanged, in f32.
fn transpose(data: TensorData) -> TensorData {
    let [rows, columns] = [data.shape()[0], data.shape()[1]];
    let values: Vec<f32> = data.iter::<f32>().collect();
    let mut out = vec![0.0; values.len()];
    for (row, line) in values.chunks_exact(columns).enumerate() {
        for (column, value) in line.iter().enumerate() {
            out[column * rows + row] = *value;
        }
    }
    TensorData::new(out, [columns, rows])
}
