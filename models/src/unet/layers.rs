//! Which cross-attention layers there are, and where.

use burn::prelude::*;

use super::UNet;
use super::conditioning::PreparedConditioning;
use super::pass::CrossLayer;
use super::transformer::Transformer2d;
use crate::attention::{LayerInfo, Place};

impl UNet {
    /// What the cross-attention layers will look like for this sample.
    pub(super) fn layer_infos(
        &self,
        sample: &Tensor<4>,
        conditioning: &PreparedConditioning,
    ) -> Vec<LayerInfo<'_>> {
        let [_, _, height, width] = sample.dims();
        let layers = self.layers.iter().zip(&conditioning.context).enumerate();
        layers
            .map(|(index, (layer, context))| {
                // Each resolution is half of the one above, rounded up.
                let size = |full: usize| full.div_ceil(1 << layer.level);
                LayerInfo {
                    name: &layer.name,
                    place: layer.place,
                    index,
                    height: size(height),
                    width: size(width),
                    heads: layer.heads,
                    tokens: context.tokens(),
                }
            })
            .collect()
    }

    /// Every transformer with its place, in the order of execution.
    pub(super) fn transformers(&self) -> impl Iterator<Item = (TransformerPlace, &Transformer2d)> {
        let last = self.down_blocks.len() - 1;
        let down = self.down_blocks.iter().enumerate().map(|(i, block)| {
            let name = format!("down_blocks.{i}");
            (Place::Down, name, i, block.transformers())
        });
        let mid = self.mid_block.transformers();
        let mid = [(Place::Mid, "mid_block".to_string(), last, mid)];
        let up = self.up_blocks.iter().enumerate().map(move |(i, block)| {
            let name = format!("up_blocks.{i}");
            (Place::Up, name, last - i, block.transformers())
        });
        let blocks = down.chain(mid).chain(up);
        blocks.flat_map(|(place, block, level, transformers)| {
            let numbered = transformers.iter().enumerate();
            numbered.map(move |(i, transformer)| {
                let name = format!("{block}.attentions.{i}");
                (TransformerPlace { place, name, level }, transformer)
            })
        })
    }
}

pub(super) struct TransformerPlace {
    pub place: Place,
    pub name: String,
    /// The resolution, counted from 0 for that of the sample.
    pub level: usize,
}

pub(super) fn name_layers(
    (TransformerPlace { place, name, level }, transformer): (TransformerPlace, &Transformer2d),
) -> Vec<CrossLayer> {
    let layers = transformer.cross_attentions().enumerate();
    layers
        .map(|(i, attention)| CrossLayer {
            name: format!("{name}.transformer_blocks.{i}.attn2"),
            place,
            level,
            heads: attention.heads(),
        })
        .collect()
}
