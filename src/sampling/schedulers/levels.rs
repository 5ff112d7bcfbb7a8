//! Noise levels in the terms of their formulas.

/// √ᾱ and √(1 − ᾱ) of a noise level σ = √((1 − ᾱ) / ᾱ).
pub(super) fn alpha_sigma(sigma: f32) -> (f32, f32) {
    let alpha = 1.0 / (sigma * sigma + 1.0).sqrt();
    (alpha, sigma * alpha)
}

/// ln(√ᾱ / √(1 − ᾱ)) of a noise level, ∞ without noise.
pub(super) fn log_snr(sigma: f32) -> f32 {
    let (alpha, sigma) = alpha_sigma(sigma);
    alpha.ln() - sigma.ln()
}
