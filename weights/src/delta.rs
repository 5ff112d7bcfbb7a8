//! What LoRAs add to a weight while it is loaded: `W + scale · (up · down)`, in f32 whatever the types in the files.

use std::sync::Arc;

use burn::prelude::{Device, Tensor};
use burn::tensor::{DType, TensorData};
use prepose_formats::{TensorFile, TensorPart};

use crate::error::WeightsError;
use crate::tensors;

/// What one LoRA adds to one weight.
#[derive(Debug, Clone)]
pub(crate) struct Delta {
    pub file: Arc<TensorFile>,
    pub down: String,
    pub up: String,
    pub scale: f32,
}

/// Adds `deltas` to the weight `data`, in f32.
pub(crate) fn merge(data: TensorData, deltas: &[Delta]) -> Result<TensorData, WeightsError> {
    let device = Device::flex();
    let shape = data.shape().to_vec();
    let matrix = |data: TensorData| {
        let rows = data.shape().first().copied().unwrap_or(1);
        let columns = data.num_elements() / rows.max(1);
        let (bytes, _, dtype) = data.convert_dtype(DType::F32).into_parts();
        Tensor::<2>::from_data(
            TensorData::from_bytes(bytes, [rows, columns], dtype),
            (&device, DType::F32),
        )
    };
    let mut weight = matrix(data);
    for delta in deltas {
        let read = |key: &str| {
            let values = tensors::read(&delta.file, key, TensorPart::WHOLE)?;
            if values.finite {
                Ok(values.data)
            } else {
                Err(WeightsError::NonFinite {
                    path: delta.file.path().to_path_buf(),
                    part: "LoRA".into(),
                    tensors: vec![key.to_string()],
                })
            }
        };
        let (up, down) = (read(&delta.up)?, read(&delta.down)?);
        weight = weight + matrix(up).matmul(matrix(down)) * delta.scale;
    }
    let (bytes, _, dtype) = weight.into_data().into_parts();
    Ok(TensorData::from_bytes(bytes, shape, dtype))
}
