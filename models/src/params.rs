//! Where a network's parameters come from.
//!
//! Modules are built by name: a constructor asks its [`Params`] for `"weight"` with a shape and
//! descends with [`Params::pp`], so that the names in the code are the keys of a diffusers or
//! transformers checkpoint. What stands behind the names (a file, several files, LoRA merged on
//! the way) is the business of the [`ParamSource`].

use burn::module::{Param, ParamId};
use burn::prelude::*;
use burn::tensor::{DType, FloatDType, TensorData};

use crate::config::ConfigError;

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
    origin: Origin<'a>,
    prefix: String,
    device: Device,
    dtype: DType,
}

/// Where parameters come from, or where it is written down which are wanted.
enum Origin<'a> {
    Source(&'a mut dyn ParamSource),
    Outline(&'a mut Vec<Wanted>),
}

/// A parameter by its full name, with the shape that a checkpoint has it in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// In diffusers' or transformers' naming.
    pub name: String,
    /// In PyTorch's layout.
    pub shape: Vec<usize>,
}

/// The parameters that `build` takes, in its order. None of them is made: this costs neither memory nor time,
/// whatever the size of the network.
///
/// # Errors
/// Those of `build`.
pub fn outline<T>(
    build: impl FnOnce(Params) -> Result<T, ConfigError>,
) -> Result<Vec<Wanted>, ConfigError> {
    let mut wanted = Vec::new();
    build(Params {
        origin: Origin::Outline(&mut wanted),
        prefix: String::new(),
        device: Device::flex(),
        dtype: DType::F32,
    })?;
    Ok(wanted)
}

impl<'a> Params<'a> {
    /// The root of the name tree. Weights get `dtype`; norms and time embeddings stay f32.
    pub fn new(source: &'a mut dyn ParamSource, device: &Device, dtype: FloatDType) -> Self {
        Self {
            origin: Origin::Source(source),
            prefix: String::new(),
            device: device.clone(),
            dtype: dtype.into(),
        }
    }

    /// The same source one step down the name tree. `name` may hold dots.
    pub fn pp(&mut self, name: impl std::fmt::Display) -> Params<'_> {
        Params {
            prefix: self.key(&name.to_string()),
            origin: match &mut self.origin {
                Origin::Source(source) => Origin::Source(&mut **source),
                Origin::Outline(wanted) => Origin::Outline(wanted),
            },
            device: self.device.clone(),
            dtype: self.dtype,
        }
    }

    /// Whether `name` exists below this place.
    pub fn contains(&self, name: &str) -> bool {
        match &self.origin {
            Origin::Source(source) => source.contains(&self.key(name)),
            Origin::Outline(_) => false,
        }
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
        let name = self.key(name);
        let data = match &mut self.origin {
            Origin::Source(source) => source.take(&name, stored),
            Origin::Outline(wanted) => {
                wanted.push(Wanted {
                    name,
                    shape: stored.to_vec(),
                });
                let zeros = move |device: &Device, _| Tensor::zeros(shape, device);
                let device = self.device.clone();
                return Param::uninitialized(ParamId::new(), zeros, device, false, shape.into());
            }
        };
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
