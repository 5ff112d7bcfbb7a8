//! The operations as loops over f64.

use crate::RoiAlign;

/// `x` `[b, cin, h, w]`, `weight` `[cout, cin, k, k]`.
pub struct Conv {
    pub x: [usize; 4],
    pub out: usize,
    pub kernel: [usize; 2],
    pub stride: usize,
    pub padding: [usize; 2],
}

impl Conv {
    pub fn out_size(&self) -> [usize; 2] {
        [0, 1].map(|axis| {
            let padded = self.x[2 + axis] + 2 * self.padding[axis];
            (padded - self.kernel[axis]) / self.stride + 1
        })
    }

    pub fn run(&self, x: &[f64], weight: &[f64], bias: Option<&[f64]>) -> Vec<f64> {
        let [batch, channels, height, width] = self.x;
        let [out_height, out_width] = self.out_size();
        let [kernel_height, kernel_width] = self.kernel;
        let [above, before] = self.padding;
        let mut result = Vec::new();
        for b in 0..batch {
            for o in 0..self.out {
                for y in 0..out_height {
                    for x_out in 0..out_width {
                        let mut sum = bias.map_or(0.0, |bias| bias[o]);
                        for c in 0..channels {
                            for dy in 0..kernel_height {
                                for dx in 0..kernel_width {
                                    let row = (y * self.stride + dy).wrapping_sub(above);
                                    let col = (x_out * self.stride + dx).wrapping_sub(before);
                                    let tap = (o * channels + c) * kernel_height + dy;
                                    if row < height && col < width {
                                        sum += x[((b * channels + c) * height + row) * width + col]
                                            * weight[tap * kernel_width + dx];
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

/// Planes of height and width `size` to those of the largest of each 3 × 3 pixels, in steps of two.
pub fn max_pool3x3(x: &[f64], size: [usize; 2], padding: usize) -> Vec<f64> {
    let [height, width] = size;
    let [rows, columns] = size.map(|n| (n + 2 * padding - 3) / 2 + 1);
    let mut result = Vec::new();
    for plane in x.chunks(height * width) {
        for (y, x) in (0..rows).flat_map(|y| (0..columns).map(move |x| (2 * y, 2 * x))) {
            let near = (0..9).map(|i| {
                (
                    (y + i / 3).wrapping_sub(padding),
                    (x + i % 3).wrapping_sub(padding),
                )
            });
            let inside = near.filter(|(y, x)| *y < height && *x < width);
            let values = inside.map(|(y, x)| plane[y * width + x]);
            result.push(values.fold(f64::NEG_INFINITY, f64::max));
        }
    }
    result
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

/// Products of as many matrices `[m, k]` as of matrices `[k, n]`.
pub fn matmul(left: &[f64], right: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let samples = left.chunks(m * k).zip(right.chunks(k * n));
    let of_sample = |(left, right): (&[f64], &[f64])| {
        let columns: Vec<f64> = (0..n * k).map(|i| right[i % k * n + i / k]).collect();
        linear(left, &columns, None, k)
    };
    samples.flat_map(of_sample).collect()
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

/// Heads of width `d` in a grid: queries, keys, values, and the tables of distances.
pub fn grid_attention([q, k, v, positions]: [&[f64]; 4], side: usize, d: usize) -> Vec<f64> {
    let n = side * side;
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut result = Vec::new();
    for (head, q) in q.chunks(n * d).enumerate() {
        let (k, v) = (&k[head * n * d..], &v[head * n * d..]);
        for (i, q) in q.chunks(d).enumerate() {
            let score = |j: usize| {
                let row = i / side + side - 1 - j / side;
                let column = 2 * side - 1 + i % side + side - 1 - j % side;
                let placed = dot(q, &positions[row * d..][..d]);
                let placed = placed + dot(q, &positions[column * d..][..d]);
                dot(q, &k[j * d..][..d]) / (d as f64).sqrt() + placed
            };
            let scores: Vec<f64> = (0..n).map(score).collect();
            let most = scores.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
            let exps: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
            let sum: f64 = exps.iter().sum();
            for e in 0..d {
                result.push((0..n).map(|j| exps[j] / sum * v[j * d + e]).sum());
            }
        }
    }
    result
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

/// Greedy suppression in f64; also the least distance of an overlap from the threshold.
pub fn suppressed(boxes: &[f64], threshold: f64) -> (Vec<bool>, f64) {
    let boxes: Vec<&[f64]> = boxes.chunks(4).collect();
    let mut keep = vec![true; boxes.len()];
    let mut room = f64::INFINITY;
    for i in 0..boxes.len() {
        for j in i + 1..boxes.len() {
            let (a, b) = (boxes[i], boxes[j]);
            let side =
                |low: usize, high: usize| (a[high].min(b[high]) - a[low].max(b[low])).max(0.0);
            let both = side(0, 2) * side(1, 3);
            let area = |b: &[f64]| (b[2] - b[0]) * (b[3] - b[1]);
            let overlap = both / (area(a) + area(b) - both);
            if overlap.is_finite() && overlap > 0.0 {
                room = room.min((overlap - threshold).abs());
            }
            if keep[i] && overlap > threshold {
                keep[j] = false;
            }
        }
    }
    (keep, room)
}

/// Bilinear sampling as the paper has it, one sample after the other, in f64.
/// `levels` are the sizes `[B, C, H, W]` and the elements of each.
pub fn pooled(levels: &[([usize; 4], Vec<f64>)], rois: &[f64], options: &RoiAlign) -> Vec<f64> {
    let (size, sampling) = (options.size, options.sampling);
    let mut out = Vec::new();
    for roi in rois.chunks(5) {
        let [x0, y0, x1, y1] = [roi[1], roi[2], roi[3], roi[4]];
        let scale = f64::from(options.canonical_scale);
        let level = ((x1 - x0) * (y1 - y0)).sqrt() / scale;
        let level = (f64::from(options.canonical_level) + level.log2() + 1e-6).floor();
        let finest = f64::from(options.finest);
        let index = (level - finest).clamp(0.0, (levels.len() - 1) as f64) as usize;
        let ([_, channels, height, width], data) = &levels[index];
        let (channels, height, width) = (*channels, *height, *width);
        let scale = 2f64.powi(-(index as i32 + options.finest as i32));
        for channel in 0..channels {
            let plane = (roi[0] as usize * channels + channel) * height * width;
            let at = |y: usize, x: usize| data[plane + y * width + x];
            let sample = |y: f64, x: f64| {
                if y < -1.0 || y > height as f64 || x < -1.0 || x > width as f64 {
                    return 0.0;
                }
                let (y, x) = (
                    y.clamp(0.0, height as f64 - 1.0),
                    x.clamp(0.0, width as f64 - 1.0),
                );
                let (low, left) = (y as usize, x as usize);
                let (high, right) = ((low + 1).min(height - 1), (left + 1).min(width - 1));
                let (b, a) = (y - low as f64, x - left as f64);
                let upper = at(low, left) * (1.0 - a) + at(low, right) * a;
                let lower = at(high, left) * (1.0 - a) + at(high, right) * a;
                upper * (1.0 - b) + lower * b
            };
            let bin = |low: f64, high: f64| ((high - low) * scale).max(1.0) / size as f64;
            let (down, across) = (bin(y0, y1), bin(x0, x1));
            for i in 0..size {
                for j in 0..size {
                    let mut sum = 0.0;
                    for k in 0..sampling * sampling {
                        let part = |n: usize| (n as f64 + 0.5) / sampling as f64;
                        let y = y0 * scale + (i as f64 + part(k / sampling)) * down;
                        let x = x0 * scale + (j as f64 + part(k % sampling)) * across;
                        sum += sample(y, x);
                    }
                    out.push(sum / (sampling * sampling) as f64);
                }
            }
        }
    }
    out
}

/// Deformable attention as the paper has it, one sample after the other, in f64; shapes as in
/// [`crate::deformable_attention`].
pub fn deformable(
    [batch, heads, width, queries]: [usize; 4],
    maps: &[[usize; 2]],
    values: &[f64],
    places: &[f64],
    weights: &[f64],
) -> Vec<f64> {
    let tokens: usize = maps.iter().map(|[height, width]| height * width).sum();
    let samples = weights.len() / (batch * queries * heads);
    let points = samples / maps.len();
    let mut out = vec![0.0; batch * queries * heads * width];
    for (row, out) in out.chunks_mut(width).enumerate() {
        let (picture, head) = (row / (queries * heads), row % heads);
        let mut start = 0;
        for (level, &[down, across]) in maps.iter().enumerate() {
            for point in 0..points {
                let sample = row * samples + level * points + point;
                let x = places[2 * sample] * across as f64 - 0.5;
                let y = places[2 * sample + 1] * down as f64 - 0.5;
                for i in 0..down {
                    for j in 0..across {
                        let near =
                            |at: f64, pixel: usize| (1.0 - (at - pixel as f64).abs()).max(0.0);
                        let share = weights[sample] * near(y, i) * near(x, j);
                        let token = picture * tokens + start + i * across + j;
                        let from = &values[(token * heads + head) * width..][..width];
                        for (out, from) in out.iter_mut().zip(from) {
                            *out += share * from;
                        }
                    }
                }
            }
            start += down * across;
        }
    }
    out
}
