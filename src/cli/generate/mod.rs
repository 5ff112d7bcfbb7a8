//! `prepose generate`

mod args;
mod making;
mod options;
mod requests;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::bail;
use prepose::detect::{Detector, RcnnDetector};
use prepose::device;
use prepose::engine::{Blueprint, Engine};
use prepose::make::{MapOptions, PictureMaker, PictureWriter, check};
use prepose::output::files::prepare_folder;
use prepose::output::png;
use prepose::request::{Request, SearchConfig};
use prepose_weights::DetectorWeights;

pub use args::Args;
use making::Making;
use requests::{requests, targets};

use super::extract::give_relations;
use super::memory::Tiling;
use super::progress::Progress;
use super::{OK, checker, interrupt};

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let started = Instant::now();
    let Planned {
        blueprint,
        mut requests,
        search,
        detector,
        maps,
        targets,
    } = Planned::new(args)?;
    let device = device::open(args.model.device)?;
    if args.model.dtype.is_none() && args.again.is_none() {
        for request in &mut requests {
            request.model.dtype = device.default_dtype();
        }
    }
    let model = requests[0].model.clone();
    device.check_dtype(model.dtype)?;
    let stop = interrupt::listen()?;

    let fingerprint = blueprint.fingerprint();
    let engine = args.running.apply(blueprint.load(&model, &device)?);
    let load = |weights: DetectorWeights| checker::load(&weights, &device.device, None);
    let judge = detector.map(load).transpose()?;
    tracing::info!(
        "loaded in {:.1} s on {}",
        started.elapsed().as_secs_f64(),
        device.name
    );
    let engine = choose_tiling(args, engine, &mut requests)?;
    let batch = args.batch.choose(&engine, &requests[0], 1)?;
    let mut maker = PictureMaker::new(&engine, batch)
        .with_judge(judge.as_ref().map(|judge| judge as &dyn Detector))
        .with_maps(maps)
        .keeping_all(args.search.keep_all)
        .with_cancel(&stop)
        .with_fingerprint(fingerprint);

    let candidates = search.as_ref().map_or(1, |search| search.best_of);
    let steps = requests.iter().map(|request| engine.steps(request));
    let steps = candidates * steps.sum::<usize>();
    let mut progress = Progress::new(steps as u64, "steps", quiet || args.json);
    let (manifest, maps) = (args.manifest.clone(), args.maps.attention_maps.clone());
    let making = Making {
        args,
        engine: &engine,
        search: search.as_ref(),
        writer: PictureWriter::new(device.title(), manifest, maps),
        device: device.title(),
    };
    let made = making.all(&mut maker, &requests, &targets, &mut progress);
    progress.finish();
    made.map(|()| OK)
}

/// What is to be made. All that can be wrong without a look at the weights is found here.
struct Planned {
    blueprint: Blueprint,
    /// At least one.
    requests: Vec<Request>,
    search: Option<SearchConfig>,
    /// Of the judge that the search needs.
    detector: Option<DetectorWeights>,
    maps: Option<MapOptions>,
    /// The file of each picture.
    targets: Vec<PathBuf>,
}

impl Planned {
    fn new(args: &Args) -> anyhow::Result<Self> {
        for (name, value) in [
            ("--preview-every", args.preview_every),
            ("--attention-every", Some(args.maps.attention_every)),
        ] {
            if value == Some(0) {
                bail!("{name} is 0, but must be at least 1");
            }
        }
        let extractor = args.extractor()?;
        let again = args.again.as_deref().map(png::read_request).transpose()?;
        let model = match &again {
            Some(request) => request.model.clone(),
            None => args.model.request(),
        };
        let blueprint = Blueprint::open(&model)?;
        let mut requests = match again {
            Some(request) => vec![request],
            None => requests(args, &model, &blueprint)?,
        };
        if let Some(extractor) = &extractor {
            give_relations(extractor, &blueprint, &mut requests)?;
        }
        let search = args.search.config();
        let detector = args.search.detector()?;
        let labels = (detector.as_ref()).map(|weights| RcnnDetector::labels(weights.config()));
        for request in &mut requests {
            check(&blueprint, request, search.as_ref(), labels.as_deref())?;
        }
        let maps = args.maps.options();
        if let (Some(maps), Some(folder)) = (&maps, &args.maps.attention_maps) {
            for request in &requests {
                maps.check(&blueprint, request)?;
            }
            prepare_folder(folder)?;
        }
        let targets = targets(args, &requests)?;
        Ok(Self {
            blueprint,
            requests,
            search,
            detector,
            maps,
            targets,
        })
    }
}

/// Whether pictures go through the autoencoder in tiles; one that is made again is made as it was.
fn choose_tiling(args: &Args, engine: Engine, requests: &mut [Request]) -> anyhow::Result<Engine> {
    let tiling = args.sampling.vae_tiling.unwrap_or(Tiling::Auto);
    let engine = engine.tiling_when_short(args.again.is_none() && tiling == Tiling::Auto);
    if args.again.is_none() {
        let tiling = tiling.choose(&engine, &requests[0])?;
        for request in requests {
            request.vae_tiling = tiling;
        }
    }
    Ok(engine)
}
