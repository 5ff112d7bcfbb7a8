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

use anyhow::{Context, ensure};
use burn::tensor::Device;
use prepose::check::spatialbench::config::DetectorParams;
use prepose::detect::{Detector, OpenDetector};
use prepose::engine::{Blueprint, Engine};
use prepose::make::{MapOptions, PictureMaker, PictureWriter, check, picture_reward, reward_kind};
use prepose::output::files::prepare_folder;
use prepose::request::{ModelRequest, Request, SearchConfig};
use prepose::search::unet_calls;
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
        mut order,
        targets,
    } = Planned::new(args)?;
    let device = model::open(args.model.device)?;
    if args.model.dtype.is_none() && args.again.is_none() {
        for request in &mut order.requests {
            request.model.dtype = device.default_dtype();
        }
    }
    let networks = order.requests[0].model.clone();
    device.check_dtype(networks.dtype)?;
    let sheet = args.sheet.grid.as_deref().zip(order.layout.take());
    let sheet = sheet.map(|(path, layout)| Sheet::new(path, layout, &order.requests));
    let sheet = sheet.transpose()?;
    let stop = interrupt::listen_briefly()?;

    let fingerprint = blueprint.fingerprint();
    let engine = args.running.apply(blueprint.load(&networks, &device)?);
    let judge = order.load_detector(&device.device)?;
    tracing::info!(
        "loaded in {:.1} s on {}",
        started.elapsed().as_secs_f64(),
        device.name
    );
    let tiles_when_short = args.tiles_when_short();
    let engine = engine.tiling_when_short(tiles_when_short);
    order.choose_tiling(args, &engine)?;
    let batch = args.batch.choose(&engine, &order.requests[0], 1)?;
    let mut maker = PictureMaker::new(&engine, batch)
        .with_judge(judge.as_ref().map(|judge| &**judge as &dyn Detector))
        .with_maps(order.maps)
        .keeping_all(args.keeps_all())
        .with_cancel(&stop)
        .with_fingerprint(fingerprint);

    let (requests, search) = (order.requests, order.search);
    let steps = requests.iter().map(|request| match &search {
        Some(search) => unet_calls(engine.blueprint(), request, search),
        None => Ok(engine.steps(request)),
    });
    let steps = steps.sum::<Result<usize, _>>()?;
    let mut progress = Progress::new(steps as u64, "steps", quiet || args.json);
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

/// What is to be made, and where it goes. All that can be wrong without a look at the weights is found here.
struct Planned {
    blueprint: Blueprint,
    order: Order,
    /// The file of each picture.
    targets: Vec<PathBuf>,
}

impl Planned {
    fn new(args: &Args) -> anyhow::Result<Self> {
        args.check()?;
        let stored = args.stored()?;
        let mut model = args.model.request();
        if let Some(stored) = &stored {
            model.clone_from(&stored.model);
            args.model.apply(&mut model);
        }
        if args.guide.is_grounded() {
            model.ground_toybox();
        }
        if !args.sampling.ip_picture.is_empty() {
            model.show_toybox();
        }
        let blueprint = Blueprint::open(&model)?;
        let order = Order::new(args, stored.as_ref(), &model, &blueprint, |_| Ok(()))?;
        if let (Some(_), Some(folder)) = (&order.maps, &args.maps.attention_maps) {
            prepare_folder(folder)?;
        }
        let targets = targets(&args.out, &order.requests)?;
        Ok(Self {
            blueprint,
            order,
            targets,
        })
    }
}

/// What the options ask of a checkpoint that is open.
pub struct Order {
    /// At least one, checked.
    pub requests: Vec<Request>,
    /// How the noise of each is searched for.
    pub search: Option<SearchConfig>,
    /// Which attention maps are read.
    pub maps: Option<MapOptions>,
    /// Of the judge that the search needs.
    detector: Option<OpenDetector>,
    /// What looks besides it.
    looking: Looking,
    /// The order of the requests on a sheet, if there is one.
    layout: Option<Layout>,
}

impl Order {
    /// What `args` ask of `blueprint`, which is that of `model`; `stored` is the request of the picture that is made again, and
    /// `sign` puts into a request which files its picture is made from, where `model` does not say it.
    ///
    /// # Errors
    /// All that can be wrong without a look at the weights.
    pub fn new(
        args: &Args,
        stored: Option<&Request>,
        model: &ModelRequest,
        blueprint: &Blueprint,
        sign: impl Fn(&mut Request) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let extractor = args.extractor()?;
        let base = match (&args.again, stored) {
            (Some(path), Some(stored)) => Some(requests::located(args, path, stored)?),
            _ => None,
        };
        let requests = match &base {
            Some(base) => requests::again(args, base, model, blueprint)?,
            None => requests::fresh(args, model, blueprint)?,
        };
        // Without a sheet the same picture may be asked for twice.
        let (mut requests, layout) = match args.sheet.grid {
            Some(_) => {
                let (requests, layout) = args.sheet.lay_out(&requests, &args.guide)?;
                (requests, Some(layout))
            }
            None => (requests, None),
        };
        args.sampling.drop_inert(&mut requests, blueprint)?;
        if let Some(extractor) = &extractor {
            give_relations(extractor, blueprint, &mut requests)?;
        }
        if let Some(base) = &base {
            requests::forget_search(base, &mut requests, sign)?;
        }
        let mut order = Self {
            requests,
            search: args.search.config(),
            maps: args.maps.options(),
            detector: args.search.detector()?,
            looking: args.search.looking()?,
            layout,
        };
        order.check(blueprint)?;
        if model.checkpoint == TOYBOX {
            toybox::warn_of_blobs(order.requests.iter().map(Request::final_prompt))?;
        }
        if let Some(maps) = &order.maps {
            for request in &order.requests {
                let checked = maps.check(blueprint, request);
                checked
                    .context("--attention-maps, of the prompt's objects or of --attention-words")?;
            }
        }
        Ok(order)
    }

    fn check(&mut self, blueprint: &Blueprint) -> anyhow::Result<()> {
        let labels = (self.detector.as_ref()).and_then(OpenDetector::vocabulary);
        let search = self.search.as_ref();
        for request in &mut self.requests {
            check(blueprint, request, search, labels.as_deref())?;
            let kind = search.and_then(|search| reward_kind(search.reward));
            if let Some(kind) = kind.filter(|_| !self.looking.sees_depth()) {
                let reward = picture_reward(blueprint, request, kind, labels.as_deref())?;
                ensure!(
                    !reward.needs_depth(),
                    "\"{}\" is about depth; for --reward relations, name a Depth Anything with --depth (docs/eyes.md)",
                    printable(&request.prompt)
                );
            }
        }
        Ok(())
    }

    /// The detector that scores the candidates of the search, where one does.
    ///
    /// # Errors
    /// Weights that cannot be loaded.
    pub fn load_detector(
        &self,
        device: &Device,
    ) -> anyhow::Result<Option<Box<dyn Detector + Send>>> {
        let load = |weights| {
            let detector = checker::load(weights, device, &DetectorParams::default())?;
            self.looking.complete(detector, device)
        };
        self.detector.as_ref().map(load).transpose()
    }

    /// Decides whether pictures go through the autoencoder in tiles; one that is made again is made as it was, unless
    /// something else is asked for.
    ///
    /// # Errors
    /// What there is cannot be found out.
    pub fn choose_tiling(&mut self, args: &Args, engine: &Engine) -> anyhow::Result<()> {
        if !args.stays_tiled() {
            let tiling = args.sampling.vae_tiling.unwrap_or(Tiling::Auto);
            let tiling = tiling.choose(engine, &self.requests[0])?;
            for request in &mut self.requests {
                request.vae_tiling = tiling;
            }
        }
        Ok(())
    }
}
