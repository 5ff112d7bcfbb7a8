//! Latents made larger as PyTorch's `torch.nn.functional.interpolate` does it, without aligned corners.

use burn::tensor::{Device, Tensor, TensorData};

use crate::request::Upscaler;

/// `latents` `[B, C, h, w]` at `[height, width]`. For [`Upscaler::Lanczos`], which is about pixels, they stay as they are.
pub(super) fn interpolate(latents: Tensor<4>, size: [usize; 2], by: Upscaler) -> Tensor<4> {
    let Some(filter) = Filter::of(by) else {
        return latents;
    };
    let [_, _, rows, columns] = latents.dims();
    let device = latents.device();
    let down = filter.matrix(rows, size[0], &device);
    let across = filter.matrix(columns, size[1], &device);
    down.matmul(latents).matmul(across.transpose())
}

/// How an element is made from those around its place.
#[derive(Clone, Copy)]
enum Filter {
    Nearest { middle: bool },
    Linear,
    Cubic { antialiased: bool },
}

impl Filter {
    fn of(by: Upscaler) -> Option<Self> {
        Some(match by {
            Upscaler::Lanczos => return None,
            // The wider filter is the same one where there are not fewer elements than before.
            Upscaler::Latent | Upscaler::LatentAntialiased => Self::Linear,
            Upscaler::LatentBicubic => Self::Cubic { antialiased: false },
            Upscaler::LatentBicubicAntialiased => Self::Cubic { antialiased: true },
            Upscaler::LatentNearest => Self::Nearest { middle: false },
            Upscaler::LatentNearestExact => Self::Nearest { middle: true },
        })
    }

    /// The weights of `from` elements in each of `to`, no fewer: `[1, 1, to, from]`.
    fn matrix(self, from: usize, to: usize, device: &Device) -> Tensor<4> {
        let mut weights = vec![0f32; from * to];
        for (index, row) in weights.chunks_exact_mut(from).enumerate() {
            for (at, weight) in self.taps(index, from, to) {
                row[at] += weight as f32;
            }
        }
        Tensor::from_data(TensorData::new(weights, [1, 1, to, from]), device)
    }

    /// The elements that make up element `index`, with their weights.
    fn taps(self, index: usize, from: usize, to: usize) -> Vec<(usize, f64)> {
        let last = from - 1;
        let place = (index as f64 + 0.5) * from as f64 / to as f64 - 0.5;
        match self {
            Self::Nearest { middle: false } => vec![(index * from / to, 1.0)],
            Self::Nearest { middle: true } => vec![((2 * index + 1) * from / (2 * to), 1.0)],
            Self::Linear => {
                let place = place.max(0.0);
                let first = (place as usize).min(last);
                let share = place - first as f64;
                vec![(first, 1.0 - share), ((first + 1).min(last), share)]
            }
            Self::Cubic { antialiased } => {
                let first = place.floor();
                let near = (-1..=2).map(|step| {
                    let at = first + f64::from(step);
                    (
                        at,
                        cubic(place - at, if antialiased { -0.5 } else { -0.75 }),
                    )
                });
                match antialiased {
                    // What would lie outside counts at the edge.
                    false => near
                        .map(|(at, weight)| (at.clamp(0.0, last as f64) as usize, weight))
                        .collect(),
                    // What would lie outside does not count.
                    true => {
                        let inside = near.filter(|(at, _)| (0.0..=last as f64).contains(at));
                        let inside: Vec<(f64, f64)> = inside.collect();
                        let sum: f64 = inside.iter().map(|(_, weight)| weight).sum();
                        inside
                            .into_iter()
                            .map(|(at, weight)| (at as usize, weight / sum))
                            .collect()
                    }
                }
            }
        }
    }
}

/// Keys' cubic at `x`.
fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * a
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use prepose_formats::{TensorFile, TensorPart};

    use super::*;

    /// `scripts/reference/cases/upscale.py`
    #[test]
    fn latents_grow_as_in_torch() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/upscale");
        let file = TensorFile::open(&folder.join("expected.safetensors")).unwrap();
        let read = |name: &str| -> Tensor<4> {
            let shape = file.info(name).unwrap().shape.clone();
            let mut values: Vec<f32> = Vec::new();
            file.pieces(name, TensorPart::WHOLE, &mut |bytes| {
                let floats = bytes.as_chunks().0.iter();
                values.extend(floats.map(|bytes| f32::from_le_bytes(*bytes)));
            });
            Tensor::from_data(TensorData::new(values, shape), &Device::flex())
        };
        let latents = read("latents");
        for by in [
            Upscaler::Latent,
            Upscaler::LatentAntialiased,
            Upscaler::LatentBicubic,
            Upscaler::LatentBicubicAntialiased,
            Upscaler::LatentNearest,
            Upscaler::LatentNearestExact,
        ] {
            for [height, width] in [[10, 14], [8, 9], [5, 7]] {
                let expected = read(&format!("{}/{height}x{width}", by.label()));
                let found = interpolate(latents.clone(), [height, width], by);
                let far: f32 = (found - expected).abs().max().into_scalar();
                assert!(far < 2e-6, "{} at {height}x{width}: {far}", by.label());
            }
        }
    }
}
