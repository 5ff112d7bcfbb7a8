//! From pictures of any size to a batch, and back.

use burn::prelude::*;
use burn::tensor::TensorData;

use super::config::RcnnConfig;

/// What the sizes of a batch are multiples of.
const MULTIPLE: usize = 32;

/// Normalised pictures, padded with zeros below and to the right to a common size.
#[derive(Debug, Clone)]
pub struct Batch {
    /// `[B, 3, H, W]`, H and W multiples of 32.
    pub pictures: Tensor<4>,
    /// Height and width of each picture in the batch.
    pub resized: Vec<[usize; 2]>,
    /// Height and width that each picture had before.
    pub original: Vec<[usize; 2]>,
}

/// Height and width of a picture after resizing: the shorter side becomes `min_size`, or less where
/// the longer one would become more than `max_size`.
pub(super) fn resized([height, width]: [usize; 2], config: &RcnnConfig) -> [usize; 2] {
    let (short, long) = (height.min(width) as f64, height.max(width) as f64);
    let scale = (config.min_size as f64 / short).min(config.max_size as f64 / long);
    [height, width].map(|side| ((side as f64 * scale).floor() as usize).max(1))
}

/// Height and width that a picture is padded to in a batch by itself.
pub(super) fn padded(size: [usize; 2], config: &RcnnConfig) -> [usize; 2] {
    resized(size, config).map(|side| side.next_multiple_of(MULTIPLE))
}

/// Bilinear interpolation of `picture` `[3, H, W]` to height and width `size`, as PyTorch's with
/// `align_corners=False`, which does not smooth before it shrinks.
pub(super) fn resize(picture: Tensor<3>, size: [usize; 2]) -> Tensor<3> {
    size.into_iter()
        .enumerate()
        .fold(picture, |picture, (i, size)| along(picture, i + 1, size))
}

/// The same along one axis.
fn along(picture: Tensor<3>, axis: usize, size: usize) -> Tensor<3> {
    let length = picture.dims()[axis];
    if length == size {
        return picture;
    }
    let device = picture.device();
    let scale = length as f32 / size as f32;
    let places = (0..size).map(|i| ((i as f32 + 0.5) * scale - 0.5).max(0.0));
    let (low, part): (Vec<i32>, Vec<f32>) = places
        .map(|at| {
            let low = (at as usize).min(length - 1);
            (low as i32, at - low as f32)
        })
        .unzip();
    let high: Vec<i32> = low.iter().map(|i| (i + 1).min(length as i32 - 1)).collect();
    let pixels = |places: Vec<i32>| {
        let places = Tensor::<1, Int>::from_data(places.as_slice(), &device);
        picture.clone().select(axis, places)
    };
    let mut shape = [1; 3];
    shape[axis] = size;
    let part = Tensor::<3>::from_data(TensorData::new(part, shape), &device);
    let (low, high) = (pixels(low), pixels(high));
    low.clone() + (high - low) * part
}

/// Resizes, normalises and pads `pictures` `[3, H, W]` in 0..=1.
pub(super) fn batch(pictures: &[Tensor<3>], config: &RcnnConfig) -> Batch {
    let size = |picture: &Tensor<3>| {
        let [channels, height, width] = picture.dims();
        assert!(
            channels == 3 && height > 0 && width > 0,
            "R-CNN: a picture of {channels} channels and {height} × {width} pixels"
        );
        [height, width]
    };
    let original: Vec<_> = pictures.iter().map(size).collect();
    let sizes: Vec<_> = original.iter().map(|size| resized(*size, config)).collect();
    let most = |axis: usize| {
        let each = original.iter().map(|size| padded(*size, config)[axis]);
        each.max().unwrap_or(0)
    };
    let [height, width] = [most(0), most(1)];
    let normalised = pictures.iter().zip(&sizes).map(|(picture, size)| {
        let device = picture.device();
        let channels =
            |values: [f32; 3]| Tensor::<1>::from_data(values, &device).reshape([3, 1, 1]);
        let (mean, std) = (channels(config.image_mean), channels(config.image_std));
        let picture = resize((picture.clone() - mean) / std, *size);
        picture.pad((0, width - size[1], 0, height - size[0]), 0.0)
    });
    Batch {
        pictures: Tensor::stack(normalised.collect(), 0),
        resized: sizes,
        original,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_torchvisions() {
        let config = RcnnConfig::standard("fasterrcnn_resnet50_fpn").unwrap();
        let cases = [
            ([512, 512], [800, 800]),
            ([480, 640], [800, 1066]),
            ([1000, 300], [1333, 399]),
            ([375, 500], [800, 1066]),
        ];
        for (from, to) in cases {
            assert_eq!(resized(from, &config), to, "{from:?}");
        }
        // Up to multiples of 32.
        assert_eq!(padded([480, 640], &config), [800, 34 * 32]);
        assert_eq!(padded([1000, 300], &config), [42 * 32, 13 * 32]);
    }
}
