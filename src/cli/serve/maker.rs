//! The networks that are loaded, and what each batch is made with.

use std::sync::Arc;
use std::time::Instant;

use prepose::check::spatialbench::Rule;
use prepose::check::spatialbench::config::DetectorParams;
use prepose::detect::checker::Checker;
use prepose::engine::{Blueprint, Engine};
use prepose::make::Signature;
use prepose::memory::Room;
use prepose::request::{ModelRequest, Request, RewardKind, SearchConfig};
use prepose_models::unet::Memory;
use prepose_serve::{Batch, Maker, Trouble, Unit, Watch};

use super::batch::Studio;
use super::plan::{Second, told};
use super::searching;
use super::studio::Shared;
use crate::cli::checker;

/// Pictures at a time on the CPU, at most: more gain nothing, and a step takes longer to end.
const ON_CPU: usize = 4;

/// Makes pictures with the networks of several checkpoints.
pub struct Making {
    shared: Arc<Shared>,
    /// The last one used stands last.
    loaded: Vec<(ModelRequest, Loaded)>,
    /// How often the folder of LoRAs had been read again when something was last loaded.
    readings: u64,
    checker: Option<Checker>,
}

/// A checkpoint on the device.
pub struct Loaded {
    /// Its networks.
    pub engine: Engine,
    /// Which files these are; none if they could not be hashed.
    pub signature: Option<Signature>,
}

/// What a unit is made from.
pub struct Order {
    /// The request.
    pub request: Request,
    /// Best-of-N.
    pub search: Option<SearchConfig>,
    /// What is drawn over its picture.
    pub second: Option<Second>,
}

impl Order {
    fn of(unit: &Unit) -> Result<Self, String> {
        let part = |name: &str| unit.order[name].clone();
        let request = serde_json::from_value(part("request")).map_err(|error| told(&error))?;
        let search = serde_json::from_value(part("search")).map_err(|error| told(&error))?;
        let second = serde_json::from_value(part("second")).map_err(|error| told(&error))?;
        Ok(Self {
            request,
            search,
            second,
        })
    }

    /// The request that takes the most memory.
    fn largest(&self) -> &Request {
        let second = self.second.as_ref();
        second.map_or(&self.request, |second| &second.request)
    }
}

impl Making {
    /// Has loaded nothing yet.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            loaded: Vec::new(),
            readings: 0,
            checker: None,
        }
    }

    /// Loads the checkpoint of `request` if need be; others go where memory would run short.
    fn load(&mut self, request: &Request) -> Result<(), String> {
        let model = &request.model;
        let readings = self.shared.loras.readings();
        if self.readings != readings {
            // A file may be another one under its old name.
            self.loaded.retain(|(known, _)| known.loras.is_empty());
            self.readings = readings;
        }
        if let Some(at) = self.loaded.iter().position(|(known, _)| known == model) {
            let used = self.loaded.remove(at);
            self.loaded.push(used);
            return Ok(());
        }
        let device = &self.shared.device;
        let blueprint = Blueprint::open(model).map_err(|error| told(&error))?;
        let needs = blueprint
            .needs(request, 1, device, Memory::Keep)
            .map_err(|error| told(&error))?;
        let wanted = needs.weights() + needs.step.max(needs.autoencoder(false)) + needs.guided;
        while !self.loaded.is_empty() && Room::of(device).free.is_some_and(|free| free < wanted) {
            let (old, _) = self.loaded.remove(0);
            tracing::info!("{} is unloaded to make room", old.checkpoint);
        }
        let started = Instant::now();
        let ungrounded = model.ungrounded_toybox();
        let ungrounded = ungrounded.as_ref().map(Blueprint::open).transpose();
        let ungrounded = ungrounded.map_err(|error| told(&error))?;
        let signing = Signature::begin(&blueprint, ungrounded.as_ref());
        let engine = blueprint
            .load(model, device)
            .map_err(|error| told(&error))?;
        let engine = engine.tiling_when_short(true);
        // A checkpoint whose files cannot be hashed was loaded nevertheless.
        let signature = signing.finish().ok();
        tracing::info!(
            "{} was loaded in {:.1} s",
            model.checkpoint,
            started.elapsed().as_secs_f64()
        );
        self.loaded
            .push((model.clone(), Loaded { engine, signature }));
        Ok(())
    }

    /// Loads the checker once. What could not be loaded is tried again the next time: memory may have run short.
    fn prepare_checker(&mut self) -> Result<(), String> {
        let Some(detector) = self
            .shared
            .detector
            .as_ref()
            .filter(|_| self.checker.is_none())
        else {
            return Ok(());
        };
        let device = &self.shared.device.device;
        let loaded = checker::load(detector, device, &DetectorParams::default());
        let primary = loaded.map_err(|error| told(&*error))?;
        self.checker = Some(Checker {
            primary,
            secondary: None,
            rule: Rule::default(),
            device: device.clone(),
            batch: 8,
        });
        Ok(())
    }

    /// What makes a batch, and who looks at its pictures if anybody is to.
    fn studio(&self, looked_at: bool) -> Result<Studio<'_>, Trouble> {
        let (_, loaded) = self
            .loaded
            .last()
            .ok_or_else(|| Trouble::Failed("no checkpoint is loaded".into()))?;
        Ok(Studio {
            shared: &self.shared,
            loaded,
            checker: self.checker.as_ref().filter(|_| looked_at),
        })
    }
}

impl Maker for Making {
    fn most(&mut self, unit: &Unit) -> Result<usize, String> {
        let order = Order::of(unit)?;
        self.load(order.largest())?;
        let (_, loaded) = self.loaded.last().ok_or("no checkpoint is loaded")?;
        let batch = self.shared.batch;
        let most = batch.choose(&loaded.engine, order.largest(), ON_CPU);
        most.map_err(|error| told(&error))
    }

    fn make(&mut self, batch: &Batch, watch: &mut dyn Watch) -> Result<(), Trouble> {
        let orders: Result<Vec<Order>, String> = batch.iter().map(|unit| Order::of(unit)).collect();
        let orders = orders.map_err(Trouble::Failed)?;
        let Some(first) = orders.first() else {
            return Ok(());
        };
        self.load(first.largest()).map_err(Trouble::Failed)?;
        let scored =
            (first.search.as_ref()).is_some_and(|search| search.reward != RewardKind::Attention);
        let looked_at = scored || batch.iter().any(|unit| unit.check);
        if looked_at && let Err(why) = self.prepare_checker() {
            // Without it there is no best of several; pictures alone are there all the same.
            if scored {
                return Err(Trouble::Failed(why));
            }
            tracing::warn!("pictures are not checked: {why}");
        }
        let studio = self.studio(looked_at)?;
        match &first.search {
            Some(search) => searching::search(&studio, &batch[0], &first.request, search, watch),
            None => studio.batch(batch, &orders, watch),
        }
    }
}
