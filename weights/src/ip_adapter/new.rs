//! IP-Adapters that are trained here: new ones, and the files of those that are done.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::TensorData;
use prepose_models::ip_adapter::{AdapterKind, IpAdapter, IpAdapterConfig, ResamplerConfig};
use prepose_models::params::{ParamSource, Params};
use prepose_models::training::Parameter;
use serde_json::Value;

use super::{AdapterWeights, LAYERS, PROJECTOR, layers, open_encoder, text_width};
use crate::error::WeightsError;
use crate::part::{Part, Parts};
use crate::trained::{TrainedTensor, half_file};

/// An IP-Adapter that is to be trained from nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAdapter {
    /// What it makes tokens of.
    pub kind: AdapterKind,
    /// Its picture encoder: a folder, a file or a name, as [`EyeWeights::open`](crate::EyeWeights::open) takes it.
    pub encoder: PathBuf,
}

/// Parameters of what has no values yet.
pub(super) struct Zeros;

impl ParamSource for Zeros {
    fn take(&mut self, _name: &str, shape: &[usize]) -> TensorData {
        TensorData::zeros::<f32, _>(shape.to_vec())
    }

    fn contains(&self, _name: &str) -> bool {
        false
    }
}

impl AdapterWeights {
    /// A new one for the networks of `parts`.
    ///
    /// # Errors
    /// A picture encoder that is none, or that has not what this kind of adapter looks at.
    pub(crate) fn new(new: &NewAdapter, parts: &Parts) -> Result<Self, WeightsError> {
        let (encoder, vision, picture_dim) = open_encoder(&new.encoder, new.kind, None)?;
        let context_dim = text_width(parts)?;
        let resampler = match new.kind {
            AdapterKind::Plus => Some(ResamplerConfig::usual(context_dim)),
            AdapterKind::Plain | AdapterKind::FullFace => None,
        };
        let place = encoder.path().to_path_buf();
        Ok(Self {
            part: Part::new("IP-Adapter", &place, Value::Null, &parts.unet.path),
            config: IpAdapterConfig {
                kind: new.kind,
                picture_dim,
                context_dim,
                resampler,
                layers: layers(parts)?,
            },
            file: None,
            encoder,
            vision,
        })
    }

    /// Whether it has no file yet.
    pub fn is_new(&self) -> bool {
        self.file.is_none()
    }

    /// The values of its `parameters`, which are all of its; none for a new one.
    pub(crate) fn values(
        &self,
        parameters: &[Parameter],
    ) -> Result<Option<Vec<Vec<f32>>>, WeightsError> {
        if self.is_new() {
            return Ok(None);
        }
        let adapter = |params: Params| IpAdapter::load(&self.config, params);
        let values = self.part.load_from_source(false, adapter, |source| {
            let values = parameters.iter().map(|Parameter { name, shape }| {
                let data = source.take(name, shape);
                data.iter::<f32>().collect()
            });
            values.collect()
        })?;
        Ok(Some(values))
    }
}

/// As [`crate::Checkpoint::adapter_file`].
pub(crate) fn file(
    path: &Path,
    tensors: &[TrainedTensor],
    about: &BTreeMap<String, String>,
) -> Result<Vec<u8>, WeightsError> {
    let refused = |what: String| WeightsError::Unsupported {
        path: path.to_path_buf(),
        what,
        hint: format!("an IP-Adapter's names begin with {PROJECTOR} and {LAYERS}"),
    };
    let is_own = |name: &str| name.starts_with(PROJECTOR) || name.starts_with(LAYERS);
    if let Some(other) = tensors.iter().find(|tensor| !is_own(&tensor.name)) {
        let name = &other.name;
        return Err(refused(format!("a parameter {name} among an IP-Adapter's")));
    }
    let named: Vec<_> = (tensors.iter())
        .map(|tensor| (tensor.name.clone(), tensor))
        .collect();
    half_file(&named, about).map_err(|error| refused(error.to_string()))
}
