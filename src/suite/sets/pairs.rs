//! Prompts that say the same the other way round, or name the same pair in the other order.

use std::collections::{HashMap, HashSet};

use crate::prompt::neutral::swapped;
use crate::prompt::scene::Relation;
use crate::suite::{Suite, SuitePrompt};

impl Suite {
    /// Keeps one of every so many prompts, the first among them, each with its counterpart; of these at most so many.
    ///
    /// Of each so many it is another one, as sets go through their relations in turn: every tenth prompt may be of the
    /// same one. A counterpart that is not kept is forgotten.
    pub fn thin(&mut self, every: usize, limit: Option<usize>) {
        let every = every.max(1);
        let mut taken: HashSet<&str> = HashSet::new();
        let mut pairs = 0;
        let mut keep = Vec::with_capacity(self.prompts.len());
        let mut kept: HashSet<&str> = HashSet::new();
        for prompt in &self.prompts {
            let id = prompt.prompt_id.as_str();
            // The second of a pair goes with the first.
            if !taken.contains(id) {
                let other = prompt.counterpart.as_deref();
                taken.extend(other);
                if pairs % every == place_in(pairs / every, every) {
                    kept.extend(other);
                    kept.insert(id);
                }
                pairs += 1;
            }
            keep.push(kept.contains(id));
        }
        let mut keep = keep.into_iter();
        self.prompts.retain(|_| keep.next() == Some(true));
        self.prompts.truncate(limit.unwrap_or(usize::MAX));
        forget_lost_counterparts(&mut self.prompts);
    }
}

/// Which of `every` is taken from a block: by multiples of the golden ratio, which are spread evenly over any period.
fn place_in(block: usize, every: usize) -> usize {
    let fraction = (block as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(fraction) * every as u128) >> 64) as usize
}

/// Forgets counterparts that are not there, and says how many.
pub(super) fn forget_lost_counterparts(prompts: &mut [SuitePrompt]) -> usize {
    let ids = prompts.iter().map(|prompt| prompt.prompt_id.clone());
    let ids: HashSet<String> = ids.collect();
    let mut lost = 0;
    for prompt in prompts {
        let gone = prompt.counterpart.take_if(|other| !ids.contains(other));
        lost += usize::from(gone.is_some());
    }
    lost
}

/// What a prompt of two objects says, by which its counterpart is found.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Saying {
    /// `a` stands so to `b`.
    Stated(Relation, String, String),
    /// Nothing about place; the whole text, as the same pair may occur in other scenes.
    Neutral(String),
}

/// Gives the prompts that have none their counterparts: of "a left of b" it is "b right of a", and of "a and b" without
/// a relation "b and a". Where several could be meant there is none.
pub(super) fn find_counterparts(prompts: &mut [SuitePrompt]) {
    let mut places: HashMap<Saying, Vec<usize>> = HashMap::new();
    for (place, prompt) in prompts.iter().enumerate() {
        if let Some(saying) = said(prompt) {
            places.entry(saying).or_default().push(place);
        }
    }
    let alone = |saying: &Saying| match places.get(saying).map(Vec::as_slice) {
        Some([place]) => Some(*place),
        _ => None,
    };
    let found: Vec<Option<usize>> = (prompts.iter().enumerate())
        .map(|(place, prompt)| {
            if prompt.counterpart.is_some() || alone(&said(prompt)?) != Some(place) {
                return None;
            }
            let other = alone(&said_back(prompt)?)?;
            (other != place && prompts[other].counterpart.is_none()).then_some(other)
        })
        .collect();
    for (place, other) in found.iter().enumerate() {
        if let Some(other) = other {
            prompts[place].counterpart = Some(prompts[*other].prompt_id.clone());
        }
    }
}

fn said(prompt: &SuitePrompt) -> Option<Saying> {
    let [first, second] = prompt.objects.as_slice() else {
        return None;
    };
    Some(match prompt.relations.as_slice() {
        [] => Saying::Neutral(prompt.prompt.to_lowercase()),
        [stated] if stated.two() == Some((0, 1)) => {
            Saying::Stated(stated.relation, first.clone(), second.clone())
        }
        [stated] if stated.two() == Some((1, 0)) => {
            Saying::Stated(stated.relation, second.clone(), first.clone())
        }
        _ => return None,
    })
}

fn said_back(prompt: &SuitePrompt) -> Option<Saying> {
    Some(match said(prompt)? {
        Saying::Stated(relation, a, b) => Saying::Stated(relation.inverse()?, b, a),
        Saying::Neutral(_) => Saying::Neutral(swapped(&prompt.prompt).ok()?.to_lowercase()),
    })
}
