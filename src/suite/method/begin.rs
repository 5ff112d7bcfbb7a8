//! The prompt of the first steps, and when the set's own takes over (delayed order conditioning and order swap,
//! arXiv 2603.03714).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{MOST_NOISES, MethodError};
use crate::prompt::compose::{OpeningError, opening_of_run};
use crate::prompt::neutral::Opening;
use crate::request::DelayedOrder;
use crate::suite::SuitePrompt;

/// The prompt of the first steps, before the set's own takes over.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    /// Which prompt.
    pub with: Opening,
    /// Until when.
    #[serde(rename = "steps")]
    pub until: Moment,
}

/// A moment of the denoising: `2` steps from its beginning, `0.1` of its steps, or `sigma5.5`, when the noise level
/// σ = √((1 − ᾱ) / ᾱ) is no higher than that. In files a whole number, a number with a decimal point, or a text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum Moment {
    /// After so many steps, at least 1.
    Steps(usize),
    /// After this share of the steps, in (0, 1).
    Share(f64),
    /// At this noise level, above 0.
    Noise(f64),
}

/// A [`Moment`] in a file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Steps(usize),
    Share(f64),
    Text(String),
}

/// What noise levels begin with.
const NOISE: &str = "sigma";

impl Begin {
    /// How a picture of `prompt` begins. `levels` are the noise levels of the steps.
    ///
    /// # Errors
    /// The prompt has no such form, and the set gives none.
    pub fn order(self, prompt: &SuitePrompt, levels: &[f64]) -> Result<DelayedOrder, OpeningError> {
        let given = match self.with {
            Opening::Neutral => &prompt.neutral,
            Opening::Swapped => &prompt.reverse,
        };
        let neutral_prompt = match given {
            Some(text) => text.clone(),
            None => opening_of_run(self.with, &prompt.prompt, levels.len())?,
        };
        Ok(DelayedOrder {
            neutral_prompt,
            steps: self.until.steps(levels),
        })
    }
}

impl Moment {
    /// How many steps come before it, of those with these noise levels.
    pub fn steps(self, levels: &[f64]) -> usize {
        match self {
            Self::Steps(steps) => steps,
            Self::Share(share) => ((share * levels.len() as f64).round() as usize).max(1),
            Self::Noise(noise) => levels.iter().take_while(|level| **level > noise).count(),
        }
    }

    /// Its share of `steps`; none of a noise level, which depends on the scheduler.
    pub fn share(self, steps: usize) -> Option<f64> {
        match self {
            Self::Steps(before) => Some(before as f64 / steps.max(1) as f64),
            Self::Share(share) => Some(share),
            Self::Noise(_) => None,
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(steps) => write!(f, "{steps}"),
            Self::Share(share) => write!(f, "{share}"),
            Self::Noise(noise) => write!(f, "{NOISE}{noise}"),
        }
    }
}

impl FromStr for Moment {
    type Err = MethodError;

    fn from_str(text: &str) -> Result<Self, MethodError> {
        let wrong = || MethodError::Moment(text.chars().take(40).collect());
        let number = |text: &str| {
            let plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
            text.parse::<f64>().ok().filter(|_| plain).ok_or_else(wrong)
        };
        let moment = if let Some(noise) = text.strip_prefix(NOISE) {
            Self::Noise(number(noise)?)
        } else if text.contains('.') {
            Self::Share(number(text)?)
        } else {
            Self::Steps(text.parse().map_err(|_| wrong())?)
        };
        let fine = match moment {
            Self::Steps(steps) => (1..=MOST_NOISES).contains(&steps),
            Self::Share(share) => share > 0.0 && share < 1.0,
            Self::Noise(noise) => noise > 0.0 && noise <= 1e6,
        };
        fine.then_some(moment).ok_or_else(wrong)
    }
}

impl TryFrom<Written> for Moment {
    type Error = MethodError;

    fn try_from(written: Written) -> Result<Self, MethodError> {
        match written {
            Written::Steps(steps) => steps.to_string().parse(),
            Written::Share(share) if share.fract() != 0.0 => share.to_string().parse(),
            Written::Share(share) => Err(MethodError::Moment(share.to_string())),
            Written::Text(text) => text.parse(),
        }
    }
}

impl From<Moment> for Written {
    fn from(moment: Moment) -> Self {
        match moment {
            Moment::Steps(steps) => Self::Steps(steps),
            Moment::Share(share) => Self::Share(share),
            Moment::Noise(_) => Self::Text(moment.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_changes_begins_with_a_form_of_what_it_ends_with() {
        let begin = |with, prompt: &str| {
            let prompt = SuitePrompt {
                prompt: prompt.to_owned(),
                ..SuitePrompt::default()
            };
            let until = Moment::Steps(2);
            Begin { with, until }.order(&prompt, &[1.0; 20])
        };
        let neutral = begin(Opening::Neutral, "a [red:blue:10] car and a dog").unwrap();
        assert_eq!((&*neutral.neutral_prompt, neutral.steps), ("two things", 2));
        let swapped = begin(Opening::Swapped, "a dog and a cat AND a tree :0.5").unwrap();
        assert_eq!(swapped.neutral_prompt, "a cat and a dog AND a tree :0.5");
        assert!(begin(Opening::Neutral, "a dog AND a cat").is_err());
    }

    #[test]
    fn a_moment_is_steps_a_share_or_a_noise_level() {
        let levels = [14.6, 8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.1, 0.05, 0.02];
        for (text, steps, json) in [
            ("2", 2, "2"),
            ("0.3", 3, "0.3"),
            ("0.01", 1, "0.01"),
            ("sigma4", 2, "\"sigma4\""),
            ("sigma0.3", 6, "\"sigma0.3\""),
            ("sigma100", 0, "\"sigma100\""),
        ] {
            let moment: Moment = text.parse().unwrap();
            assert_eq!(moment.steps(&levels), steps, "{text}");
            assert_eq!(moment.to_string(), text);
            assert_eq!(serde_json::to_string(&moment).unwrap(), json);
            assert_eq!(serde_json::from_str::<Moment>(json).unwrap(), moment);
        }
        for wrong in [
            "", "0", "1.5", "0.0", "-1", "sigma", "sigma0", "1e-3", "NaN", "sigmainf",
        ] {
            let error = wrong.parse::<Moment>().unwrap_err().to_string();
            assert!(error.contains("sigma5.5"), "{wrong}: {error}");
        }
        assert!(serde_json::from_str::<Moment>("1.0").is_err());
    }
}
