//! Results that are written where an operand was.

use super::{random, values};
use crate::cpu::simd::{Element, forced};
use crate::flex::Operand;
use crate::*;
use burn::tensor::{DType, Tensor};
use half::bf16;

/// Where the elements lie.
fn place<const D: usize>(x: &Tensor<D>) -> usize {
    fn of<E: Element, const D: usize>(x: &Tensor<D>) -> usize {
        Operand::<E>::new(x).expect("on flex").as_ptr() as usize
    }
    match x.dtype() {
        DType::BF16 => of::<bf16, D>(x),
        _ => of::<f32, D>(x),
    }
}

fn norm(silu: bool) -> GroupNorm {
    GroupNorm {
        groups: 4,
        weight: random([12], 2, DType::F32),
        bias: random([12], 3, DType::F32),
        eps: 1e-5,
        silu,
    }
}

#[test]
fn a_norm_is_computed_in_what_nobody_else_has() {
    forced::each(|level| {
        for dtype in [DType::F32, DType::BF16] {
            for silu in [false, true] {
                let what = format!("{level:?} {dtype:?} {silu}");
                let x = random([2, 12, 7, 9], 1, dtype);
                let (before, at) = (values(&x), place(&x));
                let apart = group_norm(x.clone(), &norm(silu));
                assert_ne!(place(&apart), at, "{what}");
                assert_eq!(values(&x), before, "{what}: somebody else's");
                let within = group_norm(x, &norm(silu));
                assert_eq!(place(&within), at, "{what}");
                assert_eq!(values(&within), values(&apart), "{what}");
            }
        }
    });
}

/// A group that is large enough for several threads has the same sums with each number of them.
#[test]
fn a_norm_does_not_depend_on_threads() {
    let of = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let norm = GroupNorm {
            groups: 1,
            ..norm(true)
        };
        let x = random([1, 12, 80, 83], 1, DType::F32);
        let pool = pool.build().expect("threads");
        values(&pool.install(|| group_norm(x, &norm)))
    };
    assert_eq!(of(1), of(4));
}

/// Of a view nothing is overwritten, also when it is the only one.
#[test]
fn norms_of_views_are_right() {
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let whole = || random([2, 20, 6, 8], 1, dtype);
        let views: [fn(Tensor<4>) -> Tensor<4>; 4] = [
            |x| x.narrow(1, 5, 12),
            |x| x.narrow(0, 0, 1).narrow(1, 0, 12),
            |x| x.narrow(1, 3, 12).swap_dims(2, 3),
            |x| x.narrow(1, 7, 1).expand([2, 12, 6, 8]),
        ];
        for (i, view) in views.into_iter().enumerate() {
            let shared = whole();
            let want = group_norm(view(shared.clone()), &norm(true));
            let got = group_norm(view(whole()), &norm(true));
            assert_eq!(values(&got), values(&want), "{dtype:?}, view {i}");
            assert_eq!(values(&shared), values(&whole()), "{dtype:?}, view {i}");
        }
    }
}

#[test]
fn a_sum_is_computed_in_a_term_that_nobody_else_has() {
    let term = |seed| random([3, 41, 7], seed, DType::BF16);
    let (x, y) = (term(1), term(2));
    let apart = add(x.clone(), y.clone());
    assert!(![place(&x), place(&y)].contains(&place(&apart)));
    assert_eq!([values(&x), values(&y)], [1, 2].map(|i| values(&term(i))));
    let at = place(&x);
    let first = add(x, y.clone());
    assert_eq!((place(&first), values(&first)), (at, values(&apart)));
    let (x, at) = (term(1), place(&y));
    let second = add(x.clone(), y);
    assert_eq!((place(&second), values(&second)), (at, values(&apart)));
    assert_eq!(values(&x), values(&term(1)));
    // Twice the same, and a view whose elements lie apart.
    let double = add(x.clone(), x.clone());
    let want: Vec<f64> = values(&x).into_iter().map(|x| 2.0 * x).collect();
    assert_eq!(values(&double), want);
    let across = |x: Tensor<3>| x.swap_dims(0, 2);
    let got = add(across(term(1)), across(term(2)));
    assert_eq!(values(&got), values(&across(apart)));
}
