//! The memory of a pass through the autoencoder.

use super::config::VaeConfig;
use super::tiling::Tiles;
use crate::footprint::Means;

impl VaeConfig {
    /// Bytes that [`AutoencoderKl::decode`](super::AutoencoderKl::decode) of one row of latents, `height` × `width`,
    /// takes at its worst moment, latents and picture counted.
    pub fn decode_bytes(&self, height: usize, width: usize, means: Means) -> u64 {
        let channels: Vec<u64> = self.block_out_channels.iter().map(|&c| c as u64).collect();
        let mut positions = (height * width) as u64;
        let top = channels.last().copied().unwrap_or(0);
        let attention = match self.mid_block_add_attention {
            // Input, norm, queries, keys, values and result.
            true => positions * 6 * top + means.scores(1, positions, 2),
            false => 0,
        };
        let mut peak = (positions * means.resnet(top, top, false)).max(attention);
        let mut x = top;
        for (level, &c) in channels.iter().enumerate().rev() {
            peak = peak.max(positions * means.resnet(x, c, false).max(means.resnet(c, c, false)));
            if level > 0 {
                positions *= 4;
                peak = peak.max(means.convolve(positions * c, positions * c));
            }
            x = c;
        }
        let picture = 4 * positions * self.out_channels as u64;
        means.element * peak + picture
    }

    /// As [`decode_bytes`](Self::decode_bytes) for
    /// [`AutoencoderKl::decode_tiled`](super::AutoencoderKl::decode_tiled).
    pub fn decode_tiled_bytes(&self, height: usize, width: usize, means: Means) -> u64 {
        let Tiles { input, .. } = Tiles::of_decoder(self);
        let tile = self.decode_bytes(height.min(input), width.min(input), means);
        if height <= input && width <= input {
            return tile;
        }
        // The picture, and its parts before they are joined.
        let pixels = (height * width * self.downscale().pow(2)) as u64;
        tile + 3 * 4 * pixels * self.out_channels as u64
    }
}
