//! IP-Adapter in the UNet: which of its layers an adapter's matrices are for, and pictures in the conditioning.

use super::conditioning::ConditioningId;
use super::{PreparedConditioning, UNet, UNetConfig};
use crate::config::ConfigError;
use crate::ip_adapter::{AdapterLayer, PictureAttention};

impl UNet {
    /// `prepared` with `pictures` for each of its samples, each of which its cross-attention layers attend to in a
    /// softmax of its own. Pictures that it had are replaced; no pictures leave it as it was without.
    ///
    /// # Panics
    /// If a picture is for a network with another number of cross-attention layers.
    pub fn show(
        &self,
        prepared: PreparedConditioning,
        pictures: &[PictureAttention],
    ) -> PreparedConditioning {
        let layer = |number: usize| {
            let layers = pictures.iter().map(|picture| {
                assert_eq!(picture.layers().len(), self.layers.len(), "layers");
                picture.layers()[number].clone()
            });
            layers.flatten().collect::<Vec<_>>()
        };
        let layers: Vec<_> = (0..self.layers.len()).map(layer).collect();
        let some = layers.iter().any(|layer| !layer.is_empty());
        PreparedConditioning {
            id: ConditioningId::new(),
            pictures: some.then_some(layers),
            ..prepared
        }
    }
}

impl UNetConfig {
    /// The cross-attention layers in the order of execution, with the numbers that files of IP-Adapter have for them:
    /// those count self-attention as well, and the middle last.
    ///
    /// # Errors
    /// [`ConfigError`] for a configuration that [`check`](Self::check) refuses.
    pub fn adapter_layers(&self) -> Result<Vec<AdapterLayer>, ConfigError> {
        let plan = self.plan()?;
        let last = plan.levels.len() - 1;
        let upcast = self.upcast_attention.unwrap_or(false);
        let block = |level: usize, transformers: usize| {
            let plan = &plan.levels[level];
            let layer = AdapterLayer {
                number: 0,
                channels: plan.channels,
                heads: plan.heads,
                upcast,
                level,
            };
            vec![layer; transformers * plan.depth]
        };
        let levels = plan.levels.iter().enumerate();
        let down: Vec<_> = levels
            .clone()
            .flat_map(|(i, level)| block(i, level.layers * usize::from(level.cross_attention_down)))
            .collect();
        let mid = block(last, 1);
        let up: Vec<_> = levels
            .rev()
            .flat_map(|(i, level)| {
                block(
                    i,
                    (level.layers + 1) * usize::from(level.cross_attention_up),
                )
            })
            .collect();
        let numbers = (0..down.len())
            .chain((0..mid.len()).map(|i| down.len() + up.len() + i))
            .chain((0..up.len()).map(|i| down.len() + i));
        let layers = down.iter().chain(&mid).chain(&up).zip(numbers);
        Ok(layers
            .map(|(layer, number)| AdapterLayer {
                number: 2 * number + 1,
                ..*layer
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn numbers(config: &UNetConfig) -> Vec<(usize, usize)> {
        let layers = config.adapter_layers().unwrap();
        let layers = layers.iter().map(|layer| (layer.number, layer.channels));
        layers.collect()
    }

    #[test]
    fn numbers_are_those_of_published_files() {
        let sd15 = numbers(&UNetConfig::default());
        let expected = [
            (1, 320),
            (3, 320),
            (5, 640),
            (7, 640),
            (9, 1280),
            (11, 1280),
            (31, 1280),
            (13, 1280),
            (15, 1280),
            (17, 1280),
            (19, 640),
            (21, 640),
            (23, 640),
            (25, 320),
            (27, 320),
            (29, 320),
        ];
        assert_eq!(sd15, expected);
        let sdxl: UNetConfig = serde_json::from_value(json!({
            "block_out_channels": [320, 640, 1280],
            "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
            "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
            "transformer_layers_per_block": [1, 2, 10],
            "attention_head_dim": [5, 10, 20],
            "cross_attention_dim": 2048,
        }))
        .unwrap();
        let sdxl = numbers(&sdxl);
        assert_eq!(sdxl.len(), 70);
        assert_eq!(
            sdxl[..5],
            [(1, 640), (3, 640), (5, 640), (7, 640), (9, 1280)]
        );
        // The middle comes after the way down, and has the last numbers.
        assert_eq!(sdxl[24..26], [(121, 1280), (123, 1280)]);
        assert_eq!(
            (sdxl[34].0, sdxl[63].0, sdxl[64].0, sdxl[69]),
            (49, 107, 109, (119, 640))
        );
    }
}
