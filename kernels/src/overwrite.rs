//! New numbers in an old buffer.

use burn::tensor::Tensor;

/// Gives `target` the numbers of `source`, which has its shape and type. On GPUs they go into `target`'s own buffer,
/// whoever else holds it, so that a captured graph reads them; elsewhere `source` takes its place.
pub fn overwrite<const D: usize>(target: &mut Tensor<D>, source: Tensor<D>) {
    assert_eq!(
        target.dims(),
        source.dims(),
        "what is overwritten keeps its shape"
    );
    assert_eq!(
        target.dtype(),
        source.dtype(),
        "what is overwritten keeps its type"
    );
    #[cfg(feature = "gpu")]
    if let Some(written) = crate::cube::overwrite(target, &source) {
        *target = written;
        return;
    }
    *target = source;
}
