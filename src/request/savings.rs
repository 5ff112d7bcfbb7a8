//! What is left out of the network's calls: a request's own way to say it.

use std::fmt;
use std::str::FromStr;

use prepose_models::unet::MOST_MERGED;
use serde::{Deserialize, Serialize};

use super::{RequestError, range};
use crate::sampling::denoise;

/// What is left out of the network's calls (docs/fewer-calls.md). The default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Savings {
    /// DeepCache: the deep part of the network runs in every so many steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deep_cache: Option<DeepCache>,
    /// T-GATE: from when on cross-attention is what it was, and classifier-free guidance is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tgate: Option<Gate>,
    /// Token merging: the share of tokens, above 0 and at most 0.75, that self-attention merges where feature maps are largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_merging: Option<f64>,
}

/// DeepCache's settings; on the command line `3`, or `3:1` with a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeepCache {
    /// After how many steps at the latest the deep part runs again, at least 2.
    pub every: usize,
    /// The skip connection, from 0 for the outermost, outside of which each step runs.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub branch: usize,
}

/// When T-GATE's gate is: `10`, the first step after it counted from 0, or `0.4` of the steps. In files a whole number, or one
/// with a decimal point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Gate {
    /// The first step after it, from 0; at least 1.
    Step(usize),
    /// After this share of the steps, in (0, 1).
    Share(f64),
}

impl Savings {
    /// Whether nothing is left out.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// These, and what they do not say as `others` say it.
    pub fn or(self, others: Self) -> Self {
        Self {
            deep_cache: self.deep_cache.or(others.deep_cache),
            tgate: self.tgate.or(others.tgate),
            token_merging: self.token_merging.or(others.token_merging),
        }
    }

    /// What they come to in a run of `steps` UNet calls.
    ///
    /// # Errors
    /// [`RequestError::Range`].
    pub fn in_steps(&self, steps: usize) -> Result<denoise::Savings, RequestError> {
        if let Some(DeepCache {
            every: every @ ..2, ..
        }) = self.deep_cache
        {
            return Err(range("deep cache", every, "at least 2, or off"));
        }
        if let Some(Gate::Share(share)) = self.tgate
            && !(share > 0.0 && share < 1.0)
        {
            return Err(range(
                "tgate",
                share,
                "a share of the steps between 0 and 1, or a whole number of them",
            ));
        }
        let gate = self.tgate.map(|gate| gate.step(steps));
        if let Some(gate) = gate
            && !(1..steps).contains(&gate)
        {
            return Err(RequestError::Gate { gate, steps });
        }
        if let Some(ratio) = self.token_merging
            && !(ratio > 0.0 && ratio <= MOST_MERGED)
        {
            return Err(range(
                "token merging",
                ratio,
                "above 0 and at most 0.75, or off",
            ));
        }
        Ok(denoise::Savings {
            deep_every: self.deep_cache.map(|deep| deep.every),
            deep_branch: self.deep_cache.map_or(0, |deep| deep.branch),
            gate,
            merging: self.token_merging,
        })
    }
}

/// In the words of the options: `deep-cache 3, tgate 0.4`.
impl fmt::Display for Savings {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let deep = self.deep_cache.map(|deep| format!("deep-cache {deep}"));
        let gate = self.tgate.map(|gate| format!("tgate {gate}"));
        let merging = (self.token_merging).map(|ratio| format!("token-merging {ratio}"));
        let parts: Vec<String> = [deep, gate, merging].into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

impl Gate {
    /// The first step after it, of `steps`.
    pub fn step(self, steps: usize) -> usize {
        match self {
            Self::Step(step) => step,
            Self::Share(share) => ((share * steps as f64).round() as usize).max(1),
        }
    }
}

impl FromStr for DeepCache {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| {
            part.parse::<usize>().map_err(|_| {
                format!(
                    "{text:?} is not a number of steps such as 3, nor one with a branch such as 3:1"
                )
            })
        };
        let (every, branch) = text.split_once(':').unwrap_or((text, "0"));
        Ok(Self {
            every: number(every)?,
            branch: number(branch)?,
        })
    }
}

impl fmt::Display for DeepCache {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.branch {
            0 => write!(f, "{}", self.every),
            branch => write!(f, "{}:{branch}", self.every),
        }
    }
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is not a step such as 10, nor a share of the steps such as 0.4");
        match text.contains('.') {
            true => text.parse().map(Self::Share).map_err(|_| wrong()),
            false => text.parse().map(Self::Step).map_err(|_| wrong()),
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Step(step) => write!(f, "{step}"),
            // With a decimal point, which tells it from a step.
            Self::Share(share) => write!(f, "{share:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn savings_are_read_and_written() {
        for (text, every, branch) in [("3", 3, 0), ("5:2", 5, 2)] {
            let deep: DeepCache = text.parse().unwrap();
            assert_eq!((deep.every, deep.branch), (every, branch));
            assert_eq!(deep.to_string(), text);
        }
        for (text, step) in [("10", 10), ("0.4", 8), ("0.01", 1)] {
            let gate: Gate = text.parse().unwrap();
            assert_eq!((gate.step(20), gate.to_string()), (step, text.to_string()));
            let json = serde_json::to_string(&gate).unwrap();
            assert_eq!(serde_json::from_str::<Gate>(&json).unwrap(), gate);
        }
        for wrong in ["", "a", "-1", "3:", "3:1:2"] {
            assert!(wrong.parse::<DeepCache>().is_err(), "{wrong}");
        }
        for wrong in ["", "a", "-1", "0.4.1"] {
            assert!(wrong.parse::<Gate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let refused = |savings: Savings| savings.in_steps(20).unwrap_err().to_string();
        let deep = |every| Savings {
            deep_cache: Some(DeepCache { every, branch: 0 }),
            ..Savings::default()
        };
        assert!(refused(deep(1)).contains("at least 2"));
        let gate = |gate| Savings {
            tgate: Some(gate),
            ..Savings::default()
        };
        assert!(refused(gate(Gate::Step(0))).contains("1 to 19"));
        assert!(refused(gate(Gate::Step(20))).contains("1 to 19"));
        assert!(refused(gate(Gate::Share(1.0))).contains("between 0 and 1"));
        assert!(refused(gate(Gate::Share(f64::NAN))).contains("between 0 and 1"));
        let merging = |ratio| Savings {
            token_merging: Some(ratio),
            ..Savings::default()
        };
        for wrong in [0.0, 0.8, -0.1, f64::NAN] {
            assert!(refused(merging(wrong)).contains("at most 0.75"), "{wrong}");
        }
        assert!(Savings::default().in_steps(1).unwrap() == denoise::Savings::default());
        let both = deep(3).or(gate(Gate::Step(4))).or(deep(2));
        assert_eq!(both.deep_cache.unwrap().every, 3);
        assert_eq!(both.in_steps(9).unwrap().gate, Some(4));
        assert_eq!(both.to_string(), "deep-cache 3, tgate 4");
    }
}
