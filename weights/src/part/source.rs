//! What networks ask for their parameters.

use burn::tensor::TensorData;
use prepose_models::params::ParamSource;

use super::{Entry, Part};
use crate::delta::merge;
use crate::error::WeightsError;

/// The source that networks are built from. What is missing or of another shape has been reported before, and is zero.
pub(super) struct PartSource<'a> {
    part: &'a Part,
    non_finite: Vec<String>,
    error: Option<WeightsError>,
}

impl<'a> PartSource<'a> {
    pub fn new(part: &'a Part) -> Self {
        Self {
            part,
            non_finite: Vec::new(),
            error: None,
        }
    }

    fn read(&mut self, name: &str, entry: &Entry) -> Result<TensorData, WeightsError> {
        let (data, finite) = entry.read()?;
        if !finite {
            self.non_finite.push(entry.key.clone());
        }
        match self.part.deltas.get(name) {
            Some(deltas) => merge(data, deltas),
            None => Ok(data),
        }
    }

    /// What went wrong on the way, if anything did.
    pub fn finish(self) -> Result<(), WeightsError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if !self.non_finite.is_empty() {
            return Err(WeightsError::NonFinite {
                path: self.part.path.clone(),
                part: self.part.name.to_string(),
                tensors: self.non_finite,
            });
        }
        Ok(())
    }
}

impl ParamSource for PartSource<'_> {
    fn take(&mut self, name: &str, shape: &[usize]) -> TensorData {
        let zeros = || TensorData::zeros::<f32, _>(shape.to_vec());
        let part = self.part;
        // After the first failure there is nothing to gain from reading on.
        let Some(entry) = part.entries.get(name).filter(|_| self.error.is_none()) else {
            return zeros();
        };
        if entry.shape() != shape {
            return zeros();
        }
        self.read(name, entry).unwrap_or_else(|error| {
            self.error = Some(error);
            zeros()
        })
    }

    fn contains(&self, name: &str) -> bool {
        self.part.entries.contains_key(name)
    }
}
