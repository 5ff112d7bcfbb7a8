//! The networks that look at pictures again, for rules that want more than boxes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use burn::tensor::FloatDType;
use prepose::check::rules::Case;
use prepose::device::{DeviceSpec, OpenDevice};
use prepose::eyes::{ClipScorer, DepthEstimator, MaskChoice, RewardScorer, Segmenter, eight_bits};
use prepose::picture::Picture;
use prepose_untrusted::read_regular;
use prepose_weights::EyeWeights;

use crate::cli::{check, model};

/// More than any picture's file has.
const MOST_BYTES: u64 = 1 << 30;

/// Networks that look at the pictures.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Networks")]
pub struct EyeArgs {
    /// A Depth Anything model, for the depth of pictures whose lines have none.
    ///
    /// A folder as transformers writes it, or a file such as depth_anything_v2_vits.pth. Lines name their pictures with
    /// "file" or "image_path", relative to the input file.
    #[arg(long, value_name = "PATH")]
    depth: Option<PathBuf>,
    /// A SAM model, for masks of detections that have only a box.
    ///
    /// A folder as transformers writes it, or a file such as sam_vit_b_01ec64.pth.
    #[arg(long, value_name = "PATH")]
    masks: Option<PathBuf>,
    /// Which of the possible masks of a box to use.
    #[arg(
        long,
        value_name = "CHOICE",
        default_value = "best",
        hide_short_help = true
    )]
    mask_choice: MaskChoice,
    /// A CLIP model, for clip-score.
    ///
    /// A folder as transformers writes it, OpenCLIP's open_clip_pytorch_model.bin, or toybox-clip for the toybox's.
    #[arg(long, value_name = "PATH")]
    clip: Option<PathBuf>,
    /// An ImageReward model, for image-reward and quality.
    ///
    /// ImageReward.pt as its authors published it, with bert-base-uncased's vocab.txt next to it, unless some program has
    /// downloaded bert-base-uncased.
    #[arg(long, value_name = "PATH")]
    image_reward: Option<PathBuf>,
    /// auto, cuda[:i], wgpu[:i], vulkan[:i], metal or flex (the CPU).
    #[arg(
        long,
        value_name = "DEVICE",
        default_value = "auto",
        hide_short_help = true
    )]
    pub device: DeviceSpec,
}

impl EyeArgs {
    /// Whether a network looks for a rule that reads detections.
    pub fn look(&self) -> bool {
        self.depth.is_some() || self.masks.is_some()
    }

    /// The network for `clip-score`.
    pub fn clip(&self) -> anyhow::Result<ClipScorer> {
        let Some(path) = &self.clip else {
            bail!("clip-score needs the network that compares texts with pictures: --clip PATH");
        };
        let device = self.device()?;
        let scorer = ClipScorer::load(&EyeWeights::open(path)?, &device.device, FloatDType::F32);
        Ok(scorer?)
    }

    /// The network for `image-reward`.
    pub fn image_reward(&self) -> anyhow::Result<RewardScorer> {
        let given = self.given_image_reward()?;
        given.context("image-reward needs the network: --image-reward PATH")
    }

    /// The same where it was named.
    pub fn given_image_reward(&self) -> anyhow::Result<Option<RewardScorer>> {
        let Some(path) = &self.image_reward else {
            return Ok(None);
        };
        let device = self.device()?;
        let weights = EyeWeights::open(path)?;
        let scorer = RewardScorer::load(&weights, &device.device, FloatDType::F32)?;
        Ok(Some(scorer))
    }

    /// Where networks run.
    pub fn device(&self) -> anyhow::Result<OpenDevice> {
        model::open(self.device)
    }
}

/// What is asked to look, and how.
#[derive(Default)]
pub struct Eyes {
    depth: Option<DepthEstimator>,
    masks: Option<Segmenter>,
    /// Depths in 256 steps, as the published scripts read them.
    published: bool,
}

impl Eyes {
    /// Loads the networks that were named.
    pub fn open(args: &EyeArgs, published: bool) -> anyhow::Result<Self> {
        let mut eyes = Self {
            published,
            ..Self::default()
        };
        if !args.look() {
            return Ok(eyes);
        }
        let device = args.device()?.device;
        if let Some(path) = &args.depth {
            let weights = EyeWeights::open(path)?;
            eyes.depth = Some(DepthEstimator::load(&weights, &device, FloatDType::F32)?);
        }
        if let Some(path) = &args.masks {
            let weights = EyeWeights::open(path)?;
            let segmenter = Segmenter::load(&weights, &device, FloatDType::F32, args.mask_choice);
            eyes.masks = Some(segmenter?);
        }
        Ok(eyes)
    }

    /// The case with what its line does not have.
    pub fn complete(&self, mut case: Case) -> anyhow::Result<Case> {
        let depth = self.depth.as_ref().filter(|_| case.depth.is_none());
        let bare = |case: &Case| case.detections.iter().any(|found| found.mask.is_none());
        let masks = self.masks.as_ref().filter(|_| bare(&case));
        if depth.is_none() && masks.is_none() {
            return Ok(case);
        }
        let Some(path) = &case.picture else {
            bail!("no picture to look at; name it with \"file\" or \"image_path\"");
        };
        // Boxes are those of the turned picture, as of `detect`.
        let picture = check::read_picture(path).with_context(|| path.display().to_string())?;
        let (width, height) = (picture.width, picture.height);
        if let Some(size) = case.size.filter(|size| *size != (width, height)) {
            let (said_width, said_height) = size;
            bail!(
                "{} has {width} x {height} pixels, but the line says {said_width} x {said_height}",
                path.display()
            );
        }
        case.size = Some((width, height));
        if let Some(depth) = depth {
            let maps = depth
                .estimate(&[&picture])
                .with_context(|| path.display().to_string())?;
            let map = maps.into_iter().next().context("no depths")?;
            let map = if self.published {
                eight_bits(&map)
            } else {
                map
            };
            case.depth = Some(Arc::new(map));
        }
        if let Some(segmenter) = masks {
            let open = case
                .detections
                .iter_mut()
                .filter(|found| found.mask.is_none());
            let open: Vec<_> = open.collect();
            let boxes: Vec<_> = open.iter().map(|found| found.bbox).collect();
            let masks = segmenter.masks(&picture, &boxes);
            let masks = masks.with_context(|| path.display().to_string())?;
            for (found, mask) in open.into_iter().zip(masks) {
                found.mask = Some(Arc::new(mask));
            }
        }
        Ok(case)
    }
}

/// The picture in a file as it lies there: the originals of CLIPScore and ImageReward turn nothing.
pub fn read_picture(path: &Path) -> anyhow::Result<Picture> {
    let bytes = read_regular(path, MOST_BYTES);
    let bytes = bytes.with_context(|| format!("cannot read {}", path.display()))?;
    Picture::decode(&bytes).with_context(|| path.display().to_string())
}
