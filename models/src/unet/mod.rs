//! The network that denoises: diffusers' `UNet2DConditionModel` (Ho et al. 2020; Rombach et al.
//! 2022; Podell et al. 2023 for SDXL's added conditioning).

mod blocks;
mod captured;
mod conditioning;
mod config;
mod feed_forward;
mod flops;
mod footprint;
mod forward;
mod graph;
mod graph_pair;
mod grounding;
mod layers;
mod merging;
mod pass;
mod pictures;
mod pieces;
mod record;
mod record_graphs;
mod reuse;
mod steps;
mod time;
mod transformer;
mod work;

use burn::prelude::*;
use prepose_kernels as kernels;

pub use captured::GraphUse;
pub use conditioning::{AddedConditioning, PreparedConditioning};
pub use config::UNetConfig;
pub use flops::UNetFlops;
pub use footprint::{CrossAttention, PassShape};
pub use graph::StepGraphs;
pub use grounding::{MOST_OBJECTS, Objects};
pub use merging::MOST_MERGED;
pub(crate) use pieces::{Known, Pieces};
pub use record::{MapCotangents, Memory, RecordOptions, Recording};
pub use record_graphs::{PASSES_BEFORE_CAPTURE, RecordGraphs};
pub use reuse::{Kept, Reuse};
pub use work::{Kernel, Work};

use crate::attention::{AttentionProbe, ContextAttention, NoProbe};
use crate::config::ConfigError;
use crate::layers::{Conv2d, GroupNorm};
use crate::params::Params;
use blocks::{BlockOptions, DownBlock, MidBlock, UpBlock};
use conditioning::ConditioningId;
use grounding::PositionNet;
use layers::name_layers;
use pass::CrossLayer;
use time::{TimeProjections, TimestepEmbedding, guidance_embedding};

/// diffusers' `UNet2DConditionModel`.
#[derive(Module, Debug)]
pub struct UNet {
    conv_in: Conv2d,
    time_embedding: TimestepEmbedding,
    add_embedding: Option<TimestepEmbedding>,
    time_projections: TimeProjections,
    position_net: Option<PositionNet>,
    down_blocks: Vec<DownBlock>,
    mid_block: MidBlock,
    up_blocks: Vec<UpBlock>,
    conv_norm_out: GroupNorm,
    conv_out: Conv2d,
    #[module(skip)]
    config: UNetConfig,
    #[module(skip)]
    layers: Vec<CrossLayer>,
}

impl UNet {
    /// Builds the network.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration asks for something that is not implemented or makes no
    /// sense. Problems with parameters are the source's to report.
    pub fn load(config: &UNetConfig, mut params: Params) -> Result<Self, ConfigError> {
        let plan = config.plan()?;
        let options = BlockOptions::new(config, &plan);
        let levels = &plan.levels;
        let (first, last) = (levels[0], levels.len() - 1);
        let time_dim = plan.time_dim;
        let groups = plan.groups;

        let conv_in = Conv2d::load(params.pp("conv_in"), config.in_channels, first.channels, 3);
        let guidance = config.time_cond_proj_dim;
        let time_embedding = params.pp("time_embedding");
        let time_embedding =
            TimestepEmbedding::load(time_embedding, first.channels, time_dim, guidance);
        let add_embedding = plan.added.map(|(_, width)| {
            TimestepEmbedding::load(params.pp("add_embedding"), width, time_dim, None)
        });
        let resnets = plan.resnets();
        let time_projections = TimeProjections::load(&mut params, &resnets, time_dim);
        let position_net =
            (plan.objects).map(|width| PositionNet::load(params.pp("position_net"), width));
        let down_block = |i: usize| {
            let input = levels[i.saturating_sub(1)].channels;
            let params = params.pp(format!("down_blocks.{i}"));
            DownBlock::load(params, input, &levels[i], i == last, options)
        };
        let down_blocks = (0..=last).map(down_block).collect();
        let mid_block = MidBlock::load(params.pp("mid_block"), &levels[last], options);
        let up_block = |i: usize| {
            let level = last - i;
            let below = levels[(level + 1).min(last)].channels;
            let skip = levels[level.saturating_sub(1)].channels;
            let params = params.pp(format!("up_blocks.{i}"));
            UpBlock::load(params, [below, skip], &levels[level], level == 0, options)
        };
        let up_blocks = (0..=last).map(up_block).collect();
        let norm_out = params.pp("conv_norm_out");
        let conv_norm_out = GroupNorm::load(norm_out, groups, first.channels, config.norm_eps);
        let conv_out = Conv2d::load(
            params.pp("conv_out"),
            first.channels,
            config.out_channels,
            3,
        );
        let mut unet = Self {
            conv_in,
            time_embedding,
            add_embedding,
            time_projections,
            position_net,
            down_blocks,
            mid_block,
            up_blocks,
            conv_norm_out,
            conv_out,
            config: config.clone(),
            layers: Vec::new(),
        };
        unet.layers = unet.transformers().flat_map(name_layers).collect();
        Ok(unet)
    }

    /// The configuration that the network was built from.
    pub fn config(&self) -> &UNetConfig {
        &self.config
    }

    /// Names of the cross-attention layers in the order of execution: a
    /// [`LayerInfo`](crate::attention::LayerInfo)'s `index` is a position in it.
    pub fn cross_attention_names(&self) -> impl Iterator<Item = &str> {
        self.layers.iter().map(|layer| layer.name.as_str())
    }

    /// Predicts the noise (or velocity) in `sample` `[B, Cin, H, W]`, f32, giving `[B, Cout, H, W]`,
    /// f32. `timesteps` has one entry for the whole batch or one for each sample. `context`
    /// `[B, N, C]` is the encoded prompt; `added` is needed exactly if the configuration has an
    /// `addition_embed_type`.
    ///
    /// A loop over timesteps should [`prepare`](Self::prepare) the conditioning once and call
    /// [`forward_prepared`](Self::forward_prepared).
    ///
    /// # Panics
    /// If shapes do not fit together or `added` is missing.
    pub fn forward(
        &self,
        sample: Tensor<4>,
        timesteps: &[f64],
        context: Tensor<3>,
        added: Option<&AddedConditioning>,
    ) -> Tensor<4> {
        self.forward_prepared(sample, timesteps, &self.prepare(context, added))
    }

    /// Computes once what does not change over the timesteps. Arguments as in
    /// [`forward`](Self::forward). Reads `time_ids` back from the device.
    ///
    /// # Panics
    /// If shapes do not fit together or `added` is missing.
    pub fn prepare(
        &self,
        context: Tensor<3>,
        added: Option<&AddedConditioning>,
    ) -> PreparedConditioning {
        let context = self
            .transformers()
            .flat_map(|(_, transformer)| transformer.cross_attentions())
            .map(|attention: &ContextAttention| attention.keys_values(context.clone()))
            .collect();
        let added = self.add_embedding.as_ref().map(|embedding| {
            let added = added.expect("this UNet needs added conditioning");
            embedding.forward(self.embed_added(added), None)
        });
        PreparedConditioning {
            id: ConditioningId::new(),
            context,
            objects: None,
            pictures: None,
            added,
            guidance: None,
        }
    }

    /// Whether it has GLIGEN's layers.
    pub fn is_grounded(&self) -> bool {
        self.position_net.is_some()
    }

    /// `prepared` with `objects` for each of its samples, which GLIGEN's layers put into their boxes. A network without
    /// those layers ignores them.
    pub fn ground(
        &self,
        prepared: PreparedConditioning,
        objects: &Objects,
    ) -> PreparedConditioning {
        let Some(position_net) = &self.position_net else {
            return prepared;
        };
        let tokens = position_net.forward(objects);
        let blocks = (self.transformers()).flat_map(|(_, transformer)| transformer.blocks());
        let fusers: Vec<_> = blocks.filter_map(|block| block.fuser()).collect();
        let tokens = kernels::apart(tokens, fusers.len());
        let objects = fusers.iter().zip(tokens);
        let objects = objects.map(|(fuser, tokens)| fuser.keys_values(tokens));
        PreparedConditioning {
            id: ConditioningId::new(),
            objects: Some(objects.collect()),
            ..prepared
        }
    }

    /// As [`prepare`](Self::prepare), for a guidance-distilled network (one with a
    /// `time_cond_proj_dim`, such as LCM's), which takes the guidance scale as an input. Other
    /// networks ignore `guidance_scale`.
    pub fn prepare_distilled(
        &self,
        context: Tensor<3>,
        added: Option<&AddedConditioning>,
        guidance_scale: f64,
    ) -> PreparedConditioning {
        let device = context.device();
        let mut prepared = self.prepare(context, added);
        let dim = self.config.time_cond_proj_dim;
        prepared.guidance = dim.map(|dim| guidance_embedding(guidance_scale, dim, &device));
        prepared
    }

    /// [`forward`](Self::forward) with prepared conditioning.
    pub fn forward_prepared(
        &self,
        sample: Tensor<4>,
        timesteps: &[f64],
        conditioning: &PreparedConditioning,
    ) -> Tensor<4> {
        self.forward_probed(sample, timesteps, conditioning, &mut NoProbe)
    }

    /// [`forward`](Self::forward) with prepared conditioning, while `probe` observes the
    /// cross-attention. Layers that it does not want cost what they always do.
    ///
    /// To differentiate with respect to the sample, load the network on a device without autodiff
    /// and pass a sample with it (`sample.autodiff().require_grad()`): the parameters and the
    /// conditioning are constants then.
    ///
    /// # Panics
    /// If shapes do not fit together.
    pub fn forward_probed(
        &self,
        sample: Tensor<4>,
        timesteps: &[f64],
        conditioning: &PreparedConditioning,
        probe: &mut dyn AttentionProbe,
    ) -> Tensor<4> {
        let timesteps = self.embed_timesteps(timesteps, &sample);
        self.forward_embedded(sample, timesteps, conditioning, probe)
    }

    /// [`forward_probed`](Self::forward_probed) with fewer tokens, or with what an earlier call left in `reuse`; what is
    /// wanted of this one it leaves there. Of layers that do not run, `probe` sees nothing.
    ///
    /// # Panics
    /// If shapes do not fit together, or there is no such skip connection.
    pub fn forward_reusing(
        &self,
        sample: Tensor<4>,
        timesteps: &[f64],
        conditioning: &PreparedConditioning,
        probe: &mut dyn AttentionProbe,
        reuse: &mut Reuse,
    ) -> Tensor<4> {
        let timesteps = self.embed_timesteps(timesteps, &sample);
        self.pass(sample, timesteps, conditioning, probe, reuse)
    }

    /// As [`forward_probed`](Self::forward_probed) for timesteps that are on the device already.
    fn forward_embedded(
        &self,
        sample: Tensor<4>,
        timesteps: Tensor<2>,
        conditioning: &PreparedConditioning,
        probe: &mut dyn AttentionProbe,
    ) -> Tensor<4> {
        self.pass(
            sample,
            timesteps,
            conditioning,
            probe,
            &mut Reuse::default(),
        )
    }
}
