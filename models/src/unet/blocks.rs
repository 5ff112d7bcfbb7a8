//! The blocks of the UNet, one for each resolution on the way down, one in the middle, one for each
//! on the way up.

use burn::prelude::*;

use super::config::{LevelPlan, UNetConfig, UNetPlan};
use super::steps::{Step, Steps};
use super::transformer::{Transformer2d, TransformerOptions};
use crate::params::Params;
use crate::resnet::{Downsample, ResnetBlock, ResnetOptions, Upsample};

/// Options that the blocks share.
#[derive(Clone, Copy)]
pub(crate) struct BlockOptions {
    resnet: ResnetOptions,
    linear_projection: bool,
    upcast: bool,
    objects: Option<usize>,
}

impl BlockOptions {
    pub fn new(config: &UNetConfig, plan: &UNetPlan) -> Self {
        Self {
            resnet: ResnetOptions {
                groups: plan.groups,
                eps: config.norm_eps,
                timed: true,
            },
            linear_projection: config.use_linear_projection,
            upcast: config.upcast_attention == Some(true),
            objects: plan.objects,
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
            objects: self.objects,
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

    /// Every intermediate feature map is a branch.
    pub fn steps<'a>(&'a self, steps: &mut Steps<'a>) {
        for (i, resnet) in self.resnets.iter().enumerate() {
            steps.resnet(resnet);
            if let Some(transformer) = self.attentions.get(i) {
                steps.transformer(transformer);
            }
            steps.push(Step::Branch);
        }
        if let Some(downsampler) = &self.downsampler {
            steps.push(Step::Downsample(downsampler));
            steps.push(Step::Branch);
        }
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

    pub fn steps<'a>(&'a self, steps: &mut Steps<'a>) {
        steps.resnet(&self.resnets[0]);
        for (transformer, resnet) in self.attentions.iter().zip(&self.resnets[1..]) {
            steps.transformer(transformer);
            steps.resnet(resnet);
        }
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

    /// Each residual block takes in the branch of the same size.
    pub fn steps<'a>(&'a self, steps: &mut Steps<'a>) {
        for (i, resnet) in self.resnets.iter().enumerate() {
            steps.push(Step::Concatenate);
            steps.resnet(resnet);
            if let Some(transformer) = self.attentions.get(i) {
                steps.transformer(transformer);
            }
        }
        if let Some(upsampler) = &self.upsampler {
            steps.push(Step::Upsample(upsampler));
        }
    }
}
