//! `prepose score quality`

mod measure;
mod rewards;
mod sets;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use burn::tensor::FloatDType;
use prepose::eyes::PROMPT_OF_PAPER;
use prepose::eyes::features::{FeatureExtractor, TOYBOX};
use prepose::output::files::{parent, write_atomically};
use prepose::quality::Moments;
use prepose::quality::figures::Settings;
use prepose::quality::kernel::Subsets;
use prepose::report::quality::{Assessment, FILE};
use prepose_formats::npz::{self, Array};
use prepose_statistics::bootstrap::Bootstrap;
use prepose_untrusted::{escaped, read_regular};
use serde_json::json;

use self::measure::Against;
pub use self::measure::Measuring;
use self::sets::PictureSet;
pub use self::sets::sets_in;
use super::{Args, QUALITY, table};
use crate::cli::OK;
use crate::cli::input::count;

/// The largest file of statistics that is read: a covariance of 8192 features.
const MOST_BYTES: u64 = 1 << 30;

/// How pictures are compared as sets.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "quality")]
pub struct QualityArgs {
    /// What pictures are compared with: a folder of pictures, a run, or statistics as pytorch-fid saves them (.npz).
    #[arg(long, value_name = "DIR|STATS")]
    reference: Option<PathBuf>,
    /// The network that looks at pictures; may be repeated [default: toybox].
    ///
    /// FID's Inception (pt_inception-2015-12-05-6726825d.pth), a DINOv2, a CLIP (for CMMD, and CLIPScore where there
    /// are prompts), the toybox's detector, or its CLIP (toybox-clip).
    #[arg(long, value_name = "PATH")]
    features: Vec<String>,
    /// Write the mean and the covariance of the pictures' features, as pytorch-fid does (.npz).
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    save_statistics: Option<PathBuf>,
    /// Which nearest neighbour counts for precision, recall, density and coverage.
    #[arg(long, value_name = "K", default_value_t = 5, hide_short_help = true)]
    neighbours: usize,
    /// The width of RKE's kernel [default: the median distance between the pictures].
    #[arg(
        allow_negative_numbers = true,
        long,
        value_name = "WIDTH",
        hide_short_help = true
    )]
    rke_width: Option<f64>,
    /// How often pictures are resampled for an interval.
    #[arg(
        long,
        value_name = "N",
        default_value_t = Bootstrap::default().draws,
        hide_short_help = true
    )]
    draws: usize,
}

/// What all pictures are compared with.
enum Given {
    Pictures(PictureSet),
    Statistics { name: String, moments: Box<Moments> },
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let own = &args.quality;
    let settings = settings(args)?;
    let mut sets = Vec::new();
    for path in &args.files {
        sets.extend(sets_in(path)?);
    }
    let reference = own.reference.as_deref().map(given).transpose()?;
    let mut networks = own.features.clone();
    let rewards = args.eyes.given_image_reward()?;
    // Who asks for rewards alone needs no features.
    if networks.is_empty() && (rewards.is_none() || reference.is_some()) {
        networks.push(TOYBOX.to_string());
    }
    if own.save_statistics.is_some() {
        ensure!(
            sets.len() == 1 && networks.len() == 1,
            "--save-statistics writes those of one set by one network; there are {} sets and {} networks",
            sets.len(),
            networks.len()
        );
    }
    let device = args.eyes.device()?.device;
    let mut told = Vec::new();
    for network in &networks {
        let loaded = FeatureExtractor::load(network, &device, FloatDType::F32);
        let extractor = loaded.with_context(|| format!("cannot use --features {network}"))?;
        let measuring = Measuring {
            extractor: &extractor,
            settings: &settings,
            quiet: quiet || args.json,
        };
        let against = match &reference {
            Some(Given::Pictures(set)) => Some(measuring.reference(set, &sets[0])?),
            Some(Given::Statistics { name, moments }) => Some(Against::Statistics {
                name: name.clone(),
                moments,
            }),
            None => None,
        };
        for set in &sets {
            let (features, mut found) = measuring.of(set, against.as_ref())?;
            let prompt = args.clip_prompt.as_deref().unwrap_or(PROMPT_OF_PAPER);
            (found.figures).extend(measuring.clip_scores(&features, set, prompt)?);
            if let Some(path) = &own.save_statistics {
                save(path, &Moments::of(&features)?)?;
            }
            keep(set, &found)?;
            told.push((set.name.clone(), found));
        }
    }
    if let Some(scorer) = &rewards {
        for set in &sets {
            let found = rewards::of(scorer, set, &settings, quiet || args.json)?;
            keep(set, &found)?;
            told.push((set.name.clone(), found));
        }
    }
    say(args, &told)?;
    Ok(OK)
}

/// How figures are computed.
fn settings(args: &Args) -> anyhow::Result<Settings> {
    let own = &args.quality;
    ensure!(
        (1..=1_000_000).contains(&own.draws),
        "--draws is {}; it must be from 1 to 1000000",
        own.draws
    );
    ensure!(
        own.neighbours > 0,
        "--neighbours is 0; it must be at least 1"
    );
    if let Some(width) = own.rke_width {
        ensure!(
            width.is_finite() && width > 0.0,
            "--rke-width is {width}; it must be above 0"
        );
    }
    Ok(Settings {
        neighbours: own.neighbours,
        sigma: own.rke_width,
        subsets: Subsets {
            seed: args.seed,
            ..Subsets::default()
        },
        bootstrap: Bootstrap {
            draws: own.draws,
            seed: args.seed,
        },
    })
}

/// What `--reference` names.
fn given(path: &Path) -> anyhow::Result<Given> {
    let name = path.display().to_string();
    if path.extension().is_some_and(|ending| ending == "npz") {
        let bytes = read_regular(path, MOST_BYTES);
        let bytes = bytes.with_context(|| format!("cannot read {name}"))?;
        let arrays = npz::read(&bytes, &["mu", "sigma"]).with_context(|| name.clone())?;
        let [mu, sigma] = ["mu", "sigma"].map(|array| arrays[array].values.as_slice());
        let moments = Moments::new(mu.to_vec(), sigma).with_context(|| name.clone())?;
        return Ok(Given::Statistics {
            name,
            moments: Box::new(moments),
        });
    }
    let sets = sets_in(path).context("cannot use --reference")?;
    let mut sets = sets.into_iter();
    match (sets.next(), sets.len()) {
        (Some(set), 0) => Ok(Given::Pictures(set)),
        (_, more) => bail!(
            "{name} has the pictures of {} methods; give the folder of one of them as the reference",
            more + 1
        ),
    }
}

/// Writes a file as pytorch-fid does.
fn save(path: &Path, moments: &Moments) -> anyhow::Result<()> {
    let width = moments.mean().len();
    let mu = Array {
        shape: vec![width],
        values: moments.mean().to_vec(),
    };
    let sigma = Array {
        shape: vec![width; 2],
        values: moments.covariance(),
    };
    let mut bytes = Vec::new();
    npz::write(&mut bytes, &[("mu", &mu), ("sigma", &sigma)])?;
    Ok(write_atomically(path, &bytes)?)
}

/// Writes what was found beside the pictures; what it says of others there stays.
fn keep(set: &PictureSet, found: &Assessment) -> anyhow::Result<()> {
    let path = set.folder.join(FILE);
    let before = read_regular(&path, MOST_BYTES).ok();
    // What cannot be read is written anew: it was made from the same pictures.
    let before: Option<Vec<Assessment>> =
        before.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let mut all = before.unwrap_or_default();
    all.retain(|other| !found.replaces(other));
    all.push(found.clone());
    std::fs::create_dir_all(parent(&path))
        .with_context(|| format!("cannot write into {}", parent(&path).display()))?;
    let text = serde_json::to_string_pretty(&all)? + "\n";
    Ok(write_atomically(&path, text.as_bytes())?)
}

fn say(args: &Args, told: &[(String, Assessment)]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        let sets = told.iter().map(|(name, found)| {
            let mut value = json!(found);
            value["set"] = json!(name);
            value
        });
        let value = json!({"rule": QUALITY, "sets": sets.collect::<Vec<_>>()});
        writeln!(out, "{value}")?;
        return Ok(());
    }
    for (i, (name, found)) in told.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        let against = match (&found.reference, found.reference_pictures) {
            (Some(reference), Some(count)) => format!(", against {count} of {reference}"),
            (Some(reference), None) => format!(", against {reference}"),
            (None, _) => String::new(),
        };
        let title = format!(
            "{name}: {}{against}\nfeatures: {} ({})",
            count(found.pictures, "picture"),
            found.network,
            found.about
        );
        writeln!(out, "{}", escaped(&title))?;
        let rows = found.figures.iter().map(|figure| {
            let value = match figure.deviation {
                Some(deviation) => format!("{:.4} ± {deviation:.4}", figure.value),
                None => format!("{:.4}", figure.value),
            };
            let interval = format!("[{:.4}, {:.4}]", figure.low, figure.high);
            let setting = figure.setting.clone().unwrap_or_default();
            [figure.name.clone(), value, interval, setting]
        });
        write!(out, "{}", escaped(&table(&rows.collect::<Vec<_>>())))?;
        for warning in &found.warnings {
            writeln!(out, "warning: {}", escaped(warning))?;
        }
    }
    Ok(())
}
