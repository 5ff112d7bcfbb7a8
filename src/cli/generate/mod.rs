//! `prepose generate`

mod args;
mod making;
mod options;
mod outcome;
mod requests;
mod sheet;
mod targets;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use prepose::check::spatialbench::config::DetectorParams;
use prepose::detect::{Detector, OpenDetector};
use prepose::engine::{Blueprint, Engine};
use prepose::make::{MapOptions, PictureMaker, PictureWriter, check, picture_reward, reward_kind};
use prepose::output::files::prepare_folder;
use prepose::output::png;
use prepose::request::{Request, SearchConfig};
use prepose_untrusted::printable;
use prepose_weights::TOYBOX;

pub use args::Args;
use making::Making;
use sheet::{Layout, Sheet};
use targets::targets;

use super::extract::give_relations;
use super::looking::Looking;
use super::memory::Tiling;
use super::model;
use super::progress::Progress;
use super::{OK, checker, interrupt, toybox};

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let started = Instant::now();
    let Planned {
        blueprint,
        mut requests,
        search,
        detector,
        looking,
        maps,
        targets,
        layout,
    } = Planned::new(args)?;
    let device = model::open(args.model.device)?;
    if args.model.dtype.is_none() && args.again.is_none() {
        for request in &mut requests {
            request.model.dtype = device.default_dtype();
        }
    }
    let networks = requests[0].model.clone();
    device.check_dtype(networks.dtype)?;
    let sheet = args.sheet.grid.as_deref().zip(layout);
    let sheet = sheet.map(|(path, layout)| Sheet::new(path, layout, &requests));
    let sheet = sheet.transpose()?;
    let stop = interrupt::listen()?;

    let fingerprint = blueprint.fingerprint();
    let engine = args.running.apply(blueprint.load(&networks, &device)?);
    let params = DetectorParams::default();
    let load = |weights: OpenDetector| {
        let detector = checker::load(&weights, &device.device, &params)?;
        looking.complete(detector, &device.device)
    };
    let judge = detector.map(load).transpose()?;
    tracing::info!(
        "loaded in {:.1} s on {}",
        started.elapsed().as_secs_f64(),
        device.name
    );
    let engine = choose_tiling(args, engine, &mut requests)?;
    let batch = args.batch.choose(&engine, &requests[0], 1)?;
    let mut maker = PictureMaker::new(&engine, batch)
        .with_judge(judge.as_ref().map(|judge| &**judge as &dyn Detector))
        .with_maps(maps)
        .keeping_all(args.search.keep_all)
        .with_cancel(&stop)
        .with_fingerprint(fingerprint);

    let steps = requests.iter().map(|request| {
        let steps = engine.steps(request);
        search
            .as_ref()
            .map_or(steps, |search| search.unet_calls(steps))
    });
    let mut progress = Progress::new(steps.sum::<usize>() as u64, "steps", quiet || args.json);
    let (manifest, maps) = (args.manifest.clone(), args.maps.attention_maps.clone());
    let mut making = Making {
        args,
        quiet,
        engine: &engine,
        search: search.as_ref(),
        writer: PictureWriter::new(device.title(), manifest, maps),
        device: device.title(),
        sheet,
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
    detector: Option<OpenDetector>,
    /// What looks besides it.
    looking: Looking,
    maps: Option<MapOptions>,
    /// The file of each picture.
    targets: Vec<PathBuf>,
    /// The order of the requests on a sheet, if there is one.
    layout: Option<Layout>,
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
        let stored = args.again.as_deref().map(png::read_request).transpose()?;
        let mut model = args.model.request();
        if let Some(stored) = &stored {
            model.clone_from(&stored.model);
            args.model.apply(&mut model);
        }
        let blueprint = Blueprint::open(&model)?;
        let requests = match (&args.again, &stored) {
            (Some(path), Some(stored)) => requests::again(args, path, stored)?,
            _ => requests::fresh(args, &model, &blueprint)?,
        };
        // Without a sheet the same picture may be asked for twice.
        let (mut requests, layout) = match args.sheet.grid {
            Some(_) => {
                let (requests, layout) = args.sheet.lay_out(&requests, &args.guide)?;
                (requests, Some(layout))
            }
            None => (requests, None),
        };
        if let Some(extractor) = &extractor {
            give_relations(extractor, &blueprint, &mut requests)?;
        }
        let search = args.search.config();
        let detector = args.search.detector()?;
        let labels = (detector.as_ref()).and_then(OpenDetector::vocabulary);
        let looking = args.search.looking()?;
        for request in &mut requests {
            check(&blueprint, request, search.as_ref(), labels.as_deref())?;
            let kind = search
                .as_ref()
                .and_then(|search| reward_kind(search.reward));
            if let Some(kind) = kind.filter(|_| !looking.sees_depth()) {
                let reward = picture_reward(&blueprint, request, kind, labels.as_deref())?;
                ensure!(
                    !reward.needs_depth(),
                    "\"{}\" is about depth, which --reward relations sees with --depth, a Depth Anything (docs/eyes.md)",
                    printable(&request.prompt)
                );
            }
        }
        if model.checkpoint == TOYBOX {
            toybox::warn_of_blobs(requests.iter().map(Request::final_prompt))?;
        }
        let maps = args.maps.options();
        if let (Some(maps), Some(folder)) = (&maps, &args.maps.attention_maps) {
            for request in &requests {
                let checked = maps.check(&blueprint, request);
                checked.with_context(|| match args.maps.attention_words.is_empty() {
                    true => "--attention-maps shows the prompt's objects, unless --attention-words names words of it",
                    false => "--attention-words",
                })?;
            }
            prepare_folder(folder)?;
        }
        let targets = targets(&args.out, &requests)?;
        Ok(Self {
            blueprint,
            requests,
            search,
            detector,
            looking,
            maps,
            targets,
            layout,
        })
    }
}

/// Whether pictures go through the autoencoder in tiles; one that is made again is made as it was, unless something
/// else is asked for.
fn choose_tiling(args: &Args, engine: Engine, requests: &mut [Request]) -> anyhow::Result<Engine> {
    let asked = args.sampling.vae_tiling;
    let stays = args.again.is_some() && asked.is_none() && args.sampling.size.is_none();
    let tiling = asked.unwrap_or(Tiling::Auto);
    let engine = engine.tiling_when_short(!stays && tiling == Tiling::Auto);
    if !stays {
        let tiling = tiling.choose(&engine, &requests[0])?;
        for request in requests {
            request.vae_tiling = tiling;
        }
    }
    Ok(engine)
}
