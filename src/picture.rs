//! Pictures as bytes, and as tensors on a device.

use burn::tensor::{Device, Tensor, TensorData};

pub use prepose_draw::picture::{Picture, PictureError};

/// Moves pictures to a device and back.
pub trait PictureTensor: Sized {
    /// On `device`, f32 [3, height, width] in 0..=1.
    fn to_tensor(&self, device: &Device) -> Tensor<3>;

    /// From f32 [3, height, width], clamped to 0..=1 and rounded as diffusers does; `None` if a value is not finite.
    fn from_tensor(picture: Tensor<3>) -> Option<Self>;
}

impl PictureTensor for Picture {
    fn to_tensor(&self, device: &Device) -> Tensor<3> {
        let plane = self.width * self.height;
        let mut values = vec![0f32; 3 * plane];
        for (position, pixel) in self.rgb.chunks_exact(3).enumerate() {
            for (channel, byte) in pixel.iter().enumerate() {
                values[channel * plane + position] = f32::from(*byte) / 255.0;
            }
        }
        Tensor::from_data(
            TensorData::new(values, [3, self.height, self.width]),
            device,
        )
    }

    fn from_tensor(picture: Tensor<3>) -> Option<Self> {
        let [_, height, width] = picture.dims();
        let values: Vec<f32> = picture.into_data().iter::<f32>().collect();
        of_planes(width, height, &values)
    }
}

/// The picture with these values, three planes in 0..=1; none if one is no number.
pub(crate) fn of_planes(width: usize, height: usize, values: &[f32]) -> Option<Picture> {
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let plane = width * height;
    let mut rgb = vec![0u8; 3 * plane];
    for (position, pixel) in rgb.chunks_exact_mut(3).enumerate() {
        for (channel, byte) in pixel.iter_mut().enumerate() {
            let value = values[channel * plane + position].clamp(0.0, 1.0);
            *byte = (value * 255.0).round_ties_even() as u8;
        }
    }
    Some(Picture { width, height, rgb })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_goes_to_the_device_and_back() {
        let picture = Picture {
            width: 5,
            height: 3,
            rgb: (0..45).map(|value| value * 5).collect(),
        };
        let tensor = picture.to_tensor(&Device::flex());
        assert_eq!(tensor.dims(), [3, 3, 5]);
        assert_eq!(Picture::from_tensor(tensor.clone()), Some(picture));
        assert_eq!(Picture::from_tensor(tensor / 0.0), None);
    }
}
