//! The noise that training added: β at each of the training timesteps, and ᾱ = ∏(1 − β), rounded to f32 where
//! PyTorch rounds.

/// β from `beta_start` to `beta_end`, or their squares between the roots (`scaled_linear`).
pub fn linear(start: f64, end: f64, n: usize, scaled: bool) -> Vec<f32> {
    match scaled {
        false => linspace(start as f32, end as f32, n),
        true => {
            let roots = linspace(start.sqrt() as f32, end.sqrt() as f32, n);
            roots.into_iter().map(|root| root * root).collect()
        }
    }
}

/// β of a squared-cosine ᾱ, at most 0.999 (Nichol and Dhariwal 2021).
pub fn squared_cosine(n: usize) -> Vec<f32> {
    let alpha_bar = |i: usize| {
        let t = i as f64 / n as f64;
        ((t + 0.008) / 1.008 * std::f64::consts::FRAC_PI_2)
            .cos()
            .powi(2)
    };
    (0..n)
        .map(|i| (1.0 - alpha_bar(i + 1) / alpha_bar(i)).min(0.999) as f32)
        .collect()
}

/// β scaled so that the last ᾱ is 0 (Lin et al. 2024, algorithm 1).
pub fn zero_terminal_snr(betas: &[f32]) -> Vec<f32> {
    let mut roots: Vec<f32> = alphas_cumprod(betas).into_iter().map(f32::sqrt).collect();
    let (first, last) = (roots[0], roots[roots.len() - 1]);
    for root in &mut roots {
        *root = (*root - last) * (first / (first - last));
    }
    let bars: Vec<f32> = roots.into_iter().map(|root| root * root).collect();
    let ratios = bars.windows(2).map(|pair| pair[1] / pair[0]);
    std::iter::once(bars[0])
        .chain(ratios)
        .map(|alpha| 1.0 - alpha)
        .collect()
}

/// ᾱ; torch multiplies in f64.
pub fn alphas_cumprod(betas: &[f32]) -> Vec<f32> {
    let alphas = betas.iter().map(|beta| f64::from(1.0 - beta));
    let products = alphas.scan(1.0, |product, alpha| {
        *product *= alpha;
        Some(*product)
    });
    products.map(|product| product as f32).collect()
}

/// `torch.linspace` in f32: counted from the start in the first half, from the end in the second.
fn linspace(start: f32, end: f32, n: usize) -> Vec<f32> {
    if n == 1 {
        return vec![start];
    }
    let step = (end - start) / (n - 1) as f32;
    let at = |i: usize| match i < n / 2 {
        true => start + step * i as f32,
        false => end - step * (n - 1 - i) as f32,
    };
    (0..n).map(at).collect()
}
