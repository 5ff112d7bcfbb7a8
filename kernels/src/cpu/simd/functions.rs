//! Powers, exponentials and what activations need.

use super::vector::Vector;

/// Coefficients of `t` to `t⁶` in a polynomial for `2^t` that is 1 at 0; relative error below 2e-9
/// on [-1/2, 1/2] before rounding (weighted least squares, reweighted towards the minimax solution).
const EXP2: [f32; 6] = [
    core::f32::consts::LN_2,
    2.402_264_8e-1,
    5.550_332_5e-2,
    9.618_437e-3,
    1.339_887_4e-3,
    1.535_336_2e-4,
];

/// `2^x` with a relative error below 2e-7; 0 below -126 (no subnormals, which are slow), 2^127 above
/// 127, and NaN stays NaN.
#[inline(always)]
pub(crate) fn exp2<V: Vector>(x: V) -> V {
    // The operand order keeps a NaN: the vector instructions return their second operand then.
    let clamped = V::splat(127.0).min(V::splat(-126.0).max(x));
    let whole = clamped.round();
    let t = clamped.sub(whole);
    let mut y = V::splat(EXP2[5]);
    for c in EXP2[..5].iter().rev() {
        y = y.mul_add(t, V::splat(*c));
    }
    y.mul_add(t, V::splat(1.0))
        .times_exp2(whole)
        .zero_where_below(x, -126.0)
}

/// `e^x` through [`exp2`]; relative error below 2e-7 · max(1, |x|).
#[inline(always)]
pub(crate) fn exp<V: Vector>(x: V) -> V {
    exp2(x.mul(V::splat(core::f32::consts::LOG2_E)))
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid<V: Vector>(x: V) -> V {
    let one = V::splat(1.0);
    one.div(one.add(exp(V::splat(0.0).sub(x))))
}

/// `x · sigmoid(x)`.
#[inline(always)]
pub(crate) fn silu<V: Vector>(x: V) -> V {
    let one = V::splat(1.0);
    x.div(one.add(exp(V::splat(0.0).sub(x))))
}

/// The normal distribution `Φ(x)` with the error function of Abramowitz & Stegun, formula 7.1.26, whose
/// absolute error is below 1.5e-7, and the `e^(-x²/2)` it takes.
#[inline(always)]
pub(crate) fn distribution<V: Vector>(x: V) -> (V, V) {
    let one = V::splat(1.0);
    let z = x
        .mul(V::splat(core::f32::consts::FRAC_1_SQRT_2))
        .copy_sign(one);
    let t = one.div(z.mul_add(V::splat(0.327_591_1), one));
    let mut p = V::splat(1.061_405_4);
    for c in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        p = p.mul_add(t, V::splat(c));
    }
    let bell = exp(V::splat(0.0).sub(z.mul(z)));
    let tail = p.mul(t).mul(bell);
    // Φ(|x|) = 1 − tail/2, and Φ(−|x|) = tail/2.
    let half_tail = tail.mul(V::splat(0.5));
    let signed = V::splat(0.5).sub(half_tail).copy_sign(x);
    (V::splat(0.5).add(signed), bell)
}

/// `x · Φ(x)`.
#[inline(always)]
pub(crate) fn gelu<V: Vector>(x: V) -> V {
    x.mul(distribution(x).0)
}
