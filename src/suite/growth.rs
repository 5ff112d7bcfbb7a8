//! Runs that grow: more methods, prompts or seeds than a run has, and what contradicts it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;

use serde_json::Value;

use super::SuitePrompt;
use super::method::Method;
use super::plan::{Plan, SourceId, differences, prompts_id};

/// A setting that two plans have differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Which.
    pub setting: String,
    /// What the run has.
    pub there: String,
    /// What was asked for.
    pub asked: String,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            setting,
            there,
            asked,
        } = self;
        write!(f, "{setting}: {there} there, {asked} asked for")
    }
}

/// The run that has what one plan has and what another has.
///
/// The order is that of the one that has all of the other's, or else that which is there, followed by what is new. Seeds of
/// pictures that are in a folder come in the latter order always: the place of a seed is the number of its file. Of the judge
/// of candidates nothing is said as long as one of the plans asks none.
///
/// # Errors
/// Everything that the two say differently.
pub fn union(there: &Plan, asked: &Plan) -> Result<Plan, Vec<Contradiction>> {
    let mut found = settings(there, asked);
    let methods = join(
        &there.config.methods,
        &asked.config.methods,
        |method: &Method| method.name.to_lowercase(),
        |a, b| {
            found.extend(compared(&format!("method {}", a.name), a, b));
        },
    );
    let mut changed = Vec::new();
    let prompts = join(
        &there.prompts,
        &asked.prompts,
        |prompt: &SuitePrompt| prompt.prompt_id.to_lowercase(),
        |a, b| {
            changed.extend(compared(
                &format!("prompt {}", a.prompt_id),
                &said(a),
                &said(b),
            ))
        },
    );
    found.extend(changed);
    let (old, new) = (&there.config.seeds, &asked.config.seeds);
    let seeds = match there.config.source {
        Some(SourceId::Pictures { .. }) => append(old, new, |seed| *seed),
        _ => join(old, new, |seed| *seed, |_, _| {}),
    };
    if !found.is_empty() {
        return Err(found);
    }
    let mut config = there.config.clone();
    config.methods = methods;
    config.seeds = seeds;
    config.prompts = prompts.len();
    config.judge = config.judge.or_else(|| asked.config.judge.clone());
    if prompts != there.prompts {
        // A file of prompts that has grown has another version.
        config.suite = asked.config.suite.clone();
        config.suite.sha256 = prompts_id(&prompts).unwrap_or_default();
    }
    Ok(Plan { config, prompts })
}

/// Everything but what may grow.
fn settings(there: &Plan, asked: &Plan) -> Vec<Contradiction> {
    let both_judged = there.config.asks_judge() && asked.config.asks_judge();
    let value = |plan: &Plan| {
        let mut config = plan.config.clone();
        config.methods.clear();
        config.seeds.clear();
        config.prompts = 0;
        config.suite.sha256.clear();
        config.judge = config.judge.filter(|_| both_judged);
        // Of a file, the version is the digest of its bytes.
        if config.suite.version.starts_with("sha256:") {
            config.suite.version.clear();
        }
        serde_json::to_value(config).unwrap_or(Value::Null)
    };
    let plain = |setting: String| {
        let known = ["sampling.", "suite.", "source."];
        let short = known.iter().find_map(|part| setting.strip_prefix(part));
        short.map(str::to_owned).unwrap_or(setting)
    };
    differences(&value(there), &value(asked))
        .into_iter()
        .map(|(setting, there, asked)| Contradiction {
            setting: match setting.as_str() {
                "suite.name" => "suite".into(),
                "suite.version" => "suite's version".into(),
                _ => plain(setting),
            },
            there,
            asked,
        })
        .collect()
}

/// What of a prompt decides its pictures and verdicts; a counterpart may come later.
fn said(prompt: &SuitePrompt) -> SuitePrompt {
    SuitePrompt {
        counterpart: None,
        tags: Vec::new(),
        ..prompt.clone()
    }
}

fn compared<T: serde::Serialize>(what: &str, a: &T, b: &T) -> Vec<Contradiction> {
    let value = |one: &T| serde_json::to_value(one).unwrap_or(Value::Null);
    differences(&value(a), &value(b))
        .into_iter()
        .map(|(setting, there, asked)| Contradiction {
            setting: format!("{what}, {setting}"),
            there,
            asked,
        })
        .collect()
}

/// All of `there` and of `asked`, each key once, in the order of the one that has all of the other's, or else of `there`,
/// followed by what is new; `both` is told of those that are in both.
fn join<T: Clone + PartialEq, K: Hash + Eq>(
    there: &[T],
    asked: &[T],
    key: impl Fn(&T) -> K,
    mut both: impl FnMut(&T, &T),
) -> Vec<T> {
    let newer: HashMap<K, &T> = asked.iter().map(|one| (key(one), one)).collect();
    let older: HashSet<K> = there.iter().map(&key).collect();
    for one in there {
        if let Some(asked) = newer.get(&key(one)) {
            both(one, asked);
        }
    }
    if older.len() < newer.len() && older.iter().all(|key| newer.contains_key(key)) {
        return asked.to_vec();
    }
    append(there, asked, key)
}

/// All of `there`, followed by what of `asked` is new.
fn append<T: Clone, K: Hash + Eq>(there: &[T], asked: &[T], key: impl Fn(&T) -> K) -> Vec<T> {
    let older: HashSet<K> = there.iter().map(&key).collect();
    let new = asked.iter().filter(|one| !older.contains(&key(one)));
    there.iter().chain(new).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::suite::plan::JudgeId;
    use crate::suite::tests::plan;

    fn names(plan: &Plan) -> Vec<&str> {
        let methods = plan.config.methods.iter();
        methods.map(|method| method.name.as_str()).collect()
    }

    #[test]
    fn what_either_has_is_in_the_union() {
        let there = plan(4, 2, &["prompt-only", "psg"]);
        // All that is there and more: as asked for.
        let more = plan(6, 3, &["boxdiff", "psg", "prompt-only"]);
        assert_eq!(union(&there, &more).unwrap(), more);
        // Less: as it is there.
        assert_eq!(union(&more, &there).unwrap(), more);
        assert_eq!(union(&there, &there).unwrap(), there);
        // Neither has all of the other's.
        let mut other = plan(3, 3, &["layout", "psg"]);
        other.prompts.remove(0);
        let both = union(&there, &other).unwrap();
        assert_eq!(names(&both), ["prompt-only", "psg", "layout"]);
        assert_eq!(both.prompts, there.prompts);
        assert_eq!(both.config.seeds, [0, 1, 2]);
        assert_eq!(both.config.suite, there.config.suite);
        // The texts of the union belong together.
        let mut added = plan(5, 1, &["psg"]);
        added.prompts.remove(1);
        let both = union(&there, &added).unwrap();
        assert_eq!(both.prompts.len(), 5);
        assert_eq!(both.config.prompts, 5);
        assert_eq!(both.config.suite.sha256, prompts_id(&both.prompts).unwrap());
    }

    /// A folder's pictures are numbered by the places of their seeds.
    #[test]
    fn pictures_that_are_there_keep_their_numbers() {
        let with = |seeds: &[u64]| {
            let mut plan = plan(1, 1, &["prompt-only"]);
            (plan.config.model, plan.config.sampling) = (None, None);
            plan.config.source = Some(SourceId::Pictures {
                name: "p".into(),
                layout: "visor".parse().unwrap(),
            });
            plan.config.seeds = seeds.to_vec();
            plan
        };
        let seeds = |there: &[u64], asked: &[u64]| {
            let both = union(&with(there), &with(asked)).unwrap();
            both.config.seeds
        };
        assert_eq!(seeds(&[2, 3], &[0, 1, 2, 3]), [2, 3, 0, 1]);
        assert_eq!(seeds(&[0, 1], &[2, 3]), [0, 1, 2, 3]);
        assert_eq!(seeds(&[2, 3, 0, 1], &[0, 1]), [2, 3, 0, 1]);
    }

    #[test]
    fn one_judge_chooses_all_candidates_of_a_run() {
        let with = |methods: &[&str], model: Option<&str>| {
            let mut plan = plan(1, 1, methods);
            plan.config.judge = model.map(|model| JudgeId {
                model: model.into(),
                settings: json!({"request": {"temperature": 0.0}}),
            });
            plan
        };
        let plain = with(&["prompt-only"], None);
        let judged = with(&["prompt-only", "best-of-2-judge"], Some("a"));
        // Methods that ask no judge come and go.
        for (there, asked) in [(&plain, &judged), (&judged, &plain)] {
            assert_eq!(union(there, asked).unwrap(), judged);
        }
        let contradictions = |there: &Plan, asked: &Plan| {
            let found = union(there, asked).unwrap_err();
            found
                .iter()
                .map(Contradiction::to_string)
                .collect::<Vec<_>>()
        };
        let other = with(&["best-of-2-judge"], Some("b"));
        assert_eq!(
            contradictions(&judged, &other),
            ["judge.model: \"a\" there, \"b\" asked for"]
        );
        let mut warmer = judged.clone();
        warmer.config.judge.as_mut().unwrap().settings["request"]["temperature"] = json!(0.5);
        assert_eq!(
            contradictions(&judged, &warmer),
            ["judge.settings.request.temperature: 0.0 there, 0.5 asked for"]
        );
        // Nobody knows who chose.
        let unknown = with(&["best-of-2-judge"], None);
        assert_eq!(contradictions(&unknown, &judged).len(), 1);
    }

    #[test]
    fn only_what_contradicts_is_named() {
        let there = plan(4, 2, &["prompt-only", "psg"]);
        let mut other = plan(5, 3, &["prompt-only", "psg", "boxdiff"]);
        other.config.sampling.as_mut().unwrap().steps = 20;
        other.config.methods[1].guide.as_mut().unwrap().scale = Some(40.0);
        other.prompts[2].prompt = "something else".into();
        other.prompts[3].tags.push("new".into());
        let found = union(&there, &other).unwrap_err();
        let found: Vec<_> = found.iter().map(Contradiction::to_string).collect();
        assert_eq!(
            found,
            [
                "steps: 1 there, 20 asked for",
                "method psg, guide.scale: not given there, 40.0 asked for",
                "prompt p00002, prompt: \"a photo of thing 2\" there, \"something else\" asked for"
            ]
        );
        let mut other = plan(4, 2, &["prompt-only"]);
        other.config.suite.name = "others".into();
        let found = union(&there, &other).unwrap_err();
        assert_eq!(
            found[0].to_string(),
            "suite: \"things\" there, \"others\" asked for"
        );
    }
}
