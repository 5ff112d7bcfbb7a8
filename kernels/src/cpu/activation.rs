//! The elementwise functions, the gated one and its gradient.

use super::simd::{Element, Vector, distribution, gelu, map, multiversion, sigmoid, silu};
use super::tasks::{From, To, each};

/// A function of single elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    Silu,
    Gelu,
    /// `x · sigmoid(1.702 x)`.
    QuickGelu,
}

/// Applies `activation` to `len` elements.
///
/// # Safety
/// `from` and `to` must cover them; they may be the same.
pub(crate) unsafe fn activate<E: Element>(
    activation: Activation,
    from: *const E,
    to: *mut E,
    len: usize,
) {
    let (from, to) = (From(from), To(to));
    let block = 1 << 14;
    each(len.div_ceil(block), len, |i| {
        let first = i * block;
        let count = block.min(len - first);
        // SAFETY: `first + count` is at most `len`, and this task alone writes these elements.
        unsafe { activate_block(activation, from.at(first), to.at(first), count) };
    });
}

multiversion! {
    /// [`activate`] on this thread, with its contract.
    unsafe fn activate_block<E>(activation: Activation, from: *const E, to: *mut E, len: usize) = activate_body
}

#[inline(always)]
unsafe fn activate_body<V: Vector, E: Element>(
    activation: Activation,
    from: *const E,
    to: *mut E,
    len: usize,
) {
    // SAFETY: the caller's `len` elements.
    unsafe {
        match activation {
            Activation::Silu => map!(V, E, from, to, len, |x| silu(x)),
            Activation::Gelu => map!(V, E, from, to, len, |x| gelu(x)),
            Activation::QuickGelu => {
                map!(V, E, from, to, len, |x| x
                    .mul(sigmoid(x.mul(V::splat(1.702)))));
            }
        }
    }
}

/// `a · gelu(b)` of rows that hold `width` elements of `a`, then as many of `b`.
///
/// # Safety
/// `from` must cover `rows · 2 · width` elements, `to` half of them.
pub(crate) unsafe fn geglu<E: Element>(from: *const E, to: *mut E, rows: usize, width: usize) {
    let (from, to) = (From(from), To(to));
    let block = (8192 / width.max(1)).max(1);
    each(rows.div_ceil(block), rows * width, |i| {
        let first = i * block;
        for row in first..(first + block).min(rows) {
            // SAFETY: `row` is one of the caller's, which this task alone writes.
            unsafe { geglu_row(from.at(row * 2 * width), to.at(row * width), width) };
        }
    });
}

multiversion! {
    /// [`geglu`] of one row.
    ///
    /// # Safety
    /// `from` must have `2 · width` elements, and `to` room for `width`.
    unsafe fn geglu_row<E>(from: *const E, to: *mut E, width: usize) = geglu_body
}

#[inline(always)]
unsafe fn geglu_body<V: Vector, E: Element>(from: *const E, to: *mut E, width: usize) {
    let gate = from.wrapping_add(width);
    let mut i = 0;
    while i + V::LANES <= width {
        // SAFETY: a whole vector remains of both halves and of the result.
        unsafe {
            let (a, b): (V, V) = (E::load(from.add(i)), E::load(gate.add(i)));
            E::store(a.mul(gelu(b)), to.add(i));
        }
        i += V::LANES;
    }
    if i < width {
        let rest = width - i;
        // SAFETY: `rest` elements remain of both halves and of the result, less than a vector.
        unsafe {
            let (a, b): (V, V) = (
                E::load_first(from.add(i), rest),
                E::load_first(gate.add(i), rest),
            );
            E::store_first(a.mul(gelu(b)), to.add(i), rest);
        }
    }
}

/// The gradient of `a · gelu(b)` with respect to rows that hold `width` elements of `a`, then as many
/// of `b`.
///
/// # Safety
/// `grad` must cover `rows · width` elements, `from` and `to` twice as many.
pub(crate) unsafe fn geglu_input_grad<E: Element>(
    grad: *const E,
    from: *const E,
    to: *mut E,
    rows: usize,
    width: usize,
) {
    let (grad, from, to) = (From(grad), From(from), To(to));
    let block = (8192 / width.max(1)).max(1);
    each(rows.div_ceil(block), rows * width, |i| {
        for row in i * block..((i + 1) * block).min(rows) {
            let (at, twice) = (row * width, row * 2 * width);
            // SAFETY: `row` is one of the caller's, which this task alone writes.
            unsafe { geglu_grad_row(grad.at(at), from.at(twice), to.at(twice), width) };
        }
    });
}

multiversion! {
    /// [`geglu_input_grad`] of one row.
    ///
    /// # Safety
    /// `grad` must have `width` elements, `from` twice as many, and `to` room for those.
    unsafe fn geglu_grad_row<E>(grad: *const E, from: *const E, to: *mut E, width: usize) = geglu_grad_body
}

#[inline(always)]
unsafe fn geglu_grad_body<V: Vector, E: Element>(
    grad: *const E,
    from: *const E,
    to: *mut E,
    width: usize,
) {
    let (gate, to_gate) = (from.wrapping_add(width), to.wrapping_add(width));
    let mut i = 0;
    while i + V::LANES <= width {
        // SAFETY: a whole vector remains of the gradient and of both halves.
        unsafe {
            let (g, a): (V, V) = (E::load(grad.add(i)), E::load(from.add(i)));
            let (of_value, of_gate) = gated(g, a, E::load(gate.add(i)));
            E::store(of_value, to.add(i));
            E::store(of_gate, to_gate.add(i));
        }
        i += V::LANES;
    }
    if i < width {
        let rest = width - i;
        // SAFETY: `rest` elements remain of each, less than a vector.
        unsafe {
            let (g, a): (V, V) = (
                E::load_first(grad.add(i), rest),
                E::load_first(from.add(i), rest),
            );
            let (of_value, of_gate) = gated(g, a, E::load_first(gate.add(i), rest));
            E::store_first(of_value, to.add(i), rest);
            E::store_first(of_gate, to_gate.add(i), rest);
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
