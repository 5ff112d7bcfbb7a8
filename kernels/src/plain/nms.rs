//! Reference of non-maximum suppression.

use burn::tensor::{Bool, DType, Tensor};

/// Reference of [`crate::nms`].
pub fn nms(boxes: Tensor<3>, threshold: f64) -> Tensor<2, Bool> {
    let [batch, n, _] = boxes.dims();
    let device = boxes.device();
    let boxes = boxes.cast(DType::F32);
    let shape = [batch, n, n];
    let side = |corner| boxes.clone().narrow(2, corner, 1);
    let down = |x: Tensor<3>| x.expand(shape);
    let along = |x: Tensor<3>| x.swap_dims(1, 2).expand(shape);
    let overlap = |low, high| {
        let end = down(side(high)).min_pair(along(side(high)));
        (end - down(side(low)).max_pair(along(side(low)))).clamp_min(0.0)
    };
    let intersection = overlap(0, 2) * overlap(1, 3);
    let area = (side(2) - side(0)) * (side(3) - side(1));
    let union = down(area.clone()) + along(area) - intersection.clone();
    let earlier = Tensor::<2>::ones([n, n], &device).triu(1).unsqueeze_dim(0);
    // Where the row's box would remove the column's.
    let removes = (intersection / union).greater_elem(threshold).float() * earlier;
    // What stays depends on what stays before it; the k-th of a chain is right after k rounds.
    let mut keep = Tensor::<3>::ones([batch, 1, n], &device);
    loop {
        let next = keep.clone().matmul(removes.clone()).equal_elem(0.0).float();
        let changed = next.clone().not_equal(keep).any().into_scalar::<bool>();
        keep = next;
        if !changed {
            return keep.squeeze_dim::<2>(1).greater_elem(0.5);
        }
    }
}
