//! Pooling of regions, one thread for each pixel and channel of a region.

use super::*;
use crate::plain::RoiAlign;

/// Levels of a pyramid that the kernel takes.
const LEVELS: usize = 4;

/// [`crate::roi_align`].
pub(crate) fn roi_align(
    levels: &[Tensor<4>],
    rois: &Tensor<2>,
    options: &RoiAlign,
) -> Option<Tensor<4>> {
    let first = levels.first()?;
    if levels.len() > LEVELS {
        return None;
    }
    let [batch, channels, ..] = first.dims();
    for level in levels {
        let [of, depth, ..] = level.dims();
        assert_eq!([of, depth], [batch, channels], "roi_align: levels");
    }
    let level = |i: usize| operand(levels.get(i).unwrap_or(first));
    let pooled = Dispatch::roi_align(
        level(0)?,
        level(1)?,
        level(2)?,
        level(3)?,
        operand(rois)?,
        levels.len(),
        *options,
    );
    Some(Tensor::from_dispatch(pooled))
}

/// The shape of the pooled regions.
pub(super) fn pooled(level: &Shape, rois: &Shape, options: &RoiAlign) -> Shape {
    Shape::from([rois[0], level[1], options.size, options.size])
}

#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Level {
    height: usize,
    width: usize,
    /// Elements from one picture, channel, row and column to the next.
    picture: usize,
    channel: usize,
    row: usize,
    column: usize,
    /// Pixels of the level in one of the picture.
    scale: f32,
    /// The least area of a region that is pooled from this level or a coarser one.
    least: f32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Config {
    levels: usize,
    size: usize,
    sampling: usize,
    /// Neighbouring threads have neighbouring channels.
    channels_last: bool,
}

/// One side of a sample: the pixels around it, the share of the second, and whether it counts.
#[cube]
fn around(at: f32, length: usize) -> (usize, usize, f32, bool) {
    let end = f32::cast_from(length as u32);
    let inside = at >= -1.0f32 && at <= end;
    let at = clamp(at, 0.0f32, end - 1.0f32);
    let low = at.floor();
    let first = u32::cast_from(low) as usize;
    let second = min(first + 1, length - 1);
    (first, second, at - low, inside)
}

/// The mean of the samples in a pixel of a region.
#[cube]
#[allow(clippy::too_many_arguments)]
fn mean<F: Float>(
    of: &[F],
    level: &Level,
    base: usize,
    corners: (f32, f32, f32, f32),
    py: usize,
    px: usize,
    #[comptime] config: Config,
) -> f32 {
    let (x0, y0, x1, y1) = corners;
    let left = x0 * level.scale;
    let top = y0 * level.scale;
    let size = comptime!(config.size as f32);
    let across = max(x1 * level.scale - left, 1.0f32) / size;
    let down = max(y1 * level.scale - top, 1.0f32) / size;
    let row = f32::cast_from(py as u32);
    let column = f32::cast_from(px as u32);
    let mut sum = 0.0f32;
    for sy in 0..config.sampling {
        let part = (f32::cast_from(sy as u32) + 0.5f32) / comptime!(config.sampling as f32);
        let (y_low, y_high, y_part, y_inside) = around(top + (row + part) * down, level.height);
        for sx in 0..config.sampling {
            let part = (f32::cast_from(sx as u32) + 0.5f32) / comptime!(config.sampling as f32);
            let (x_low, x_high, x_part, x_inside) =
                around(left + (column + part) * across, level.width);
            if y_inside && x_inside {
                let upper = base + y_low * level.row;
                let lower = base + y_high * level.row;
                let a = f32::cast_from(of[upper + x_low * level.column]);
                let b = f32::cast_from(of[upper + x_high * level.column]);
                let c = f32::cast_from(of[lower + x_low * level.column]);
                let d = f32::cast_from(of[lower + x_high * level.column]);
                let above = a * (1.0f32 - x_part) + b * x_part;
                let below = c * (1.0f32 - x_part) + d * x_part;
                sum += above * (1.0f32 - y_part) + below * y_part;
            }
        }
    }
    sum / comptime!((config.sampling * config.sampling) as f32)
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn roi_align_kernel<F: Float, R: Float>(
    level0: &[F],
    level1: &[F],
    level2: &[F],
    level3: &[F],
    rois: &[R],
    pooled: &mut [F],
    of0: Level,
    of1: Level,
    of2: Level,
    of3: Level,
    channels: usize,
    pictures: usize,
    threads: usize,
    #[comptime] config: Config,
    #[define(F, R)] _types: [ElemType; 2],
) {
    let i = ABSOLUTE_POS;
    if i < threads {
        let pixels = comptime!(config.size * config.size);
        let region = i / (channels * pixels);
        let rest = i % (channels * pixels);
        let mut channel = rest / pixels;
        let mut pixel = rest % pixels;
        if comptime!(config.channels_last) {
            channel = rest % channels;
            pixel = rest / channels;
        }
        let py = pixel / config.size;
        let px = pixel % config.size;
        let x0 = f32::cast_from(rois[region * 5 + 1]);
        let y0 = f32::cast_from(rois[region * 5 + 2]);
        let x1 = f32::cast_from(rois[region * 5 + 3]);
        let y1 = f32::cast_from(rois[region * 5 + 4]);
        let corners = (x0, y0, x1, y1);
        let picture = max(f32::cast_from(rois[region * 5]), 0.0f32);
        let picture = min(u32::cast_from(picture) as usize, pictures - 1);
        let area = (x1 - x0) * (y1 - y0);
        let value = if comptime!(config.levels > 3) && area >= of3.least {
            let base = picture * of3.picture + channel * of3.channel;
            mean(level3, &of3, base, corners, py, px, config)
        } else if comptime!(config.levels > 2) && area >= of2.least {
            let base = picture * of2.picture + channel * of2.channel;
            mean(level2, &of2, base, corners, py, px, config)
        } else if comptime!(config.levels > 1) && area >= of1.least {
            let base = picture * of1.picture + channel * of1.channel;
            mean(level1, &of1, base, corners, py, px, config)
        } else {
            let base = picture * of0.picture + channel * of0.channel;
            mean(level0, &of0, base, corners, py, px, config)
        };
        pooled[(region * channels + channel) * pixels + pixel] = F::cast_from(value);
    }
}

/// Runs [`Kernels::roi_align`].
pub(super) fn launch(
    levels: [CubeTensor; LEVELS],
    rois: CubeTensor,
    count: usize,
    options: RoiAlign,
) -> CubeTensor {
    let dtype = levels[0].dtype;
    let levels = levels.map(|level| match level.dtype == dtype {
        true => level,
        false => cast(level, dtype),
    });
    let rois = into_contiguous(rois);
    let shape = levels[0].meta.shape();
    let [pictures, channels] = [shape[0], shape[1]];
    let to = empty(&rois, pooled(shape, rois.meta.shape(), &options), dtype);
    let threads = to.meta.shape().num_elements();
    let config = Config {
        levels: count,
        size: options.size,
        sampling: options.sampling,
        channels_last: levels[0].meta.strides()[1] == 1 && channels > 1,
    };
    let of = |i: usize| {
        let (shape, strides) = (levels[i].meta.shape(), levels[i].meta.strides());
        let power = options.finest + i as u32;
        // Level l is for regions of canonical_scale · 2^(l − canonical_level), up to the 1e-6 that
        // torchvision adds.
        let side = f64::from(options.canonical_scale)
            * (f64::from(power) - f64::from(options.canonical_level) - 1e-6).exp2();
        LevelLaunch::new(
            shape[2],
            shape[3],
            strides[0],
            strides[1],
            strides[2],
            strides[3],
            0.5f32.powi(power as i32),
            (side * side) as f32,
        )
    };
    let client = rois.client.clone();
    let (cubes, dim) = elementwise(&client, threads);
    let [level0, level1, level2, level3] = levels.clone();
    // SAFETY: threads past the last element do nothing, and samples stay within their level.
    unsafe {
        roi_align_kernel::launch_unchecked(
            &client,
            cubes,
            dim,
            address(&[&level0, &level1, &level2, &level3, &to]),
            level0.into_buffer_arg(),
            level1.into_buffer_arg(),
            level2.into_buffer_arg(),
            level3.into_buffer_arg(),
            rois.clone().into_buffer_arg(),
            to.clone().into_buffer_arg(),
            of(0),
            of(1),
            of(2),
            of(3),
            channels,
            pictures,
            threads,
            config,
            [element(&to), element(&rois)],
        );
    }
    to
}
