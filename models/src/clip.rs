//! CLIP's text encoders: transformers' `CLIPTextModel` and `CLIPTextModelWithProjection` (Radford et
//! al. 2021), as SD 1.x and SDXL use them.

use burn::module::Param;
use burn::prelude::*;
use burn::tensor::{DType, module};
use prepose_kernels::keep_awake;
use serde::Deserialize;

use crate::config::{Check, ConfigError, Rest, limit};
use crate::layers::{LayerNorm, Linear};
use crate::params::Params;
use crate::vit::{Activation, Block, BlockNames, BlockShape};

/// The `config.json` of a text encoder; missing keys have transformers' defaults.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClipTextConfig {
    /// Class names; `CLIPTextModelWithProjection` has a text projection. If empty, the checkpoint
    /// decides.
    pub architectures: Vec<String>,
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// Channels of each token between layers, and of the embedding that diffusion models read.
    pub hidden_size: usize,
    /// Channels inside the feed-forward layers.
    pub intermediate_size: usize,
    /// Channels of the projected pooled output.
    pub projection_dim: usize,
    /// Transformer layers, of which callers may skip the last ones.
    pub num_hidden_layers: usize,
    /// Heads in each layer.
    pub num_attention_heads: usize,
    /// The longest sequence, in tokens.
    pub max_position_embeddings: usize,
    /// The activation of the feed-forward layers: `quick_gelu` or `gelu`.
    pub hidden_act: String,
    /// Added to the variance in layer norms.
    pub layer_norm_eps: f64,
    /// The token that ends a text. The value 2 marks old configurations, see [`Self::pooled_position`].
    pub eos_token_id: Option<i64>,
    #[serde(flatten)]
    rest: Rest,
}

impl Default for ClipTextConfig {
    fn default() -> Self {
        Self {
            architectures: Vec::new(),
            vocab_size: 49408,
            hidden_size: 512,
            intermediate_size: 2048,
            projection_dim: 512,
            num_hidden_layers: 12,
            num_attention_heads: 8,
            max_position_embeddings: 77,
            hidden_act: "quick_gelu".to_string(),
            layer_norm_eps: 1e-5,
            eos_token_id: Some(49407),
            rest: Rest::new(),
        }
    }
}

const WITH_PROJECTION: &str = "CLIPTextModelWithProjection";

impl ClipTextConfig {
    /// Refuses what cannot be built.
    ///
    /// # Errors
    /// [`ConfigError`] names the first key that is unsupported or makes no sense, with its value.
    pub fn check(&self) -> Result<(), ConfigError> {
        const CHECK: Check = Check {
            network: "text encoder",
        };
        let architectures = ["CLIPTextModel", WITH_PROJECTION, "CLIPModel"];
        CHECK.block_types("architectures", &self.architectures, &architectures)?;
        if !matches!(self.hidden_act.as_str(), "quick_gelu" | "gelu") {
            let supported = "\"quick_gelu\" or \"gelu\"";
            return Err(CHECK.unsupported("hidden_act", self.hidden_act.as_str(), supported));
        }
        for (key, size, limit) in [
            ("vocab_size", self.vocab_size, limit::VOCABULARY),
            ("hidden_size", self.hidden_size, limit::CHANNELS),
            ("intermediate_size", self.intermediate_size, limit::CHANNELS),
            ("projection_dim", self.projection_dim, limit::CHANNELS),
            ("num_hidden_layers", self.num_hidden_layers, limit::LAYERS),
            (
                "max_position_embeddings",
                self.max_position_embeddings,
                limit::LENGTH,
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

    /// Where the pooled output of a text of these `tokens` is, whose first end-of-text token is at `end`: there, or for
    /// [`Self::eos_token_id`] 2 at the first token with the highest id. The two differ where textual inversion has added
    /// tokens, whose ids are higher than that of the end.
    pub fn pooled_position(&self, tokens: &[u32], end: usize) -> usize {
        match tokens.iter().max() {
            Some(highest) if self.eos_token_id == Some(2) => {
                let mut tokens = tokens.iter();
                tokens.position(|token| token == highest).unwrap_or(end)
            }
            _ => end,
        }
    }
}

/// Which layer's hidden states condition the UNet. transformers' `hidden_states` holds the
/// embeddings and then every layer's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HiddenLayer {
    /// The last layer with the final layer norm (SD 1.x).
    Last,
    /// `hidden_states[-(n + 1)]`: `n` layers before the last.
    ///
    /// SDXL takes `n = 1` without norm. SD 1.x with a clip skip of `k` (diffusers' counting) takes
    /// `n = k` with norm; SDXL with a clip skip of `k` takes `n = k + 1` without.
    Skip {
        /// How many layers to leave out.
        n: usize,
        /// Whether the final layer norm is applied.
        final_norm: bool,
    },
}

/// An encoded batch of texts.
#[derive(Debug, Clone)]
pub struct TextEncoding {
    /// Hidden states of every token, `[B, N, C]`, f32.
    pub hidden: Tensor<3>,
    /// The last layer's normed hidden state at the end-of-text token, `[B, C]`, projected to
    /// `[B, projection_dim]` if the encoder has a projection. f32.
    pub pooled: Tensor<2>,
}

/// A CLIP text encoder.
#[derive(Module, Debug)]
pub struct ClipTextModel {
    token_embedding: Param<Tensor<2>>,
    position_embedding: Param<Tensor<2>>,
    layers: Vec<Block>,
    final_layer_norm: LayerNorm,
    text_projection: Option<Linear>,
    #[module(skip)]
    config: ClipTextConfig,
}

impl ClipTextModel {
    /// Builds the encoder. Its keys start with `text_model.`, or with nothing as newer versions of
    /// transformers write them.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration asks for something that is not implemented or makes no
    /// sense. Problems with parameters are the source's to report.
    pub fn load(config: &ClipTextConfig, mut params: Params) -> Result<Self, ConfigError> {
        config.check()?;
        let channels = config.hidden_size;
        let projected = if config.architectures.is_empty() {
            params.contains("text_projection.weight")
        } else {
            config
                .architectures
                .iter()
                .any(|name| name == WITH_PROJECTION)
        };
        let text_projection = projected.then(|| {
            let params = params.pp("text_projection");
            Linear::load(params, channels, config.projection_dim, false)
        });
        let bare = params.contains("embeddings.token_embedding.weight");
        let prefix = if bare { "" } else { "text_model." };
        let vocabulary = [config.vocab_size, channels];
        let positions = [config.max_position_embeddings, channels];
        let mut embeddings = params.pp(format!("{prefix}embeddings"));
        let token_embedding = embeddings.tensor("token_embedding.weight", vocabulary);
        let position_embedding = embeddings.tensor("position_embedding.weight", positions);
        let shape = BlockShape {
            channels,
            inner: config.intermediate_size,
            heads: config.num_attention_heads,
            qkv_bias: true,
            activation: Activation::parse(&config.hidden_act).unwrap_or(Activation::QuickGelu),
            eps: config.layer_norm_eps,
        };
        let layer = |i| {
            let params = params.pp(format!("{prefix}encoder.layers.{i}"));
            Block::load(params, &BlockNames::CLIP, &shape)
        };
        let layers = (0..config.num_hidden_layers).map(layer).collect();
        let final_norm = params.pp(format!("{prefix}final_layer_norm"));
        Ok(Self {
            token_embedding,
            position_embedding,
            layers,
            final_layer_norm: LayerNorm::load(final_norm, channels, config.layer_norm_eps),
            text_projection,
            config: config.clone(),
        })
    }

    /// The configuration that the encoder was built from.
    pub fn config(&self) -> &ClipTextConfig {
        &self.config
    }

    /// Channels of [`TextEncoding::pooled`].
    pub fn pooled_width(&self) -> usize {
        match self.text_projection {
            Some(_) => self.config.projection_dim,
            None => self.config.hidden_size,
        }
    }

    /// Encodes `tokens` `[B, N]`. `eos_positions` has, for each text, the position that is pooled:
    /// that of the first end-of-text token, or [`ClipTextConfig::pooled_position`].
    ///
    /// # Panics
    /// If `N` exceeds `max_position_embeddings`, a position is not below `N`, or `layer` leaves out
    /// more layers than there are.
    pub fn forward(
        &self,
        tokens: Tensor<2, Int>,
        eos_positions: &[usize],
        layer: HiddenLayer,
    ) -> TextEncoding {
        keep_awake(&tokens.device(), || {
            self.forward_awake(tokens, eos_positions, layer)
        })
    }

    fn forward_awake(
        &self,
        tokens: Tensor<2, Int>,
        eos_positions: &[usize],
        layer: HiddenLayer,
    ) -> TextEncoding {
        let [batch, n] = tokens.dims();
        assert_eq!(eos_positions.len(), batch, "one end-of-text for each text");
        let positions = self.position_embedding.val().slice_dim(0, 0..n);
        let mut x = module::embedding(self.token_embedding.val(), tokens) + positions.unsqueeze();

        let depth = self.layers.len();
        let (skip, norm) = match layer {
            HiddenLayer::Last => (0, true),
            HiddenLayer::Skip { n, final_norm } => (n, final_norm),
        };
        assert!(skip <= depth, "cannot skip {skip} of {depth} layers");
        let mut hidden = (skip == depth).then(|| x.clone());
        for (i, layer) in self.layers.iter().enumerate() {
            x = layer.forward_causal(x);
            if i + 1 + skip == depth {
                hidden = Some(x.clone());
            }
        }
        let hidden = hidden.expect("one layer is the chosen one");
        let hidden = match norm {
            true => self.final_layer_norm.forward(hidden),
            false => hidden,
        };
        TextEncoding {
            hidden: hidden.cast(DType::F32),
            pooled: self.pool(x, eos_positions).cast(DType::F32),
        }
    }

    fn pool(&self, x: Tensor<3>, positions: &[usize]) -> Tensor<2> {
        let rows = positions.iter().enumerate();
        let rows = rows.map(|(i, &position)| x.clone().slice([i..i + 1, position..position + 1]));
        let pooled = self
            .final_layer_norm
            .forward(Tensor::cat(rows.collect(), 0));
        let pooled = match &self.text_projection {
            Some(projection) => projection.forward(pooled),
            None => pooled,
        };
        pooled.squeeze_dim(1)
    }
}
