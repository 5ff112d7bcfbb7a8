//! Files of layers that were trained.

use std::collections::{BTreeMap, HashMap};

use half::f16;
use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, TensorView};

use crate::lora::sorted;

/// A parameter that was trained.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainedTensor {
    /// Its name; for GLIGEN's layers in diffusers' naming, for an IP-Adapter in its authors'.
    pub name: String,
    /// Its extents; none for a single number.
    pub shape: Vec<usize>,
    /// Its elements.
    pub values: Vec<f32>,
}

/// The bytes of a safetensors file of `tensors` in f16, with their names there and `about` as metadata. The same tensors give
/// the same bytes.
pub(crate) fn half_file(
    tensors: &[(String, &TrainedTensor)],
    about: &BTreeMap<String, String>,
) -> Result<Vec<u8>, SafeTensorError> {
    let stored = tensors.iter().map(|(key, tensor)| {
        let values = tensor.values.iter().map(|value| f16::from_f32(*value));
        let bytes: Vec<u8> = values.flat_map(f16::to_le_bytes).collect();
        (key.as_str(), &tensor.shape, bytes)
    });
    let stored: Vec<_> = stored.collect();
    let views = stored.iter().map(|(key, shape, bytes)| {
        let view = TensorView::new(Dtype::F16, (*shape).clone(), bytes)?;
        Ok((*key, view))
    });
    let views: Vec<_> = views.collect::<Result<_, SafeTensorError>>()?;
    let mut metadata: HashMap<String, String> = about.clone().into_iter().collect();
    metadata.insert("format".into(), "pt".into());
    Ok(sorted(safetensors::serialize(views, Some(metadata))?))
}
