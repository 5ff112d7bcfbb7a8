//! The memory of a pass through the UNet.

use super::config::{LevelPlan, UNetConfig, UNetPlan};
use super::grounding::MOST_OBJECTS;
use super::record::Memory;
use crate::attention::Place;
use crate::config::ConfigError;
use crate::footprint::Means;

/// What decides the memory of one pass besides the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassShape {
    /// Rows of the batch: two a picture with classifier-free guidance.
    pub rows: usize,
    /// Height of the latents: an eighth of the picture in Stable Diffusion.
    pub height: usize,
    /// Width of the latents.
    pub width: usize,
    /// Text tokens of each row.
    pub tokens: usize,
}

/// One cross-attention layer of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrossAttention {
    /// Its name in the checkpoint.
    pub name: String,
    /// The part of the UNet that it is in.
    pub place: Place,
    /// Height of the feature map that asks.
    pub height: usize,
    /// Width of the feature map that asks.
    pub width: usize,
    /// Heads, each of which has its own map.
    pub heads: usize,
}

/// A [`Step`](super::steps::Step), by its channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Resnet {
        output: usize,
    },
    Enter,
    /// With GLIGEN's layers if `grounded`.
    Attend {
        heads: usize,
        grounded: bool,
    },
    Leave,
    Downsample,
    Upsample,
    Branch,
    Concatenate,
}

/// The order of the network's steps; as `UNet::steps` without the first convolution.
fn stages(plan: &UNetPlan) -> Vec<Stage> {
    let mut stages = vec![Stage::Branch];
    let transformer = |level: &LevelPlan, stages: &mut Vec<Stage>| {
        stages.push(Stage::Enter);
        let attend = Stage::Attend {
            heads: level.heads,
            grounded: plan.objects.is_some(),
        };
        stages.extend((0..level.depth).map(|_| attend));
        stages.push(Stage::Leave);
    };
    let resnet = |level: &LevelPlan| Stage::Resnet {
        output: level.channels,
    };
    let last = plan.levels.len() - 1;
    for (i, level) in plan.levels.iter().enumerate() {
        for _ in 0..level.layers {
            stages.push(resnet(level));
            if level.cross_attention_down {
                transformer(level, &mut stages);
            }
            stages.push(Stage::Branch);
        }
        if i < last {
            stages.extend([Stage::Downsample, Stage::Branch]);
        }
    }
    let bottom = &plan.levels[last];
    stages.push(resnet(bottom));
    transformer(bottom, &mut stages);
    stages.push(resnet(bottom));
    for (i, level) in plan.levels.iter().enumerate().rev() {
        for _ in 0..=level.layers {
            stages.extend([Stage::Concatenate, resnet(level)]);
            if level.cross_attention_up {
                transformer(level, &mut stages);
            }
        }
        if i > 0 {
            stages.push(Stage::Upsample);
        }
    }
    stages
}

/// Feature maps of one row.
#[derive(Clone, Copy)]
struct Maps {
    channels: u64,
    height: usize,
    width: usize,
}

impl Maps {
    fn positions(&self) -> u64 {
        (self.height * self.width) as u64
    }

    fn elements(&self) -> u64 {
        self.channels * self.positions()
    }
}

/// The elements of one row that are alive while the stages are followed.
struct Walk {
    means: Means,
    x: Maps,
    branches: Vec<Maps>,
    /// Whether `x` is the last of the branches and counts there.
    shared: bool,
    /// Elements that are kept for the gradient.
    tape: u64,
    peak: u64,
}

impl Walk {
    fn new(plan: &UNetPlan, means: Means, shape: PassShape) -> Self {
        Self {
            means,
            x: Maps {
                channels: plan.levels[0].channels as u64,
                height: shape.height,
                width: shape.width,
            },
            branches: Vec::new(),
            shared: false,
            tape: 0,
            peak: 0,
        }
    }

    /// Takes one stage. `record` is what it keeps for a gradient.
    fn take(&mut self, stage: Stage, record: Option<Memory>) {
        let x = self.x;
        let (c, n) = (x.channels, x.positions());
        // What a gradient needs stays as it is.
        let means = Means {
            in_place: self.means.in_place && record.is_none(),
            ..self.means
        };
        let mut next = x;
        // What is alive besides the branches, the input counted.
        let alive = match stage {
            Stage::Resnet { output } => {
                next.channels = output as u64;
                n * means.resnet(c, output as u64, self.shared)
            }
            // The branch, the norm's result, the tokens.
            Stage::Enter => 3 * x.elements(),
            // Tokens, and the gate with its input; or tokens, norm, queries, keys, values and result.
            Stage::Attend { heads, grounded } => {
                // Keys and values with those of the objects.
                let joined = if grounded {
                    2 * c * (n + MOST_OBJECTS as u64)
                } else {
                    0
                };
                n * 13 * c + joined + means.scores(heads as u64, n, 2)
            }
            Stage::Leave => means.convolve(x.elements(), x.elements()) + x.elements(),
            Stage::Downsample => {
                (next.height, next.width) = (x.height.div_ceil(2), x.width.div_ceil(2));
                means.convolve(x.elements(), next.elements())
            }
            Stage::Upsample => {
                let branch = self.branches.last();
                let size = branch.map_or((2 * x.height, 2 * x.width), |b| (b.height, b.width));
                (next.height, next.width) = size;
                means
                    .convolve(next.elements(), next.elements())
                    .max(x.elements() + next.elements())
            }
            Stage::Branch => x.elements(),
            Stage::Concatenate => {
                let branch = self.branches.pop().map_or(0, |branch| branch.channels);
                next.channels = c + branch;
                2 * next.elements()
            }
        };
        self.tape += match (record, stage) {
            (None, _) => 0,
            (Some(Memory::Keep), Stage::Resnet { output }) => n * (c + output as u64),
            // Input, queries, keys, values, result, the same of the text's, the feed-forward's input, the gate.
            // GLIGEN's layer again as much, but the text's.
            (Some(Memory::Keep), Stage::Attend { grounded, .. }) => {
                n * c * if grounded { 30 } else { 16 }
            }
            (Some(_), Stage::Resnet { .. } | Stage::Attend { .. } | Stage::Enter) => x.elements(),
            (Some(_), _) => 0,
        };
        let branches: u64 = self.branches.iter().map(Maps::elements).sum();
        let counted = if self.shared { x.elements() } else { 0 };
        self.peak = self
            .peak
            .max(self.tape + branches + alive.saturating_sub(counted));
        if matches!(stage, Stage::Branch | Stage::Enter) {
            self.branches.push(x);
        }
        if stage == Stage::Leave {
            self.branches.pop();
        }
        self.shared = stage == Stage::Branch;
        self.x = next;
    }

    /// What the gradient of a stage has alive besides the tape; in [`Memory::Recompute`] its tape as well.
    fn gradient(&self, stage: Stage, memory: Memory) -> u64 {
        let (c, n) = (self.x.channels, self.x.positions());
        let again = memory == Memory::Recompute;
        let means = Means {
            in_place: false,
            ..self.means
        };
        match stage {
            Stage::Resnet { output } => {
                n * 3 * (c + output as u64)
                    + means.resnet(c, output as u64, false) * n * u64::from(again)
            }
            Stage::Attend { heads, .. } => {
                let scores = self.means.scores(heads as u64, n, 3);
                n * c * if again { 36 } else { 20 } + scores
            }
            _ => 4 * self.x.elements(),
        }
    }
}

impl UNetConfig {
    /// Bytes that [`UNet::forward_prepared`](super::UNet::forward_prepared) takes at its worst moment, input, output
    /// and conditioning counted.
    ///
    /// # Errors
    /// [`ConfigError`] for a configuration that [`check`](Self::check) refuses.
    pub fn forward_bytes(&self, shape: PassShape, means: Means) -> Result<u64, ConfigError> {
        let plan = self.plan()?;
        let stages = stages(&plan);
        let mut walk = Walk::new(&plan, means, shape);
        for stage in &stages {
            walk.take(*stage, None);
        }
        let top = plan.levels[0].channels as u64 * walk.x.positions();
        let last = means.convolve(top, 0) + top;
        let rows = shape.rows as u64;
        Ok(rows * means.element * walk.peak.max(last) + self.given_bytes(&plan, shape, means))
    }

    /// As [`forward_bytes`](Self::forward_bytes) for a [`UNet::record`](super::UNet::record) up to the layer `last`
    /// of cross-attention, counted from 0, and its gradient.
    ///
    /// # Errors
    /// As [`forward_bytes`](Self::forward_bytes).
    pub fn recorded_bytes(
        &self,
        shape: PassShape,
        last: usize,
        memory: Memory,
        means: Means,
    ) -> Result<u64, ConfigError> {
        let plan = self.plan()?;
        let mut walk = Walk::new(&plan, means, shape);
        let (mut layer, mut gradient) = (0, 0);
        for stage in stages(&plan) {
            gradient = gradient.max(walk.gradient(stage, memory));
            walk.take(stage, Some(memory));
            if matches!(stage, Stage::Attend { .. }) {
                if layer == last {
                    break;
                }
                layer += 1;
            }
        }
        let peak = walk.peak.max(walk.tape + gradient);
        Ok(shape.rows as u64 * means.element * peak + self.given_bytes(&plan, shape, means))
    }

    /// How many skip connections there are, the outermost first.
    ///
    /// # Errors
    /// As [`forward_bytes`](Self::forward_bytes).
    pub fn branches(&self) -> Result<usize, ConfigError> {
        let stages = stages(&self.plan()?);
        Ok(stages
            .iter()
            .filter(|stage| **stage == Stage::Branch)
            .count())
    }

    /// Bytes that a [`Reuse`](super::Reuse) keeps of a call: what comes out of the deep part inside of a skip connection
    /// `deep`, and what the cross-attention of one row adds, for each of the rows that they are kept for.
    ///
    /// # Errors
    /// As [`forward_bytes`](Self::forward_bytes).
    pub fn kept_bytes(
        &self,
        shape: PassShape,
        deep: Option<usize>,
        cross_rows: usize,
        means: Means,
    ) -> Result<u64, ConfigError> {
        let plan = self.plan()?;
        let stages = stages(&plan);
        let joins = stages.iter().filter(|stage| **stage == Stage::Concatenate);
        let at = deep.and_then(|branch| joins.count().checked_sub(branch + 1));
        let mut walk = Walk::new(&plan, means, shape);
        let (mut join, mut kept_deep, mut kept_cross) = (0, 0, 0);
        for stage in stages {
            if stage == Stage::Concatenate {
                if at == Some(join) {
                    kept_deep = walk.x.elements();
                }
                join += 1;
            }
            if matches!(stage, Stage::Attend { .. }) {
                kept_cross += walk.x.elements();
            }
            walk.take(stage, None);
        }
        let elements = kept_deep * shape.rows as u64 + kept_cross * cross_rows as u64;
        Ok(means.element * elements)
    }

    /// The cross-attention layers of a pass over latents of `height` × `width`, in the order of execution, with the
    /// names that [`UNet::cross_attention_names`](super::UNet::cross_attention_names) gives them.
    ///
    /// # Errors
    /// As [`forward_bytes`](Self::forward_bytes).
    pub fn cross_attention_layers(
        &self,
        height: usize,
        width: usize,
    ) -> Result<Vec<CrossAttention>, ConfigError> {
        let plan = self.plan()?;
        let last = plan.levels.len() - 1;
        let mut found = Vec::new();
        let mut block = |place, name: String, level: usize, transformers: usize| {
            for transformer in 0..transformers {
                found.extend((0..plan.levels[level].depth).map(|i| CrossAttention {
                    name: format!("{name}.attentions.{transformer}.transformer_blocks.{i}.attn2"),
                    place,
                    height: height.div_ceil(1 << level),
                    width: width.div_ceil(1 << level),
                    heads: plan.levels[level].heads,
                }));
            }
        };
        for (i, level) in plan.levels.iter().enumerate() {
            let transformers = level.layers * usize::from(level.cross_attention_down);
            block(Place::Down, format!("down_blocks.{i}"), i, transformers);
        }
        block(Place::Mid, "mid_block".to_string(), last, 1);
        for (i, level) in plan.levels.iter().rev().enumerate() {
            let transformers = (level.layers + 1) * usize::from(level.cross_attention_up);
            block(Place::Up, format!("up_blocks.{i}"), last - i, transformers);
        }
        Ok(found)
    }

    /// Latents in and out in f32, and the keys and values of the text.
    fn given_bytes(&self, plan: &UNetPlan, shape: PassShape, means: Means) -> u64 {
        let latents = 4 * (self.in_channels + self.out_channels) * shape.height * shape.width;
        let last = plan.levels.len() - 1;
        let layers = plan.levels.iter().enumerate().map(|(i, level)| {
            let down = level.layers * usize::from(level.cross_attention_down);
            let up = (level.layers + 1) * usize::from(level.cross_attention_up);
            (down + up + usize::from(i == last)) * level.depth * level.channels
        });
        let objects = if plan.objects.is_some() {
            MOST_OBJECTS
        } else {
            0
        };
        let text = 2 * (shape.tokens + objects) * layers.sum::<usize>();
        shape.rows as u64 * (latents as u64 + means.element * text as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_of_sd15_are_counted_as_they_run() {
        let plan = UNetConfig::default();
        let stages = stages(&plan.plan().unwrap());
        let count =
            |wanted: fn(&Stage) -> bool| stages.iter().filter(|stage| wanted(stage)).count();
        assert_eq!(count(|stage| matches!(stage, Stage::Attend { .. })), 16);
        assert_eq!(count(|stage| matches!(stage, Stage::Resnet { .. })), 22);
        assert_eq!(count(|stage| matches!(stage, Stage::Branch)), 12);
        assert_eq!(count(|stage| matches!(stage, Stage::Concatenate)), 12);
        assert_eq!(UNetConfig::default().branches().unwrap(), 12);
    }

    #[test]
    fn memory_grows_with_what_is_asked() {
        let config = UNetConfig::default();
        let means = Means {
            element: 2,
            scores: false,
            relayout: false,
            in_place: false,
        };
        let shape = PassShape {
            rows: 2,
            height: 64,
            width: 64,
            tokens: 77,
        };
        let bytes = |shape, means| config.forward_bytes(shape, means).unwrap();
        let plain = bytes(shape, means);
        assert!(plain < bytes(PassShape { rows: 4, ..shape }, means));
        assert!(plain < bytes(PassShape { width: 96, ..shape }, means));
        assert!(
            plain
                < bytes(
                    shape,
                    Means {
                        element: 4,
                        ..means
                    }
                )
        );
        // DeepCache keeps 320 channels of 64×64 positions for each row, T-GATE what 16 layers add to one row.
        let kept = |deep, cross| config.kept_bytes(shape, deep, cross, means).unwrap();
        assert_eq!(kept(Some(0), 0), 2 * 320 * 64 * 64 * 2);
        let layers = 5 * 320 * 4096 + 5 * 640 * 1024 + 5 * 1280 * 256 + 1280 * 64;
        assert_eq!(kept(None, 1), layers * 2);
        // The scores of 64×64 positions, twice, for 2 rows of 8 heads in f16.
        let scores = bytes(
            shape,
            Means {
                scores: true,
                ..means
            },
        ) - plain;
        assert_eq!(scores, 2 * 2 * 8 * 4096 * 4096 * 2);
        let recorded = |memory| config.recorded_bytes(shape, 9, memory, means).unwrap();
        assert!(recorded(Memory::Recompute) < recorded(Memory::Keep));
        assert!(plain < recorded(Memory::Recompute));
    }
}
