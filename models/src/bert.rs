//! BERT (Devlin et al. 2019) as a text encoder: transformers' `BertModel` without its pooler, for texts whose tokens see only
//! some of each other, or that look at a picture in every layer (BLIP; Li et al. 2022).

use burn::module::Param;
use burn::prelude::*;
use prepose_kernels as kernels;
use serde::Deserialize;

use crate::config::{Check, ConfigError, limit};
use crate::detr::MultiHead;
use crate::layers::{LayerNorm, Linear};
use crate::params::Params;

/// The `config.json` of a BERT; missing keys have the values of `bert-base-uncased`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct BertConfig {
    /// Tokens of the vocabulary.
    pub vocab_size: usize,
    /// Channels of each token.
    pub hidden_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Heads of each layer.
    pub num_attention_heads: usize,
    /// Channels inside the feed-forward layers.
    pub intermediate_size: usize,
    /// The longest text, in tokens.
    pub max_position_embeddings: usize,
    /// Kinds of tokens, of which the first is used; 0 for none, as in BLIP.
    pub type_vocab_size: usize,
    /// Channels of the states that every layer looks at besides the text's; none for a text alone.
    pub encoder_width: Option<usize>,
    /// Added to the variance in layer norms.
    pub layer_norm_eps: f64,
    /// The activation of the feed-forward layers: `gelu`.
    pub hidden_act: String,
}

impl Default for BertConfig {
    fn default() -> Self {
        Self {
            vocab_size: 30522,
            hidden_size: 768,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            intermediate_size: 3072,
            max_position_embeddings: 512,
            type_vocab_size: 2,
            encoder_width: None,
            layer_norm_eps: 1e-12,
            hidden_act: "gelu".to_string(),
        }
    }
}

impl BertConfig {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        const CHECK: Check = Check {
            network: "text encoder",
        };
        if self.hidden_act != "gelu" {
            return Err(CHECK.unsupported("hidden_act", self.hidden_act.as_str(), "\"gelu\""));
        }
        for (key, size, limit) in [
            ("vocab_size", self.vocab_size, limit::VOCABULARY),
            ("hidden_size", self.hidden_size, limit::CHANNELS),
            ("num_hidden_layers", self.num_hidden_layers, limit::LAYERS),
            ("intermediate_size", self.intermediate_size, limit::CHANNELS),
            (
                "max_position_embeddings",
                self.max_position_embeddings,
                limit::LENGTH,
            ),
            (
                "type_vocab_size",
                self.type_vocab_size.max(1),
                limit::PLANES,
            ),
            (
                "encoder_width",
                self.encoder_width.unwrap_or(1),
                limit::CHANNELS,
            ),
        ] {
            CHECK.within(key, [size], limit)?;
        }
        CHECK.number("layer_norm_eps", [self.layer_norm_eps], limit::EPS)?;
        CHECK.divides(
            "num_attention_heads",
            &[self.hidden_size],
            self.num_attention_heads,
        )
    }
}

/// What tokens see besides themselves.
struct Seen<'a> {
    /// Added to the scores of tokens for each other, `[1, 1, N, N]`; none where all see all.
    mask: Option<&'a Tensor<4>>,
    /// The states of a picture `[1, M, C]`.
    picture: Option<&'a Tensor<3>>,
}

/// One layer, with its norms behind the residual sums.
#[derive(Module, Debug)]
struct Layer {
    attention: MultiHead,
    attention_norm: LayerNorm,
    /// To the states of a picture, and its norm.
    across: Option<(MultiHead, LayerNorm)>,
    inner: Linear,
    outer: Linear,
    norm: LayerNorm,
}

impl Layer {
    fn load(mut params: Params, config: &BertConfig) -> Self {
        let (channels, inner) = (config.hidden_size, config.intermediate_size);
        let norm = |params: Params| LayerNorm::load(params, channels, config.layer_norm_eps);
        let names = ["self.query", "self.key", "self.value", "output.dense"];
        let heads = config.num_attention_heads;
        let across = config.encoder_width.map(|context| {
            let mut layers = params.pp("crossattention");
            let attention = MultiHead::load_across(&mut layers, names, [channels, context], heads);
            (attention, norm(layers.pp("output.LayerNorm")))
        });
        Self {
            across,
            attention: MultiHead::load(&mut params.pp("attention"), names, channels, heads),
            attention_norm: norm(params.pp("attention.output.LayerNorm")),
            inner: Linear::load(params.pp("intermediate.dense"), channels, inner, true),
            outer: Linear::load(params.pp("output.dense"), inner, channels, true),
            norm: norm(params.pp("output.LayerNorm")),
        }
    }

    fn forward(&self, x: Tensor<3>, seen: &Seen) -> Tensor<3> {
        let mixed = (self.attention).forward(x.clone(), x.clone(), x.clone(), seen.mask);
        let mut x = self.attention_norm.forward(x + mixed);
        if let (Some((attention, norm)), Some(picture)) = (&self.across, seen.picture) {
            let mixed = attention.forward(x.clone(), picture.clone(), picture.clone(), None);
            x = norm.forward(x + mixed);
        }
        let inner = kernels::gelu(self.inner.forward(x.clone()));
        self.norm.forward(self.outer.forward_onto(inner, x))
    }
}

/// The network.
#[derive(Module, Debug)]
pub(crate) struct Bert {
    words: Param<Tensor<2>>,
    positions: Param<Tensor<2>>,
    kinds: Option<Param<Tensor<2>>>,
    norm: LayerNorm,
    layers: Vec<Layer>,
}

impl Bert {
    pub fn load(mut params: Params, config: &BertConfig) -> Self {
        let channels = config.hidden_size;
        let mut table = |name: &str, rows| {
            let name = format!("embeddings.{name}_embeddings.weight");
            params.tensor(&name, [rows, channels])
        };
        Self {
            words: table("word", config.vocab_size),
            positions: table("position", config.max_position_embeddings),
            kinds: (config.type_vocab_size > 0)
                .then(|| table("token_type", config.type_vocab_size)),
            norm: LayerNorm::load(
                params.pp("embeddings.LayerNorm"),
                channels,
                config.layer_norm_eps,
            ),
            layers: (0..config.num_hidden_layers)
                .map(|i| Layer::load(params.pp(format!("encoder.layer.{i}")), config))
                .collect(),
        }
    }

    /// The tokens `ids` at `places`, of which each sees what `mask` `[1, 1, N, N]`, added to its scores, leaves it:
    /// `[1, N, C]`. Both are below the sizes of the tables.
    pub fn forward(&self, ids: &[u32], places: &[usize], mask: &Tensor<4>) -> Tensor<3> {
        let seen = Seen {
            mask: Some(mask),
            picture: None,
        };
        self.run(ids, places, &seen, &mask.device())
    }

    /// The tokens `ids`, one after the other, all of which see each other and the states `picture` `[1, M, encoder_width]`:
    /// `[1, N, C]`. Both are below the sizes of the tables.
    pub fn read(&self, ids: &[u32], picture: &Tensor<3>) -> Tensor<3> {
        let places: Vec<usize> = (0..ids.len()).collect();
        let seen = Seen {
            mask: None,
            picture: Some(picture),
        };
        self.run(ids, &places, &seen, &picture.device())
    }

    fn run(&self, ids: &[u32], places: &[usize], seen: &Seen, device: &Device) -> Tensor<3> {
        let rows = |table: &Param<Tensor<2>>, places: Vec<i32>| {
            let places = Tensor::<1, Int>::from_data(places.as_slice(), device);
            table.val().select(0, places)
        };
        let words = rows(&self.words, ids.iter().map(|id| *id as i32).collect());
        let places = rows(
            &self.positions,
            places.iter().map(|at| *at as i32).collect(),
        );
        let mut x = words + places;
        if let Some(kinds) = &self.kinds {
            x = x + kinds.val().narrow(0, 0, 1);
        }
        let x = self.norm.forward(x.unsqueeze_dim(0));
        (self.layers.iter()).fold(x, |x, layer| layer.forward(x, seen))
    }
}
