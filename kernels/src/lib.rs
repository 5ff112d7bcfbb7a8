//! The operations that Stable Diffusion and the detectors spend their time in.
//!
//! Every function takes and returns Burn tensors, works on every backend and under autodiff, and
//! accepts f32, f16 and bf16. Each has a plain reference in Burn's own operations in [`plain`]: it is
//! what the tests compare the fast paths with. On the CPU backend `flex` and on GPUs the functions take
//! paths of their own. Under autodiff those of a UNet do so as well, and record their own gradients; the others run
//! in Burn's operations there.

#![warn(clippy::unwrap_used)]

/// The result of the fast path on the CPU if it takes the operands, else that of the kernel for GPUs if
/// that does.
macro_rules! fast {
    ($cpu:expr, $gpu:expr) => {{
        let result = $cpu;
        #[cfg(feature = "gpu")]
        let result = result.or_else(|| $gpu);
        result
    }};
}

mod activation;
mod attention;
mod bf16;
mod cache;
mod conv;
mod conv_grad;
mod cotangent;
mod cpu;
#[cfg(feature = "gpu")]
mod cube;
mod deformable;
mod flex;
mod layout;
mod linear;
mod matmul;
mod max_pool;
mod nms;
mod norm;
mod norm_params;
mod overwrite;
pub mod plain;
pub mod profile;
mod recorded;
mod resize;
mod roi_align;
pub mod selftest;
mod sum;
mod tape;
#[cfg(test)]
mod tests;
mod threads;
mod top_k;

pub use activation::{geglu, geglu_input_grad, gelu, quick_gelu, silu, silu_input_grad};
pub use attention::{
    attention, attention_input_grads, attention_query_grad, attention_with_probs, causal_attention,
    grid_attention,
};
pub use bf16::{Bf16Products, bf16_products};
pub use cache::{KernelCache, keep_compiled_kernels};
pub use conv::{conv2d, conv2d_relu, convolution_working_bytes, pointwise_onto};
pub use conv_grad::{conv2d_bias_grad, conv2d_input_grad, conv2d_weight_grad};
pub use cotangent::{Cotangent, alias, apart, backward};
pub use cpu::simd::{INSTRUCTIONS_VARIABLE, UnknownInstructions, instructions};
pub use deformable::deformable_attention;
pub use flex::{keep_freed_memory, release_freed_memory};
pub use layout::{
    cat_channels, narrow_channels, narrow_columns, picture_to_tokens, pointwise_kernel,
    prefers_channels_last, split_heads,
};
pub use linear::{linear, linear_bias_grad, linear_input_grad, linear_onto, linear_weight_grad};
pub use matmul::matmul;
pub use max_pool::max_pool3x3;
pub use nms::{nms, suppress};
pub use norm::{group_norm, group_norm_input_grad, layer_norm, layer_norm_input_grad};
pub use norm_params::{group_norm_grads, layer_norm_param_grads};
pub use overwrite::overwrite;
pub use plain::{GroupNorm, Levels, RoiAlign, tokens_to_picture};
pub use resize::{upsample_nearest2x, upsample_nearest2x_input_grad};
pub use roi_align::roi_align;
pub use sum::add;
pub use threads::keep_awake;
pub use top_k::top_k;
