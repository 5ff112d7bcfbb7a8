//! Views that cost nothing on any device.

use burn::tensor::Tensor;

/// Tokens `[B, H · W, C]` of pictures of this height and width as `[B, C, H, W]`: the way back from
/// [`crate::picture_to_tokens`], a view.
///
/// # Panics
/// If there are not `height` · `width` tokens.
pub fn tokens_to_picture(x: Tensor<3>, [height, width]: [usize; 2]) -> Tensor<4> {
    let [batch, _, channels] = x.dims();
    x.reshape([batch, height, width, channels])
        .permute([0, 3, 1, 2])
}
