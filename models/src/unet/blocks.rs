//! The blocks of the UNet, one for each resolution on the way down, one in the middle, one for each
//! on the way up.

use burn::prelude::*;

use super::config::{LevelPlan, UNetConfig, UNetPlan};
use super::pass::Pass;
use super::transformer::{Transformer2d, TransformerOptions};
use crate::params::Params;
use crate::resnet::{Downsample, ResnetBlock, ResnetOptions, Upsample};

/// Options that the blocks share.
#[derive(Clone, Copy)]
pub(crate) struct BlockOptions {
    resnet: ResnetOptions,
    linear_projection: bool,
    upcast: bool,
}

impl BlockOptions {
    pub fn new(config: &UNetConfig, plan: &UNetPlan) -> Self {
        Self {
            resnet: ResnetOptions {
                groups: plan.groups,
                eps: config.norm_eps,
                time: Some(plan.time_dim),
            },
            linear_projection: config.use_linear_projection,
            upcast: config.upcast_attention == Some(true),
        }
    }

    fn transformer(&self, level: &LevelPlan) -> TransformerOptions {
        TransformerOptions {
            channels: level.channels,
            context_dim: level.context_dim,
            heads: level.heads,
            depth: level.depth,
            groups: self.resnet.groups,
            linear_projection: self.linear_projection,
            upcast: self.upcast,
        }
    }
}

/// `CrossAttnDownBlock2D`, or `DownBlock2D` without transformers.
#[derive(Module, Debug)]
pub(crate) struct DownBlock {
    resnets: Vec<ResnetBlock>,
    attentions: Vec<Transformer2d>,
    downsampler: Option<Downsample>,
}

impl DownBlock {
    /// `input` channels come from the resolution above; the last block does not downsample.
    pub fn load(
        mut params: Params,
        input: usize,
        level: &LevelPlan,
        last: bool,
        options: BlockOptions,
    ) -> Self {
        let channels = level.channels;
        let resnet = |i| {
            let input = if i == 0 { input } else { channels };
            let params = params.pp(format!("resnets.{i}"));
            ResnetBlock::load(params, input, channels, options.resnet)
        };
        let resnets = (0..level.layers).map(resnet).collect();
        let attentions = if level.cross_attention_down {
            level.layers
        } else {
            0
        };
        Self {
            resnets,
            attentions: (0..attentions)
                .map(|i| {
                    let params = params.pp(format!("attentions.{i}"));
                    Transformer2d::load(params, options.transformer(level))
                })
                .collect(),
            downsampler: (!last)
                .then(|| Downsample::load(params.pp("downsamplers.0"), channels, false)),
        }
    }

    pub fn transformers(&self) -> &[Transformer2d] {
        &self.attentions
    }

    /// Pushes every intermediate feature map on `skips` and returns the last.
    pub fn forward(
        &self,
        mut x: Tensor<4>,
        skips: &mut Vec<Tensor<4>>,
        pass: &mut Pass,
    ) -> Tensor<4> {
        for (i, resnet) in self.resnets.iter().enumerate() {
            x = resnet.forward(x, Some(&pass.time));
            if let Some(attention) = self.attentions.get(i) {
                x = attention.forward(x, pass);
            }
            skips.push(x.clone());
        }
        if let Some(downsampler) = &self.downsampler {
            x = downsampler.forward(x);
            skips.push(x.clone());
        }
        x
    }
}

/// `UNetMidBlock2DCrossAttn`.
#[derive(Module, Debug)]
pub(crate) struct MidBlock {
    resnets: Vec<ResnetBlock>,
    attentions: Vec<Transformer2d>,
}

impl MidBlock {
    pub fn load(mut params: Params, level: &LevelPlan, options: BlockOptions) -> Self {
        let channels = level.channels;
        let resnet = |i| {
            let params = params.pp(format!("resnets.{i}"));
            ResnetBlock::load(params, channels, channels, options.resnet)
        };
        let resnets = (0..2).map(resnet).collect();
        let transformer = options.transformer(level);
        Self {
            resnets,
            attentions: vec![Transformer2d::load(params.pp("attentions.0"), transformer)],
        }
    }

    pub fn transformers(&self) -> &[Transformer2d] {
        &self.attentions
    }

    pub fn forward(&self, x: Tensor<4>, pass: &mut Pass) -> Tensor<4> {
        let mut x = self.resnets[0].forward(x, Some(&pass.time));
        for (attention, resnet) in self.attentions.iter().zip(&self.resnets[1..]) {
            x = attention.forward(x, pass);
            x = resnet.forward(x, Some(&pass.time));
        }
        x
    }
}

/// `CrossAttnUpBlock2D`, or `UpBlock2D` without transformers.
#[derive(Module, Debug)]
pub(crate) struct UpBlock {
    resnets: Vec<ResnetBlock>,
    attentions: Vec<Transformer2d>,
    upsampler: Option<Upsample>,
}

impl UpBlock {
    /// `below` channels come from the resolution below. `skip` are the channels of the resolution
    /// that this block's last skip connection comes from: the one above. The last block does not
    /// upsample.
    pub fn load(
        mut params: Params,
        [below, skip]: [usize; 2],
        level: &LevelPlan,
        last: bool,
        options: BlockOptions,
    ) -> Self {
        let channels = level.channels;
        let layers = level.layers + 1;
        let resnet = |i| {
            let x = if i == 0 { below } else { channels };
            let skip = if i + 1 == layers { skip } else { channels };
            let params = params.pp(format!("resnets.{i}"));
            ResnetBlock::load(params, x + skip, channels, options.resnet)
        };
        let resnets = (0..layers).map(resnet).collect();
        let attentions = if level.cross_attention_up { layers } else { 0 };
        Self {
            resnets,
            attentions: (0..attentions)
                .map(|i| {
                    let params = params.pp(format!("attentions.{i}"));
                    Transformer2d::load(params, options.transformer(level))
                })
                .collect(),
            upsampler: (!last).then(|| Upsample::load(params.pp("upsamplers.0"), channels)),
        }
    }

    pub fn transformers(&self) -> &[Transformer2d] {
        &self.attentions
    }

    /// Pops one of `skips` for each residual block.
    pub fn forward(
        &self,
        mut x: Tensor<4>,
        skips: &mut Vec<Tensor<4>>,
        pass: &mut Pass,
    ) -> Tensor<4> {
        for (i, resnet) in self.resnets.iter().enumerate() {
            let skip = skips.pop().expect("one skip for each residual block");
            x = resnet.forward(Tensor::cat(vec![x, skip], 1), Some(&pass.time));
            if let Some(attention) = self.attentions.get(i) {
                x = attention.forward(x, pass);
            }
        }
        match (&self.upsampler, skips.last().map(Tensor::dims)) {
            // An odd feature map was rounded up on the way down.
            (Some(upsampler), Some([_, _, height, width])) => {
                upsampler.forward_to(x, height, width)
            }
            _ => x,
        }
    }
}
