//! The gated activation of the transformer blocks and its gradient, one sweep each.

use super::*;
use core::f32::consts::{FRAC_1_SQRT_2, PI};

/// [`crate::geglu`].
pub(crate) fn geglu(x: &Tensor<3>) -> Option<Tensor<3>> {
    Some(Tensor::from_dispatch(Dispatch::geglu(operand(x)?)))
}

/// [`crate::geglu_input_grad`].
pub(crate) fn geglu_input_grad(grad: &Tensor<3>, x: &Tensor<3>) -> Option<Tensor<3>> {
    let of_x = Dispatch::geglu_input_grad(operand(grad)?, operand(x)?);
    Some(Tensor::from_dispatch(of_x))
}

/// The shape with half the channels.
pub(super) fn halved(shape: &Shape) -> Shape {
    let mut shape = shape.clone();
    shape[2] /= 2;
    shape
}

/// The normal distribution up to each element.
#[cube]
fn distribution<N: Size>(x: Vector<f32, N>) -> Vector<f32, N> {
    let half = Vector::new(0.5f32);
    half + half * (x * Vector::new(FRAC_1_SQRT_2)).erf()
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn geglu_kernel<F: Float, N: Size>(
    x: &[Vector<F, N>],
    y: &mut [Vector<F, N>],
    vectors: usize,
    run: usize,
    #[define(F)] _type: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i < vectors {
        let at = i + i / run * run;
        let value = Vector::<f32, N>::cast_from(x[at]);
        let gate = Vector::<f32, N>::cast_from(x[at + run]);
        y[i] = Vector::cast_from(value * gate * distribution::<N>(gate));
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn geglu_input_grad_kernel<F: Float, G: Float, N: Size>(
    grad: &[Vector<G, N>],
    x: &[Vector<F, N>],
    of_x: &mut [Vector<G, N>],
    vectors: usize,
    run: usize,
    #[define(F, G)] _types: [ElemType; 2],
) {
    let i = ABSOLUTE_POS;
    if i < vectors {
        let at = i + i / run * run;
        let grad = Vector::<f32, N>::cast_from(grad[i]);
        let value = Vector::<f32, N>::cast_from(x[at]);
        let gate = Vector::<f32, N>::cast_from(x[at + run]);
        let below = distribution::<N>(gate);
        let density = (gate * gate * Vector::new(-0.5f32)).exp()
            * Vector::new(comptime!((2.0 * PI).sqrt().recip()));
        of_x[at] = Vector::cast_from(grad * gate * below);
        of_x[at + run] = Vector::cast_from(grad * value * (below + gate * density));
    }
}

/// Runs [`Kernels::geglu`].
pub(super) fn launch_geglu(x: CubeTensor) -> CubeTensor {
    let x = into_contiguous(x);
    let y = empty(&x, halved(x.meta.shape()), x.dtype);
    let width = y.meta.shape()[2];
    let vector = vector_size(&[&x, &y], &[width]);
    let vectors = y.meta.shape().num_elements() / vector;
    let client = x.client.clone();
    let (cubes, dim) = elementwise(&client, vectors);
    // SAFETY: threads without a vector do nothing.
    unsafe {
        geglu_kernel::launch_unchecked(
            &client,
            cubes,
            dim,
            address(&[&x]),
            vector,
            x.clone().into_buffer_arg(),
            y.clone().into_buffer_arg(),
            vectors,
            width / vector,
            element(&x),
        );
    }
    y
}

/// Runs [`Kernels::geglu_input_grad`].
pub(super) fn launch_geglu_input_grad(grad: CubeTensor, x: CubeTensor) -> CubeTensor {
    let (grad, x) = (into_contiguous(grad), into_contiguous(x));
    let of_x = empty(&x, x.meta.shape().clone(), grad.dtype);
    let width = grad.meta.shape()[2];
    let vector = vector_size(&[&x, &grad, &of_x], &[width]);
    let vectors = grad.meta.shape().num_elements() / vector;
    let client = x.client.clone();
    let (cubes, dim) = elementwise(&client, vectors);
    let types = [element(&x), element(&grad)];
    // SAFETY: threads without a vector do nothing.
    unsafe {
        geglu_input_grad_kernel::launch_unchecked(
            &client,
            cubes,
            dim,
            address(&[&x]),
            vector,
            grad.into_buffer_arg(),
            x.into_buffer_arg(),
            of_x.clone().into_buffer_arg(),
            vectors,
            width / vector,
            types,
        );
    }
    of_x
}
