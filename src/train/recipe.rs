//! Everything that decides what a training comes to.

use prepose_dataset::bucket::Sizes;
use prepose_dataset::order::Flips;
use prepose_models::training::{Choice, Lora};
use prepose_optimizer::average::Average;
use prepose_optimizer::draws::{Draws, Timesteps};
use prepose_optimizer::objective::Weighting;
use prepose_optimizer::rate::Rate;
use prepose_optimizer::rule::Rule;
use prepose_weights::Checkpoint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::TrainError;
use crate::dtype::Dtype;

/// Which layers a LoRA changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Layers {
    /// Keys and values of the text: how captions are read, and not how pictures are drawn
    Text,
    /// Queries, keys, values and outputs of attention
    Attention,
    /// All linear layers of the transformers
    #[default]
    Transformers,
    /// Those, and the residual blocks' layers
    All,
}

/// What is trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Low-rank changes of layers (Hu et al. 2021).
    Lora {
        /// Of linear layers and 1 × 1 convolutions.
        rank: usize,
        /// Scales the change, divided by the rank.
        alpha: f64,
        /// Of larger convolutions.
        conv_rank: usize,
        /// As `alpha`.
        conv_alpha: f64,
        /// Which layers.
        layers: Layers,
    },
    /// The UNet itself.
    Unet {
        /// Parts of names between dots, such as `attn2`; empty: all of it.
        parts: Vec<String>,
    },
    /// GLIGEN's layers (Li et al. 2023), on pictures with phrases and boxes.
    Gligen {
        /// The share of batches that are told of no objects.
        grounding_dropout: f64,
    },
    /// An IP-Adapter (Ye et al. 2023), on pictures that are shown to it.
    IpAdapter {
        /// What kind; none where one from a file is trained further.
        new: Option<NewKind>,
        /// The share of samples without a picture shown, but with their caption.
        picture_dropout: f64,
        /// The share of samples with neither.
        both_dropout: f64,
    },
}

/// Kinds of IP-Adapters that can be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewKind {
    /// Four tokens from the embedding of the picture.
    Plain,
    /// "plus": a resampler of the encoder's states.
    Plus,
}

/// What a picture comes with besides its caption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// Phrases with boxes.
    Objects,
    /// A picture that is shown, itself or another.
    Shown,
}

/// What a sample is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The caption.
    pub caption: bool,
    /// The picture that is shown.
    pub picture: bool,
}

impl Kind {
    /// What pictures have to come with.
    pub fn beside(&self) -> Beside {
        match self {
            Self::Lora { .. } | Self::Unet { .. } => Beside::Nothing,
            Self::Gligen { .. } => Beside::Objects,
            Self::IpAdapter { .. } => Beside::Shown,
        }
    }

    /// What that is of `checkpoint`, whose first adapter is the one to be trained, if it is one that is.
    pub fn choice(&self, checkpoint: &Checkpoint) -> Choice {
        match self {
            Self::IpAdapter { .. } => match checkpoint.adapters().first() {
                Some(adapter) => Choice::IpAdapter(adapter.config().clone()),
                // Refused where its parameters are asked for: there is none of this name.
                None => Choice::Named(vec!["image_proj".into()]),
            },
            Self::Unet { parts } if parts.is_empty() => Choice::All,
            Self::Unet { parts } => Choice::Named(parts.clone()),
            Self::Gligen { .. } => Choice::Gligen,
            Self::Lora {
                rank,
                alpha,
                conv_rank,
                conv_alpha,
                layers,
            } => Choice::Lora(match layers {
                Layers::Text => Lora::text(*rank, *alpha),
                Layers::Attention => Lora::attention(*rank, *alpha),
                Layers::Transformers => Lora::transformers(*rank, *alpha),
                Layers::All => Lora::everything(*rank, *alpha, (*conv_rank, *conv_alpha)),
            }),
        }
    }
}

/// Everything that decides what a training comes to, but for the checkpoint and the pictures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// What is trained.
    pub kind: Kind,
    /// The optimiser.
    pub optimizer: Rule,
    /// The learning rate.
    pub rate: Rate,
    /// Steps of the optimiser.
    pub steps: u64,
    /// Samples in a batch.
    pub batch: usize,
    /// Batches in a step.
    pub accumulate: usize,
    /// The longest gradient; 0: any.
    pub clip: f64,
    /// The running average of the weights, if there is one.
    pub average: Option<Average>,
    /// How much errors at different noise levels count.
    pub weighting: Weighting,
    /// Which noise levels are trained how often.
    pub timesteps: Timesteps,
    /// Offset noise: how much noise is the same all over a channel.
    pub offset: f64,
    /// The share of captions that are left out, for classifier-free guidance.
    pub dropout: f64,
    /// Mirror images.
    pub flips: Flips,
    /// What pictures are brought to.
    pub sizes: Sizes,
    /// Of everything that is drawn.
    pub seed: Draws,
    /// What the network computes in; what is trained is kept in f32.
    #[serde(default = "f32", skip_serializing_if = "is_f32")]
    pub dtype: Dtype,
}

fn f32() -> Dtype {
    Dtype::F32
}

fn is_f32(dtype: &Dtype) -> bool {
    *dtype == Dtype::F32
}

impl Recipe {
    /// What a sample is not told, by a number that was drawn for it, from 0 to below 1. One number decides, so that shares are
    /// what they are said to be.
    pub fn left_out(&self, drawn: f64) -> LeftOut {
        let (picture, both) = match self.kind {
            Kind::IpAdapter {
                picture_dropout,
                both_dropout,
                ..
            } => (picture_dropout, both_dropout),
            _ => (0.0, 0.0),
        };
        let alone = drawn < self.dropout;
        let shown = alone || drawn >= self.dropout + picture + both;
        let neither = !shown && drawn >= self.dropout + picture;
        LeftOut {
            caption: alone || neither,
            picture: !shown,
        }
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`TrainError::Setting`].
    pub fn check(&self) -> Result<(), TrainError> {
        let refuse = |name, value: String, range| Err(TrainError::Setting { name, value, range });
        let counts = [
            ("--batch", self.batch as u64),
            ("--accumulate", self.accumulate as u64),
            ("--steps", self.steps),
        ];
        for (name, value) in counts {
            if !(1..=100_000_000).contains(&value) {
                return refuse(name, value.to_string(), "must be from 1 to 100000000");
            }
        }
        let mut shares = vec![("--dropout", self.dropout)];
        if let Kind::Gligen { grounding_dropout } = self.kind {
            shares.push(("--grounding-dropout", grounding_dropout));
        }
        if let Kind::IpAdapter {
            picture_dropout,
            both_dropout,
            ..
        } = self.kind
        {
            shares.push(("--picture-dropout", picture_dropout));
            shares.push(("--both-dropout", both_dropout));
            let all = self.dropout + picture_dropout + both_dropout;
            shares.push((
                "the sum of --dropout, --picture-dropout and --both-dropout",
                all,
            ));
        }
        for (name, value) in shares {
            if !(0.0..=1.0).contains(&value) {
                return refuse(name, value.to_string(), "must be from 0 to 1");
            }
        }
        let sizes = [
            ("--rate", self.rate.peak),
            ("--clip", self.clip),
            ("--offset-noise", self.offset),
            ("--weight-decay", self.optimizer.weight_decay()),
        ];
        for (name, value) in sizes {
            if !(0.0..=1e6).contains(&value) {
                return refuse(
                    name,
                    value.to_string(),
                    "must be a number from 0 to 1000000",
                );
            }
        }
        self.check_alphas()?;
        if let Some(Average { decay }) = self.average
            && !(0.0..1.0).contains(&decay)
        {
            return refuse("--ema", decay.to_string(), "must be from 0 to below 1");
        }
        if let Weighting::MinSnr(gamma) = self.weighting
            && !(gamma > 0.0 && gamma.is_finite())
        {
            return refuse("--min-snr", gamma.to_string(), "must be above 0");
        }
        if let Timesteps::Layout(share) = self.timesteps
            && !(0.0..=1.0).contains(&share)
        {
            return refuse("--layout-share", share.to_string(), "must be from 0 to 1");
        }
        Ok(())
    }

    /// Refuses alphas of a LoRA by which it changes nothing, or more than numbers can say.
    fn check_alphas(&self) -> Result<(), TrainError> {
        let Kind::Lora {
            rank,
            alpha,
            conv_rank,
            conv_alpha,
            ..
        } = self.kind
        else {
            return Ok(());
        };
        for (name, rank, alpha) in [
            ("--alpha", rank, alpha),
            ("--conv-alpha", conv_rank, conv_alpha),
        ] {
            // That of a rank of 0 is 0 unless it is named, and the rank is refused where layers are looked for.
            if rank > 0 && !(alpha > 0.0 && alpha <= 1e6) {
                return Err(TrainError::Setting {
                    name,
                    value: alpha.to_string(),
                    range: "must be above 0 and at most 1000000; left out, it is the rank",
                });
            }
        }
        Ok(())
    }
}

/// What differs between two JSON values, leaf by leaf: `rate.peak is 0.001 there and 0.01 here`.
pub fn differences(there: &Value, here: &Value) -> Vec<String> {
    let mut all = Vec::new();
    walk("", there, here, &mut all);
    all
}

fn walk(name: &str, there: &Value, here: &Value, all: &mut Vec<String>) {
    if there == here {
        return;
    }
    match (there, here) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a
                .keys()
                .chain(b.keys().filter(|key| !a.contains_key(*key)))
                .collect();
            keys.sort();
            for key in keys {
                let inner = match name {
                    "" => key.clone(),
                    name => format!("{name}.{key}"),
                };
                let of = |side: &serde_json::Map<String, Value>| {
                    side.get(key).cloned().unwrap_or(Value::Null)
                };
                walk(&inner, &of(a), &of(b), all);
            }
        }
        _ => all.push(format!("{name} is {there} there and {here} here")),
    }
}

#[cfg(test)]
mod tests {
    use prepose_optimizer::draws::Purpose;
    use prepose_optimizer::{Adafactor, AdamW};
    use serde_json::json;

    use super::*;

    /// Of a plain IP-Adapter.
    fn recipe() -> Recipe {
        serde_json::from_value(json!({
            "kind": {"ip_adapter": {"new": "plain", "picture_dropout": 0.05, "both_dropout": 0.1}},
            "optimizer": Rule::AdamW(Default::default()),
            "rate": {"peak": 1e-4, "warmup": 0, "decay": "constant"},
            "steps": 1, "batch": 1, "accumulate": 1, "clip": 0.0, "average": null,
            "weighting": Weighting::Even, "timesteps": "uniform", "offset": 0.0, "dropout": 0.2,
            "flips": "none", "sizes": {"resolution": [64, 64], "buckets": null}, "seed": 3,
        }))
        .unwrap()
    }

    #[test]
    fn adapters_are_told_as_little_as_their_authors_told_theirs() {
        let recipe = recipe();
        assert!(recipe.check().is_ok());
        let drawn = (0..20_000).map(|number| recipe.seed.uniform(Purpose::Dropout, number));
        let mut counts = [0usize; 4];
        for LeftOut { caption, picture } in drawn.map(|drawn| recipe.left_out(drawn)) {
            counts[usize::from(caption) + 2 * usize::from(picture)] += 1;
        }
        // All, without the caption, without the picture, with neither: each within five deviations.
        let shares: [f64; 4] = [0.65, 0.2, 0.05, 0.1];
        for (count, share) in counts.into_iter().zip(shares) {
            let deviation = (20_000.0 * share * (1.0 - share)).sqrt();
            let off = count as f64 - 20_000.0 * share;
            assert!(off.abs() < 5.0 * deviation, "{counts:?}");
        }
        let edges = [0.0, 0.2, 0.25, 0.35].map(|drawn| recipe.left_out(drawn));
        let told = |caption, picture| LeftOut { caption, picture };
        let expected = [
            told(true, false),
            told(false, true),
            told(true, true),
            told(false, false),
        ];
        assert_eq!(edges, expected);
        let too_much = Recipe {
            dropout: 0.9,
            ..recipe
        };
        assert!(
            too_much
                .check()
                .unwrap_err()
                .to_string()
                .contains("the sum of")
        );
    }

    #[test]
    fn alphas_and_decays_have_a_range() {
        let check = |rank: usize, alpha: f64, weight_decay: f64| {
            let recipe = Recipe {
                kind: Kind::Lora {
                    rank,
                    alpha,
                    conv_rank: 4,
                    conv_alpha: 4.0,
                    layers: Layers::All,
                },
                optimizer: Rule::AdamW8bit(AdamW {
                    weight_decay,
                    ..AdamW::default()
                }),
                ..recipe()
            };
            recipe.check().map_err(|error| error.to_string())
        };
        assert_eq!(check(4, 0.5, 0.0), Ok(()));
        assert_eq!(check(4, 1e6, 1e6), Ok(()));
        // It is the rank that is wrong.
        assert_eq!(check(0, 0.0, 0.0), Ok(()));
        for alpha in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = check(4, alpha, 0.0).unwrap_err();
            let told = format!("--alpha is {alpha}, but must be above 0");
            assert!(error.starts_with(&told), "{error}");
        }
        for decay in [-5.0, f64::NAN, 1e300] {
            let error = check(4, 4.0, decay).unwrap_err();
            assert!(error.starts_with("--weight-decay is "), "{error}");
        }
        let rule = Rule::Adafactor(Adafactor {
            weight_decay: 0.25,
            ..Adafactor::default()
        });
        assert_eq!(rule.weight_decay(), 0.25);
    }

    #[test]
    fn only_what_differs_is_named() {
        let there = json!({"a": 1, "b": {"c": 2, "d": null}, "e": [1]});
        let here = json!({"a": 1, "b": {"c": 3, "d": null}, "f": true, "e": [1]});
        let expected = ["b.c is 2 there and 3 here", "f is null there and true here"];
        assert_eq!(differences(&there, &here), expected);
        assert!(differences(&there, &there).is_empty());
    }
}
