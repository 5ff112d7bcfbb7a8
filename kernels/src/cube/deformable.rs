//! Deformable attention, one thread for each query and channel.

use super::*;
use crate::plain::Levels;

/// [`crate::deformable_attention`].
pub(crate) fn deformable_attention(
    values: &Tensor<4>,
    levels: &Levels,
    locations: &Tensor<5>,
    weights: &Tensor<4>,
) -> Option<Tensor<3>> {
    let summed = Dispatch::deformable_attention(
        operand(values)?,
        operand(locations)?,
        operand(weights)?,
        *levels,
    );
    Some(Tensor::from_dispatch(summed))
}

/// The shape of the result.
pub(super) fn summed(values: &Shape, weights: &Shape) -> Shape {
    Shape::from([weights[0], weights[1], values[2] * values[3]])
}

#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Map {
    /// Its first token.
    start: usize,
    height: usize,
    width: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Config {
    levels: usize,
    points: usize,
}

/// The value at a pixel; zero outside of the map.
#[cube]
fn pixel<F: Float>(
    values: &[F],
    map: &Map,
    row: f32,
    column: f32,
    base: usize,
    stride: usize,
) -> f32 {
    let height = f32::cast_from(map.height as u32);
    let width = f32::cast_from(map.width as u32);
    let inside = row >= 0.0f32 && row < height && column >= 0.0f32 && column < width;
    let mut value = 0.0f32;
    if inside {
        let row = u32::cast_from(row) as usize;
        let column = u32::cast_from(column) as usize;
        value = f32::cast_from(values[base + (map.start + row * map.width + column) * stride]);
    }
    value
}

/// The weighted sum of the samples of one map, the first of which is `first`.
#[cube]
#[allow(clippy::too_many_arguments)]
fn of_map<F: Float, L: Float, W: Float>(
    values: &[F],
    locations: &[L],
    weights: &[W],
    map: &Map,
    first: usize,
    base: usize,
    stride: usize,
    #[comptime] config: Config,
) -> f32 {
    let height = f32::cast_from(map.height as u32);
    let width = f32::cast_from(map.width as u32);
    let mut sum = 0.0f32;
    for point in 0..config.points {
        let sample = first + point;
        let x = f32::cast_from(locations[2 * sample]) * width - 0.5f32;
        let y = f32::cast_from(locations[2 * sample + 1]) * height - 0.5f32;
        let left = x.floor();
        let top = y.floor();
        let across = x - left;
        let down = y - top;
        let a = pixel(values, map, top, left, base, stride);
        let b = pixel(values, map, top, left + 1.0f32, base, stride);
        let c = pixel(values, map, top + 1.0f32, left, base, stride);
        let d = pixel(values, map, top + 1.0f32, left + 1.0f32, base, stride);
        let above = a * (1.0f32 - across) + b * across;
        let below = c * (1.0f32 - across) + d * across;
        let value = above * (1.0f32 - down) + below * down;
        sum += f32::cast_from(weights[sample]) * value;
    }
    sum
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn deformable_kernel<F: Float, L: Float, W: Float>(
    values: &[F],
    locations: &[L],
    weights: &[W],
    summed: &mut [F],
    map0: Map,
    map1: Map,
    map2: Map,
    map3: Map,
    tokens: usize,
    queries: usize,
    heads: usize,
    width: usize,
    threads: usize,
    #[comptime] config: Config,
    #[define(F, L, W)] _types: [ElemType; 3],
) {
    let i = ABSOLUTE_POS;
    if i < threads {
        let stride = heads * width;
        let query = i / stride;
        let channel = i % stride;
        let head = channel / width;
        let base = query / queries * tokens * stride + channel;
        let first = (query * heads + head) * comptime!(config.levels * config.points);
        let mut sum = of_map(
            values, locations, weights, &map0, first, base, stride, config,
        );
        if comptime!(config.levels > 1) {
            let first = first + config.points;
            sum += of_map(
                values, locations, weights, &map1, first, base, stride, config,
            );
        }
        if comptime!(config.levels > 2) {
            let first = first + comptime!(2 * config.points);
            sum += of_map(
                values, locations, weights, &map2, first, base, stride, config,
            );
        }
        if comptime!(config.levels > 3) {
            let first = first + comptime!(3 * config.points);
            sum += of_map(
                values, locations, weights, &map3, first, base, stride, config,
            );
        }
        summed[i] = F::cast_from(sum);
    }
}

/// Runs [`Kernels::deformable_attention`].
pub(super) fn launch(
    values: CubeTensor,
    locations: CubeTensor,
    weights: CubeTensor,
    levels: Levels,
) -> CubeTensor {
    let [values, locations, weights] = [values, locations, weights].map(into_contiguous);
    let (from, by) = (values.meta.shape(), weights.meta.shape());
    let [tokens, heads, width] = [from[1], from[2], from[3]];
    let [queries, samples] = [by[1], by[3]];
    let to = empty(&values, summed(from, by), values.dtype);
    let threads = to.meta.shape().num_elements();
    let config = Config {
        levels: levels.sizes().len(),
        points: samples / levels.sizes().len(),
    };
    let of = |i: usize| {
        let [start, height, width] = levels.maps().nth(i).unwrap_or([0, 1, 1]);
        MapLaunch::new(start, height, width)
    };
    let client = values.client.clone();
    let (cubes, dim) = elementwise(&client, threads);
    // SAFETY: threads past the last element do nothing, and what is read of the values is a pixel of a map.
    unsafe {
        deformable_kernel::launch_unchecked(
            &client,
            cubes,
            dim,
            address(&[&values, &locations, &weights, &to]),
            values.clone().into_buffer_arg(),
            locations.clone().into_buffer_arg(),
            weights.clone().into_buffer_arg(),
            to.clone().into_buffer_arg(),
            of(0),
            of(1),
            of(2),
            of(3),
            tokens,
            queries,
            heads,
            width,
            threads,
            config,
            [element(&to), element(&locations), element(&weights)],
        );
    }
    to
}
