//! Rows that go through the engine: texts, steps, decoding, whole pictures and searches.

use std::path::Path;

use burn::tensor::Tensor;
use prepose_models::unet::PASSES_BEFORE_CAPTURE;
use prepose_weights::DetectorWeights;

use super::budget::FIRST_STEPS;
use super::error::BenchError;
use super::networks::random;
use super::row::{BEST_OF, PROMPT, Row, What, guided_variants};
use super::timing::{Timer, Times};
use crate::detect::RcnnDetector;
use crate::engine::Engine;
use crate::guidance::GuidanceConfig;
use crate::make::PictureMaker;
use crate::request::{Request, Savings};
use crate::search::{RewardKind, SearchConfig};

/// What goes through the engine as for a user.
pub(super) fn measure(timer: &Timer, engine: &Engine) -> Result<Times, BenchError> {
    let (row, device) = (timer.row, &timer.device.device);
    let mut request = request(engine, row);
    match row.what {
        What::Text => {
            let requests = requests(&request, row.batch);
            timer.time(|| {
                let conditioning = engine.conditioning(&requests)?;
                Ok(conditioning.positive.context.unsqueeze())
            })
        }
        What::Decode => {
            let side = row.size / engine.blueprint().vae_factor();
            let channels = engine.unet().config().in_channels;
            let shape = [row.batch, channels, side, side];
            let latents = random::<4>(shape, device);
            timer.time(|| {
                let pictures = engine.decode_on_device(latents.clone(), false);
                let last = pictures.last().map(Tensor::unsqueeze);
                Ok(last.unwrap_or_else(|| latents.clone()))
            })
        }
        What::Picture => {
            let whole = requests(&request, row.batch);
            // The networks have run before; a few steps see to the rest.
            request.steps = FIRST_STEPS.min(row.steps);
            // They may want more steps than these.
            request.savings = Savings::default();
            let mut now = requests(&request, row.batch);
            let mut maker = PictureMaker::new(engine, row.batch).without_halving();
            timer.time(|| {
                maker.make(&now, None, &mut [])?;
                now.clone_from(&whole);
                Ok(Tensor::<4>::ones([1; 4], device))
            })
        }
        What::Search => search(timer, engine),
        What::Step | What::Guided => {
            // Guided passes are captured once there were enough of them; plain calls at once.
            let before = match row.what {
                What::Guided if !engine.is_on_cpu() => PASSES_BEFORE_CAPTURE + 1,
                _ => 0,
            };
            // As many as are taken, so that every one is guided.
            request.steps = request.steps.max(before + row.repeats + 1);
            request.guide = match row.what {
                What::Guided => Some(guide(row, request.steps)?),
                _ => None,
            };
            let mut session = engine.begin(&requests(&request, row.batch), &mut [])?;
            session.advance(before, &mut [])?;
            timer.time(|| {
                session.advance(1, &mut [])?;
                Ok(session.latents().clone())
            })
        }
        what => Err(BenchError::Outside { what }),
    }
}

/// Best of several pictures by the checker, as for a user.
fn search(timer: &Timer, engine: &Engine) -> Result<Times, BenchError> {
    let (row, device) = (timer.row, &timer.device.device);
    let request = request(engine, row);
    let weights = DetectorWeights::open(Path::new("toybox"))?;
    let threshold = RcnnDetector::SCORE_THRESHOLD;
    let detector = RcnnDetector::load(&weights, device, threshold)?;
    let mut maker = PictureMaker::new(engine, row.batch)
        .with_judge(Some(&detector))
        .without_halving();
    let search = SearchConfig {
        best_of: BEST_OF,
        reward: RewardKind::Checker,
        pruning: None,
    };
    timer.time(|| {
        maker.make(std::slice::from_ref(&request), Some(&search), &mut [])?;
        Ok(Tensor::<4>::ones([1; 4], device))
    })
}

/// A picture of the row, with a scheduler that calls the network once a step.
fn request(engine: &Engine, row: &Row) -> Request {
    Request {
        width: row.size,
        height: row.size,
        steps: row.steps.max(1),
        savings: row.savings,
        scheduler: Some("ddim".into()),
        ..engine.blueprint().request(PROMPT, &row.model_request())
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
