//! Operations of our own under autodiff: the fast kernel runs on the tensors inside, and the tape gets one node whose
//! gradient is a kernel as well. Only the gradients of operands that are tracked are computed, and only what these need is
//! kept.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::Flex;
use burn::backend::{
    Autodiff, AutodiffBackend, Backend, BackendTensor, DispatchAutodiffContext,
    DispatchKindConversion, DispatchTensor, DispatchTensorKind,
};
use burn::tensor::Tensor;

/// An operand of any rank.
#[derive(Clone)]
pub(crate) struct Any(DispatchTensor);

impl Any {
    pub(crate) fn new<const D: usize>(tensor: Tensor<D>) -> Self {
        Self(tensor.into_dispatch())
    }

    /// The tensor, whose rank the caller knows.
    pub(crate) fn get<const D: usize>(&self) -> Tensor<D> {
        Tensor::from_dispatch(self.0.clone())
    }

    fn is_autodiff(&self) -> bool {
        self.0.autodiff != DispatchAutodiffContext::Disabled
    }
}

/// Gradients to the operands from that to the result; `None` for those that are not tracked.
pub(crate) type Gradient<const D: usize, const N: usize> =
    Box<dyn FnOnce(Tensor<D>) -> [Option<Any>; N] + Send>;

/// A node of the tape.
struct Node<const D: usize, const N: usize>(Gradient<D, N>);

impl<const D: usize, const N: usize> core::fmt::Debug for Node<D, N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Node")
    }
}

impl<B: Backend, const D: usize, const N: usize> Backward<B, N> for Node<D, N>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    type State = ();

    fn backward(self, ops: Ops<(), N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let of_result = gradients.consume::<B>(&ops.node);
        let of_result = from_backend::<B>(of_result).get();
        let of_operands = (self.0)(of_result);
        for (parent, gradient) in ops.parents.into_iter().zip(of_operands) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                gradients.register::<B>(parent.id, into_backend::<B>(gradient));
            }
        }
    }
}

fn from_backend<B: Backend>(tensor: B::FloatTensorPrimitive) -> Any
where
    DispatchTensor: DispatchKindConversion<B>,
{
    Any(DispatchTensor::from_backend(BackendTensor::Float(tensor)))
}

/// # Panics
/// If the tensor is on another backend: gradients are where their tensors are.
fn into_backend<B: Backend>(tensor: Any) -> B::FloatTensorPrimitive
where
    DispatchTensor: DispatchKindConversion<B>,
{
    let tensor: Result<BackendTensor<B>, _> = DispatchTensor::try_into_backend(tensor.0);
    tensor.expect("tensors of one backend").float()
}

/// The result of an operation on `operands`, of which one is under autodiff. `run` gets the tensors inside, and which of
/// them are tracked; it gives the result and its gradient. `None` if they are on a backend that this is not made for.
pub(crate) fn record<const D: usize, const N: usize>(
    operands: [Any; N],
    run: impl FnOnce([Any; N], [bool; N]) -> (Tensor<D>, Gradient<D, N>),
) -> Option<Tensor<D>> {
    let autodiff = operands.iter().find(|operand| operand.is_autodiff())?;
    let DispatchTensorKind::Autodiff(kind) = &autodiff.0.kind else {
        return None;
    };
    match &**kind {
        DispatchTensorKind::Flex(_) => record_on::<Flex, D, N>(operands, run),
        #[cfg(feature = "gpu")]
        DispatchTensorKind::Cube(_) => record_on::<burn::backend::Cube, D, N>(operands, run),
        #[allow(unreachable_patterns)]
        _ => None,
    }
}

fn record_on<B: Backend, const D: usize, const N: usize>(
    operands: [Any; N],
    run: impl FnOnce([Any; N], [bool; N]) -> (Tensor<D>, Gradient<D, N>),
) -> Option<Tensor<D>>
where
    DispatchTensor: DispatchKindConversion<B> + DispatchKindConversion<Autodiff<B>>,
{
    let mut tensors = Vec::with_capacity(N);
    for operand in operands {
        let is_autodiff = operand.is_autodiff();
        tensors.push(if is_autodiff {
            let tensor: BackendTensor<Autodiff<B>> =
                DispatchTensor::try_into_backend(operand.0).ok()?;
            tensor.float()
        } else {
            let tensor: BackendTensor<B> = DispatchTensor::try_into_backend(operand.0).ok()?;
            Autodiff::<B>::from_inner(tensor.float())
        });
    }
    let guards = tensors.iter().map(|tensor| tensor.node());
    let Ok(guards) = <[_; N]>::try_from(guards.collect::<Vec<_>>()) else {
        unreachable!("as many as there are operands");
    };
    let tracked = core::array::from_fn(|i| tensors[i].is_tracked());
    let inside = core::array::from_fn(|i| from_backend::<B>(tensors[i].primitive().clone()));
    drop(tensors);
    let (result, gradient) = run(inside, tracked);
    let result = into_backend::<B>(Any::new(result));
    let node = Node(gradient);
    let result = match Backward::<B, N>::prepare::<NoCheckpointing>(node, guards)
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(prepared) => prepared.finish((), result),
        OpsKind::UnTracked(prepared) => prepared.finish(result),
    };
    let result: BackendTensor<Autodiff<B>> = BackendTensor::Float(result);
    Some(Tensor::from_dispatch(DispatchTensor::from_backend(result)))
}
