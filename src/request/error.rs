//! What is wrong with a request, in words.

use thiserror::Error;

/// What is wrong with a request.
#[derive(Debug, Error, PartialEq)]
pub enum RequestError {
    /// A prompt that never gets its turn.
    #[error(
        "the prompt is to change at step {at}, but there are {steps} steps; it can change at 1 to {last}"
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
        "there is a region for part {part}, but the prompt has {parts}; parts are joined by AND, as in \"a dog AND a cat\""
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
        "clip skip is {asked}, but the text encoder of this checkpoint has {layers} layers; leave out 0 to {most}"
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
