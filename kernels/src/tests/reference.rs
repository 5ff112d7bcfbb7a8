//! The operations as loops over f64.

/// `x` `[b, cin, h, w]`, `weight` `[cout, cin, k, k]`.
pub struct Conv {
    pub x: [usize; 4],
    pub out: usize,
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
}

impl Conv {
    pub fn out_size(&self) -> [usize; 2] {
        [self.x[2], self.x[3]].map(|n| (n + 2 * self.padding - self.kernel) / self.stride + 1)
    }

    pub fn run(&self, x: &[f64], weight: &[f64], bias: Option<&[f64]>) -> Vec<f64> {
        let [batch, channels, height, width] = self.x;
        let [out_height, out_width] = self.out_size();
        let k = self.kernel;
        let mut result = Vec::new();
        for b in 0..batch {
            for o in 0..self.out {
                for y in 0..out_height {
                    for x_out in 0..out_width {
                        let mut sum = bias.map_or(0.0, |bias| bias[o]);
                        for c in 0..channels {
                            for dy in 0..k {
                                for dx in 0..k {
                                    let row = (y * self.stride + dy).wrapping_sub(self.padding);
                                    let col = (x_out * self.stride + dx).wrapping_sub(self.padding);
                                    if row < height && col < width {
                                        sum += x[((b * channels + c) * height + row) * width + col]
                                            * weight[((o * channels + c) * k + dy) * k + dx];
                                    }
                                }
                            }
                        }
                        result.push(sum);
                    }
                }
            }
        }
        result
    }
}

/// `x` `[rows, inputs]`, `weight` `[outputs, inputs]`.
pub fn linear(x: &[f64], weight: &[f64], bias: Option<&[f64]>, inputs: usize) -> Vec<f64> {
    let mut result = Vec::new();
    for row in x.chunks(inputs) {
        for (o, weight) in weight.chunks(inputs).enumerate() {
            let product: f64 = row.iter().zip(weight).map(|(a, b)| a * b).sum();
            result.push(product + bias.map_or(0.0, |bias| bias[o]));
        }
    }
    result
}

/// Heads of `n` queries and `m` keys of width `d`: the result and the probabilities.
pub fn attention(
    q: &[f64],
    k: &[f64],
    v: &[f64],
    [n, m, d]: [usize; 3],
    causal: bool,
) -> (Vec<f64>, Vec<f64>) {
    let (mut result, mut all_probs) = (Vec::new(), Vec::new());
    for (head, q) in q.chunks(n * d).enumerate() {
        let (k, v) = (&k[head * m * d..], &v[head * m * d..]);
        for (i, q) in q.chunks(d).enumerate() {
            let score = |j: usize| {
                let product: f64 = q.iter().zip(&k[j * d..]).map(|(a, b)| a * b).sum();
                if causal && j > i {
                    f64::NEG_INFINITY
                } else {
                    product / (d as f64).sqrt()
                }
            };
            let scores: Vec<f64> = (0..m).map(score).collect();
            let most = scores.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
            let exps: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
            let sum: f64 = exps.iter().sum();
            let probs: Vec<f64> = exps.iter().map(|e| e / sum).collect();
            for e in 0..d {
                result.push((0..m).map(|j| probs[j] * v[j * d + e]).sum());
            }
            all_probs.extend(probs);
        }
    }
    (result, all_probs)
}

fn normalise(x: &[f64], eps: f64) -> impl Iterator<Item = f64> {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
    x.iter().map(move |x| (x - mean) / (variance + eps).sqrt())
}

/// `x` `[batch, channels, plane]`.
pub fn group_norm(
    x: &[f64],
    (channels, plane, groups): (usize, usize, usize),
    weight: &[f64],
    bias: &[f64],
    eps: f64,
    activate: bool,
) -> Vec<f64> {
    let mut result: Vec<f64> = Vec::new();
    for group in x.chunks(channels / groups * plane) {
        result.extend(normalise(group, eps));
    }
    for (i, x) in result.iter_mut().enumerate() {
        let c = i / plane % channels;
        *x = *x * weight[c] + bias[c];
        *x = if activate { silu(*x) } else { *x };
    }
    result
}

pub fn layer_norm(x: &[f64], weight: &[f64], bias: &[f64], eps: f64) -> Vec<f64> {
    let rows = x.chunks(weight.len());
    rows.flat_map(|row| normalise(row, eps).zip(weight.iter().zip(bias)))
        .map(|(x, (w, b))| x * w + b)
        .collect()
}

pub fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

pub fn gelu(x: f64) -> f64 {
    0.5 * x * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2)
}

pub fn quick_gelu(x: f64) -> f64 {
    x / (1.0 + (-1.702 * x).exp())
}

/// Rows of `2 · width` elements.
pub fn geglu(x: &[f64], width: usize) -> Vec<f64> {
    x.chunks(2 * width)
        .flat_map(|row| (0..width).map(|i| row[i] * gelu(row[width + i])))
        .collect()
}
