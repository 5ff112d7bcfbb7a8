//! Where the maps of a pyramid lie in a row of tokens, and the reference of deformable attention.

use burn::tensor::{DType, Int, Tensor};

/// The sizes of the feature maps whose tokens stand one map after the other, each row by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Levels {
    sizes: [[usize; 2]; Levels::MOST],
    count: usize,
}

impl Levels {
    /// The most maps of a pyramid.
    pub const MOST: usize = 4;

    /// Maps of these heights and widths.
    ///
    /// # Panics
    /// If there are none or more than [`Self::MOST`], or one has no pixels.
    pub fn new(maps: &[[usize; 2]]) -> Self {
        let count = maps.len();
        assert!(
            (1..=Self::MOST).contains(&count),
            "deformable_attention: 1 to {} levels, not {count}",
            Self::MOST
        );
        assert!(
            maps.iter().flatten().all(|side| *side > 0),
            "deformable_attention: a level without pixels"
        );
        let mut sizes = [[0; 2]; Self::MOST];
        sizes[..count].copy_from_slice(maps);
        Self { sizes, count }
    }

    /// Height and width of each map.
    pub fn sizes(&self) -> &[[usize; 2]] {
        &self.sizes[..self.count]
    }

    /// How many tokens all maps have.
    pub fn tokens(&self) -> usize {
        self.sizes()
            .iter()
            .map(|[height, width]| height * width)
            .sum()
    }

    /// Each map's first token, height and width.
    pub(crate) fn maps(&self) -> impl Iterator<Item = [usize; 3]> {
        self.sizes().iter().scan(0, |first, &[height, width]| {
            let map = [*first, height, width];
            *first += height * width;
            Some(map)
        })
    }
}

/// Reference of [`crate::deformable_attention`].
pub fn deformable_attention(
    values: Tensor<4>,
    levels: &Levels,
    locations: Tensor<5>,
    weights: Tensor<4>,
) -> Tensor<3> {
    let [batch, tokens, heads, width] = values.dims();
    let [_, queries, _, samples] = weights.dims();
    let (device, dtype) = (values.device(), values.dtype());
    let table = values.cast(DType::F32).swap_dims(1, 2);
    let table = table.reshape([batch * heads * tokens, width]);
    // The first row of each picture and head.
    let first = Tensor::<1, Int>::arange(0..(batch * heads) as i64, &device) * tokens as i64;
    let first = first.reshape([batch, 1, heads, 1]);
    let shape = [batch, queries, heads, samples];
    let locations = locations.cast(DType::F32);
    let [x, y] = [0, 1].map(|axis| locations.clone().narrow(4, axis, 1).reshape(shape));
    let weights = weights.cast(DType::F32);
    let points = samples / levels.sizes().len();
    let rows = batch * queries * heads;
    let mut sum = Tensor::<2>::zeros([rows, width], &device);
    for (level, [start, height, across]) in levels.maps().enumerate() {
        let of_level = |tensor: &Tensor<4>| tensor.clone().narrow(3, level * points, points);
        let corners = |at: &Tensor<4>, length: usize| {
            let at = of_level(at) * length as f64 - 0.5;
            let low = at.clone().floor();
            let part = at - low.clone();
            [(low.clone(), part.clone().neg() + 1.0), (low + 1.0, part)].map(|(pixel, share)| {
                let inside = pixel.clone().greater_equal_elem(0.0).float()
                    * pixel.clone().lower_elem(length as f64).float();
                // What is far outside must not leave the range of integers.
                let pixel = pixel.clamp(0.0, (length - 1) as f64).int();
                (pixel, share * inside)
            })
        };
        let columns = corners(&x, across);
        let weights = of_level(&weights);
        for (row, down) in corners(&y, height) {
            for (column, along) in columns.clone() {
                let token = row.clone() * across as i64 + column + start as i64 + first.clone();
                let share = weights.clone() * down.clone() * along;
                for point in 0..points {
                    let token = token.clone().narrow(3, point, 1).reshape([rows]);
                    let share = share.clone().narrow(3, point, 1).reshape([rows, 1]);
                    sum = sum + table.clone().select(0, token) * share;
                }
            }
        }
    }
    sum.reshape([batch, queries, heads * width]).cast(dtype)
}
