//! Which steps of the denoising something acts in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Steps from `first` to `last`, both included, counted from 0; whether these are in order is for the user of the range to
/// say. On the command line `0-14`, `15-`, `-14`, or `7` for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRange {
    /// The first step.
    #[serde(default)]
    pub first: usize,
    /// The last one; none is that of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<usize>,
}

impl StepRange {
    /// Whether `step` is one of them.
    pub fn contains(&self, step: usize) -> bool {
        step >= self.first && self.last.is_none_or(|last| step <= last)
    }
}

impl FromStr for StepRange {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let wrong =
            || format!("steps are {given:?}; they look like 0-14, 15- or -14, counted from 0");
        let step = |text: &str| text.parse::<usize>().map_err(|_| wrong());
        let (first, last) = given.split_once('-').unwrap_or((given, given));
        // All steps are what there is without a range.
        if first.is_empty() && last.is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            first: if first.is_empty() { 0 } else { step(first)? },
            last: if last.is_empty() {
                None
            } else {
                Some(step(last)?)
            },
        })
    }
}

impl fmt::Display for StepRange {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.last {
            Some(last) => write!(f, "{}-{last}", self.first),
            None => write!(f, "{}-", self.first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        for (given, first, last) in [
            ("0-14", 0, Some(14)),
            ("15-", 15, None),
            ("-14", 0, Some(14)),
            ("7", 7, Some(7)),
        ] {
            let range: StepRange = given.parse().unwrap();
            assert_eq!(range, StepRange { first, last });
            assert_eq!(range.to_string().parse(), Ok(range));
        }
        for wrong in ["a", "1-2-3", "1--2", "", "-"] {
            let error = wrong.parse::<StepRange>().unwrap_err();
            assert!(error.contains("look like"), "{error}");
        }
        let range: StepRange = "2-3".parse().unwrap();
        assert_eq!(
            [1, 2, 3, 4].map(|step| range.contains(step)),
            [false, true, true, false]
        );
    }
}
