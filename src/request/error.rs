//! What can be wrong with a request.

use thiserror::Error;

/// What is wrong with a request.
#[derive(Debug, Error, PartialEq)]
pub enum RequestError {
    /// A prompt that never gets its turn.
    #[error(
        "the prompt is to change at step {at}, but there are {steps} steps; it can change at step 1 to {last}"
    )]
    Switch {
        /// Asked for.
        at: usize,
        /// The run's.
        steps: usize,
        /// The last step at which a change has an effect.
        last: usize,
    },
    /// Two ways of saying how the prompt changes.
    #[error("--delay-order and --switch-to both say how the prompt changes; give one of them")]
    TwoSwitches,
    /// A file whose name cannot be written into the picture's request.
    #[error(
        "the name of {path} is not UTF-8, so the picture's request could not name it; rename the file"
    )]
    Name {
        /// The file.
        path: String,
    },
    /// A region for a part of the prompt that is not there.
    #[error(
        "there is a region for part {part}, but the prompt has {parts}; parts are counted from 1 and joined by AND, as in \
         \"a dog AND a cat\""
    )]
    Region {
        /// Asked for, from 1.
        part: usize,
        /// How many there are at most.
        parts: usize,
    },
    /// A region between the latents.
    #[error(
        "the region of part {part} is smaller than a cell of the {width}x{height} latents; make it larger"
    )]
    SmallRegion {
        /// Which part, from 1.
        part: usize,
        /// Of the latents.
        width: usize,
        /// Of the latents.
        height: usize,
    },
    /// Two ways of using the network that exclude each other.
    #[error(
        "one-pass guidance records the step's own call, which has several prompts here; leave out --guide-one-pass or AND"
    )]
    ComposedOnePass,
    /// Prompts that are composed by guidance, by a network that has none.
    #[error(
        "prompts joined by AND or with regions are composed by classifier-free guidance, and this checkpoint has none: it was \
         distilled to take the guidance scale itself (time_cond_proj_dim); leave out AND and regions"
    )]
    ComposedDistilled,
    /// Prompts that are composed by guidance, in steps without it.
    #[error(
        "--guidance-steps leaves guidance out of some steps, and prompts joined by AND or with regions are composed by it; \
         leave out one of the two"
    )]
    ComposedGuidanceSteps,
    /// Steps of a guidance that is off.
    #[error(
        "--guidance-steps says where classifier-free guidance acts, and at a guidance scale of {scale} there is none; leave it \
         out, or give a --guidance-scale above 1"
    )]
    UnguidedSteps {
        /// Asked for.
        scale: f64,
    },
    /// Steps of a guidance that the network has inside.
    #[error(
        "--guidance-steps says where classifier-free guidance acts, and this checkpoint has none: it was distilled to take the \
         guidance scale itself (time_cond_proj_dim); leave out --guidance-steps"
    )]
    DistilledSteps,
    /// Guidance that begins after the end.
    #[error("--guidance-steps begins with step {first}, but the {steps} steps are counted from 0 to {}", steps - 1)]
    GuidanceSteps {
        /// Asked for.
        first: usize,
        /// The run's.
        steps: usize,
    },
    /// T-GATE before the first step or after the last.
    #[error("the first step after T-GATE's gate is {gate} of {steps}, but must be 1 to {}", steps - 1)]
    Gate {
        /// Asked for.
        gate: usize,
        /// The run's.
        steps: usize,
    },
    /// DeepCache where every step runs whole.
    #[error(
        "--deep-cache would save nothing: all {steps} steps are guided, and a guided step runs the whole network, as it moves \
         what the network sees; guide fewer (--guide-steps), or leave out --deep-cache"
    )]
    DeepCacheGuided {
        /// The run's.
        steps: usize,
    },
    /// A skip connection that is not there.
    #[error("--deep-cache names the skip connection {branch}, but the network has 0 to {}", branches - 1)]
    Branch {
        /// Asked for.
        branch: usize,
        /// How many there are.
        branches: usize,
    },
    /// A prompt that changes when nobody reads it any more.
    #[error(
        "the prompt changes at step {step}, but from step {gate} on --tgate keeps what the network has read before; gate later"
    )]
    GatedPrompt {
        /// Where it changes.
        step: usize,
        /// The first step after the gate.
        gate: usize,
    },
    /// A picture that comes or goes when nobody looks any more.
    #[error(
        "an --ip-picture begins or ends after step {gate}, from which on --tgate keeps what the network has seen before; gate \
         later, or change its steps"
    )]
    GatedPicture {
        /// The first step after the gate.
        gate: usize,
    },
    /// More than the two halves that T-GATE takes the mean of.
    #[error(
        "--tgate ends classifier-free guidance, and prompts joined by AND or with regions are composed by it; leave out one of \
         the two"
    )]
    GatedComposition,
    /// Classifier-free guidance that would never act.
    #[error(
        "--guidance-steps begins with step {first}, but --tgate ends classifier-free guidance at step {gate}; gate later, or \
         guide earlier"
    )]
    GatedGuidanceSteps {
        /// The first step with guidance.
        first: usize,
        /// The first step after the gate.
        gate: usize,
    },
    /// Guidance by maps that the network does not use any more.
    #[error(
        "guidance by attention acts until step {last}, but from step {gate} on --tgate keeps the cross-attention that it would \
         move; guide fewer steps (--guide-steps), or gate at step {} or later", last + 1 + usize::from(*one_pass)
    )]
    GatedGuidance {
        /// The last guided step.
        last: usize,
        /// The first step after the gate.
        gate: usize,
        /// Whether the step's own call is recorded.
        one_pass: bool,
    },
    /// Nothing to draw.
    #[error("the prompt is empty; say what the picture should show")]
    EmptyPrompt,
    /// The autoencoder cannot make this size.
    #[error(
        "{width}x{height} is not a size this checkpoint can make: width and height must be \
         multiples of {factor}, at least {min}, at most {max}; the nearest is {nearest_width}x{nearest_height}"
    )]
    Size {
        /// Asked for.
        width: usize,
        /// Asked for.
        height: usize,
        /// Width and height are multiples of this.
        factor: usize,
        /// The smallest side.
        min: usize,
        /// The largest side.
        max: usize,
        /// A width that would do.
        nearest_width: usize,
        /// A height that would do.
        nearest_height: usize,
    },
    /// More layers of the text encoder left out than it has.
    #[error(
        "clip skip is {asked}, but the text encoder of this checkpoint has {layers} layers; skip 0 to {most}"
    )]
    ClipSkip {
        /// Asked for.
        asked: usize,
        /// Of the shortest text encoder.
        layers: usize,
        /// The most that can be left out.
        most: usize,
    },
    /// A number out of its range.
    #[error("{name} is {value}, but must be {range}")]
    Range {
        /// Which number.
        name: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        range: &'static str,
    },
}

pub(super) fn range(name: &'static str, value: impl ToString, range: &'static str) -> RequestError {
    RequestError::Range {
        name,
        value: value.to_string(),
        range,
    }
}
