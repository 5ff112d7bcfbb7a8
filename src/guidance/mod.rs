//! What acts inside the denoising loop to put things where they belong, without training.
//!
//! All methods work alike: a forward pass of the UNet's conditional half records cross-attention maps, a loss says how
//! far they are from what is wanted, and the latents move a step down its gradient before the ordinary denoising step.
//!
//! * [`method`]: what a method is; each is one file: [`pos`], [`boxdiff`], [`attend_excite`], [`layout`], [`conform`],
//!   [`steer`], whose [`classifier`] is learned;
//! * [`config`]: what a request says, and what it means;
//! * [`target`]: what one picture should achieve; [`boxes`]: where an object belongs;
//! * [`grounding`]: GLIGEN's layers, which are no method but go with each;
//! * [`maps`]: which maps are read, and their mean;
//! * `shares`: which tokens compete for attention;
//! * [`gradient`]: the losses' gradient to the latents; [`update`]: the hook that moves them;
//! * [`score`]: how well maps obey relations, for search.
//!
//! A new method is one file that implements [`GuidanceMethod`] and one entry in [`METHODS`]; requests, the command
//! line, `prepose run` and `prepose bench` take it from there.

pub mod attend_excite;
pub mod boxdiff;
pub mod boxes;
pub mod classifier;
pub mod config;
pub mod conform;
pub mod gradient;
pub mod grounding;
mod held;
pub mod layout;
pub mod maps;
pub mod method;
pub mod pos;
pub mod score;
mod settings;
mod shares;
pub mod steer;
pub mod steps;
pub mod target;
pub mod update;

use thiserror::Error;

pub use config::{Combination, GuidanceConfig, Layers, Network, PosLoss, Preset};
pub use method::{GuidanceMethod, Loss, Method, Needs};
pub use settings::Settings;
pub use target::{Target, TargetObject};
pub use update::Guidance;

use crate::prompt::PromptError;
use crate::prompt::scene::{Relation, SceneError};

/// Every guidance method.
pub static METHODS: &[Method] = &[
    Method(&pos::Pos),
    Method(&boxdiff::BoxDiff),
    Method(&attend_excite::AttendAndExcite),
    Method(&layout::Layout),
    Method(&conform::Conform),
    Method(&steer::Steer),
    Method(&steer::SteerPos),
];

/// Why a picture cannot be guided as asked.
#[derive(Debug, Error)]
pub enum GuidanceError {
    /// The method has no such preset.
    #[error(
        "{} has no preset {}; it has {}",
        method.name(),
        preset.as_str(),
        list(method.presets().iter().map(|preset| preset.as_str()))
    )]
    Preset {
        /// The method.
        method: Method,
        /// What was asked for.
        preset: Preset,
    },
    /// An option that the method does not read, or not with the others that were given.
    #[error("{} guidance does not read the option {option:?} with these settings; leave it out", method.name())]
    Unread {
        /// The option.
        option: &'static str,
        /// The method.
        method: Method,
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
    /// Steps that are repeated until a loss is low have no gradient to go on with.
    #[error(
        "{} guidance repeats each step until its loss is low, so one gradient cannot serve several steps; leave out \
         --guide-every, or give --guide-refine false as well", .0.name()
    )]
    EveryUntil(Method),
    /// A loss that is never above the threshold.
    #[error(
        "{} guidance with --guide-refine repeats a step until its loss is low, which the paper's loss, -PoS², always is; leave \
         out --guide-refine, or take --guide-loss wrong-order", .0.name()
    )]
    PaperRefined(Method),
    /// Nothing between gradients.
    #[error(
        "--guide-extrapolate acts between the gradients of --guide-every; give --guide-every N, at least 2"
    )]
    ExtrapolateAlone,
    /// More guided steps than steps.
    #[error(
        "{guided} steps cannot be guided from step {from} on in a run of {steps}; ask for fewer"
    )]
    Steps {
        /// The first guided step, from 0.
        from: usize,
        /// The number of guided steps.
        guided: usize,
        /// The number of steps.
        steps: usize,
    },
    /// Nothing to guide by.
    #[error(
        "the prompt states no relation to go by; state one (\"a dog to the left of a cat\") or give it with \
         --relation \"dog | left of | cat\""
    )]
    NoRelation,
    /// Nothing to guide.
    #[error("the prompt names no object to guide")]
    NoObject,
    /// Too few objects.
    #[error(
        "{} guidance needs at least {least} objects; the prompt names {found}",
        method.name()
    )]
    FewObjects {
        /// The method.
        method: Method,
        /// How many it needs.
        least: usize,
        /// How many there are.
        found: usize,
    },
    /// A relation of depth.
    #[error(
        "{0} is a relation of depth, which neither attention maps nor the checker's boxes show; it can be neither guided \
         nor searched for. --guide attend-and-excite at least makes both objects appear"
    )]
    NotInThePlane(Relation),
    /// A relation that no classifier was trained on.
    #[error(
        "{} guidance knows left, right, above, below and the diagonals between them, but not {relation}; --guide pos \
         does",
        method.name()
    )]
    NotLearned {
        /// The method.
        method: Method,
        /// The relation.
        relation: Relation,
    },
    /// A method that learns, and no classifier for the checkpoint.
    #[error(
        "{} guidance uses a classifier that was trained for the checkpoint, but {checkpoint} has none; train one \
         with `prepose train steer --checkpoint {checkpoint} --out FOLDER`, and name its steer.safetensors with \
         --steer",
        .method.name()
    )]
    NoClassifier {
        /// The method.
        method: Method,
        /// The checkpoint.
        checkpoint: String,
    },
    /// Another classifier than the recorded one.
    #[error(
        "the classifier {} has changed since it was recorded (its SHA-256 is {found}, and not {recorded}); put the one from \
         before back, or begin another run with this one",
        path.display()
    )]
    ClassifierChanged {
        /// The file.
        path: std::path::PathBuf,
        /// Its SHA-256 now.
        found: String,
        /// Its SHA-256 then.
        recorded: String,
    },
    /// No boxes, and no layout to take them from.
    #[error(
        "{} guidance needs a box for each object, as in \"dog: 0.05,0.25,0.35,0.75\"; only a prompt with exactly one \
         relation out of left, right, above and below has a layout of its own",
        method.name()
    )]
    NeedsBoxes {
        /// The method.
        method: Method,
    },
    /// No boxes for GLIGEN, and no layout to take them from.
    #[error(
        "--ground needs a box for each object: give --box \"dog: 0.05,0.25,0.35,0.75\"; only a prompt with exactly one \
         relation out of left, right, above and below has a layout of its own"
    )]
    GroundingNeedsBoxes,
    /// More boxes than GLIGEN's layers have places.
    #[error(
        "there are {boxes} boxes, but GLIGEN's layers have room for only {}; leave some out",
        prepose_models::unet::MOST_OBJECTS
    )]
    TooManyBoxes {
        /// What was given.
        boxes: usize,
    },
    /// Boxes for a network without GLIGEN's layers.
    #[error(
        "this checkpoint has no GLIGEN layers to put objects into boxes with; give them with --gligen FILE (toybox \
         for the toybox), or use a checkpoint that has them. --guide boxdiff works without them"
    )]
    NotGrounded,
    /// A box for something that is not there.
    #[error("there is a box for {0:?}, which is not in the prompt")]
    BoxWithoutObject(String),
    /// Two boxes for the same.
    #[error("there are two boxes for {0:?}")]
    TwoBoxes(String),
    /// No maps of that size.
    #[error(
        "no layer that is read has maps with {side} cells along the shorter side at this picture size; the sizes are \
         {}",
        list(available)
    )]
    NoMaps {
        /// What was asked for.
        side: usize,
        /// What there is.
        available: Vec<usize>,
    },
    /// No step whose maps show the words of the prompt, or of the negative prompt.
    #[error(
        "attention maps would be read once every {0} steps, but in none of these does the network see the text that the run \
         ends with; read more steps, with a smaller --attention-every"
    )]
    NoMappedStep(usize),
    /// Maps of the negative half, which has no objects.
    #[error(
        "attention maps of the negative half show words of the negative prompt, which has no objects; name the words with \
         --attention-words"
    )]
    NoNegativeWords,
    /// A word to show that the negative prompt does not have.
    #[error("{0:?} is not in the negative prompt, of whose words attention maps are to be read")]
    NotInNegative(String),
    /// Maps of a half that there is not.
    #[error(
        "the network never sees the negative prompt that the run ends with, so there are no attention maps of it: only \
         classifier-free guidance shows it, with a --guidance-scale above 1, in the steps of --guidance-steps, and not to a \
         network that takes the scale itself, such as LCM's; leave out --attention-half"
    )]
    NoNegativeHalf,
    /// No layer with one of the heads.
    #[error(
        "the layers that are read have none of the heads of --attention-heads, only heads 0 to {}; ask for some of these",
        there.saturating_sub(1)
    )]
    NoHead {
        /// How many heads one of them has at most.
        there: usize,
    },
    /// No such layer.
    #[error(
        "the network has no layer {name:?} that attends to the text; it has {}",
        list(available)
    )]
    NoLayer {
        /// What was asked for.
        name: String,
        /// The blocks that there are.
        available: Vec<String>,
    },
    /// The scene cannot be used.
    #[error(transparent)]
    Scene(#[from] SceneError),
    /// The prompt cannot be used.
    #[error(transparent)]
    Prompt(#[from] PromptError),
}

fn list(items: impl IntoIterator<Item = impl ToString>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(", ")
}
