//! What fits into memory, and what is done when a batch does not.

use std::sync::PoisonError;

use prepose_models::unet::Memory;

use super::error::EngineError;
use super::needs::{Needs, bytes, vae_dtype};
use super::networks::Engine;
use crate::dtype::Dtype;
use crate::memory::{OutOfMemory, Room, Shortage, Size, attempt, on_exhaustion};
use crate::request::Request;
use crate::sampling::denoise::DenoiseError;

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
    /// As [`Blueprint::needs`](super::Blueprint::needs).
    pub fn needs(&self, request: &Request, pictures: usize) -> Result<Needs, EngineError> {
        self.blueprint
            .needs(request, pictures, &self.opened, self.guidance_memory)
    }

    /// Free memory that can be counted on for `request`, with what the text encoders would give back; none if nothing
    /// tells.
    fn usable(&self, request: &Request) -> Option<u64> {
        let text = match self.has_text_encoders() {
            true => self.blueprint.checkpoint.parameters().text_encoders * bytes(self.dtype),
            false => 0,
        };
        let usable = ((self.room().free? + text) as f64 * USABLE) as u64;
        Some(usable.saturating_sub(self.encoder_to_come(request)))
    }

    /// The weights of the autoencoder's encoder, if `request` needs it and it is still to be read.
    fn encoder_to_come(&self, request: &Request) -> u64 {
        let encoder = self.vae_encoder.lock();
        let there = encoder.unwrap_or_else(PoisonError::into_inner).is_some();
        if there || request.init.is_none() {
            return 0;
        }
        let checkpoint = &self.blueprint.checkpoint;
        let dtype = vae_dtype(checkpoint.family(), self.dtype);
        checkpoint.parameters().vae_encoder * bytes(dtype)
    }

    /// Whether `request` must be encoded and decoded in tiles for want of memory.
    ///
    /// # Errors
    /// As [`Blueprint::needs`](super::Blueprint::needs).
    pub fn must_tile(&self, request: &Request) -> Result<bool, EngineError> {
        let needs = self.needs(request, 1)?;
        let (whole, tiled) = (needs.autoencoder(false), needs.autoencoder(true));
        let short = (self.usable(request)).is_some_and(|usable| whole > usable);
        Ok(short && tiled < whole)
    }

    /// How many pictures as `request` the memory has room for at a time: a power of two of at most 16, at least 1.
    /// One where nothing tells how much memory there is.
    ///
    /// # Errors
    /// As [`Blueprint::needs`](super::Blueprint::needs).
    pub fn roomy_batch(&self, request: &Request) -> Result<usize, EngineError> {
        let Some(usable) = self.usable(request) else {
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
    /// What there is room for besides.
    pub(super) fn make_room(&self, requests: &[Request]) -> Result<Captures, EngineError> {
        let needs = self.needs(&requests[0], requests.len())?;
        let work = needs.work(requests[0].vae_tiling);
        let encoder = self.encoder_to_come(&requests[0]);
        let usable = |room: Room| {
            let counted = |free: u64| ((free as f64 * USABLE) as u64).saturating_sub(encoder);
            room.free.map(counted)
        };
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
                "memory is short: the text encoders are released and read again for the next prompt"
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
        let beside = (needs.guided).max(needs.autoencoder(requests[0].vae_tiling));
        let fits = |kept: u64| free.is_none_or(|free| free >= kept + beside);
        Ok(Captures {
            calls: fits(needs.step),
            // With one pass, the other half of the step is a call of its own.
            recordings: fits(needs.step + needs.step / 2 + needs.guided),
        })
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
        self.release_graphs();
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
        let encodes = request.init.is_some() && may_be(Task::Encode);
        if !request.vae_tiling && (encodes || may_be(Task::Decode)) {
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

/// Which captured graphs there is room for, each of which keeps what it works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Captures {
    /// The UNet's plain call.
    pub calls: bool,
    /// That and guided passes, which keep their tapes as well.
    pub recordings: bool,
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
