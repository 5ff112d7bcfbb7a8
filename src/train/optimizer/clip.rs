//! Gradients of bounded length.

/// The Euclidean norm over all gradients, summed in f64 in their order.
pub fn norm<'a>(gradients: impl IntoIterator<Item = &'a [f32]>) -> f64 {
    let squares = gradients.into_iter().flatten();
    squares
        .map(|g| f64::from(*g) * f64::from(*g))
        .sum::<f64>()
        .sqrt()
}

/// The factor that brings gradients of this norm to at most `most`, as PyTorch's `clip_grad_norm_` has it.
pub fn factor(norm: f64, most: f64) -> f64 {
    (most / (norm + 1e-6)).min(1.0)
}
