//! Input gradients of the normalisations.

use super::norm::{CHUNK, GroupNorm, moments, row_moments};
use super::scratch::Scratch;
use super::simd::{Element, Vector, multiversion, sigmoid};
use super::tasks::{From, To, each};

/// Where a gradient of `len` elements is kept in f32 until it is projected: where the result goes if that is of this type,
/// else in the scratch.
fn kept<E: Element>(to: *mut E, len: usize) -> (Scratch, *mut f32) {
    if E::PER_WORD == 1 {
        return (Scratch::take(0), to.cast());
    }
    let mut scratch = Scratch::take(len);
    let at = scratch.as_mut_ptr();
    (scratch, at)
}

impl GroupNorm<'_> {
    /// Writes the gradient with respect to the input `from` to `to`, given that of the result; and to `parameters`, if
    /// given, each sample's part `[batch, 2, channels]` of the gradients to weight and bias.
    ///
    /// # Safety
    /// The first three must cover `batch · channels · plane` elements, and there must be one.
    pub(crate) unsafe fn run_input_grad<E: Element>(
        &self,
        grad: *const E,
        from: *const E,
        to: *mut E,
        parameters: Option<&mut [f32]>,
    ) {
        let of_parameters = parameters.map(|parameters| {
            assert_eq!(parameters.len(), self.batch * 2 * self.channels);
            To(parameters.as_mut_ptr())
        });
        let per_group = self.channels / self.groups;
        let size = per_group * self.plane;
        let elements = self.batch * self.channels * self.plane;
        let (grad, from, to) = (From(grad), From(from), To(to));
        each(self.batch * self.groups, elements, |i| {
            let channel = i % self.groups * per_group;
            // SAFETY: group `i` lies inside the tensor, and has elements because the tensor has.
            let (mean, variance) = unsafe { moments(from.at(i * size), size) };
            let inverse = 1.0 / (variance + self.eps).sqrt();
            let mut sums = [0.0; 2];
            let (_scratch, kept) = kept(to.at(i * size), size);
            for c in 0..per_group {
                let weight = self.weight[channel + c] as f64;
                let affine = Affine {
                    factor: (weight * inverse) as f32,
                    addend: (self.bias[channel + c] as f64 - mean * weight * inverse) as f32,
                    weight: weight as f32,
                    mean: mean as f32,
                    silu: self.silu,
                };
                let mut both = [0.0; 2];
                for at in (0..self.plane).step_by(CHUNK) {
                    let len = CHUNK.min(self.plane - at);
                    let inside = c * self.plane + at;
                    let (at, to) = (i * size + inside, kept.wrapping_add(inside));
                    let mut part = [0.0; 2];
                    // SAFETY: these elements belong to channel `c` of the group, which this task alone writes.
                    unsafe { scale(grad.at(at), from.at(at), to, len, affine, &mut part) };
                    both[0] += part[0] as f64;
                    both[1] += part[1] as f64;
                }
                sums[0] += weight * both[0];
                sums[1] += weight * both[1];
                if let Some(to) = of_parameters {
                    let at = i / self.groups * 2 * self.channels + channel + c;
                    // SAFETY: there is room for two numbers of each sample and channel, as was asserted, and those of
                    // this one are this task's alone.
                    unsafe {
                        *to.at(at) = (both[1] * inverse) as f32;
                        *to.at(at + self.channels) = both[0] as f32;
                    }
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
            // SAFETY: the group, all of which `scale` has written.
            unsafe { project(kept, from.at(i * size), to, size, projection) };
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
    /// Writes the gradient with respect to the normalised elements, and sums that with respect to what their weight makes
    /// of them, alone and times `x − mean`.
    ///
    /// # Safety
    /// `grad` and `from` must have, and `to` have room for, `len` elements.
    unsafe fn scale<E>(grad: *const E, from: *const E, to: *mut f32, len: usize, affine: Affine, sums: &mut [f32; 2]) = scale_body
}

#[inline(always)]
unsafe fn scale_body<V: Vector, E: Element>(
    grad: *const E,
    from: *const E,
    to: *mut f32,
    len: usize,
    affine: Affine,
    sums: &mut [f32; 2],
) {
    let (mut sum, mut along) = (V::splat(0.0), V::splat(0.0));
    let mut i = 0;
    while i < len {
        let count = V::LANES.min(len - i);
        // SAFETY: `count` elements remain.
        unsafe {
            // Past the end the gradient is zero, and so is all that comes of it.
            let (g, x): (V, V) = if count == V::LANES {
                (E::load(grad.add(i)), E::load(from.add(i)))
            } else {
                (
                    E::load_first(grad.add(i), count),
                    E::load_first(from.add(i), count),
                )
            };
            let mut g = g;
            if affine.silu {
                g = g.mul(silu_slope(
                    x.mul_add(V::splat(affine.factor), V::splat(affine.addend)),
                ));
            }
            sum = sum.add(g);
            along = g.mul_add(x.sub(V::splat(affine.mean)), along);
            let g = g.mul(V::splat(affine.weight));
            if count == V::LANES {
                g.store(to.add(i));
            } else {
                g.store_first(to.add(i), count);
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
    ///
    /// # Safety
    /// `grad` and `from` must have, and `to` have room for, `len` elements.
    unsafe fn project<E>(grad: *const f32, from: *const E, to: *mut E, len: usize, projection: Projection) = project_body
}

#[inline(always)]
unsafe fn project_body<V: Vector, E: Element>(
    grad: *const f32,
    from: *const E,
    to: *mut E,
    len: usize,
    projection: Projection,
) {
    let mut i = 0;
    while i + V::LANES <= len {
        // SAFETY: a whole vector remains.
        unsafe {
            let (g, x) = (V::load(grad.add(i)), E::load(from.add(i)));
            E::store(projection.of::<V>(g, x), to.add(i));
        }
        i += V::LANES;
    }
    if i < len {
        let rest = len - i;
        // SAFETY: `rest` elements remain, less than a vector.
        unsafe {
            let (g, x) = (
                V::load_first(grad.add(i), rest),
                E::load_first(from.add(i), rest),
            );
            E::store_first(projection.of::<V>(g, x), to.add(i), rest);
        }
    }
}

/// The gradient of layer normalisation with respect to its input, for `rows` rows of `weight.len()`
/// elements.
///
/// # Safety
/// All pointers must cover the rows, and rows must have an element.
pub(crate) unsafe fn layer_norm_input_grad<E: Element>(
    grad: *const E,
    from: *const E,
    to: *mut E,
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
            // SAFETY: `row` is one of the caller's, which this task alone writes.
            unsafe { layer_norm_row(grad.at(at), from.at(at), to.at(at), weight, eps) };
        }
    });
}

multiversion! {
    /// [`layer_norm_input_grad`] of one row.
    ///
    /// # Safety
    /// `grad` and `from` must have, and `to` have room for, as many elements as `weight`, and at least one.
    unsafe fn layer_norm_row<E>(grad: *const E, from: *const E, to: *mut E, weight: &[f32], eps: f32) = layer_norm_body
}

#[inline(always)]
unsafe fn layer_norm_body<V: Vector, E: Element>(
    grad: *const E,
    from: *const E,
    to: *mut E,
    weight: &[f32],
    eps: f32,
) {
    let width = weight.len();
    let whole = width / V::LANES * V::LANES;
    let rest = width - whole;
    let weight = weight.as_ptr();
    let (_scratch, kept) = kept(to, width);
    // SAFETY: the caller's row.
    let (mean, variance) = unsafe { row_moments::<V, E>(from, width) };
    let inverse = 1.0 / (variance + eps).sqrt();
    let (mut sum, mut along) = (V::splat(0.0), V::splat(0.0));
    for i in (0..whole).step_by(V::LANES) {
        // SAFETY: whole vectors of the row and of the weight.
        unsafe {
            let (g, x): (V, V) = (E::load(grad.add(i)), E::load(from.add(i)));
            let g = g.mul(V::load(weight.add(i)));
            g.store(kept.add(i));
            sum = sum.add(g);
            along = g.mul_add(x.sub(V::splat(mean)), along);
        }
    }
    if rest > 0 {
        // SAFETY: the `rest` elements behind them, less than a vector.
        unsafe {
            let g: V = E::load_first(grad.add(whole), rest);
            let g = g.mul(V::load_first(weight.add(whole), rest));
            g.store_first(kept.add(whole), rest);
            sum = sum.add(g);
            let x: V = E::load_first(from.add(whole), rest);
            along = g.mul_add(x.sub(V::splat(mean)), along);
        }
    }
    let [mean_grad, along] = [sum.sum(), along.sum()].map(|sum| sum / width as f32);
    let projection = Projection {
        mean,
        inverse,
        factor: -along * inverse * inverse * inverse,
        addend: -mean_grad * inverse,
    };
    // SAFETY: the caller's row, all of which was written above.
    unsafe { project_body::<V, E>(kept, from, to, width, projection) };
}
