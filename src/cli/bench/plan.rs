//! Which rows a sheet has.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use prepose::bench::row::{BEST_OF, Row, TOKENS, What, guided_variants};
use prepose::engine::Blueprint;
use prepose::request::{Dtype, ModelRequest, Savings};
use prepose_models::unet::UNetConfig;

use super::args::Args;
use super::start::STATES;
use super::weights;

/// A checkpoint to measure.
pub struct Subject {
    pub name: String,
    pub checkpoint: String,
    /// The side of the pictures in pixels.
    pub size: usize,
    /// Pixels to a latent.
    pub factor: usize,
    unet: UNetConfig,
    /// What it counts for when time is divided.
    pub weight: f64,
}

impl Subject {
    /// Opens `name`; random weights are made in `folder` where they are not there yet.
    pub fn open(
        name: &str,
        size: Option<usize>,
        folder: &Path,
        quiet: bool,
    ) -> anyhow::Result<Self> {
        let checkpoint = match weights::known(name) {
            None => name.to_string(),
            Some(_) => {
                let folder = folder.join(name);
                if !folder.join("model_index.json").exists() {
                    let random = weights::plan(name, Dtype::F16, 0)?;
                    weights::write(&random, &folder, quiet).with_context(|| {
                        format!(
                            "cannot make weights for {name} (an unfinished folder can be removed)"
                        )
                    })?;
                }
                folder.to_string_lossy().into_owned()
            }
        };
        // Programs that are started elsewhere must find it, too.
        let there = Path::new(&checkpoint).canonicalize();
        let checkpoint = there.map_or(checkpoint, |path| path.to_string_lossy().into_owned());
        let model = ModelRequest::new(checkpoint, Dtype::F32);
        let blueprint =
            Blueprint::open(&model).with_context(|| format!("cannot measure {name}"))?;
        let (factor, native) = (blueprint.vae_factor(), blueprint.defaults().width);
        let size = size.unwrap_or(native);
        ensure!(
            size.is_multiple_of(factor) && size >= 8 * factor,
            "--size is {size}, but must be a multiple of {factor}, at least {}, for {name}",
            8 * factor
        );
        let unet = blueprint
            .checkpoint()
            .unet_config()
            .map_err(anyhow::Error::from)?;
        let name = match Path::new(name).file_name() {
            Some(file) => file.to_string_lossy().into_owned(),
            None => name.to_string(),
        };
        let mut subject = Self {
            name,
            checkpoint: model.checkpoint,
            size,
            factor,
            unet,
            weight: 0.0,
        };
        // Between equal parts and parts as large as the work: the larger networks are cut, but not to nothing.
        subject.weight = (subject.flops(size) as f64).powf(0.3);
        Ok(subject)
    }

    /// Operations of one call of the UNet for one picture of that size.
    pub fn flops(&self, size: usize) -> u64 {
        let side = size / self.factor;
        let flops = self.unet.flops(2, [side, side], TOKENS);
        flops.map_or(0, |flops| flops.step())
    }

    fn row(&self, what: What, dtype: Dtype, batch: usize, args: &Args) -> Row {
        Row {
            what,
            variant: String::new(),
            model: self.name.clone(),
            checkpoint: self.checkpoint.clone(),
            dtype,
            size: self.size,
            batch,
            steps: args.steps,
            repeats: args.repeat,
            savings: Savings::default(),
        }
    }

    /// The rows of one type, the most wanted first; without those of [`starts`](Self::starts).
    pub fn rows(&self, dtype: Dtype, first_type: bool, args: &Args) -> Vec<Row> {
        let row = |what, batch| self.row(what, dtype, batch, args);
        let (first, more) = (args.batches[0], &args.batches[1..]);
        let once = |row: Row| Row { repeats: 1, ..row };
        let mut rows = vec![
            once(row(What::Load, 1)),
            row(What::Unet, first),
            row(What::Step, first),
            row(What::Decode, first),
            row(What::Text, first),
            once(row(What::Families, first)),
        ];
        let variants = guided_variants().into_iter().map(|(name, _)| name);
        let (main, others): (Vec<_>, Vec<_>) = variants
            .filter(|name| args.wants_variant(name))
            .partition(|name| !name.contains(','));
        let guided = |name: &str| Row {
            variant: name.into(),
            ..row(What::Guided, first)
        };
        rows.extend(main.iter().map(|name| guided(name)));
        let few = |row: Row| Row {
            repeats: row.repeats.min(3),
            ..row
        };
        let savings = args.savings.over(Savings::default());
        let pictures = |batch| {
            let plain = row(What::Picture, batch);
            let saving = (!savings.is_none()).then(|| Row {
                variant: savings.to_string(),
                savings,
                ..plain.clone()
            });
            std::iter::once(plain).chain(saving).map(few)
        };
        rows.extend(pictures(first));
        for &batch in more {
            rows.push(row(What::Unet, batch));
            rows.extend(pictures(batch));
        }
        // The checker in the binary knows what the toybox draws and nothing else.
        if self.name == "toybox" && first_type {
            rows.push(few(row(What::Search, BEST_OF)));
        }
        if let Some(&largest) = more.last() {
            rows.push(once(row(What::Families, largest)));
        }
        rows.extend(others.iter().map(|name| guided(name)));
        rows.retain(|row| args.wants(row.what));
        rows
    }

    /// From the start of the program, with empty and with filled caches.
    pub fn starts(&self, dtype: Dtype, args: &Args) -> Vec<Row> {
        if !args.wants(What::Start) {
            return Vec::new();
        }
        let each = STATES.into_iter().map(|state| Row {
            variant: state.into(),
            repeats: 1,
            ..self.row(What::Start, dtype, 1, args)
        });
        each.collect()
    }
}

/// The product of matrices that stands for what the device can do.
pub fn matmul(dtype: Dtype, is_cpu: bool, args: &Args) -> Option<Row> {
    args.wants(What::Matmul).then(|| Row {
        what: What::Matmul,
        variant: String::new(),
        model: String::new(),
        checkpoint: String::new(),
        dtype,
        size: if is_cpu { 2048 } else { 8192 },
        batch: 1,
        steps: 0,
        repeats: args.repeat,
        savings: Savings::default(),
    })
}

/// Where random weights are kept unless said otherwise.
pub fn default_weights() -> PathBuf {
    std::env::temp_dir().join("prepose-weights")
}
