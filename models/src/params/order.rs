//! Elements of parameters in the order and size in which they are uploaded.

use burn::tensor::{Bytes, TensorData};

/// The elements times `factor`, in f32.
pub(super) fn multiplied(data: TensorData, factor: f32) -> TensorData {
    let shape = data.shape().clone();
    let values: Vec<f32> = data.iter::<f32>().map(|value| value * factor).collect();
    TensorData::new(values, shape)
}

/// The elements of filters `[Out, In, k, k]` as `[Out, k, k, In]`.
pub(crate) fn channels_last(data: TensorData, shape: [usize; 4]) -> TensorData {
    /// The order does not depend on what the `SIZE` bytes of an element mean, and they need no alignment.
    fn reordered<const SIZE: usize>(bytes: &[u8], inputs: usize, taps: usize) -> Vec<u8> {
        let (from, _) = bytes.as_chunks::<SIZE>();
        let mut to = Vec::with_capacity(from.len());
        for filter in from.chunks_exact(inputs * taps) {
            for tap in 0..taps {
                to.extend(filter[tap..].iter().step_by(taps));
            }
        }
        to.into_flattened()
    }
    let [output, input, height, width] = shape;
    // With one tap or one channel the orders are the same.
    if input <= 1 || height * width <= 1 {
        return data;
    }
    let (bytes, _, dtype) = data.into_parts();
    let bytes = match dtype.size() {
        2 => reordered::<2>(&bytes, input, height * width),
        4 => reordered::<4>(&bytes, input, height * width),
        size => unreachable!("weights have 2 or 4 bytes, not {size}"),
    };
    let bytes = Bytes::from_bytes_vec(bytes);
    TensorData::from_bytes(bytes, [output, height, width, input], dtype)
}

#[cfg(test)]
mod tests {
    use burn::prelude::*;
    use burn::tensor::DType;

    use super::*;

    #[test]
    fn filters_are_laid_out_tap_after_tap() {
        for shape in [[2, 3, 2, 2], [3, 1, 3, 3], [4, 5, 1, 1]] {
            let count: usize = shape.iter().product();
            let numbers: Vec<f32> = (0..count).map(|i| i as f32).collect();
            for dtype in [DType::F32, DType::F16, DType::BF16] {
                let data = TensorData::new(numbers.clone(), shape).convert_dtype(dtype);
                let device = Device::flex();
                let plain = Tensor::<4>::from_data(data.clone(), (&device, dtype));
                let (bytes, ..) = channels_last(data, shape).into_parts();
                let [output, input, height, width] = shape;
                let inside = [output, height, width, input];
                let laid = TensorData::from_bytes(bytes, inside, dtype);
                let laid = Tensor::<4>::from_data(laid, (&device, dtype)).permute([0, 3, 1, 2]);
                laid.into_data().assert_eq(&plain.into_data(), true);
            }
        }
    }
}
