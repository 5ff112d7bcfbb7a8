//! How far away each pixel is, by a network.

use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use prepose_models::depth_anything::DepthAnything;
use prepose_weights::{EyeWeights, WeightsError};

use super::reading::Reading;
use super::{EyeError, rgb};
use crate::check::rules::depth::DepthMap;
use crate::picture::Picture;

/// Pictures of one size that are looked at together.
const TOGETHER: usize = 8;

/// A depth network on a device.
#[derive(Debug)]
pub struct DepthEstimator {
    name: String,
    network: DepthAnything,
    device: Device,
}

impl DepthEstimator {
    /// Loads the network.
    ///
    /// # Errors
    /// [`WeightsError`] if the weights are of another network or do not fit.
    pub fn load(
        weights: &EyeWeights,
        device: &Device,
        dtype: FloatDType,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            name: weights.name().to_string(),
            network: weights.load_depth(device, dtype)?,
            device: device.clone(),
        })
    }

    /// What records call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The depth of each pixel of each picture; larger is nearer. Depths in metres, which metric networks give, are turned
    /// around: 1 / metres.
    ///
    /// # Errors
    /// [`EyeError`] if a picture cannot be looked at; nothing is known of the others then.
    pub fn estimate(&self, pictures: &[&Picture]) -> Result<Vec<DepthMap>, EyeError> {
        let mut prepared = Vec::with_capacity(pictures.len());
        for picture in pictures {
            prepared.push(self.network.prepare(&rgb(picture)?, &self.device)?);
        }
        let mut restored: Vec<Tensor<3>> = Vec::with_capacity(pictures.len());
        let mut rest = &prepared[..];
        while let Some(first) = rest.first() {
            let alike = rest.iter().take_while(|next| next.dims() == first.dims());
            let count = alike.count().min(TOGETHER);
            let (some, others) = rest.split_at(count);
            let depths = self.network.forward(Tensor::cat(some.to_vec(), 0));
            for (i, picture) in pictures[restored.len()..][..count].iter().enumerate() {
                let own = depths.clone().narrow(0, i, 1);
                restored.push(DepthAnything::restore(own, [picture.height, picture.width]));
            }
            rest = others;
        }
        let read = Reading::default().with_all(restored).read();
        let each = read.iter().zip(pictures);
        each.map(|(depths, picture)| self.map(depths, picture))
            .collect()
    }

    /// The depths of a picture in its own pixels.
    fn map(&self, depths: &TensorData, picture: &Picture) -> Result<DepthMap, EyeError> {
        let metric = self.network.config().is_metric();
        // Interpolation goes a little beyond the values that it is between.
        let value = |depth: f32| match (metric, f64::from(depth)) {
            (true, depth) => 1.0 / depth.max(1e-3),
            (false, depth) if depth < 0.0 => 0.0,
            (false, depth) => depth,
        };
        let values = depths.iter::<f32>().map(value).collect();
        Ok(DepthMap::new(picture.width, picture.height, values)?)
    }
}

/// The map with 256 steps from the farthest to the nearest pixel, as pipelines of transformers save it and the scripts of
/// PSE read it; all zero if every pixel is as far as the others.
pub fn eight_bits(map: &DepthMap) -> DepthMap {
    let values = || map.rows().flatten().copied();
    let (least, most) = (
        values().fold(f64::INFINITY, f64::min),
        values().fold(0.0, f64::max),
    );
    let step = |value: f64| match most > least {
        true => ((value - least) / (most - least) * 255.0).trunc(),
        false => 0.0,
    };
    let (width, height) = map.size();
    let steps = values().map(step).collect();
    // As many as before, none negative.
    DepthMap::new(width, height, steps).unwrap_or_else(|_| map.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_from_the_farthest_to_the_nearest() {
        let map = DepthMap::new(2, 2, vec![1.0, 3.0, 2.0, 1.01]).unwrap();
        let steps = DepthMap::new(2, 2, vec![0.0, 255.0, 127.0, 1.0]).unwrap();
        assert_eq!(eight_bits(&map), steps);
        let flat = DepthMap::new(1, 2, vec![4.0, 4.0]).unwrap();
        assert_eq!(
            eight_bits(&flat),
            DepthMap::new(1, 2, vec![0.0, 0.0]).unwrap()
        );
    }
}
