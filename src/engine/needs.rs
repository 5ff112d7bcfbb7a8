//! How much memory a request takes, estimated from shapes.

use burn::tensor::DType;
use prepose_models::attention::LayerInfo;
use prepose_models::unet::{Memory, PassShape};
use prepose_models::{ConfigError, Means};
use prepose_weights::{Family, WeightsError};

use super::blueprint::Blueprint;
use super::error::EngineError;
use super::texts::{parts, timeline};
use crate::device::OpenDevice;
use crate::dtype::Dtype;
use crate::request::Request;

/// What a batch takes, in bytes, by an estimate from shapes alone (docs/memory.md says how good it is).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The text encoders' weights.
    pub text_encoders: u64,
    /// The UNet's weights.
    pub unet: u64,
    /// The weights of IP-Adapters, and of their picture encoders.
    pub adapters: u64,
    /// The weights of the autoencoder, or of the half of it that is needed.
    pub vae: u64,
    /// A UNet call.
    pub step: u64,
    /// A guided pass and its gradient; 0 without guidance.
    pub guided: u64,
    /// Encoding start pictures, which is done one at a time; 0 without.
    pub encode: u64,
    /// Encoding them in tiles.
    pub encode_tiled: u64,
    /// Decoding, which is done one picture at a time.
    pub decode: u64,
    /// Decoding in tiles.
    pub decode_tiled: u64,
}

impl Needs {
    /// What is there for the whole run.
    pub fn weights(&self) -> u64 {
        self.text_encoders + self.unet + self.adapters + self.vae
    }

    /// The most that the autoencoder needs besides its weights.
    pub fn autoencoder(&self, tiling: bool) -> u64 {
        match tiling {
            true => self.encode_tiled.max(self.decode_tiled),
            false => self.encode.max(self.decode),
        }
    }

    /// The most that is needed besides the weights.
    pub fn work(&self, tiling: bool) -> u64 {
        self.step.max(self.guided).max(self.autoencoder(tiling))
    }

    /// The most that is needed altogether.
    pub fn peak(&self, tiling: bool) -> u64 {
        self.weights() + self.work(tiling)
    }
}

impl Blueprint {
    /// What `pictures` pictures as `request` take together on `device`.
    ///
    /// # Errors
    /// A request that fails [`check`](Self::check).
    pub fn needs(
        &self,
        request: &Request,
        pictures: usize,
        device: &OpenDevice,
        memory: Memory,
    ) -> Result<Needs, EngineError> {
        let dtype = request.model.dtype;
        let vae_dtype = vae_dtype(self.checkpoint.family(), dtype);
        let parameters = self.checkpoint.parameters();
        let vae_parameters = parameters.vae_decoder
            + if request.init.is_some() {
                parameters.vae_encoder
            } else {
                0
            };
        let unet = self.checkpoint.unet_config()?;
        let factor = self.vae_factor();
        let (height, width) = (request.height / factor, request.width / factor);
        let means = means(device, dtype);
        let halves = self.rows(request)?;
        let pass = PassShape {
            rows: halves * pictures,
            height,
            width,
            tokens: 77 + self.picture_tokens(request),
        };
        let config = |source| self.unusable(source);
        let savings = self.savings(request)?;
        let deep = savings.deep_every.map(|_| savings.deep_branch);
        let gated = if savings.gate.is_some() { pictures } else { 0 };
        let kept = unet.kept_bytes(pass, deep, gated, means).map_err(config)?;
        let step = unet.forward_bytes(pass, means).map_err(config)? + kept;
        let guided = match self.last_guided_layer(request)? {
            None => 0,
            Some((last, one_pass)) => {
                let half = PassShape {
                    rows: pictures,
                    ..pass
                };
                let recorded = unet
                    .recorded_bytes(half, last, memory, means)
                    .map_err(config)?;
                // The rest of the network runs while the recording is kept.
                let rest = if one_pass { step / halves as u64 } else { 0 };
                recorded + rest
            }
        };
        let real = |bytes: u64| (bytes as f64 * overhead(device)) as u64;
        // Layers on the way up read what comes from below and what was kept, side by side.
        let unet_scratch = 2 * widest(&unet.block_out_channels);
        let unet_scratch = scratch(device, dtype, unet_scratch);
        let needs = Needs {
            text_encoders: parameters.text_encoders * bytes(dtype),
            unet: parameters.unet * bytes(dtype),
            adapters: self.adapter_parameters() * bytes(dtype),
            vae: vae_parameters * bytes(vae_dtype),
            step: real(step) + unet_scratch,
            guided: match guided {
                0 => 0,
                guided => real(guided) + unet_scratch,
            },
            encode: 0,
            encode_tiled: 0,
            decode: 0,
            decode_tiled: 0,
        };
        self.with_autoencoder(needs, request, device)
    }

    /// `needs` with what the autoencoder works in.
    fn with_autoencoder(
        &self,
        needs: Needs,
        request: &Request,
        device: &OpenDevice,
    ) -> Result<Needs, EngineError> {
        let vae = self.checkpoint.vae_config()?;
        let dtype = vae_dtype(self.checkpoint.family(), request.model.dtype);
        let means = means(device, dtype);
        let scratch = scratch(device, dtype, widest(&vae.block_out_channels));
        let real = |bytes: u64| (bytes as f64 * overhead(device)) as u64 + scratch;
        let latents = |side: usize| side / self.vae_factor();
        let (height, width) = (latents(request.height), latents(request.width));
        let (encode, encode_tiled) = match &request.init {
            None => (0, 0),
            Some(init) => {
                // At most: the file, which may be smaller than what its latents are made, is not read for this.
                let (height, width) = init.upscale.map_or((height, width), |upscale| {
                    (latents(upscale.height), latents(upscale.width))
                });
                (
                    real(vae.encode_bytes(height, width, means)),
                    real(vae.encode_tiled_bytes(height, width, means)),
                )
            }
        };
        Ok(Needs {
            encode,
            encode_tiled,
            decode: real(vae.decode_bytes(height, width, means)),
            decode_tiled: real(vae.decode_tiled_bytes(height, width, means)),
            ..needs
        })
    }

    /// Parameters of IP-Adapters and their picture encoders, each of which is there once.
    fn adapter_parameters(&self) -> u64 {
        let adapters = self.checkpoint.adapters();
        let mut encoders: Vec<_> = (adapters.iter())
            .map(|adapter| (adapter.encoder_path(), adapter.encoder_parameters()))
            .collect();
        encoders.sort();
        encoders.dedup();
        let own = adapters.iter().map(|adapter| adapter.parameters());
        own.chain(encoders.iter().map(|(_, parameters)| *parameters))
            .sum()
    }

    /// Rows of a UNet call for each picture, at most.
    fn rows(&self, request: &Request) -> Result<usize, EngineError> {
        let mut most = 1;
        for (text, _) in timeline(request, self.steps(request)?)? {
            most = most.max(parts(&text)?.len());
        }
        let composed = most > 1 || !request.regions.is_empty();
        Ok(match composed || self.is_guided(request) {
            true => 1 + most,
            false => 1,
        })
    }

    /// The last cross-attention layer that the request's guidance reads, and whether the step's own call is recorded.
    fn last_guided_layer(&self, request: &Request) -> Result<Option<(usize, bool)>, EngineError> {
        let Some(config) = &request.guide else {
            return Ok(None);
        };
        let settings = config.settings(self.network())?;
        let unet = self.checkpoint.unet_config()?;
        let factor = self.vae_factor();
        let [height, width] = [request.height / factor, request.width / factor];
        let filter = settings.layers.resolve(&unet, [height, width])?;
        let layers = unet.cross_attention_layers(height, width);
        let layers = layers.map_err(|source| self.unusable(source))?;
        let last = layers.iter().enumerate().rposition(|(index, layer)| {
            filter.wants(&LayerInfo {
                name: &layer.name,
                place: layer.place,
                index,
                height: layer.height,
                width: layer.width,
                heads: 1,
                tokens: 77,
            })
        });
        Ok(last.map(|last| (last, settings.one_pass)))
    }

    pub(super) fn unusable(&self, source: ConfigError) -> EngineError {
        let path = self.checkpoint.path().to_path_buf();
        WeightsError::Config { path, source }.into()
    }
}

/// The type of the autoencoder's weights: SDXL's overflows in f16, and it is small, so it keeps f32 unless bf16 was
/// chosen.
pub(super) fn vae_dtype(family: Family, dtype: Dtype) -> Dtype {
    match (family, dtype) {
        (Family::Sdxl, Dtype::F16) => Dtype::F32,
        _ => dtype,
    }
}

pub(super) fn bytes(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::F32 => 4,
        Dtype::F16 | Dtype::Bf16 => 2,
    }
}

/// How `device` computes in `dtype`.
fn means(device: &OpenDevice, dtype: Dtype) -> Means {
    match device.is_cpu() {
        // f16 is widened on the way.
        true => Means {
            element: match dtype {
                Dtype::Bf16 => 2,
                Dtype::F32 | Dtype::F16 => 4,
            },
            scores: false,
            relayout: false,
            in_place: dtype != Dtype::F16,
        },
        false => Means {
            element: bytes(dtype),
            scores: false,
            relayout: true,
            in_place: false,
        },
    }
}

fn widest(channels: &[usize]) -> usize {
    channels.iter().copied().max().unwrap_or(0)
}

/// What convolutions with so many channels work in.
fn scratch(device: &OpenDevice, dtype: Dtype, channels: usize) -> u64 {
    let dtype = match dtype {
        Dtype::Bf16 => DType::BF16,
        // f16 is widened on the way.
        Dtype::F32 | Dtype::F16 => DType::F32,
    };
    match device.is_cpu() {
        true => prepose_kernels::convolution_working_bytes(dtype, channels),
        false => 0,
    }
}

/// What is taken for each byte of the tensors that are alive, as measured: scratch of kernels, and what allocators keep.
fn overhead(device: &OpenDevice) -> f64 {
    match device.is_cpu() {
        true => 1.25,
        false => 1.0,
    }
}
