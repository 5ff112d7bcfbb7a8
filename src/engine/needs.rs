//! How much memory a request takes, and what is done when there is not enough.

use prepose_models::attention::LayerInfo;
use prepose_models::unet::{Memory, PassShape};
use prepose_models::{ConfigError, Means};
use prepose_weights::{Family, WeightsError};

use super::{Blueprint, Engine, EngineError};
use crate::device::OpenDevice;
use crate::memory::{OutOfMemory, Room, Shortage, Size, attempt, on_exhaustion};
use crate::request::{Dtype, Request};
use crate::sampling::denoise::DenoiseError;

/// What a batch takes, in bytes, by an estimate from shapes alone (docs/memory.md says how good it is).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The text encoders' weights.
    pub text_encoders: u64,
    /// The UNet's weights.
    pub unet: u64,
    /// The weights of the autoencoder, or of the half of it that is needed.
    pub vae: u64,
    /// A UNet call.
    pub step: u64,
    /// A guided pass and its gradient; 0 without guidance.
    pub guided: u64,
    /// Decoding, which is done one picture at a time.
    pub decode: u64,
    /// Decoding in tiles.
    pub decode_tiled: u64,
}

impl Needs {
    /// What is there for the whole run.
    pub fn weights(&self) -> u64 {
        self.text_encoders + self.unet + self.vae
    }

    /// The most that is needed besides the weights.
    pub fn work(&self, tiling: bool) -> u64 {
        let decode = if tiling {
            self.decode_tiled
        } else {
            self.decode
        };
        self.step.max(self.guided).max(decode)
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
        let vae = self.checkpoint.vae_config()?;
        let factor = self.vae_factor();
        let (height, width) = (request.height / factor, request.width / factor);
        let means = means(device, dtype);
        let halves = if request.guidance_scale > 1.0 { 2 } else { 1 };
        let pass = PassShape {
            rows: halves * pictures,
            height,
            width,
            tokens: 77,
        };
        let config = |source| self.unusable(source);
        let step = unet.forward_bytes(pass, means).map_err(config)?;
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
        let vae_means = self::means(device, vae_dtype);
        let real = |bytes: u64| (bytes as f64 * overhead(device)) as u64;
        Ok(Needs {
            text_encoders: parameters.text_encoders * bytes(dtype),
            unet: parameters.unet * bytes(dtype),
            vae: vae_parameters * bytes(vae_dtype),
            step: real(step),
            guided: real(guided),
            decode: real(vae.decode_bytes(height, width, vae_means)),
            decode_tiled: real(vae.decode_tiled_bytes(height, width, vae_means)),
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

    fn unusable(&self, source: ConfigError) -> EngineError {
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

fn bytes(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::F32 => 4,
        Dtype::F16 | Dtype::Bf16 => 2,
    }
}

/// How `device` computes in `dtype`.
fn means(device: &OpenDevice, dtype: Dtype) -> Means {
    match device.is_cpu() {
        // Narrow operands are widened on the way.
        true => Means {
            element: 4,
            scores: false,
            relayout: false,
        },
        false => Means {
            element: bytes(dtype),
            scores: false,
            relayout: true,
        },
    }
}

/// What is taken for each byte of the tensors that are alive, as measured: scratch of kernels, and what allocators keep.
fn overhead(device: &OpenDevice) -> f64 {
    match device.is_cpu() {
        true => 1.25,
        false => 1.0,
    }
}

/// Of the free memory, what is counted on: estimates are not exact, and allocators leave gaps.
const USABLE: f64 = 0.85;

/// Most pictures at a time that are chosen without being asked for: more gain nothing even on large GPUs.
const MOST: usize = 16;

impl Engine {
    /// What the device has, as of now.
    pub fn room(&self) -> Room {
        Room::of(&self.opened)
    }

    /// What `pictures` pictures as `request` take together.
    ///
    /// # Errors
    /// As [`Blueprint::needs`].
    pub fn needs(&self, request: &Request, pictures: usize) -> Result<Needs, EngineError> {
        self.blueprint
            .needs(request, pictures, &self.opened, self.guidance_memory)
    }

    /// Free memory that can be counted on, with what the text encoders would give back; none if nothing tells.
    fn usable(&self) -> Option<u64> {
        let text = match self.has_text_encoders() {
            true => self.blueprint.checkpoint.parameters().text_encoders * bytes(self.dtype),
            false => 0,
        };
        Some(((self.room().free? + text) as f64 * USABLE) as u64)
    }

    /// Whether `request` must be decoded in tiles for want of memory.
    ///
    /// # Errors
    /// As [`Blueprint::needs`].
    pub fn must_tile(&self, request: &Request) -> Result<bool, EngineError> {
        let needs = self.needs(request, 1)?;
        let short = self.usable().is_some_and(|usable| needs.decode > usable);
        Ok(short && needs.decode_tiled < needs.decode)
    }

    /// How many pictures as `request` the memory has room for at a time: a power of two of at most 16, at least 1.
    /// One where nothing tells how much memory there is.
    ///
    /// # Errors
    /// As [`Blueprint::needs`].
    pub fn roomy_batch(&self, request: &Request) -> Result<usize, EngineError> {
        let Some(usable) = self.usable() else {
            return Ok(1);
        };
        let mut pictures = 1;
        while 2 * pictures <= MOST {
            let needs = self.needs(request, 2 * pictures)?;
            if needs.step.max(needs.guided) > usable {
                break;
            }
            pictures *= 2;
        }
        Ok(pictures)
    }

    /// Makes room for a batch whose texts are encoded: lets go of the text encoders if it does not fit beside them.
    /// Whether there is room for the UNet's captured call, which keeps what it works on.
    pub(super) fn make_room(&self, requests: &[Request]) -> Result<bool, EngineError> {
        let needs = self.needs(&requests[0], requests.len())?;
        let work = needs.work(requests[0].vae_tiling);
        let usable = |room: Room| room.free.map(|free| (free as f64 * USABLE) as u64);
        let room = self.room();
        tracing::debug!(
            "a batch of {} takes about {} besides the weights; {} are free",
            requests.len(),
            Size(work),
            room.free
                .map_or("an unknown amount".to_string(), |free| Size(free)
                    .to_string()),
        );
        let mut free = usable(room);
        if free.is_some_and(|free| free < work) && self.release_text_encoders() {
            tracing::info!(
                "memory is short: the text encoders are let go and read again for the next prompt"
            );
            free = usable(self.room());
        }
        on_exhaustion(format!(
            " while making {} picture{} of {}×{} at a time, which takes about {}; what helps: {}",
            requests.len(),
            if requests.len() == 1 { "" } else { "s" },
            requests[0].width,
            requests[0].height,
            Size(needs.peak(requests[0].vae_tiling)),
            self.ways(None, &requests[0], requests.len()).join(", "),
        ));
        let short = free.is_some_and(|free| free < work);
        if short && requests.len() > 1 && self.opened.is_cpu() {
            // The host's memory gives no second chance.
            let shortage = Shortage { bytes: None };
            return Err(self.short(Task::Denoise, &requests[0], requests.len(), shortage));
        }
        let captured = needs.step
            + needs.guided.max(if requests[0].vae_tiling {
                needs.decode_tiled
            } else {
                needs.decode
            });
        Ok(free.is_none_or(|free| free >= captured))
    }

    /// Runs `work`, a part of making `requests`, and turns the device's want of memory into an error that says what
    /// would help.
    pub(super) fn with_memory<T>(
        &self,
        task: Task,
        request: &Request,
        pictures: usize,
        work: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let shortage = match attempt(work) {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => match &error {
                EngineError::Denoise(DenoiseError::Device(message)) => {
                    match Shortage::read(message) {
                        Some(shortage) => shortage,
                        None => return Err(error),
                    }
                }
                _ => return Err(error),
            },
            Err(shortage) => shortage,
        };
        // What failed holds memory no more.
        self.graphs.release();
        self.device.memory_cleanup();
        Err(self.short(task, request, pictures, shortage))
    }

    /// The error that tells of a shortage.
    fn short(
        &self,
        task: Task,
        request: &Request,
        pictures: usize,
        shortage: Shortage,
    ) -> EngineError {
        EngineError::OutOfMemory(Box::new(OutOfMemory {
            doing: format!(
                "{} {pictures} picture{} of {}×{}",
                task.name(),
                if pictures == 1 { "" } else { "s" },
                request.width,
                request.height
            ),
            device: self.opened.spec.to_string(),
            shortage,
            needs: self
                .needs(request, pictures)
                .ok()
                .map(|needs| needs.peak(request.vae_tiling)),
            room: self.room(),
            ways: self.ways(Some(task), request, pictures),
        }))
    }

    /// Switches that make `request` smaller in a part of the work, or in any.
    fn ways(&self, task: Option<Task>, request: &Request, pictures: usize) -> Vec<String> {
        let may_be = |part| task.is_none_or(|task| task == part);
        let mut ways = Vec::new();
        if pictures > 1 && task != Some(Task::Decode) {
            ways.push(format!("--batch {}", pictures / 2));
        }
        if !request.vae_tiling && may_be(Task::Decode) {
            ways.push("--vae-tiling".to_string());
        }
        let keeps = request.guide.is_some() && self.guidance_memory == Memory::Keep;
        if keeps && may_be(Task::Denoise) {
            ways.push("--guide-save-memory".to_string());
        }
        let narrow = self.opened.check_dtype(Dtype::F16).is_ok() && !self.opened.is_cpu();
        if self.dtype == Dtype::F32 && narrow {
            ways.push("--dtype f16".to_string());
        }
        ways.push("a smaller --size".to_string());
        ways
    }
}

/// A part of making a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// From text to what the UNet reads, and from the start picture to latents.
    Encode,
    /// From noise to latents.
    Denoise,
    /// From latents to a picture.
    Decode,
}

impl Task {
    fn name(self) -> &'static str {
        match self {
            Task::Encode => "preparing",
            Task::Denoise => "denoising",
            Task::Decode => "decoding",
        }
    }
}
