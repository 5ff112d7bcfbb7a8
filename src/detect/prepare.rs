//! Pictures as transformers' processors prepare them: bytes, resized by Pillow's rules on the host, then numbers.

use burn::tensor::Tensor;

use super::DetectError;
use crate::eyes::reading::Reading;
use crate::picture::{Picture, of_planes};

/// The pictures as bytes.
pub(super) fn bytes(pictures: &[Tensor<3>]) -> Result<Vec<Picture>, DetectError> {
    let read = Reading::default().with_all(pictures.iter().cloned());
    let each = read.numbers().into_iter().zip(pictures).enumerate();
    each.map(|(index, (values, picture))| {
        let [_, height, width] = picture.dims();
        of_planes(width, height, &values).ok_or(DetectError::Values { index })
    })
    .collect()
}

/// Adds one plane of values for each channel to `values`: `(byte / 255 − mean) / std`.
pub(super) fn normalise(picture: &Picture, mean: [f32; 3], std: [f32; 3], values: &mut Vec<f32>) {
    for channel in 0..3 {
        let pixels = picture.rgb.iter().skip(channel).step_by(3);
        values.extend(pixels.map(|byte| (f32::from(*byte) / 255.0 - mean[channel]) / std[channel]));
    }
}
