//! Input gradients of the normalisations and of the gated activation.

use super::norm::{CHUNK, From, GroupNorm, To, chunk_sums_body, each, moments};
use super::simd::{Vector, distribution, multiversion, sigmoid};

impl GroupNorm<'_> {
    /// Writes the gradient with respect to the input `from` to `to`, given that of the result.
    ///
    /// # Safety
    /// All must cover `batch · channels · plane` elements.
    pub(crate) unsafe fn run_input_grad(&self, grad: *const f32, from: *const f32, to: *mut f32) {
        let per_group = self.channels / self.groups;
        let size = per_group * self.plane;
        let elements = self.batch * self.channels * self.plane;
        let (grad, from, to) = (From(grad), From(from), To(to));
        each(self.batch * self.groups, elements, |i| {
            let channel = i % self.groups * per_group;
            // SAFETY: group `i` lies inside the tensors.
            unsafe {
                let (mean, variance) = moments(from.at(i * size), size);
                let inverse = 1.0 / (variance + self.eps).sqrt();
                let mut sums = [0.0; 2];
                for c in 0..per_group {
                    let weight = self.weight[channel + c] as f64;
                    let affine = Affine {
                        factor: (weight * inverse) as f32,
                        addend: (self.bias[channel + c] as f64 - mean * weight * inverse) as f32,
                        weight: weight as f32,
                        mean: mean as f32,
                        silu: self.silu,
                    };
                    let start = i * size + c * self.plane;
                    for at in (0..self.plane).step_by(CHUNK) {
                        let (at, len) = (start + at, CHUNK.min(self.plane - at));
                        let mut part = [0.0; 2];
                        scale(grad.at(at), from.at(at), to.at(at), len, affine, &mut part);
                        sums[0] += part[0] as f64;
                        sums[1] += part[1] as f64;
                    }
                }
                let [mean_grad, along] = sums.map(|sum| sum / size as f64);
                let projection = Projection {
                    mean: mean as f32,
                    inverse: inverse as f32,
                    factor: (-along * inverse.powi(3)) as f32,
                    addend: (-mean_grad * inverse) as f32,
                };
                let to = to.at(i * size);
                project(to, from.at(i * size), to, size, projection);
            }
        });
    }
}

/// The affine map and activation after a normalisation, for one channel.
#[derive(Clone, Copy)]
struct Affine {
    factor: f32,
    addend: f32,
    weight: f32,
    mean: f32,
    silu: bool,
}

multiversion! {
    /// Writes the gradient with respect to the normalised elements, and sums it, alone and times
    /// `x − mean`.
    unsafe fn scale(grad: *const f32, from: *const f32, to: *mut f32, len: usize, affine: Affine, sums: &mut [f32; 2]) = scale_body
}

#[inline(always)]
unsafe fn scale_body<V: Vector>(
    grad: *const f32,
    from: *const f32,
    to: *mut f32,
    len: usize,
    affine: Affine,
    sums: &mut [f32; 2],
) {
    let (mut sum, mut along) = (V::splat(0.0), V::splat(0.0));
    let mut i = 0;
    while i < len {
        let count = V::LANES.min(len - i);
        unsafe {
            // Past the end the gradient is zero, and so is all that comes of it.
            let (g, x) = if count == V::LANES {
                (V::load(grad.add(i)), V::load(from.add(i)))
            } else {
                (
                    first::<V>(grad.add(i), count),
                    first::<V>(from.add(i), count),
                )
            };
            let mut g = g.mul(V::splat(affine.weight));
            if affine.silu {
                g = g.mul(silu_slope(
                    x.mul_add(V::splat(affine.factor), V::splat(affine.addend)),
                ));
            }
            sum = sum.add(g);
            along = g.mul_add(x.sub(V::splat(affine.mean)), along);
            if count == V::LANES {
                g.store(to.add(i));
            } else {
                store_first(g, to.add(i), count);
            }
        }
        i += count;
    }
    *sums = [sum.sum(), along.sum()];
}

/// The derivative of `y σ(y)`: `σ(y) (1 + y (1 − σ(y)))`.
#[inline(always)]
fn silu_slope<V: Vector>(y: V) -> V {
    let one = V::splat(1.0);
    let sigmoid = sigmoid(y);
    sigmoid.mul(y.mul_add(one.sub(sigmoid), one))
}

/// `inverse · grad + factor · (x − mean) + addend`: what a gradient with respect to normalised elements
/// leaves when its parts along the mean and the variance are taken out.
#[derive(Clone, Copy)]
struct Projection {
    mean: f32,
    inverse: f32,
    factor: f32,
    addend: f32,
}

impl Projection {
    #[inline(always)]
    fn of<V: Vector>(self, grad: V, x: V) -> V {
        let x = x.sub(V::splat(self.mean));
        grad.mul_add(
            V::splat(self.inverse),
            x.mul_add(V::splat(self.factor), V::splat(self.addend)),
        )
    }
}

multiversion! {
    /// Applies the projection; `grad` and `to` may be the same.
    unsafe fn project(grad: *const f32, from: *const f32, to: *mut f32, len: usize, projection: Projection) = project_body
}

#[inline(always)]
unsafe fn project_body<V: Vector>(
    grad: *const f32,
    from: *const f32,
    to: *mut f32,
    len: usize,
    projection: Projection,
) {
    let mut i = 0;
    unsafe {
        while i + V::LANES <= len {
            let (g, x) = (V::load(grad.add(i)), V::load(from.add(i)));
            projection.of(g, x).store(to.add(i));
            i += V::LANES;
        }
        if i < len {
            let (g, x) = (
                first::<V>(grad.add(i), len - i),
                first::<V>(from.add(i), len - i),
            );
            store_first(projection.of(g, x), to.add(i), len - i);
        }
    }
}

/// The gradient of layer normalisation with respect to its input, for `rows` rows of `weight.len()`
/// elements.
///
/// # Safety
/// All pointers must cover the rows.
pub(crate) unsafe fn layer_norm_input_grad(
    grad: *const f32,
    from: *const f32,
    to: *mut f32,
    rows: usize,
    weight: &[f32],
    eps: f32,
) {
    let width = weight.len();
    let (grad, from, to) = (From(grad), From(from), To(to));
    let block = (8192 / width).max(1);
    each(rows.div_ceil(block), rows * width, |i| {
        for row in i * block..((i + 1) * block).min(rows) {
            let at = row * width;
            // SAFETY: the rows exist.
            unsafe { layer_norm_row(grad.at(at), from.at(at), to.at(at), weight, eps) };
        }
    });
}

multiversion! {
    unsafe fn layer_norm_row(grad: *const f32, from: *const f32, to: *mut f32, weight: &[f32], eps: f32) = layer_norm_body
}

#[inline(always)]
unsafe fn layer_norm_body<V: Vector>(
    grad: *const f32,
    from: *const f32,
    to: *mut f32,
    weight: &[f32],
    eps: f32,
) {
    let width = weight.len();
    let whole = width / V::LANES * V::LANES;
    let rest = width - whole;
    let weight = weight.as_ptr();
    unsafe {
        let mut sums = [0.0; 2];
        chunk_sums_body::<V>(from, width, *from, &mut sums);
        let mean = sums[0] / width as f32;
        let variance = (sums[1] / width as f32 - mean * mean).max(0.0);
        let mean = mean + *from;
        let inverse = 1.0 / (variance + eps).sqrt();
        let (mut sum, mut along) = (V::splat(0.0), V::splat(0.0));
        for i in (0..whole).step_by(V::LANES) {
            let g = V::load(grad.add(i)).mul(V::load(weight.add(i)));
            g.store(to.add(i));
            sum = sum.add(g);
            along = g.mul_add(V::load(from.add(i)).sub(V::splat(mean)), along);
        }
        if rest > 0 {
            let g = first::<V>(grad.add(whole), rest).mul(first::<V>(weight.add(whole), rest));
            store_first(g, to.add(whole), rest);
            sum = sum.add(g);
            let x = first::<V>(from.add(whole), rest);
            along = g.mul_add(x.sub(V::splat(mean)), along);
        }
        let [mean_grad, along] = [sum.sum(), along.sum()].map(|sum| sum / width as f32);
        let projection = Projection {
            mean,
            inverse,
            factor: -along * inverse * inverse * inverse,
            addend: -mean_grad * inverse,
        };
        project_body::<V>(to, from, to, width, projection);
    }
}

/// The gradient of `a · gelu(b)` with respect to rows that hold `width` elements of `a`, then as many
/// of `b`.
///
/// # Safety
/// `grad` must cover `rows · width` elements, `from` and `to` twice as many.
pub(crate) unsafe fn geglu_input_grad(
    grad: *const f32,
    from: *const f32,
    to: *mut f32,
    rows: usize,
    width: usize,
) {
    let (grad, from, to) = (From(grad), From(from), To(to));
    let block = (8192 / width.max(1)).max(1);
    each(rows.div_ceil(block), rows * width, |i| {
        for row in i * block..((i + 1) * block).min(rows) {
            let (at, twice) = (row * width, row * 2 * width);
            // SAFETY: the rows exist.
            unsafe { geglu_row(grad.at(at), from.at(twice), to.at(twice), width) };
        }
    });
}

multiversion! {
    unsafe fn geglu_row(grad: *const f32, from: *const f32, to: *mut f32, width: usize) = geglu_body
}

#[inline(always)]
unsafe fn geglu_body<V: Vector>(grad: *const f32, from: *const f32, to: *mut f32, width: usize) {
    unsafe {
        let (gate, to_gate) = (from.add(width), to.add(width));
        let mut i = 0;
        while i + V::LANES <= width {
            let (g, a, b) = (
                V::load(grad.add(i)),
                V::load(from.add(i)),
                V::load(gate.add(i)),
            );
            let (of_value, of_gate) = gated(g, a, b);
            of_value.store(to.add(i));
            of_gate.store(to_gate.add(i));
            i += V::LANES;
        }
        if i < width {
            let rest = width - i;
            let [g, a, b] = [grad, from, gate].map(|x| first::<V>(x.add(i), rest));
            let (of_value, of_gate) = gated(g, a, b);
            store_first(of_value, to.add(i), rest);
            store_first(of_gate, to_gate.add(i), rest);
        }
    }
}

/// The gradients of `a · gelu(b)`, where gelu'(b) = Φ(b) + b φ(b).
#[inline(always)]
fn gated<V: Vector>(grad: V, a: V, b: V) -> (V, V) {
    let (below, bell) = distribution(b);
    // φ(b) = bell / √2π
    let density = bell.mul(V::splat(0.398_942_3));
    let slope = b.mul_add(density, below);
    (grad.mul(b.mul(below)), grad.mul(a).mul(slope))
}

/// The first `count` elements, then zeros.
#[inline(always)]
unsafe fn first<V: Vector>(from: *const f32, count: usize) -> V {
    let mut lanes = [0.0f32; 16];
    unsafe {
        core::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count);
        V::load(lanes.as_ptr())
    }
}

#[inline(always)]
unsafe fn store_first<V: Vector>(x: V, to: *mut f32, count: usize) {
    let mut lanes = [0.0f32; 16];
    unsafe {
        x.store(lanes.as_mut_ptr());
        core::ptr::copy_nonoverlapping(lanes.as_ptr(), to, count);
    }
}
