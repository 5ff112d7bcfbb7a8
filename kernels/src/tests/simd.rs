//! The elementary functions over their whole range.

use super::reference;
use crate::cpu::activation::{Activation, activate};
use crate::cpu::simd::{Vector, exp2, forced, multiversion};

multiversion! {
    unsafe fn exp2_all(x: &mut [f32]) = exp2_body
}

/// Of a multiple of 16 elements.
#[inline(always)]
unsafe fn exp2_body<V: Vector>(x: &mut [f32]) {
    for i in (0..x.len()).step_by(V::LANES) {
        let at = x[i..].as_mut_ptr();
        // SAFETY: a vector remains, because it divides 16 and 16 divides the length (the tests' contract).
        unsafe { exp2(V::load(at)).store(at) };
    }
}

/// From -150 to 150, denser around zero, a multiple of 16 in number.
fn grid() -> Vec<f32> {
    let linear = (0..300_000).map(|i| (i as f32 / 300_000.0 - 0.5) * 300.0);
    let small = (0..100_000).map(|i| (i as f32 / 100_000.0 - 0.5) * 12.0);
    linear.chain(small).collect()
}

#[test]
fn powers_of_two() {
    forced::each(|level| {
        let x = grid();
        let mut y = x.clone();
        // SAFETY: the grid is a multiple of 16 in length.
        unsafe { exp2_all(&mut y) };
        for (x, y) in x.into_iter().zip(y) {
            let want = (x as f64).exp2();
            match x {
                ..-126.0 => assert_eq!(y, 0.0, "{level:?}: 2^{x}"),
                ..=127.0 => {
                    let error = (y as f64 / want - 1.0).abs();
                    assert!(error <= 2e-7, "{level:?}: 2^{x} = {y}, off by {error:e}");
                }
                _ => assert!(y >= f32::MAX / 2.1, "{level:?}: 2^{x} = {y}"),
            }
        }
        let mut special = [f32::NAN, f32::NEG_INFINITY, f32::INFINITY, 0.0].repeat(4);
        // SAFETY: 16 elements.
        unsafe { exp2_all(&mut special) };
        for part in special.chunks(4) {
            assert!(part[0].is_nan(), "{level:?}: NaN became {}", part[0]);
            assert_eq!((part[1], part[3]), (0.0, 1.0), "{level:?}");
            assert!(part[2] > 1e38, "{level:?}");
        }
    });
}

#[test]
fn activations_are_accurate_to_a_millionth() {
    type Reference = fn(f64) -> f64;
    let functions: [(Activation, Reference); 3] = [
        (Activation::Silu, reference::silu),
        (Activation::Gelu, reference::gelu),
        (Activation::QuickGelu, reference::quick_gelu),
    ];
    forced::each(|level| {
        for (activation, want) in functions {
            // An odd number, so that the last vector is not full.
            let x = &grid()[..399_999];
            let mut y = vec![f32::NAN; x.len()];
            // SAFETY: both have `x.len()` elements.
            unsafe { activate(activation, x.as_ptr(), y.as_mut_ptr(), x.len()) };
            for (&x, y) in x.iter().zip(y) {
                let want = want(x as f64);
                let close = (y as f64 - want).abs() <= 1e-6 * want.abs().max(1.0);
                assert!(close, "{level:?} {activation:?}({x}) = {y}, not {want}");
            }
            let mut nan = [f32::NAN; 3];
            // SAFETY: 3 elements, in place.
            unsafe { activate(activation, nan.as_ptr(), nan.as_mut_ptr(), 3) };
            assert!(
                nan.iter().all(|y| y.is_nan()),
                "{level:?} {activation:?} hides NaN"
            );
        }
    });
}
