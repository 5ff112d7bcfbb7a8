//! A forward pass through all steps, whatever of it is taken from an earlier one.

use burn::prelude::*;
use burn::tensor::DType;
use prepose_kernels::keep_awake;

use super::UNet;
use super::conditioning::PreparedConditioning;
use super::pass::Pass;
use super::reuse::{Cross, Kept, Reuse, mean_rows, seams};
use super::steps::{Step, Steps};
use crate::attention::AttentionProbe;

impl UNet {
    /// From the sample `[B, 4, H, W]` and embedded timesteps to the output.
    pub(super) fn pass(
        &self,
        sample: Tensor<4>,
        timesteps: Tensor<2>,
        conditioning: &PreparedConditioning,
        probe: &mut dyn AttentionProbe,
        reuse: &mut Reuse,
    ) -> Tensor<4> {
        keep_awake(&sample.device(), || {
            let layers = self.layer_infos(&sample, conditioning);
            let wanted: Vec<_> = layers.iter().map(|layer| probe.wants(layer)).collect();
            let time = self.time_shifts(timesteps, conditioning);
            let mut pass = Pass {
                time: &time,
                context: &conditioning.context,
                objects: conditioning.objects.as_deref(),
                pictures: conditioning.pictures.as_deref(),
                layers: &layers,
                wanted: &wanted,
                probe,
                branches: Vec::new(),
                tape: None,
                end: None,
                merging: reuse.merging,
                cross: match &reuse.cross {
                    Kept::Off => Cross::Compute,
                    Kept::Wanted => Cross::Keep(Vec::with_capacity(layers.len())),
                    Kept::There(kept) => Cross::Take(kept),
                },
            };
            let (steps, x) = (self.steps(), self.input(sample));
            let output = match &reuse.deep {
                Kept::Off => self.run_on(&steps, x, &mut pass),
                Kept::Wanted => {
                    let (before, after) = steps.split_at(seams(&steps, reuse.branch).1);
                    let deep = run(before, x, &mut pass);
                    let output = self.run_on(after, deep.clone(), &mut pass);
                    reuse.deep = Kept::There(deep);
                    output
                }
                Kept::There(deep) => {
                    let (begins, ends) = seams(&steps, reuse.branch);
                    // For its skip connections.
                    run(&steps[..begins], x, &mut pass);
                    self.run_on(&steps[ends..], deep.clone(), &mut pass)
                }
            };
            if let Cross::Keep(kept) = pass.cross {
                let pictures = reuse.pictures;
                let kept = kept.into_iter().map(|kept| mean_rows(kept, pictures));
                reuse.cross = Kept::There(kept.collect());
            }
            output
        })
    }

    /// The sample in the type of the first step.
    pub(super) fn input(&self, sample: Tensor<4>) -> Tensor<4> {
        sample.cast(self.conv_in.dtype())
    }

    /// From the state before `steps`, the last ones of all, to the output.
    pub(super) fn run_on(&self, steps: &[Step], x: Tensor<4>, pass: &mut Pass) -> Tensor<4> {
        let x = run(steps, x, pass);
        let x = self.conv_norm_out.forward_silu(x);
        self.conv_out.forward(x).cast(DType::F32)
    }

    /// All but the last norm and convolution.
    pub(super) fn steps(&self) -> Vec<Step<'_>> {
        let mut steps = Steps::default();
        steps.push(Step::Convolve(&self.conv_in));
        steps.push(Step::Branch);
        for block in &self.down_blocks {
            block.steps(&mut steps);
        }
        self.mid_block.steps(&mut steps);
        for block in &self.up_blocks {
            block.steps(&mut steps);
        }
        steps.into_list()
    }
}

/// The state after `steps` of a pass without an end.
pub(super) fn run(steps: &[Step], x: Tensor<4>, pass: &mut Pass) -> Tensor<4> {
    let x = (steps.iter()).try_fold(x, |x, step| step.forward(x, pass));
    x.expect("a pass without an end goes through all steps")
}
