//! Measuring rows on a device.

use std::path::Path;
use std::time::Instant;

use burn::tensor::{DType, Device, Distribution, Tensor};
use prepose_kernels::profile::{self, Family, linear_flops};
use prepose_models::unet::AddedConditioning;
use prepose_weights::{DetectorWeights, WeightsError};
use thiserror::Error;

use super::budget::FIRST_STEPS;
use super::row::{FamilyTime, Outcome, Row, What, guided_variants};
use crate::detect::RcnnDetector;
use crate::device::{DeviceError, OpenDevice};
use crate::engine::{Blueprint, Engine, EngineError};
use crate::guidance::GuidanceConfig;
use crate::make::{MakeError, PictureMaker};
use crate::memory::MemoryMeter;
use crate::request::{Dtype, ModelRequest, Request};
use crate::search::{RewardKind, SearchConfig};

/// What pictures are of: two objects with a relation, as guidance and the checker need them.
pub const PROMPT: &str = "a dog to the left of a cat";
/// Tokens of a text.
pub const TOKENS: usize = 77;
/// Candidates of a search.
pub const BEST_OF: usize = 16;

/// Why a row could not be measured.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The device does not compute in that type.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device failed, for want of memory for example.
    #[error("the device failed: {reason}")]
    Execution {
        /// The backend's words.
        reason: String,
    },
    /// The checkpoint cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The detector of a search cannot be used.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The pictures cannot be made.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// No such guidance.
    #[error("there is no guided step {name:?}")]
    Variant {
        /// As asked for.
        name: String,
    },
    /// Numbers that mean nothing, so that their time means nothing either.
    #[error("the result is not finite in {dtype:?}")]
    NonFinite {
        /// The type of the weights.
        dtype: Dtype,
    },
    /// The row is a matter of whole processes.
    #[error("{what:?} cannot be measured within a process")]
    Outside {
        /// What was asked for.
        what: What,
    },
}

/// A device with the checkpoint that was last asked for.
pub struct Bench {
    device: OpenDevice,
    loaded: Option<Loaded>,
}

struct Loaded {
    checkpoint: String,
    dtype: Dtype,
    engine: Engine,
}

/// Times of calls, the first not counted, and the memory they took.
struct Times {
    first: f64,
    counted: Vec<f64>,
    /// The processors', for those that count; on the CPU only.
    cpu: Vec<f64>,
}

impl Bench {
    /// Nothing is loaded yet.
    pub fn new(device: OpenDevice) -> Self {
        Self {
            device,
            loaded: None,
        }
    }

    /// Measures `row`. What goes wrong is in the outcome; a backend may panic, too.
    pub fn measure(&mut self, row: &Row) -> Outcome {
        self.try_measure(row)
            .unwrap_or_else(|error| Outcome::failed(row, message(&error)))
    }

    fn try_measure(&mut self, row: &Row) -> Result<Outcome, BenchError> {
        self.device.check_dtype(row.dtype)?;
        let mut outcome = Outcome::empty(row);
        if row.what == What::Load {
            let meter = MemoryMeter::start(&self.device.device);
            let started = Instant::now();
            self.load(row)?;
            outcome.seconds = vec![started.elapsed().as_secs_f64()];
            (outcome.peak_bytes, outcome.extra_bytes) = (meter.peak(), meter.extra());
            return Ok(outcome);
        }
        if row.what != What::Matmul {
            self.load(row)?;
        }
        let meter = MemoryMeter::start(&self.device.device);
        let times = match (row.what, &self.loaded) {
            (What::Matmul, _) => self.matmul(row, &mut outcome)?,
            (What::Unet | What::Families, Some(loaded)) => {
                self.unet(&loaded.engine, row, &mut outcome)?
            }
            (What::Search, Some(loaded)) => self.search(&loaded.engine, row)?,
            (_, Some(loaded)) => self.engine(&loaded.engine, row)?,
            (what, None) => return Err(BenchError::Outside { what }),
        };
        outcome.first_seconds = Some(times.first);
        outcome.seconds = times.counted;
        outcome.cpu_seconds = times.cpu;
        (outcome.peak_bytes, outcome.extra_bytes) = (meter.peak(), meter.extra());
        Ok(outcome)
    }

    /// Has the row's checkpoint on the device, and no other.
    fn load(&mut self, row: &Row) -> Result<(), BenchError> {
        let there = self
            .loaded
            .as_ref()
            .is_some_and(|loaded| loaded.checkpoint == row.checkpoint && loaded.dtype == row.dtype);
        if there && row.what != What::Load {
            return Ok(());
        }
        self.loaded = None;
        self.device.device.memory_cleanup();
        let model = model(row);
        let engine = Blueprint::open(&model)?.load(&model, &self.device)?;
        wait(&self.device.device)?;
        self.loaded = Some(Loaded {
            checkpoint: row.checkpoint.clone(),
            dtype: row.dtype,
            engine,
        });
        Ok(())
    }

    fn matmul(&self, row: &Row, outcome: &mut Outcome) -> Result<Times, BenchError> {
        let (n, device) = (row.size, &self.device.device);
        let dtype = row.dtype.float();
        let a = random::<3>([1, n, n], device).cast(dtype);
        let b = (random::<2>([n, n], device) * (n as f32).powf(-0.5)).cast(dtype);
        outcome.flops = Some(linear_flops(n, n, n));
        self.timed(row, || {
            let product = prepose_kernels::linear(a.clone(), b.clone(), None);
            Ok(product.slice([0..1, 0..1, 0..1]).reshape([1, 1, 1, 1]))
        })
    }

    /// The network alone, on random latents and random text.
    fn unet(&self, engine: &Engine, row: &Row, outcome: &mut Outcome) -> Result<Times, BenchError> {
        let (unet, device) = (engine.unet(), &self.device.device);
        let config = unet.config();
        let side = row.size / engine.blueprint().vae_factor();
        let rows = 2 * row.batch;
        let latents = random::<4>([rows, config.in_channels, side, side], device);
        let width = config.cross_attention_dim.first().unwrap_or(768);
        let context = random::<3>([rows, TOKENS, width], device);
        let added = config.projection_class_embeddings_input_dim.map(|width| {
            let ids = 6 * config.addition_time_embed_dim.unwrap_or_default();
            let size = row.size as f32;
            AddedConditioning {
                text_embeds: random([rows, width.saturating_sub(ids)], device),
                time_ids: Tensor::from_floats([[size, size, 0.0, 0.0, size, size]], device)
                    .repeat_dim(0, rows),
            }
        });
        let prepared = unet.prepare(context, added.as_ref());
        let flops = config.flops(rows, [side, side], TOKENS);
        outcome.flops = flops.ok().map(|flops| flops.step());
        let call = || unet.forward_prepared(latents.clone(), &[500.0], &prepared);
        if row.what == What::Unet {
            return self.timed(row, || Ok(call()));
        }
        let mut fastest = f64::INFINITY;
        self.timed(row, || {
            let started = Instant::now();
            let (result, profile) = profile::record(|| {
                let result = call();
                wait(device)?;
                Ok::<_, BenchError>(result)
            });
            let seconds = started.elapsed().as_secs_f64();
            if seconds < fastest {
                fastest = seconds;
                outcome.families = families(&profile, seconds);
            }
            result
        })
    }

    /// What goes through the engine as for a user.
    fn engine(&self, engine: &Engine, row: &Row) -> Result<Times, BenchError> {
        let mut request = request(engine, row);
        match row.what {
            What::Text => {
                let requests = requests(&request, row.batch);
                self.timed(row, || {
                    let conditioning = engine.conditioning(&requests)?;
                    Ok(conditioning.positive.context.unsqueeze())
                })
            }
            What::Decode => {
                let side = row.size / engine.blueprint().vae_factor();
                let channels = engine.unet().config().in_channels;
                let shape = [row.batch, channels, side, side];
                let latents = random::<4>(shape, &self.device.device);
                self.timed(row, || {
                    let pictures = engine.decode_on_device(latents.clone(), false);
                    let last = pictures.last().map(Tensor::unsqueeze);
                    Ok(last.unwrap_or_else(|| latents.clone()))
                })
            }
            What::Picture => {
                let whole = requests(&request, row.batch);
                // The networks have run before; a few steps see to the rest.
                request.steps = FIRST_STEPS.min(row.steps);
                let mut now = requests(&request, row.batch);
                let mut maker = PictureMaker::new(engine, row.batch).without_halving();
                self.timed(row, || {
                    maker.make(&now, None, &mut [])?;
                    now.clone_from(&whole);
                    Ok(Tensor::<4>::ones([1; 4], &self.device.device))
                })
            }
            What::Step | What::Guided => {
                // As many as are taken, so that every one is guided.
                request.steps = request.steps.max(row.repeats + 1);
                request.guide = match row.what {
                    What::Guided => Some(guide(row, request.steps)?),
                    _ => None,
                };
                let mut session = engine.begin(&requests(&request, row.batch), &mut [])?;
                self.timed(row, || {
                    session.advance(1, &mut [])?;
                    Ok(session.latents().clone())
                })
            }
            what => Err(BenchError::Outside { what }),
        }
    }

    fn search(&self, engine: &Engine, row: &Row) -> Result<Times, BenchError> {
        let request = request(engine, row);
        let weights = DetectorWeights::open(Path::new("toybox"))?;
        let threshold = RcnnDetector::SCORE_THRESHOLD;
        let detector = RcnnDetector::load(&weights, &self.device.device, threshold)?;
        let mut maker = PictureMaker::new(engine, row.batch)
            .with_judge(Some(&detector))
            .without_halving();
        let search = SearchConfig {
            best_of: BEST_OF,
            reward: RewardKind::Checker,
            pruning: None,
        };
        self.timed(row, || {
            maker.make(std::slice::from_ref(&request), Some(&search), &mut [])?;
            Ok(Tensor::<4>::ones([1; 4], &self.device.device))
        })
    }

    /// Calls `call` once and then as often as it counts, each from an idle device until the device has done it.
    fn timed(
        &self,
        row: &Row,
        mut call: impl FnMut() -> Result<Tensor<4>, BenchError>,
    ) -> Result<Times, BenchError> {
        let device = &self.device.device;
        let mut seconds = Vec::with_capacity(row.repeats + 1);
        let mut cpu = Vec::new();
        for number in 0..=row.repeats {
            wait(device)?;
            let (started, worked) = (Instant::now(), processor_seconds());
            let result = call()?;
            wait(device)?;
            seconds.push(started.elapsed().as_secs_f64());
            let worked = worked.zip(processor_seconds());
            if let Some((before, after)) = worked.filter(|_| number > 0 && self.device.is_cpu()) {
                cpu.push(after - before);
            }
            let value: f32 = result.slice([0..1, 0..1, 0..1, 0..1]).into_scalar();
            if !value.is_finite() {
                return Err(BenchError::NonFinite { dtype: row.dtype });
            }
        }
        Ok(Times {
            first: seconds.remove(0),
            counted: seconds,
            cpu,
        })
    }
}

fn model(row: &Row) -> ModelRequest {
    ModelRequest::new(&row.checkpoint, row.dtype)
}

/// A picture of the row, with a scheduler that calls the network once a step.
fn request(engine: &Engine, row: &Row) -> Request {
    Request {
        width: row.size,
        height: row.size,
        steps: row.steps.max(1),
        scheduler: Some("ddim".into()),
        ..engine.blueprint().request(PROMPT, &model(row))
    }
}

fn requests(request: &Request, batch: usize) -> Vec<Request> {
    let seeds = 0..batch as u64;
    let each = seeds.map(|seed| Request {
        seed,
        ..request.clone()
    });
    each.collect()
}

fn guide(row: &Row, steps: usize) -> Result<GuidanceConfig, BenchError> {
    let mut variants = guided_variants().into_iter();
    let found = variants.find(|(name, _)| *name == row.variant);
    let (_, config) = found.ok_or_else(|| BenchError::Variant {
        name: row.variant.clone(),
    })?;
    Ok(GuidanceConfig {
        steps: Some(steps),
        ..config
    })
}

/// The families' parts of `seconds`, and what is left.
fn families(profile: &profile::Profile, seconds: f64) -> Vec<FamilyTime> {
    let mut rest = seconds;
    let mut times = Vec::new();
    for family in Family::ALL {
        let totals = profile.get(family);
        rest -= totals.seconds;
        times.push(FamilyTime {
            family: family.name().into(),
            calls: totals.calls,
            seconds: totals.seconds,
            flops: totals.flops,
        });
    }
    times.push(FamilyTime {
        family: "rest".into(),
        calls: 0,
        seconds: rest.max(0.0),
        flops: 0,
    });
    times
}

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), (device, DType::F32))
}

fn wait(device: &Device) -> Result<(), BenchError> {
    device.sync().map_err(|error| BenchError::Execution {
        reason: format!("{error:?}"),
    })
}

/// What the processors have worked for this process, on all its threads, where the system tells: in hundredths.
fn processor_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program is in brackets and may hold anything; user and system time are 12 and 13 fields on.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    // Linux counts in hundredths of a second here, whatever its clock.
    Some((ticks()? + ticks()?) / 100.0)
}

/// An error with its causes, on one line.
fn message(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text.replace('\n', " ")
}
