//! BoxDiff (Xie et al. 2023, "BoxDiff: text-to-image synthesis with training-free box-constrained diffusion").
//!
//! Attention to an object should be strong somewhere inside its box, weak everywhere outside, and reach the box's
//! edges. Constants and what they differ in: `docs/guidance/boxdiff.md`.

use burn::tensor::{Device, Tensor, TensorData};
use prepose_kernels::matmul;

use super::boxes::{BBox, Rounding};
use super::gradient::{MapLoss, Stage};
use super::maps::{MapGroup, Pooling, object_maps, selector, smooth};
use super::shares::{Texts, TokenRange};
use super::steps::{Refinement, StepSize};
use super::{
    GuidanceConfig, GuidanceError, GuidanceMethod, Loss, Needs, Network, Preset, Settings, Target,
};

/// The method.
pub struct BoxDiff;

impl GuidanceMethod for BoxDiff {
    fn name(&self) -> &'static str {
        "boxdiff"
    }

    fn about(&self) -> &'static str {
        "BoxDiff, by boxes"
    }

    fn presets(&self) -> &'static [Preset] {
        use Preset::{Default, Diffusers, Sd14Reference, SdxlReference};
        &[Default, Sd14Reference, SdxlReference, Diffusers]
    }

    fn needs(&self) -> Needs {
        Needs::Boxes
    }

    fn reads(&self) -> &'static [&'static str] {
        &["smoothing"]
    }

    fn settings(&self, config: &GuidanceConfig, _network: Network) -> Settings {
        let reference = config.preset != Preset::Default;
        let (range, refinement) = match config.preset {
            Preset::Default | Preset::Diffusers => (TokenRange::Text, Refinement::None),
            _ => (TokenRange::AllButEnds, Refinement::published(true)),
        };
        let constants = Constants {
            range,
            smoothing: config.smoothing.unwrap_or(true),
            rounding: match reference {
                true => Rounding::Nearest,
                false => Rounding::AtLeastOne,
            },
            share: 0.2,
            corner: 1,
            at_least_one: !reference,
        };
        Settings {
            refinement,
            ..Settings::new(config, constants, 25, StepSize::decaying(20.0))
        }
    }
}

/// What the loss is made of.
#[derive(Clone, Debug)]
struct Constants {
    /// Which tokens compete.
    range: TokenRange,
    /// Whether maps are smoothed first.
    smoothing: bool,
    /// From boxes to cells.
    rounding: Rounding,
    /// The paper's P: the share of the cells inside, and of those outside, that is looked at.
    share: f64,
    /// The paper's L: how many cells on either side of an edge belong to it.
    corner: usize,
    /// Whether at least one cell is looked at however small the box. In the references the term of a box of less than
    /// 1 / P cells is the mean of nothing, and Python's `max(0, NaN)` drops it.
    at_least_one: bool,
}

impl Loss for Constants {
    fn passes(&self, targets: &[Target]) -> Result<Vec<Box<dyn MapLoss>>, GuidanceError> {
        let (objects, boxes) = (targets.iter()).map(Target::boxed).unzip();
        Ok(vec![Box::new(BatchLoss {
            constants: self.clone(),
            texts: Texts::of(targets),
            objects,
            boxes,
        })])
    }
}

/// The loss for a batch.
struct BatchLoss {
    constants: Constants,
    /// Where its texts stand.
    texts: Texts,
    /// Token positions by sample and object, of objects with a box.
    objects: Vec<Vec<Vec<usize>>>,
    boxes: Vec<Vec<BBox>>,
}

/// An object of the batch with its box in cells.
struct Boxed {
    sample: usize,
    row: usize,
    cells: [usize; 4],
}

impl MapLoss for BatchLoss {
    fn pooling(&self) -> Pooling {
        Pooling::Mean
    }

    fn acts_on(&self) -> Vec<bool> {
        self.boxes.iter().map(|sample| !sample.is_empty()).collect()
    }

    fn losses(&self, maps: &MapGroup, _before: Option<&MapGroup>, stage: Stage) -> Tensor<1> {
        let constants = &self.constants;
        let device = maps.maps.device().without_autodiff();
        let [rows, columns] = maps.size;
        let shares = (self.texts).shares(maps.maps.clone(), constants.range);
        let selector = selector(&self.objects, shares.dims()[3], &device);
        let most = selector.dims()[2];
        let mut images = object_maps(shares, maps.size, selector);
        if constants.smoothing {
            images = smooth(images);
        }
        let boxed: Vec<Boxed> = (self.boxes.iter().enumerate())
            .flat_map(|(sample, boxes)| {
                boxes.iter().enumerate().map(move |(k, bbox)| Boxed {
                    sample,
                    row: sample * most + k,
                    cells: bbox.cells([rows, columns], constants.rounding),
                })
            })
            .collect();
        let picked: Vec<i32> = boxed.iter().map(|item| item.row as i32).collect();
        let picked = Tensor::from_data(TensorData::new(picked, [boxed.len()]), &device);
        let [batch, ..] = images.dims();
        let images = images
            .reshape([batch * most, rows, columns])
            .select(0, picked);

        let inside = |item: &Boxed, i: usize| {
            let [x0, y0, x1, y1] = item.cells;
            (x0..x1).contains(&(i % columns)) && (y0..y1).contains(&(i / columns))
        };
        let region = |wanted: bool| Region {
            members: (boxed.iter())
                .map(|item| {
                    (0..rows * columns)
                        .map(|i| inside(item, i) == wanted)
                        .collect()
                })
                .collect(),
        };
        let flat = images.clone().reshape([boxed.len(), rows * columns]);
        let (most_inside, counted) = region(true).mean_of_largest(&flat, constants);
        let inner = (-most_inside + 1.0).clamp_min(0.0) * counted;
        if stage == Stage::Refine {
            return self.greatest(&boxed, inner, &device);
        }
        let (most_outside, counted) = region(false).mean_of_largest(&flat, constants);
        let outer = most_outside.clamp_min(0.0) * counted;
        let width = constants.corner;
        let x = edges(images.clone().max_dim(1), &boxed, 0, columns, width);
        let y = edges(images.max_dim(2), &boxed, 1, rows, width);
        self.sum(&boxed, inner + outer + x + y, &device)
    }
}

impl BatchLoss {
    /// Sums over each sample's objects.
    fn sum(&self, boxed: &[Boxed], values: Tensor<1>, device: &Device) -> Tensor<1> {
        let (samples, count) = (self.boxes.len(), boxed.len());
        let mut matrix = vec![0f32; samples * count];
        for (column, item) in boxed.iter().enumerate() {
            matrix[item.sample * count + column] = 1.0;
        }
        let matrix: Tensor<2> =
            Tensor::from_data(TensorData::new(matrix, [samples, count]), device);
        matmul(matrix, values.unsqueeze_dim(1)).squeeze_dim(1)
    }

    /// The greatest of each sample's objects' values, which are not negative.
    fn greatest(&self, boxed: &[Boxed], values: Tensor<1>, device: &Device) -> Tensor<1> {
        let (samples, count) = (self.boxes.len(), boxed.len());
        let mut matrix = vec![0f32; samples * count];
        for (column, item) in boxed.iter().enumerate() {
            matrix[item.sample * count + column] = 1.0;
        }
        let matrix: Tensor<2> =
            Tensor::from_data(TensorData::new(matrix, [samples, count]), device);
        (matrix * values.unsqueeze_dim(0)).max_dim(1).squeeze_dim(1)
    }
}

/// Cells of the maps, for each of several objects.
struct Region {
    members: Vec<Vec<bool>>,
}

impl Region {
    /// Of each row of `values` `[R, cells]` the mean of the ⌊P · n⌋ largest among its n members, and 1 where that is a
    /// mean of anything, else 0.
    fn mean_of_largest(&self, values: &Tensor<2>, constants: &Constants) -> (Tensor<1>, Tensor<1>) {
        let device = values.device().without_autodiff();
        let [count, cells] = values.dims();
        let (mut mask, mut weights, mut counted) =
            (Vec::new(), vec![0f32; count * cells], Vec::new());
        for (row, members) in self.members.iter().enumerate() {
            mask.extend(members.iter().map(|member| f32::from(*member)));
            let n = members.iter().filter(|member| **member).count();
            let mut k = (n as f32 * constants.share as f32) as usize;
            if constants.at_least_one {
                k = k.max(1).min(n);
            }
            weights[row * cells..row * cells + k].fill(1.0 / k as f32);
            counted.push(f32::from(k > 0));
        }
        let tensor = |data: Vec<f32>| -> Tensor<2> {
            Tensor::from_data(TensorData::new(data, [count, cells]), &device)
        };
        let masked = values.clone() * tensor(mask);
        // The order is not differentiated, the values are.
        let order = masked.clone().inner().argsort_descending(1);
        let largest = masked.gather(1, order) * tensor(weights);
        let counted = Tensor::from_data(TensorData::new(counted, [count]), &device);
        (largest.sum_dim(1).squeeze_dim(1), counted)
    }
}

/// How far the projection of each map, its maximum along the other axis, is from that of its box at the box's edges:
/// the mean over all `cells` of the axis, of which only those within `width` of an edge count.
fn edges(
    projection: Tensor<3>,
    boxed: &[Boxed],
    axis: usize,
    cells: usize,
    width: usize,
) -> Tensor<1> {
    let device = projection.device().without_autodiff();
    let count = boxed.len();
    let (mut wanted, mut weights) = (vec![0f32; count * cells], vec![0f32; count * cells]);
    for (row, item) in boxed.iter().enumerate() {
        let [from, to] = [item.cells[axis], item.cells[axis + 2]];
        let empty = item.cells[0] >= item.cells[2] || item.cells[1] >= item.cells[3];
        if !empty {
            wanted[row * cells + from..row * cells + to.min(cells)].fill(1.0);
        }
        for edge in [from, to] {
            let near = edge.saturating_sub(width)..(edge + width + 1).min(cells);
            weights[row * cells..][near].fill(1.0 / cells as f32);
        }
    }
    let tensor = |data: Vec<f32>| -> Tensor<2> {
        Tensor::from_data(TensorData::new(data, [count, cells]), &device)
    };
    let difference = (projection.reshape([count, cells]) - tensor(wanted)).abs();
    (difference * tensor(weights)).sum_dim(1).squeeze_dim(1)
}
