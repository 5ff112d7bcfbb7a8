//! How a backward pass begins, and in which order it adds.
//!
//! A tape runs from the node that is furthest from its leaves to the nearest, and a gradient is the sum of its parts in the
//! order in which they come. Sums of floating-point numbers depend on their order from the third on; what is here makes it
//! the same wherever a tape is cut.

use crate::recorded;
use crate::tape::{Any, Gradient, record};
use burn::tensor::{Device, Gradients, Tensor};

/// A tracked tensor and the gradient to it.
pub struct Cotangent {
    tensor: Any,
    gradient: Any,
    device: Device,
}

impl Cotangent {
    /// `None` for a tensor that is not tracked: nothing depends on its gradient.
    ///
    /// # Panics
    /// If shapes differ.
    pub fn new<const D: usize>(tensor: Tensor<D>, gradient: Tensor<D>) -> Option<Self> {
        assert_eq!(tensor.dims(), gradient.dims(), "a gradient's shape");
        tensor.is_tracked().then(|| Self {
            device: gradient.device(),
            tensor: Any::new(tensor),
            gradient: Any::new(gradient),
        })
    }
}

/// A backward pass from several tensors at once, whose gradients are known; `None` if there are none. To a tensor that is also
/// on the way to an earlier one, its own gradient comes before what comes from there.
///
/// # Panics
/// If the tensors are on a backend without kernels.
pub fn backward(from: Vec<Cotangent>) -> Option<Gradients> {
    let last = from.into_iter().fold(None, |before, cotangent| {
        let Cotangent {
            tensor,
            gradient,
            device,
        } = cotangent;
        let nothing = || Tensor::<1>::zeros([1], &device);
        let result = match before {
            None => record([tensor], |_, _| {
                let gradient: Gradient<1, 1> = Box::new(|_| [Some(gradient)]);
                (nothing(), gradient)
            }),
            Some(before) => record([Any::new(before), tensor], |_, _| {
                let gradient: Gradient<1, 2> =
                    Box::new(|of_before| [Some(Any::new(of_before)), Some(gradient)]);
                (nothing(), gradient)
            }),
        };
        Some(result.expect("tensors of a backend with kernels"))
    })?;
    Some(last.backward())
}

/// `x` itself; under autodiff as an operation of its own, one further from the leaves.
pub fn alias<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    recorded::alias(&x).unwrap_or(x)
}

/// `x` for several users. Under autodiff the gradients from them are added from the last to the first, in whatever order they
/// come.
pub fn apart<const D: usize>(x: Tensor<D>, users: usize) -> Vec<Tensor<D>> {
    let mut rest = x;
    let of_user = |_| {
        let own = alias(rest.clone());
        rest = alias(rest.clone());
        own
    };
    (0..users).map(of_user).collect()
}
