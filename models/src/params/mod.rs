//! Where a network's parameters come from.
//!
//! Modules are built by name: a constructor asks its [`Params`] for `"weight"` with a shape and
//! descends with [`Params::pp`], so that the names in the code are the keys of a diffusers or
//! transformers checkpoint. What stands behind the names (a file, several files, LoRA merged on
//! the way) is the business of the [`ParamSource`].

mod gate;
mod order;
mod outline;
mod source;

use burn::module::{Param, ParamId};
use burn::prelude::*;
use burn::tensor::{Bytes, DType, FloatDType, TensorData};
use prepose_kernels as kernels;

pub(crate) use gate::Gate;
pub(crate) use order::channels_last;
use order::multiplied;
pub use outline::{outline, outline_of};
use source::Origin;
pub(crate) use source::{Factors, TensorSource};
pub use source::{ParamSource, Wanted};

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
    /// What every parameter is multiplied with.
    factor: Gate,
}

impl<'a> Params<'a> {
    /// The root of the name tree. Weights get `dtype`; norms and time embeddings stay f32.
    pub fn new(source: &'a mut dyn ParamSource, device: &Device, dtype: FloatDType) -> Self {
        Self {
            origin: Origin::Source(source),
            prefix: String::new(),
            device: device.clone(),
            dtype: dtype.into(),
            factor: Gate::OPEN,
        }
    }

    /// The root of the name tree of tensors.
    pub(crate) fn of_tensors(
        source: &'a mut dyn TensorSource,
        device: &Device,
        dtype: FloatDType,
    ) -> Self {
        Self {
            origin: Origin::Tensors(source),
            prefix: String::new(),
            device: device.clone(),
            dtype: dtype.into(),
            factor: Gate::OPEN,
        }
    }

    /// The same source one step down the name tree. `name` may hold dots.
    pub fn pp(&mut self, name: impl std::fmt::Display) -> Params<'_> {
        let prefix = self.key(&name.to_string());
        Params {
            prefix,
            ..self.reborrow()
        }
    }

    /// The same place for someone else, for a while.
    pub(crate) fn reborrow(&mut self) -> Params<'_> {
        Params {
            prefix: self.prefix.clone(),
            origin: match &mut self.origin {
                Origin::Source(source) => Origin::Source(&mut **source),
                Origin::Outline { wanted, contains } => Origin::Outline {
                    wanted,
                    contains: *contains,
                },
                Origin::Tensors(source) => Origin::Tensors(&mut **source),
            },
            device: self.device.clone(),
            dtype: self.dtype,
            factor: self.factor.clone(),
        }
    }

    /// Whether `name` exists below this place.
    pub fn contains(&self, name: &str) -> bool {
        match &self.origin {
            Origin::Source(source) => source.contains(&self.key(name)),
            Origin::Outline { contains, .. } => contains(&self.key(name)),
            Origin::Tensors(source) => source.contains(&self.key(name)),
        }
    }

    /// The low-rank branch of the layer here, if it has one.
    pub(crate) fn low_rank(&mut self) -> Option<Factors> {
        match &mut self.origin {
            Origin::Tensors(source) => source.low_rank(&self.prefix, self.dtype),
            _ => None,
        }
    }

    /// The low-rank branches of layers below this place that are one here, of which `layers` are the names and outputs: one
    /// branch, whose `up` keeps them apart.
    pub(crate) fn stacked_low_rank<N: std::fmt::Display>(
        &mut self,
        layers: &[(N, usize)],
    ) -> Option<Factors> {
        if !matches!(self.origin, Origin::Tensors(_)) {
            return None;
        }
        let branches = layers.iter().map(|(name, outputs)| {
            let factors = self.pp(name).low_rank();
            (factors, *outputs)
        });
        let branches: Vec<_> = branches.collect();
        let present = branches.iter().filter_map(|(factors, _)| factors.as_ref());
        let downs: Vec<Tensor<2>> = present.map(|factors| factors.down.clone()).collect();
        let ranks: usize = downs.iter().map(|down| down.dims()[0]).sum();
        if downs.is_empty() {
            return None;
        }
        let (device, dtype) = (self.device.clone(), self.dtype);
        let zeros =
            |rows: usize, columns: usize| Tensor::<2>::zeros([rows, columns], (&device, dtype));
        let mut before = 0;
        let rows = branches.into_iter().map(|(factors, outputs)| {
            let Some(Factors { up, .. }) = factors else {
                return zeros(outputs, ranks);
            };
            let rank = up.dims()[1];
            let after = ranks - before - rank;
            let mut parts = vec![up];
            if before > 0 {
                parts.insert(0, zeros(outputs, before));
            }
            if after > 0 {
                parts.push(zeros(outputs, after));
            }
            before += rank;
            Tensor::cat(parts, 1)
        });
        let rows = rows.collect();
        Some(Factors {
            down: Tensor::cat(downs, 0),
            up: Tensor::cat(rows, 0),
        })
    }

    /// The parameter `name` of a source of tensors; `None` from any other.
    fn found<const D: usize>(
        &mut self,
        name: &str,
        stored: &[usize],
        shape: [usize; D],
    ) -> Option<Tensor<D>> {
        let wanted = self.wanted(name, stored);
        let dtype = self.dtype;
        match &mut self.origin {
            Origin::Tensors(source) => {
                let (found, _) = source.take(&wanted, dtype, false);
                Some(self.factor.times(found).reshape(shape))
            }
            _ => None,
        }
    }

    fn wanted(&self, name: &str, stored: &[usize]) -> Wanted {
        Wanted {
            name: self.key(name),
            shape: stored.to_vec(),
        }
    }

    /// The same place, handing out f32 whatever was requested: norms and time embeddings.
    pub fn f32(mut self) -> Self {
        self.dtype = DType::F32;
        self
    }

    /// The same place, handing out every parameter multiplied by `gate`.
    pub(crate) fn gated(mut self, gate: &Gate) -> Self {
        debug_assert!(
            matches!(self.factor, Gate::Fixed(1.0)),
            "a gate within a gate"
        );
        self.factor = gate.clone();
        self
    }

    /// tanh of the parameter `name` without axes, as a gate; under autodiff if it is trained.
    pub(crate) fn gate(&mut self, name: &str) -> Gate {
        let wanted = self.wanted(name, &[]);
        if let Origin::Tensors(source) = &mut self.origin {
            let (found, _) = source.take(&wanted, DType::F32, false);
            return Gate::Tensor(Box::new(found.tanh()));
        }
        let data = self.take(name, &[]);
        let value = data.and_then(|data| data.iter::<f32>().next());
        Gate::Fixed(f64::from(value.unwrap_or(0.0)).tanh() as f32)
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
        if let Some(found) = self.found(name, stored, shape) {
            return Param::initialized(ParamId::new(), found);
        }
        match self.take(name, stored) {
            Some(data) => Param::initialized(ParamId::new(), self.upload(data, shape)),
            None => self.absent(shape),
        }
    }

    /// The parameter `name` that the source has in the shape `stored`, of which `change` makes that of `shape`: elements in
    /// their order to as many others.
    pub(crate) fn changed<const D: usize>(
        &mut self,
        name: &str,
        stored: &[usize],
        shape: [usize; D],
        change: impl FnOnce(Vec<f32>) -> Vec<f32>,
    ) -> Param<Tensor<D>> {
        match self.take(name, stored) {
            Some(data) => {
                let data = TensorData::new(change(data.iter().collect()), shape);
                Param::initialized(ParamId::new(), self.upload(data, shape))
            }
            None => self.absent(shape),
        }
    }

    /// The elements of the parameter `name`, which must have this length: what others are changed with. None if it is only
    /// written down.
    pub(crate) fn values(&mut self, name: &str, length: usize) -> Option<Vec<f32>> {
        let data = self.take(name, &[length])?;
        Some(data.iter().collect())
    }

    /// Parameters one below the other, as one of the shape `shape`. `parts` are their names and rows; the other axes are
    /// the same for all.
    pub fn stacked<const D: usize>(
        &mut self,
        parts: &[(String, usize)],
        shape: [usize; D],
    ) -> Param<Tensor<D>> {
        let dtype = self.dtype;
        if matches!(self.origin, Origin::Tensors(_)) {
            let wanted = parts.iter().map(|(name, rows)| {
                let mut stored = shape;
                stored[0] = *rows;
                self.wanted(name, &stored)
            });
            let wanted: Vec<_> = wanted.collect();
            if let Origin::Tensors(source) = &mut self.origin {
                let stacked = self.factor.times(source.take_stacked(&wanted, dtype));
                return Param::initialized(ParamId::new(), stacked.reshape(shape));
            }
        }
        let mut stacked = Vec::new();
        let mut absent = false;
        for (name, rows) in parts {
            let mut stored = shape;
            stored[0] = *rows;
            match self.take(name, &stored) {
                Some(data) => {
                    if stacked.is_empty() {
                        stacked.reserve_exact(shape.iter().product::<usize>() * dtype.size());
                    }
                    stacked.extend_from_slice(data.convert_dtype(dtype).as_bytes());
                }
                None => absent = true,
            }
        }
        if absent {
            return self.absent(shape);
        }
        let data = TensorData::from_bytes(Bytes::from_bytes_vec(stacked), shape, dtype);
        Param::initialized(ParamId::new(), self.upload(data, shape))
    }

    /// The weight `name` `[Out, In, k, k]` of a convolution, which must have exactly this shape. It lies in memory as the
    /// convolutions of the device read it: where they want channels next to each other it is laid out as
    /// `[Out, k, k, In]`, once, and what comes back is a view.
    pub fn filters(&mut self, name: &str, shape: [usize; 4]) -> Param<Tensor<4>> {
        if !kernels::prefers_channels_last(&self.device) {
            return self.tensor(name, shape);
        }
        let [output, input, height, width] = shape;
        let wanted = self.wanted(name, &shape);
        let dtype = self.dtype;
        if let Origin::Tensors(source) = &mut self.origin {
            let (found, laid) = source.take(&wanted, dtype, true);
            let found = self.factor.times(found);
            let filters = match laid {
                true => (found.reshape([output, height, width, input])).permute([0, 3, 1, 2]),
                false => found.reshape(shape),
            };
            return Param::initialized(ParamId::new(), filters);
        }
        match self.take(name, &shape) {
            Some(data) => {
                let data = channels_last(data.convert_dtype(self.dtype), shape);
                let laid = self.upload(data, [output, height, width, input]);
                Param::initialized(ParamId::new(), laid.permute([0, 3, 1, 2]))
            }
            None => self.absent(shape),
        }
    }

    /// What the source has of this name and shape; nothing if it is only written down.
    fn take(&mut self, name: &str, stored: &[usize]) -> Option<TensorData> {
        let name = self.key(name);
        match &mut self.origin {
            Origin::Source(source) => {
                let data = source.take(&name, stored);
                debug_assert_eq!(data.shape().as_slice(), stored);
                Some(match self.factor {
                    Gate::Fixed(factor) if factor != 1.0 => multiplied(data, factor),
                    _ => data,
                })
            }
            Origin::Outline { wanted, .. } => {
                wanted.push(Wanted {
                    name,
                    shape: stored.to_vec(),
                });
                None
            }
            // A number that others are changed with: it is no part of the tape.
            Origin::Tensors(source) => {
                let wanted = Wanted {
                    name,
                    shape: stored.to_vec(),
                };
                let (found, _) = source.take(&wanted, self.dtype, false);
                let data = self.factor.times(found).without_autodiff().into_data();
                Some(TensorData::new(
                    data.iter::<f32>().collect(),
                    stored.to_vec(),
                ))
            }
        }
    }

    /// A parameter that is never made.
    fn absent<const D: usize>(&self, shape: [usize; D]) -> Param<Tensor<D>> {
        let zeros = move |device: &Device, _| Tensor::zeros(shape, device);
        let device = self.device.clone();
        Param::uninitialized(ParamId::new(), zeros, device, false, shape.into())
    }

    /// The elements on the device, in their order and without gaps.
    fn upload<const D: usize>(&self, data: TensorData, shape: [usize; D]) -> Tensor<D> {
        let (device, dtype) = (&self.device, self.dtype);
        let (bytes, _, stored) = data.into_parts();
        // As one row: CUDA backends pad each row of what they are given, those of a 3×3 kernel from 6 bytes to 16.
        let flat = [shape.iter().product::<usize>()];
        let data = TensorData::from_bytes(bytes, flat, stored).convert_dtype(dtype);
        // GPU backends keep what lives as long as the model apart from what comes and goes.
        device.memory_persistent_allocations(data, |data| {
            Tensor::<1>::from_data(data, (device, dtype)).reshape(shape)
        })
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
