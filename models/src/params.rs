//! Where a network's parameters come from.
//!
//! Modules are built by name: a constructor asks its [`Params`] for `"weight"` with a shape and
//! descends with [`Params::pp`], so that the names in the code are the keys of a diffusers or
//! transformers checkpoint. What stands behind the names (a file, several files, LoRA merged on
//! the way) is the business of the [`ParamSource`].

use burn::module::{Param, ParamId};
use burn::prelude::*;
use burn::tensor::{DType, FloatDType, TensorData};

/// Something that hands out named parameters.
pub trait ParamSource {
    /// The parameter `name` (the full key, in diffusers' or transformers' naming) in PyTorch's
    /// layout, with exactly `shape` and any float type.
    ///
    /// A source never fails here: it records a missing or mis-shaped tensor and returns zeros of
    /// `shape`, so that all problems of a checkpoint can be reported together at the end.
    fn take(&mut self, name: &str, shape: &[usize]) -> TensorData;

    /// Whether the source has a parameter of this full name.
    fn contains(&self, name: &str) -> bool;
}

/// A [`ParamSource`] seen from one place of the name tree, with the device and the float type that
/// the parameters shall have.
///
/// Parameters are frozen: none requires a gradient. To differentiate a network with respect to its
/// input, load it on a device without autodiff and pass an input that has it: Burn treats the
/// parameters as constants then.
pub struct Params<'a> {
    source: &'a mut dyn ParamSource,
    prefix: String,
    device: Device,
    dtype: DType,
}

impl<'a> Params<'a> {
    /// The root of the name tree. Weights get `dtype`; norms and time embeddings stay f32.
    pub fn new(source: &'a mut dyn ParamSource, device: &Device, dtype: FloatDType) -> Self {
        Self {
            source,
            prefix: String::new(),
            device: device.clone(),
            dtype: dtype.into(),
        }
    }

    /// The same source one step down the name tree. `name` may hold dots.
    pub fn pp(&mut self, name: impl std::fmt::Display) -> Params<'_> {
        Params {
            prefix: self.key(&name.to_string()),
            source: self.source,
            device: self.device.clone(),
            dtype: self.dtype,
        }
    }

    /// Whether `name` exists below this place.
    pub fn contains(&self, name: &str) -> bool {
        self.source.contains(&self.key(name))
    }

    /// The same place, handing out f32 whatever was requested: norms and time embeddings.
    pub fn f32(mut self) -> Self {
        self.dtype = DType::F32;
        self
    }

    /// The parameter `name`, which must have exactly this shape.
    pub fn tensor<const D: usize>(&mut self, name: &str, shape: [usize; D]) -> Param<Tensor<D>> {
        self.tensor_stored(name, &shape, shape)
    }

    /// The parameter `name` that the source has in the shape `stored`, reshaped to `shape`.
    pub fn tensor_stored<const D: usize>(
        &mut self,
        name: &str,
        stored: &[usize],
        shape: [usize; D],
    ) -> Param<Tensor<D>> {
        let data = self.source.take(&self.key(name), stored);
        debug_assert_eq!(data.shape().as_slice(), stored);
        let (bytes, _, dtype) = data.into_parts();
        // As one row: CUDA backends pad each row of what they are given, those of a 3×3 kernel from 6 bytes to 16.
        let flat = [shape.iter().product::<usize>()];
        let data = TensorData::from_bytes(bytes, flat, dtype).convert_dtype(self.dtype);
        // GPU backends keep what lives as long as the model apart from what comes and goes.
        let tensor = self.device.memory_persistent_allocations(data, |data| {
            Tensor::<1>::from_data(data, (&self.device, self.dtype)).reshape(shape)
        });
        Param::initialized(ParamId::new(), tensor)
    }

    /// The device that the parameters go to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    fn key(&self, name: &str) -> String {
        if self.prefix.is_empty() {
            name.to_string()
        } else {
            format!("{}.{name}", self.prefix)
        }
    }
}
