//! Pooling of regions from the levels of a feature pyramid.

use crate::plain;
use crate::profile::{self, Family};
use burn::tensor::Tensor;

use crate::cpu::roi_align::{Level, Pool};
use crate::flex::{Operand, filled};
use crate::plain::RoiAlign;

/// Pools regions from feature maps (He et al. 2017; the multi-scale form is torchvision's
/// `MultiScaleRoIAlign`): each pixel of a region's result is the mean of `sampling` × `sampling`
/// values, interpolated from the level that suits the region's size.
///
/// `levels` are `[B, C, H, W]`, finest first, and `rois` `[R, 5]` the number of the picture in the
/// batch and the corners `x0, y0, x1, y1` in pixels of the picture, f32. The result is
/// `[R, C, size, size]`.
///
/// # Panics
/// If there is no level or one has no pixels, if `rois` are not `[R, 5]`, or a picture's number is out of range.
pub fn roi_align(levels: &[Tensor<4>], rois: Tensor<2>, options: &RoiAlign) -> Tensor<4> {
    let _span = profile::span(Family::Other, &rois, || 0);
    assert_eq!(
        rois.dims()[1],
        5,
        "roi_align: a region is a picture's number and four corners"
    );
    for level in levels {
        let [_, _, height, width] = level.dims();
        assert!(height * width > 0, "roi_align: a level without pixels");
    }
    fast!(
        fast_roi_align(levels, &rois, options),
        crate::cube::roi_align(levels, &rois, options)
    )
    .unwrap_or_else(|| plain::roi_align(levels, rois, options))
}

fn fast_roi_align(levels: &[Tensor<4>], rois: &Tensor<2>, options: &RoiAlign) -> Option<Tensor<4>> {
    let [batch, channels, ..] = levels.first()?.dims();
    let dtype = levels.first()?.dtype();
    let [count, _] = rois.dims();
    let operands: Option<Vec<_>> = levels
        .iter()
        .map(|level| Some(Operand::<f32>::new(level)?.contiguous()))
        .collect();
    let operands = operands?;
    let rois = Operand::<f32>::new(rois)?.contiguous();
    let levels: Vec<_> = levels
        .iter()
        .zip(&operands)
        .zip(options.finest..)
        .map(|((tensor, operand), power)| {
            let [of, depth, height, width] = tensor.dims();
            assert_eq!([of, depth], [batch, channels], "roi_align: levels");
            let scale = 0.5f32.powi(power as i32);
            Level::new(operand.as_slice(), [channels, height, width], scale)
        })
        .collect();
    let rois: &[[f32; 5]] = bytemuck::cast_slice(rois.as_slice());
    assert!(
        rois.iter()
            .all(|roi| roi[0] >= 0.0 && (roi[0] as usize) < batch),
        "roi_align: the number of a picture in a batch of {batch}"
    );
    let pool = Pool {
        channels,
        size: options.size,
        sampling: options.sampling,
    };
    let shape = [count, channels, options.size, options.size];
    // SAFETY: there are `count` regions of five numbers, each of which writes its part of the result, and levels have
    // pixels, as `roi_align` has asserted.
    Some(unsafe {
        filled(shape, dtype, |to| {
            pool.run(&levels, rois, to, |area| options.level(area, levels.len()));
        })
    })
}
