//! What goes along with a forward pass through the blocks.

use burn::prelude::*;

use crate::attention::{Attention, AttentionProbe, KeyValue, LayerInfo, Place};
use crate::resnet::TimeEmbedding;

/// What is known of a cross-attention layer when the network is built.
#[derive(Debug, Clone)]
pub(crate) struct CrossLayer {
    pub name: String,
    pub place: Place,
}

/// The state of one forward pass.
pub(crate) struct Pass<'a> {
    pub time: TimeEmbedding,
    /// Every cross-attention layer with its keys and values, in the order of execution.
    pub layers: &'a [CrossLayer],
    pub context: &'a [KeyValue],
    pub probe: &'a mut dyn AttentionProbe,
    /// The cross-attention layer that comes next.
    pub next: usize,
}

impl Pass<'_> {
    /// `query` `[B, height · width, C]` attends to the text in the layer that comes next.
    pub fn cross_attention(
        &mut self,
        attention: &Attention,
        query: Tensor<3>,
        height: usize,
        width: usize,
    ) -> Tensor<3> {
        let index = self.next;
        self.next += 1;
        let (layer, context) = (&self.layers[index], &self.context[index]);
        let info = LayerInfo {
            name: &layer.name,
            place: layer.place,
            index,
            height,
            width,
            heads: attention.heads(),
            tokens: context.tokens(),
        };
        let wanted = self.probe.wants(&info);
        let (y, probabilities) = attention.to_context(query, context, wanted);
        if let Some(probabilities) = probabilities {
            self.probe.record(&info, probabilities);
        }
        y
    }
}
