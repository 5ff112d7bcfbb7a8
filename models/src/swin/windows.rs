//! Windows of a map: padding to whole ones, moving them, and which of their tokens are no neighbours.

use burn::prelude::*;

/// `[B, H, W, C]` with zeros below and to the right.
pub(super) fn pad(x: Tensor<4>, below: usize, right: usize) -> Tensor<4> {
    let [batch, height, width, channels] = x.dims();
    let device = x.device();
    let x = match below {
        0 => x,
        _ => Tensor::cat(
            vec![x, Tensor::zeros([batch, below, width, channels], &device)],
            1,
        ),
    };
    match right {
        0 => x,
        _ => {
            let zeros = Tensor::zeros([batch, height + below, right, channels], &device);
            Tensor::cat(vec![x, zeros], 2)
        }
    }
}

/// Moved up and to the left by `by`; what leaves comes in at the other side.
pub(super) fn roll(x: Tensor<4>, by: usize) -> Tensor<4> {
    if by == 0 {
        return x;
    }
    [1, 2].into_iter().fold(x, |x, axis| {
        let rest = x.dims()[axis] - by;
        Tensor::cat(
            vec![x.clone().narrow(axis, by, rest), x.narrow(axis, 0, by)],
            axis,
        )
    })
}

/// The opposite of [`roll`].
pub(super) fn roll_back(x: Tensor<4>, by: usize) -> Tensor<4> {
    if by == 0 {
        return x;
    }
    [1, 2].into_iter().fold(x, |x, axis| {
        let rest = x.dims()[axis] - by;
        Tensor::cat(
            vec![x.clone().narrow(axis, rest, by), x.narrow(axis, 0, rest)],
            axis,
        )
    })
}

/// −100 for each pair of tokens of a moved window that are no neighbours in the picture, else 0: `[windows, 1, w², w²]` for
/// maps of a height and width that windows of `window` divide.
pub(super) fn apart([height, width]: [usize; 2], window: usize, device: &Device) -> Tensor<4> {
    let shift = window / 2;
    let part = |at: usize, length: usize| match at {
        _ if at < length - window => 0,
        _ if at < length - shift => 1,
        _ => 2,
    };
    let tokens = window * window;
    let (down, across) = (height / window, width / window);
    let mut values = Vec::with_capacity(down * across * tokens * tokens);
    for i in 0..down * across {
        let (top, left) = (i / across * window, i % across * window);
        let parts: Vec<_> = (0..tokens)
            .map(|token| {
                let row = part(top + token / window, height);
                let column = part(left + token % window, width);
                (row, column)
            })
            .collect();
        for query in &parts {
            values.extend(
                parts
                    .iter()
                    .map(|key| if key == query { 0.0 } else { -100.0f32 }),
            );
        }
    }
    Tensor::<1>::from_data(values.as_slice(), device).reshape([down * across, 1, tokens, tokens])
}
