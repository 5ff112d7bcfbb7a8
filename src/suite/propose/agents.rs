//! What the three agents are told: the roles and requirements of table 11, in our words.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::Archive;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// Proposes candidates.
    Scout,
    /// Reviews them.
    Critic,
    /// Writes down what is left.
    Curator,
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scout => "the scout",
            Self::Critic => "the critic",
            Self::Curator => "the curator",
        })
    }
}

/// What an agent is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Who.
    pub agent: Agent,
    /// What it is there for.
    pub system: &'static str,
    /// What it has to go by.
    pub text: String,
    /// The JSON schema of its answer.
    pub schema: Value,
}

const SCOUT: &str = "You are the Prompt Scout of a benchmark for text-to-image models. Such models have a sequence-to-spatial \
    bias: what a prompt mentions first they draw on the left. You look for pairs of things whose left and right are settled by \
    the real world in a given context, so that a prompt that mentions the right one first shows whether a model follows the \
    world or the order of words. Example: in a car the brake pedal is left of the accelerator; a biased model asked for \"gas \
    pedal and brake pedal in a car\" draws the gas pedal on the left. Requirements: (1) each pair has a left-right constraint \
    that can be looked up (keyboard keys, anatomy, vehicle controls, maps, and the like); (2) both things have fixed places in \
    the context; (3) left and right only, never above and below or front and back; (4) many domains, ten or more in all; (5) \
    nothing that is in the archive already. Answer with JSON only.";

const CRITIC: &str = "You are the Constraint Critic of a benchmark for text-to-image models. You review a draft of pairs of \
    things whose left and right are said to be settled by the real world, strictly and without kindness: (1) is the constraint \
    real, and can it be looked up? (2) would a model that draws first-mentioned things on the left get it wrong when the right \
    one is mentioned first? (3) how far is the coverage of domains? (4) is only the left-right axis used? Flag every pair whose \
    sides are arbitrary, undefined, or depend on the point of view without the context saying it. Give numbered directives for \
    the curator, and scores from 0 to 5 for diversity, coverage, failure exposure and archive completeness. Answer with JSON \
    only.";

const CURATOR: &str = "You are the Benchmark Curator of a benchmark for text-to-image models. You write down the pairs of a \
    draft that survive the critic's directives. Of each: the domain; the two elements a and b; the context; the constraint \
    type, which is always left_right; the semantic basis; the difficulty, which is obvious, subtle or tricky; the spatial \
    reality, which element is on the left and which on the right as seen in a picture; a rationale that cites a standard that \
    can be looked up (the QWERTY layout, an atlas of anatomy, a traffic code); the failure that a biased model would show; the \
    prompt, one short sentence of the form \"A and B in/on/at Context.\" with element a first, in the elements' own words and \
    without any word for left or right; and a status, new, revised or retired. Leave out every pair whose sides are arbitrary \
    or the same in no context. Answer with JSON only.";

fn text() -> Value {
    json!({"type": "string"})
}

/// An object with these fields, all of them needed.
fn object(fields: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let properties: serde_json::Map<String, Value> = (fields.iter().cloned())
        .map(|(name, kind)| (name.to_owned(), kind))
        .collect();
    json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
}

fn list(of: Value) -> Value {
    json!({"type": "array", "items": of})
}

fn one_of(texts: &[&str]) -> Value {
    json!({"type": "string", "enum": texts})
}

impl Question {
    /// What is still missing?
    pub(super) fn scout(archive: &Archive, round: usize, target: usize) -> Self {
        /// As many as fit into an answer.
        const MOST: usize = 20;
        let have = archive.pairs().len();
        let known: Vec<String> = (archive.pairs().iter())
            .map(|pair| format!("{} / {}", pair.a, pair.b))
            .collect();
        let candidate = object(&[
            ("domain", text()),
            ("a", text()),
            ("b", text()),
            ("context", text()),
            ("rationale", text()),
        ]);
        Self {
            agent: Agent::Scout,
            system: SCOUT,
            text: format!(
                "Round {round}. The archive has {have} of {target} pairs; by domain: {}. Propose {} more. Pairs in the archive, \
                 not to be proposed again: {}.",
                json!(archive.domains()),
                target.saturating_sub(have).clamp(1, MOST),
                json!(known)
            ),
            schema: object(&[("candidates", list(candidate)), ("notes", text())]),
        }
    }

    /// What is wrong with it?
    pub(super) fn critic(draft: &Value, archive: &Archive) -> Self {
        let score = || json!({"type": "number", "minimum": 0, "maximum": 5});
        Self {
            agent: Agent::Critic,
            system: CRITIC,
            text: format!(
                "The domains of the archive: {}. The draft: {draft}",
                json!(archive.domains())
            ),
            schema: object(&[
                ("directives", list(text())),
                (
                    "scores",
                    object(&[
                        ("diversity", score()),
                        ("coverage", score()),
                        ("failure_exposure", score()),
                        ("archive", score()),
                    ]),
                ),
            ]),
        }
    }

    /// What is left of it?
    pub(super) fn curator(draft: &Value, review: &Value, round: usize) -> Self {
        let pair = object(&[
            ("domain", text()),
            ("a", text()),
            ("b", text()),
            ("context", text()),
            ("constraint_type", one_of(&["left_right"])),
            ("semantic_basis", text()),
            ("difficulty", one_of(&["obvious", "subtle", "tricky"])),
            (
                "spatial_reality",
                object(&[("left", text()), ("right", text())]),
            ),
            ("rationale", text()),
            ("failure", text()),
            ("prompt", text()),
            ("status", one_of(&["new", "revised", "retired"])),
        ]);
        Self {
            agent: Agent::Curator,
            system: CURATOR,
            text: format!("Round {round}. The draft: {draft}. The critic: {review}"),
            schema: object(&[("pairs", list(pair))]),
        }
    }
}

/// The critic's scores.
pub(super) fn scores(review: &Value) -> BTreeMap<String, f64> {
    let scores = review["scores"].as_object().into_iter().flatten();
    scores
        .filter_map(|(name, score)| Some((name.clone(), score.as_f64()?)))
        .collect()
}

/// What the curator wrote.
pub(super) fn pairs(curated: &Value) -> Vec<Value> {
    curated["pairs"].as_array().cloned().unwrap_or_default()
}
