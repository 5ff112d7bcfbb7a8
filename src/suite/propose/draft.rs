//! What the curator writes: a pair whose sides are settled, checked.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::prompt::scene::{GivenRelation, Relation, Scene, StatedRelation};
use crate::suite::SuitePrompt;

/// A pair whose sides are settled: what the curator's schema asks for. Keys that are not here are passed over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// What field it is from.
    pub domain: String,
    /// Mentioned first in [`prompt`](Self::prompt).
    pub a: String,
    /// Mentioned second.
    pub b: String,
    /// Where they stand so.
    pub context: String,
    /// `left_right`.
    pub constraint_type: String,
    /// How hard it is to know: `obvious`, `subtle` or `tricky`.
    pub difficulty: String,
    /// Which is where.
    pub spatial_reality: Side,
    /// What settles it.
    pub rationale: String,
    /// "A and B in/on/at Context."
    pub prompt: String,
    /// `new`, `revised` or `retired`.
    pub status: String,
}

/// Which of two is where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// On the left.
    pub left: String,
    /// On the right.
    pub right: String,
}

/// Why something is no pair.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// It is not of the schema.
    #[error("{0}")]
    Schema(String),
    /// It is about another axis.
    #[error("its constraint is {0:?}, not left_right")]
    Axis(String),
    /// It is given up.
    #[error("it is retired")]
    Retired,
    /// The sides are not those of the two elements.
    #[error("its sides are {0:?} and {1:?}, which are not its two elements")]
    Sides(String, String),
    /// The prompt does not have the elements.
    #[error("its prompt does not name {0:?} and then {1:?}")]
    Names(String, String),
    /// The prompt says the answer.
    #[error("its prompt says {0:?}, which is the answer")]
    Answer(String),
    /// The prompt's objects cannot be read.
    #[error("its prompt cannot be read: {0}")]
    Unread(String),
    /// It has no source.
    #[error("it has no rationale")]
    Rationale,
    /// A text is too long or has control characters.
    #[error("its {0} is empty, too long, or has control characters")]
    Text(&'static str),
    /// It is in the archive.
    #[error("it is already there")]
    Known,
}

/// The JSON in an answer, which some models put between fences.
pub(super) fn answer(text: &str) -> Result<Value, String> {
    let text = text.trim();
    let inner = text
        .strip_prefix("```json")
        .or_else(|| text.strip_prefix("```"));
    let text = inner.map_or(text, |rest| rest.trim_end_matches("```").trim());
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err("it is not an object".into()),
        Err(error) => Err(error.to_string()),
    }
}

impl Pair {
    /// Checks what the curator wrote.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn check(value: Value) -> Result<Self, Fault> {
        let mut pair: Self =
            serde_json::from_value(value).map_err(|error| Fault::Schema(error.to_string()))?;
        for (name, text, most) in [
            ("domain", &mut pair.domain, 60),
            ("a", &mut pair.a, 80),
            ("b", &mut pair.b, 80),
            ("context", &mut pair.context, 200),
            ("prompt", &mut pair.prompt, 300),
        ] {
            *text = text.trim().to_owned();
            let count = text.chars().count();
            if count == 0 || count > most || text.chars().any(char::is_control) {
                return Err(Fault::Text(name));
            }
        }
        if pair.constraint_type != "left_right" {
            return Err(Fault::Axis(pair.constraint_type));
        }
        if pair.status == "retired" {
            return Err(Fault::Retired);
        }
        if pair.rationale.trim().is_empty() {
            return Err(Fault::Rationale);
        }
        let Side { left, right } = &pair.spatial_reality;
        let is = |one: &str, other: &str| one.trim().eq_ignore_ascii_case(other);
        let sides =
            (is(left, &pair.a) && is(right, &pair.b)) || (is(left, &pair.b) && is(right, &pair.a));
        if !sides || is(&pair.a, &pair.b) {
            return Err(Fault::Sides(left.clone(), right.clone()));
        }
        pair.check_prompt()?;
        Ok(pair)
    }

    fn check_prompt(&self) -> Result<(), Fault> {
        let text = self.prompt.to_lowercase();
        let [a, b] = [&self.a, &self.b].map(|name| name.to_lowercase());
        let after = text.find(&a).map(|at| at + a.len());
        if !after.is_some_and(|after| text[after..].contains(&b)) {
            return Err(Fault::Names(self.a.clone(), self.b.clone()));
        }
        // What an element is called may have it: "the left shift key".
        let rest = text.replacen(&a, " ", 1).replacen(&b, " ", 1);
        let told = rest.split(|c: char| !c.is_alphanumeric());
        if let Some(word) = told
            .into_iter()
            .find(|word| ["left", "right"].contains(word))
        {
            return Err(Fault::Answer(word.to_owned()));
        }
        let given = GivenRelation::of_two(&self.a, Relation::LeftOf, &self.b);
        match Scene::with_relations(&self.prompt, &[given]) {
            Ok(_) => Ok(()),
            Err(error) => Err(Fault::Unread(error.to_string())),
        }
    }

    /// The same for the same two things in the same domain.
    pub(super) fn key(&self) -> String {
        let mut names = [self.a.to_lowercase(), self.b.to_lowercase()];
        names.sort_unstable();
        format!("{}|{}", self.domain.to_lowercase(), names.join("|"))
    }

    /// Whether the first element is on the left.
    fn first_is_left(&self) -> bool {
        self.spatial_reality
            .left
            .trim()
            .eq_ignore_ascii_case(&self.a)
    }

    /// The prompt with the left one first (aligned) and with the right one first (reverse).
    pub(super) fn prompts(&self, number: usize) -> [SuitePrompt; 2] {
        let id = |order: &str| format!("proposed_{number:04}_{order}");
        let order = |same: bool| if same { "aligned" } else { "reverse" };
        let domain = self.domain.to_lowercase().replace(' ', "-");
        let prompt = |turned: bool| {
            let names = match turned {
                false => [&self.a, &self.b],
                true => [&self.b, &self.a],
            };
            let first_is_left = self.first_is_left() != turned;
            let (left, right) = if first_is_left { (0, 1) } else { (1, 0) };
            SuitePrompt {
                prompt_id: id(order(first_is_left)),
                prompt: if turned {
                    self.turned()
                } else {
                    self.prompt.clone()
                },
                objects: names.map(Clone::clone).to_vec(),
                relations: vec![StatedRelation::of_two(left, Relation::LeftOf, right)],
                counterpart: Some(id(order(!first_is_left))),
                tags: vec![
                    order(first_is_left).to_owned(),
                    domain.clone(),
                    self.difficulty.clone(),
                ],
                ..SuitePrompt::default()
            }
        };
        let both = [prompt(false), prompt(true)];
        match self.first_is_left() {
            true => both,
            false => {
                let [reverse, aligned] = both;
                [aligned, reverse]
            }
        }
    }

    /// The prompt with the names in each other's place, as they are written there.
    fn turned(&self) -> String {
        let lower = self.prompt.to_lowercase();
        // Lower case may have other lengths; then the names are looked for as they are written.
        let text = if lower.len() == self.prompt.len() {
            &lower
        } else {
            &self.prompt
        };
        let [a, b] = [&self.a, &self.b].map(|name| match text == &lower {
            true => name.to_lowercase(),
            false => name.clone(),
        });
        let Some(first) = text.find(&a) else {
            return self.prompt.clone();
        };
        let Some(second) = text[first + a.len()..]
            .find(&b)
            .map(|at| at + first + a.len())
        else {
            return self.prompt.clone();
        };
        let between = &self.prompt[first + a.len()..second];
        let (name_a, name_b) = (
            &self.prompt[first..first + a.len()],
            &self.prompt[second..second + b.len()],
        );
        format!(
            "{}{name_b}{between}{name_a}{}",
            &self.prompt[..first],
            &self.prompt[second + b.len()..]
        )
    }
}
