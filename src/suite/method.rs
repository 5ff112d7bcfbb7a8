//! What is compared: named combinations of guidance, search and prompt changes.

mod begin;
mod error;

use std::collections::HashSet;
use std::error::Error;
use std::path::Path;
use std::str::FromStr;

use prepose_untrusted::read_regular;
use serde::{Deserialize, Serialize};

use super::SuitePrompt;
use crate::guidance::grounding::Grounding;
use crate::guidance::{self, GuidanceConfig, METHODS};
use crate::prompt::neutral::Opening;
use crate::request::{PicturePrompt, Request, Savings};
use crate::search::{Pruning, RewardKind, SearchConfig};

/// A way of making pictures of prompts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Method {
    /// What it is called in results; letters, digits, `.`, `_`, `+` and `-`, as it becomes a folder.
    pub name: String,
    /// Guidance in the loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guide: Option<GuidanceConfig>,
    /// GLIGEN's layers put the objects into their boxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ground: Option<Grounding>,
    /// Pictures that IP-Adapters show to the network, instead of the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<Vec<PicturePrompt>>,
    /// What is left out of the network's calls; what it does not say is the run's.
    #[serde(default, skip_serializing_if = "Savings::is_none")]
    pub savings: Savings,
    /// Several noises, of which the best is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchConfig>,
    /// Another prompt for the first steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Begin>,
}

pub use begin::{Begin, Moment};
pub use error::MethodError;

/// The most methods that a run can have.
pub const MOST_METHODS: usize = 1_000;

/// The most noises that a search can try.
pub const MOST_NOISES: usize = 10_000;

/// GLIGEN's name as a method.
const GROUNDED: &str = "gligen";

/// A file of methods.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    method: Vec<Method>,
}

impl Method {
    /// What there is to choose from, for `--help` and messages.
    pub fn names() -> String {
        let guidance = METHODS.iter().map(|method| method.known_as());
        let others = [
            GROUNDED,
            "best-of-N",
            "best-of-N-pruned",
            "best-of-N-judge",
            "deep-cache-N",
            "tgate-WHEN",
            "token-merging-SHARE",
            "delayed-order-WHEN",
            "swapped-order-WHEN",
        ];
        let names: Vec<&str> = ["prompt-only"]
            .into_iter()
            .chain(guidance)
            .chain(others)
            .collect();
        names.join(", ")
    }

    /// The checkpoint as it is.
    pub fn prompt_only() -> Self {
        Self {
            name: "prompt-only".into(),
            guide: None,
            ground: None,
            pictures: None,
            savings: Savings::default(),
            search: None,
            begin: None,
        }
    }

    /// Whether a judge scores its candidates.
    pub fn asks_judge(&self) -> bool {
        let search = self.search.as_ref();
        search.is_some_and(|search| search.reward == RewardKind::Judge)
    }

    /// The methods in a TOML file: as [`from_toml`](Self::from_toml).
    ///
    /// # Errors
    /// [`MethodError`]; it names the file.
    pub fn from_file(path: &Path) -> Result<Vec<Self>, MethodError> {
        /// Much more than as many methods need as a run can have.
        const LIMIT: u64 = 4 << 20;
        let fail = |source: Box<dyn Error + Send + Sync>| MethodError::In {
            path: path.into(),
            source,
        };
        let bytes = read_regular(path, LIMIT).map_err(|error| fail(error.into()))?;
        let text = String::from_utf8(bytes).map_err(|error| fail(error.into()))?;
        Self::from_toml(&text).map_err(|error| fail(error.into()))
    }

    /// The methods in the text of a TOML file: tables `[[method]]` with `name`, `guide`
    /// ([`GuidanceConfig`]), `ground` ([`Grounding`]), `pictures` ([`PicturePrompt`]), `savings`
    /// ([`Savings`]), `search` ([`SearchConfig`]) and `begin` ([`Begin`]).
    ///
    /// # Errors
    /// [`MethodError`]; it names the line.
    pub fn from_toml(text: &str) -> Result<Vec<Self>, MethodError> {
        let file = toml::from_str::<File>(text).map_err(|error| MethodError::file(&error, text))?;
        let methods = file.method;
        if methods.is_empty() {
            return Err(MethodError::Empty);
        }
        Ok(methods)
    }

    /// Refuses names that cannot be folders, or that two methods have, and what would never end.
    ///
    /// # Errors
    /// [`MethodError`].
    pub fn check_names(methods: &[Self]) -> Result<(), MethodError> {
        if methods.len() > MOST_METHODS {
            return Err(MethodError::TooMany {
                methods: methods.len(),
            });
        }
        let mut names = HashSet::new();
        for Self { name, search, .. } in methods {
            if let Some(search) = search
                && !(1..=MOST_NOISES).contains(&search.best_of)
            {
                return Err(MethodError::Search {
                    name: name.clone(),
                    best_of: search.best_of,
                });
            }
            let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
            let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
            if !begins || !name.chars().all(plain) || name.len() > 100 {
                return Err(MethodError::Name { name: name.clone() });
            }
            // Some file systems do not tell upper from lower case.
            if !names.insert(name.to_lowercase()) {
                return Err(MethodError::Duplicate { name: name.clone() });
            }
        }
        Ok(())
    }

    /// The request for a picture of `prompt`; `plain` has everything that is the same for all methods, and `levels` are the
    /// noise levels of its steps.
    ///
    /// # Errors
    /// A prompt of which the method needs another form, and there is none.
    pub fn request(
        &self,
        plain: &Request,
        prompt: &SuitePrompt,
        seed: u64,
        levels: &[f64],
    ) -> Result<Request, MethodError> {
        let text = &prompt.prompt;
        let delay_order = match self.begin {
            None => None,
            Some(begin) => {
                let order = begin.order(prompt, levels);
                Some(order.map_err(|source| MethodError::Opening {
                    method: self.name.clone(),
                    prompt: text.clone(),
                    source: source.into(),
                })?)
            }
        };
        Ok(Request {
            prompt: text.clone(),
            guide: self.guide.clone(),
            ground: self.ground,
            pictures: (self.pictures.clone()).unwrap_or_else(|| plain.pictures.clone()),
            savings: self.savings.or(plain.savings),
            delay_order,
            seed,
            ..plain.clone()
        })
    }
}

impl FromStr for Method {
    type Err = MethodError;

    fn from_str(name: &str) -> Result<Self, MethodError> {
        let mut method = Self {
            name: name.into(),
            ..Self::prompt_only()
        };
        let twice = |what| MethodError::Twice {
            name: name.into(),
            what,
        };
        // Each part by the name that it has in runs: `pos` is `psg` there.
        let mut names = Vec::new();
        for part in name.split('+') {
            let parsed = parse_part(part, name)?;
            names.push(match &parsed {
                Part::Guide(guide) => guide.known_as(),
                _ => part,
            });
            match parsed {
                Part::Plain if name == part => {}
                Part::Plain => return Err(MethodError::Unknown { name: name.into() }),
                Part::Guide(guide) => {
                    let Some(before) = method.guide.take() else {
                        method.guide = Some(GuidanceConfig::new(guide));
                        continue;
                    };
                    // Two that are a method of their own together.
                    let both = guidance::Method::both(before.method, guide);
                    let both = both.ok_or_else(|| twice("guidance"))?;
                    names.retain(|name| *name != before.method.known_as());
                    names.pop();
                    names.push(both.known_as());
                    method.guide = Some(GuidanceConfig::new(both));
                }
                Part::Ground => {
                    if method.ground.replace(Grounding::default()).is_some() {
                        return Err(twice("grounding"));
                    }
                }
                Part::Search(search) => {
                    if method.search.replace(search).is_some() {
                        return Err(twice("search"));
                    }
                }
                Part::Save(savings) => {
                    let before = method.savings;
                    method.savings = savings.or(before);
                    // Of two of a kind one would be lost.
                    if before.or(savings) != method.savings {
                        return Err(twice("saving"));
                    }
                }
                Part::Begin(begin) => {
                    if method.begin.replace(begin).is_some() {
                        return Err(twice("prompt change"));
                    }
                }
            }
        }
        method.name = names.join("+");
        Ok(method)
    }
}

enum Part {
    Plain,
    Ground,
    Guide(guidance::Method),
    Search(SearchConfig),
    Save(Savings),
    Begin(Begin),
}

fn parse_part(part: &str, name: &str) -> Result<Part, MethodError> {
    let number = |text: &str| match text.parse::<usize>() {
        Ok(number @ 1..=MOST_NOISES) => Ok(number),
        Ok(_) => Err(MethodError::Number { name: name.into() }),
        Err(_) => Err(MethodError::Unknown { name: name.into() }),
    };
    let begin = |with, until| Ok(Part::Begin(Begin { with, until }));
    let moment = |text: &str| match number(text) {
        Ok(steps) => Ok(Moment::Steps(steps)),
        Err(MethodError::Unknown { .. }) => text.parse(),
        Err(error) => Err(error),
    };
    if let Some(rest) = part.strip_prefix("best-of-") {
        let (rest, pruning) = match rest.strip_suffix("-pruned") {
            Some(rest) => (rest, Some(Pruning::Auto)),
            None => (rest, None),
        };
        let (count, reward) = match rest.strip_suffix("-judge") {
            Some(count) => (count, RewardKind::Judge),
            None => (rest, RewardKind::default()),
        };
        return Ok(Part::Search(SearchConfig {
            best_of: number(count)?,
            reward,
            pruning,
        }));
    }
    let unread = |_| MethodError::Unknown { name: name.into() };
    let nothing = Savings::default();
    if let Some(every) = part.strip_prefix("deep-cache-") {
        let deep_cache = Some(every.parse().map_err(unread)?);
        return Ok(Part::Save(Savings {
            deep_cache,
            ..nothing
        }));
    }
    if let Some(when) = part.strip_prefix("tgate-") {
        let tgate = Some(when.parse().map_err(unread)?);
        return Ok(Part::Save(Savings { tgate, ..nothing }));
    }
    if let Some(share) = part.strip_prefix("token-merging-") {
        let ratio = share.parse::<f64>().map_err(|_| unread(String::new()))?;
        return Ok(Part::Save(Savings {
            token_merging: Some(ratio),
            ..nothing
        }));
    }
    if let Some(when) = part.strip_prefix("delayed-order-") {
        return begin(Opening::Neutral, moment(when)?);
    }
    if let Some(when) = part.strip_prefix("swapped-order-") {
        return begin(Opening::Swapped, moment(when)?);
    }
    match part {
        "prompt-only" => Ok(Part::Plain),
        GROUNDED => Ok(Part::Ground),
        // The number of steps that cured most in the paper.
        "delayed-order" => begin(Opening::Neutral, Moment::Steps(2)),
        _ => {
            let unknown = || MethodError::Unknown { name: name.into() };
            guidance::Method::named(part)
                .map(Part::Guide)
                .ok_or_else(unknown)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_methods() {
        let method: Method = "psg+best-of-4-pruned+delayed-order".parse().unwrap();
        assert_eq!(method.guide.unwrap().method, (&guidance::pos::Pos).into());
        let search = method.search.unwrap();
        assert_eq!((search.best_of, search.pruning), (4, Some(Pruning::Auto)));
        assert_eq!(
            method.begin,
            Some(Begin {
                with: Opening::Neutral,
                until: Moment::Steps(2)
            })
        );
        assert_eq!(
            "prompt-only".parse::<Method>().unwrap(),
            Method::prompt_only()
        );
        let both = ["pos+best-of-4", "psg+best-of-4"].map(|name| name.parse::<Method>().unwrap());
        assert_eq!(both[0], both[1]);
        assert_eq!(both[0].name, "psg+best-of-4");
        for (wrong, why) in [
            ("", "not a method"),
            ("psg+", "not a method"),
            ("best-of-", "not a method"),
            ("best-of-0", "number 0"),
            ("best-of-9999999", "too large"),
            ("psg+boxdiff", "two kinds of guidance"),
            ("psg+prompt-only", "not a method"),
            (
                "delayed-order-2+swapped-order-1",
                "two kinds of prompt change",
            ),
            ("PSG", "not a method"),
        ] {
            let error = wrong.parse::<Method>().unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_file_says_everything() {
        let text = r#"
            [[method]]
            name = "strong"
            guide = { method = "pos", scale = 40.0, steps = 10 }
            search = { best_of = 8, reward = "checker", pruning = { after = [3, 5] } }
            [[method]]
            name = "late"
            begin = { with = "neutral", steps = 3 }
        "#;
        let methods = Method::from_toml(text).unwrap();
        Method::check_names(&methods).unwrap();
        assert_eq!(methods[0].guide.as_ref().unwrap().scale, Some(40.0));
        assert_eq!(methods[1].begin.unwrap().until, Moment::Steps(3));
        let share = text.replace("steps = 3 }", "steps = 0.15 }");
        let methods = Method::from_toml(&share).unwrap();
        assert_eq!(methods[1].begin.unwrap().until, Moment::Share(0.15));
        let noise: Method = "delayed-order-sigma5.5".parse().unwrap();
        assert_eq!(noise.begin.unwrap().until, Moment::Noise(5.5));
        for (wrong, why) in [
            ("", "no [[method]]"),
            ("[[method]]\nname = 3", "not a file of methods"),
            (
                "[[method]]\nname = \"a\"\nguid = {}",
                "not a file of methods",
            ),
        ] {
            let error = Method::from_toml(wrong).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        for wrong in ["", "a/b", "-a", "..", "ä"] {
            let mut method = Method::prompt_only();
            method.name = wrong.into();
            assert!(Method::check_names(&[method]).is_err(), "{wrong:?}");
        }
        let twice = [Method::prompt_only(), Method::prompt_only()];
        assert!(Method::check_names(&twice).is_err());
        // What would never end.
        let many = vec![Method::prompt_only(); MOST_METHODS + 1];
        let error = Method::check_names(&many).unwrap_err().to_string();
        assert!(error.contains("1001 methods"), "{error}");
        let long = "[[method]]\nname = \"a\"\nsearch = { best_of = 1000000 }";
        let error = Method::check_names(&Method::from_toml(long).unwrap()).unwrap_err();
        assert!(error.to_string().contains("1000000 noises"), "{error}");
        // A message is not as long as the file.
        let deep = format!("[[method]]\nname = \"a\"\n{}", "x.".repeat(100_000));
        let error = Method::from_toml(&deep).unwrap_err().to_string();
        assert!(error.len() < 500 && error.contains("line 3"), "{error}");
    }
}
