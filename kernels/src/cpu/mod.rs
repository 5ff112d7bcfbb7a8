//! The CPU kernels on slices and pointers, without tensors.

mod across;
pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod columns;
mod cut;
pub(crate) mod deformable;
pub(crate) mod gemm;
pub(crate) mod max_pool;
pub(crate) mod norm;
pub(crate) mod norm_grad;
pub(crate) mod norm_params;
pub(crate) mod operand;
mod prefetch;
pub(crate) mod resize;
pub(crate) mod roi_align;
mod scratch;
pub(crate) mod simd;
pub(crate) mod sums;
mod taps;
pub(crate) mod target;
mod tasks;
pub(crate) mod tile;
pub(crate) mod unrolled;
pub(crate) mod winograd;
