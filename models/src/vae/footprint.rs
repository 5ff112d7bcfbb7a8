//! The memory of a pass through the autoencoder.

use super::config::VaeConfig;
use super::tiling::Tiles;
use crate::footprint::Means;

impl VaeConfig {
    /// Bytes that [`AutoencoderKl::decode`](super::AutoencoderKl::decode) of one row of latents, `height` × `width`,
    /// takes at its worst moment, latents and picture counted.
    pub fn decode_bytes(&self, height: usize, width: usize, means: Means) -> u64 {
        let channels = self.channels();
        let mut positions = (height * width) as u64;
        let mut peak = self.middle(positions, means);
        let mut x = channels.last().copied().unwrap_or(0);
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
        tile + 3 * 4 * self.pixels(height, width) * self.out_channels as u64
    }

    /// Bytes that [`AutoencoderKl::encode`](super::AutoencoderKl::encode) of one picture to latents, `height` × `width`,
    /// takes at its worst moment, latents and picture counted.
    pub fn encode_bytes(&self, height: usize, width: usize, means: Means) -> u64 {
        let channels = self.channels();
        let pixels = self.pixels(height, width);
        let mut positions = pixels;
        let mut peak = 0;
        let mut x = channels.first().copied().unwrap_or(0);
        for (level, &c) in channels.iter().enumerate() {
            // Halving the resolution takes less than the block before it.
            positions /= if level > 0 { 4 } else { 1 };
            peak = peak.max(positions * means.resnet(x, c, false).max(means.resnet(c, c, false)));
            x = c;
        }
        peak = peak.max(self.middle(positions, means));
        means.element * peak + 4 * pixels * self.in_channels as u64
    }

    /// As [`encode_bytes`](Self::encode_bytes) for
    /// [`AutoencoderKl::encode_tiled`](super::AutoencoderKl::encode_tiled).
    pub fn encode_tiled_bytes(&self, height: usize, width: usize, means: Means) -> u64 {
        let Tiles { input, .. } = Tiles::of_decoder(self);
        let tile = self.encode_bytes(height.min(input), width.min(input), means);
        if height <= input && width <= input {
            return tile;
        }
        // The picture beside its tile; latents are small.
        tile + 4 * self.pixels(height, width) * self.in_channels as u64
    }

    fn channels(&self) -> Vec<u64> {
        self.block_out_channels.iter().map(|&c| c as u64).collect()
    }

    /// Of the picture that latents, `height` × `width`, stand for.
    fn pixels(&self, height: usize, width: usize) -> u64 {
        (height * width * self.downscale().pow(2)) as u64
    }

    /// Elements in the middle, where there are as many positions as latents.
    fn middle(&self, positions: u64, means: Means) -> u64 {
        let top = self.block_out_channels.last().map_or(0, |&c| c as u64);
        let attention = match self.mid_block_add_attention {
            // Input, norm, queries, keys, values and result.
            true => positions * 6 * top + means.scores(1, positions, 2),
            false => 0,
        };
        (positions * means.resnet(top, top, false)).max(attention)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_takes_less_than_decoding_and_tiles_less_than_the_whole() {
        let mut config = VaeConfig::default();
        config.block_out_channels = vec![128, 256, 512, 512];
        for in_place in [false, true] {
            let means = Means {
                element: 4,
                scores: false,
                relayout: !in_place,
                in_place,
            };
            let (encode, decode) = (
                config.encode_bytes(64, 64, means),
                config.decode_bytes(64, 64, means),
            );
            // The first block's three feature maps at least, and the picture.
            let pixels = 512 * 512;
            assert!(encode >= 4 * pixels * (3 * 128 + 3) && encode < decode);
            assert!(config.encode_tiled_bytes(64, 64, means) < encode);
            // One tile is the whole.
            let whole = config.encode_bytes(4, 4, means);
            assert_eq!(config.encode_tiled_bytes(4, 4, means), whole);
        }
    }
}
