//! More cases for text-to-image correctness, by the three agents of OTS-Bench (arXiv 2603.03714, appendix C): a scout
//! proposes pairs whose sides are settled, a critic reviews them, and a curator writes down what is left, round after
//! round. What the curator writes is checked against its schema, and against what a suite can hold.
//!
//! * [`Archive`]: the rounds; what asks the model is given to it;
//! * [`Question`]: what each agent is told, by the facts of table 11.

mod agents;
mod draft;

use std::collections::{BTreeMap, HashSet};

use thiserror::Error;

pub use agents::{Agent, Question};
pub use draft::{Fault, Pair, Side};

use super::SuitePrompt;
use draft::answer;

/// What has been found so far.
#[derive(Debug, Default)]
pub struct Archive {
    /// In the order in which they came.
    pairs: Vec<Pair>,
    known: HashSet<String>,
}

/// A round's outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// Which one, from 1.
    pub number: usize,
    /// New pairs.
    pub new: usize,
    /// What the curator wrote that is no case, and why.
    pub rejected: Vec<(String, Fault)>,
    /// The critic's scores, from 0 to 5, where it gave any.
    pub scores: BTreeMap<String, f64>,
}

/// Why a round came to nothing.
#[derive(Debug, Error)]
pub enum ProposeError<E: std::error::Error + 'static> {
    /// The model was not to be reached.
    #[error("{agent} could not be asked")]
    Ask {
        /// Which agent.
        agent: Agent,
        /// Why.
        source: E,
    },
    /// What it said is not of the form.
    #[error(
        "the answer of {agent} is not the JSON that was asked for: {why}; it begins with {begins:?}"
    )]
    Answer {
        /// Which agent.
        agent: Agent,
        /// What is wrong.
        why: String,
        /// The first of it.
        begins: String,
    },
}

impl Archive {
    /// The pairs, in the order in which they came.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Takes up a pair; whether it is new, in whichever order and scene it is said.
    pub fn add(&mut self, pair: Pair) -> bool {
        let new = self.known.insert(pair.key());
        if new {
            self.pairs.push(pair);
        }
        new
    }

    /// How many pairs there are of each domain.
    pub fn domains(&self) -> BTreeMap<&str, usize> {
        let mut domains = BTreeMap::new();
        for pair in &self.pairs {
            *domains.entry(pair.domain.as_str()).or_default() += 1;
        }
        domains
    }

    /// Both prompts of every pair.
    pub fn prompts(&self) -> Vec<SuitePrompt> {
        let pairs = self.pairs.iter().enumerate();
        pairs
            .flat_map(|(number, pair)| pair.prompts(number))
            .collect()
    }

    /// One round: asks the three agents by `ask`, and takes up what is new, up to `target` pairs in all.
    ///
    /// # Errors
    /// [`ProposeError`]; the archive is as it was.
    pub fn round<E: std::error::Error + 'static>(
        &mut self,
        number: usize,
        target: usize,
        mut ask: impl FnMut(&Question) -> Result<String, E>,
    ) -> Result<Round, ProposeError<E>> {
        let mut asked = |question: Question| {
            let agent = question.agent;
            let text = ask(&question).map_err(|source| ProposeError::Ask { agent, source })?;
            answer(&text).map_err(|why| ProposeError::Answer {
                agent,
                why,
                begins: text.chars().take(80).collect(),
            })
        };
        let draft = asked(Question::scout(self, number, target))?;
        let review = asked(Question::critic(&draft, self))?;
        let curated = asked(Question::curator(&draft, &review, number))?;
        let mut round = Round {
            number,
            scores: agents::scores(&review),
            ..Round::default()
        };
        for value in agents::pairs(&curated) {
            if self.pairs.len() >= target {
                break;
            }
            let said = value["prompt"].as_str().unwrap_or_default().to_owned();
            match Pair::check(value) {
                Ok(pair) if self.add(pair.clone()) => round.new += 1,
                Ok(_) => round.rejected.push((said, Fault::Known)),
                Err(fault) => round.rejected.push((said, fault)),
            }
        }
        Ok(round)
    }
}

#[cfg(test)]
mod tests;
