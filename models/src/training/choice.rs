//! What of a UNet is trained.

use crate::ip_adapter::{IpAdapter, IpAdapterConfig};
use crate::params::{Wanted, outline};
use crate::unet::{UNet, UNetConfig};

use super::TrainingError;

/// What is trained.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// Every parameter of the network.
    All,
    /// The parameters of whose names one of these is a part between dots, such as `mid_block` or `attn2.to_k`.
    Named(Vec<String>),
    /// Low-rank branches beside layers, which are frozen like all the rest.
    Lora(Lora),
    /// GLIGEN's layers (Li et al. 2023): the network's own, or new ones in a network without. The rest is frozen.
    Gligen,
    /// An IP-Adapter (Ye et al. 2023): what makes tokens of a picture, and each cross-attention layer's keys and values of
    /// these. The network is frozen.
    IpAdapter(IpAdapterConfig),
}

/// Low-rank branches (Hu et al. 2021): `y + alpha / rank · B A x`.
#[derive(Debug, Clone, PartialEq)]
pub struct Lora {
    /// Rows of `A` of linear layers and of convolutions of single pixels; from 1 to the smaller side of the layer.
    pub rank: usize,
    /// What the branch is multiplied with, times the rank.
    pub alpha: f64,
    /// Rank and alpha of convolutions with larger kernels, which have no branch if this is `None`.
    pub conv: Option<(usize, f64)>,
    /// Layers, by their whole path in diffusers' names or by its end after a dot, as PEFT matches them.
    pub targets: Vec<String>,
}

const TEXT: [&str; 2] = ["attn2.to_k", "attn2.to_v"];
const ATTENTION: [&str; 4] = ["to_q", "to_k", "to_v", "to_out.0"];
const TRANSFORMERS: [&str; 4] = ["ff.net.0.proj", "ff.net.2", "proj_in", "proj_out"];
const RESNETS: [&str; 6] = [
    "conv1",
    "conv2",
    "conv_shortcut",
    "time_emb_proj",
    "downsamplers.0.conv",
    "upsamplers.0.conv",
];

/// Parts of the names of GLIGEN's layers.
const GLIGEN: [&str; 2] = ["position_net", "fuser"];

impl Lora {
    fn of(rank: usize, alpha: f64, targets: &[&[&str]]) -> Self {
        Self {
            rank,
            alpha,
            conv: None,
            targets: targets.concat().into_iter().map(String::from).collect(),
        }
    }

    /// The projections of the text to keys and values: how captions are read, and not how pictures are drawn.
    pub fn text(rank: usize, alpha: f64) -> Self {
        Self::of(rank, alpha, &[&TEXT])
    }

    /// The four projections of every attention layer.
    pub fn attention(rank: usize, alpha: f64) -> Self {
        Self::of(rank, alpha, &[&ATTENTION])
    }

    /// All linear layers of the transformers.
    pub fn transformers(rank: usize, alpha: f64) -> Self {
        Self::of(rank, alpha, &[&ATTENTION, &TRANSFORMERS])
    }

    /// All layers of the transformers and of the residual blocks between them, with `conv` as rank and alpha of 3 × 3
    /// convolutions.
    pub fn everything(rank: usize, alpha: f64, conv: (usize, f64)) -> Self {
        Self {
            conv: Some(conv),
            ..Self::of(rank, alpha, &[&ATTENTION, &TRANSFORMERS, &RESNETS])
        }
    }
}

/// A trained parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// In diffusers' names; of a branch `<layer>.lora_A.weight` and `<layer>.lora_B.weight`.
    pub name: String,
    /// In PyTorch's layout; of a branch as PEFT has it.
    pub shape: Vec<usize>,
}

/// A layer with a low-rank branch.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraModule {
    /// The layer in diffusers' names.
    pub path: String,
    /// Rows of `A`.
    pub rank: usize,
    /// What the branch is multiplied with, times the rank.
    pub alpha: f64,
}

/// Names and shapes of what `choice` trains of such a network, without making any of it.
///
/// # Errors
/// As those of [`super::TrainableUNet::load`].
pub fn parameters(config: &UNetConfig, choice: &Choice) -> Result<Vec<Parameter>, TrainingError> {
    Ok(Plan::new(config, choice)?.parameters)
}

/// What is trained, in the order of the network's parameters.
pub(super) struct Plan {
    /// Of the network that is built.
    pub config: UNetConfig,
    pub parameters: Vec<Parameter>,
    pub modules: Vec<LoraModule>,
}

impl Plan {
    pub fn new(config: &UNetConfig, choice: &Choice) -> Result<Self, TrainingError> {
        let config = match choice {
            Choice::Gligen => config.grounded(),
            _ if config.is_grounded() => return Err(TrainingError::Grounded),
            _ => config.clone(),
        };
        let wanted = outline(|params| UNet::load(&config, params))?;
        let (parameters, modules) = match choice {
            Choice::IpAdapter(adapter) => (of_adapter(&config, adapter)?, vec![]),
            Choice::Gligen => (named(&wanted, &GLIGEN.map(String::from))?, vec![]),
            Choice::All => (wanted.into_iter().map(Parameter::from).collect(), vec![]),
            Choice::Named(parts) => (named(&wanted, parts)?, vec![]),
            Choice::Lora(lora) => branches(&wanted, lora)?,
        };
        Ok(Self {
            config,
            parameters,
            modules,
        })
    }
}

/// The parameters of an adapter of a network.
fn of_adapter(
    config: &UNetConfig,
    adapter: &IpAdapterConfig,
) -> Result<Vec<Parameter>, TrainingError> {
    let text = config.cross_attention_dim.first();
    if config.adapter_layers()? != adapter.layers || text != Some(adapter.context_dim) {
        return Err(TrainingError::OtherAdapter);
    }
    let wanted = outline(|params| IpAdapter::load(adapter, params))?;
    Ok(wanted.into_iter().map(Parameter::from).collect())
}

impl From<Wanted> for Parameter {
    fn from(Wanted { name, shape }: Wanted) -> Self {
        Self { name, shape }
    }
}

fn named(wanted: &[Wanted], parts: &[String]) -> Result<Vec<Parameter>, TrainingError> {
    let is_part = |name: &str, part: &str| format!(".{name}.").contains(&format!(".{part}."));
    for part in parts {
        if !wanted.iter().any(|wanted| is_part(&wanted.name, part)) {
            return Err(TrainingError::NoParameter(part.clone()));
        }
    }
    let chosen = wanted.iter().filter(|wanted| {
        let mut parts = parts.iter();
        parts.any(|part| is_part(&wanted.name, part))
    });
    Ok(chosen.cloned().map(Parameter::from).collect())
}

type Branches = (Vec<Parameter>, Vec<LoraModule>);

fn branches(wanted: &[Wanted], lora: &Lora) -> Result<Branches, TrainingError> {
    let layers = wanted.iter().filter_map(|wanted| {
        let path = wanted.name.strip_suffix(".weight")?;
        (wanted.shape.len() >= 2).then_some((path, wanted.shape.as_slice()))
    });
    let layers: Vec<_> = layers.collect();
    let is_target = |path: &str, target: &str| {
        let before = path.strip_suffix(target);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    for target in &lora.targets {
        if !layers.iter().any(|(path, _)| is_target(path, target)) {
            return Err(TrainingError::NoLayer(target.clone()));
        }
    }
    let (mut parameters, mut modules) = (Vec::new(), Vec::new());
    for (path, shape) in layers {
        if !(lora.targets.iter()).any(|target| is_target(path, target)) {
            continue;
        }
        let pixel = shape.iter().skip(2).all(|&side| side == 1);
        let of = if pixel {
            Some((lora.rank, lora.alpha))
        } else {
            lora.conv
        };
        let Some((rank, alpha)) = of else {
            continue;
        };
        let (outputs, inputs) = (shape[0], shape[1..].iter().product());
        if rank == 0 || rank > outputs.min(inputs) {
            return Err(TrainingError::Rank {
                rank,
                layer: path.to_string(),
                outputs,
                inputs,
            });
        }
        let mut down = shape.to_vec();
        down[0] = rank;
        let mut up = vec![1; shape.len()];
        up[..2].copy_from_slice(&[outputs, rank]);
        for (factor, shape) in [("A", down), ("B", up)] {
            let name = format!("{path}.lora_{factor}.weight");
            parameters.push(Parameter { name, shape });
        }
        let path = path.to_string();
        modules.push(LoraModule { path, rank, alpha });
    }
    match parameters.is_empty() {
        true => Err(TrainingError::Nothing),
        false => Ok((parameters, modules)),
    }
}
