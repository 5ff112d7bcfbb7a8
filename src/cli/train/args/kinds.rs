//! What each kind of training is told besides what all are.

use std::path::PathBuf;

use prepose::request::Adapter;
use prepose::train::recipe::{Kind, Layers, NewKind};
use prepose::train::run::Job;
use prepose_models::ip_adapter::AdapterKind;
use prepose_weights::NewAdapter;

use super::Common;
use crate::cli::model::parse_adapter;

/// `prepose train lora`
#[derive(Debug, clap::Args)]
pub struct LoraArgs {
    /// The rank of the changes to linear layers and 1x1 convolutions.
    #[arg(long, value_name = "N", default_value_t = 16, help_heading = "LoRA")]
    rank: usize,
    /// The change is scaled by this number divided by the rank [default: the rank].
    #[arg(long, value_name = "NUMBER", help_heading = "LoRA")]
    alpha: Option<f64>,
    /// Which layers are changed.
    #[arg(long, value_enum, default_value_t, help_heading = "LoRA")]
    layers: Layers,
    /// The rank of the changes to larger convolutions; implies --layers all [default: the rank].
    #[arg(long, value_name = "N", help_heading = "LoRA")]
    conv_rank: Option<usize>,
    /// As --alpha, for larger convolutions [default: their rank].
    #[arg(long, value_name = "NUMBER", help_heading = "LoRA")]
    conv_alpha: Option<f64>,
    #[command(flatten)]
    pub common: Common,
}

impl LoraArgs {
    /// What is trained.
    ///
    /// # Errors
    /// A number for layers that are not changed.
    pub fn kind(&self) -> anyhow::Result<Kind> {
        let layers = match self.conv_rank {
            Some(_) => Layers::All,
            None => self.layers,
        };
        anyhow::ensure!(
            self.conv_alpha.is_none() || layers == Layers::All,
            "--conv-alpha is for larger convolutions, and none are changed; give --conv-rank or --layers all as well, or leave \
             it out"
        );
        let conv_rank = self.conv_rank.unwrap_or(self.rank);
        Ok(Kind::Lora {
            rank: self.rank,
            alpha: self.alpha.unwrap_or(self.rank as f64),
            conv_rank,
            conv_alpha: self.conv_alpha.unwrap_or(conv_rank as f64),
            layers,
        })
    }
}

/// `prepose train unet`
#[derive(Debug, clap::Args)]
pub struct UnetArgs {
    /// Train only parameters whose dotted names have this part, such as attn2 or mid_block; may be repeated [default: all].
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    #[command(flatten)]
    pub common: Common,
}

/// `prepose train gligen`
#[derive(Debug, clap::Args)]
pub struct GligenArgs {
    /// Layers to begin with: a file for this checkpoint [default: the checkpoint's own, or new ones].
    #[arg(long, value_name = "FILE", help_heading = "GLIGEN")]
    pub gligen: Option<PathBuf>,
    /// The share of batches that are given no objects.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.1,
        help_heading = "GLIGEN"
    )]
    pub grounding_dropout: f64,
    #[command(flatten)]
    pub common: Common,
}

/// `prepose train ip-adapter`
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("begun").required(true).args(["image_encoder", "ip_adapter"])))]
pub struct IpAdapterArgs {
    /// The CLIP picture encoder of a new adapter: a folder, a file of weights, a name, or toybox-clip.
    #[arg(long, value_name = "PATH|NAME", help_heading = "IP-Adapter")]
    image_encoder: Option<PathBuf>,
    /// An adapter to begin with; its picture encoder is found as for generate.
    #[arg(long, value_name = "FILE[,encoder=PATH]", value_parser = parse_adapter, help_heading = "IP-Adapter")]
    ip_adapter: Option<Adapter>,
    /// Make a new adapter of the kind "plus": a resampler looks at the encoder's states, not at one embedding.
    #[arg(long, requires = "image_encoder", help_heading = "IP-Adapter")]
    plus: bool,
    /// The share of samples with no picture shown.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.05,
        help_heading = "IP-Adapter"
    )]
    picture_dropout: f64,
    /// The share of samples with neither caption nor picture.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.05,
        help_heading = "IP-Adapter"
    )]
    both_dropout: f64,
    /// The picture that is shown to the network for sample pictures.
    #[arg(
        long,
        value_name = "FILE",
        requires = "sample",
        help_heading = "On the way"
    )]
    sample_picture: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

impl IpAdapterArgs {
    /// The training that is asked for.
    ///
    /// # Errors
    /// A checkpoint that cannot be opened, sample pictures that are shown nothing.
    pub fn job(&self) -> anyhow::Result<Job> {
        let kind = Kind::IpAdapter {
            new: self.image_encoder.is_some().then_some(match self.plus {
                true => NewKind::Plus,
                false => NewKind::Plain,
            }),
            picture_dropout: self.picture_dropout,
            both_dropout: self.both_dropout,
        };
        let mut job = self.common.job(kind, Usual::ip_adapter())?;
        job.model.adapters.extend(self.ip_adapter.clone());
        job.new_adapter = self.image_encoder.clone().map(|encoder| NewAdapter {
            kind: match self.plus {
                true => AdapterKind::Plus,
                false => AdapterKind::Plain,
            },
            encoder,
        });
        anyhow::ensure!(
            job.samples.prompts.is_empty() || self.sample_picture.is_some(),
            "an IP-Adapter shows pictures, but --sample has none; give one with --sample-picture FILE"
        );
        job.samples.picture.clone_from(&self.sample_picture);
        Ok(job)
    }
}

/// What is usual for a kind of training.
#[derive(Clone, Copy, Debug)]
pub struct Usual {
    /// The learning rate.
    pub rate: f64,
    /// AdamW's.
    pub weight_decay: f64,
    /// The longest gradient.
    pub clip: f64,
    /// The share of captions that are left out.
    pub dropout: f64,
}

impl Usual {
    /// As diffusers' scripts, with this learning rate.
    pub fn with_rate(rate: f64) -> Self {
        Self {
            rate,
            weight_decay: 0.01,
            clip: 1.0,
            dropout: 0.0,
        }
    }

    /// As IP-Adapter's authors.
    pub fn ip_adapter() -> Self {
        Self {
            rate: 1e-4,
            weight_decay: 0.01,
            clip: 0.0,
            dropout: 0.05,
        }
    }

    /// As GLIGEN's authors.
    pub fn gligen() -> Self {
        Self {
            rate: 5e-5,
            weight_decay: 0.0,
            clip: 0.0,
            dropout: 0.5,
        }
    }
}
