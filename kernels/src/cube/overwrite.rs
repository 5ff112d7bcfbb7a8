//! Writing into a buffer that others hold as well.

use super::*;

/// An operation of its own because it is not one: what comes out is `target`, and has changed.
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(crate) trait Overwrite: Backend {
    /// `target` with the numbers of `source`.
    #[fusion(dtype = target, shape = target)]
    fn overwrite(target: FloatTensor<Self>, source: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl Overwrite for CubeBackend {
    fn overwrite(target: FloatTensor<Self>, source: FloatTensor<Self>) -> FloatTensor<Self> {
        let (client, dtype) = (target.client.clone(), element(&target));
        // CubeCL's copy writes zeros where the axes of what it writes to are not in the order of their strides, as those of keys and
        // values are not. So both are seen with the target's axes in that order.
        let strides = target.meta.strides();
        let mut order: Vec<usize> = (0..strides.len()).collect();
        order.sort_by_key(|axis| std::cmp::Reverse(strides[*axis]));
        let source = into_contiguous(permute(source, &order));
        let there = permute(target.clone(), &order);
        cubecl::std::tensor::copy_into(&client, source.binding(), there.binding(), dtype);
        target
    }
}

/// [`crate::overwrite`].
pub(crate) fn overwrite<const D: usize>(
    target: &Tensor<D>,
    source: &Tensor<D>,
) -> Option<Tensor<D>> {
    let written = Dispatch::overwrite(operand(target)?, operand(source)?);
    Some(Tensor::from_dispatch(written))
}
