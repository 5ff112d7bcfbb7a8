//! Relations given beside the prompt: `dog | left of | cat`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::phrase::noun_phrase;
use super::spatial::{self, Spatial};
use super::words::{Word, words};

use super::{Relation, Scene, SceneError, SceneObject, StatedRelation, text};

/// A relation that somebody states in the prompt's own words, beside the prompt.
///
/// As text, and in files, it is `SUBJECT | RELATION | OBJECT`; "between" has two objects, `A | between | B | C` or
/// `A | between | B and C`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GivenRelation {
    /// The phrase of the subject.
    pub subject: String,
    /// How it stands to the objects.
    pub relation: Relation,
    /// Their phrases: two for [`Relation::Between`], otherwise one.
    pub objects: Vec<String>,
}

impl GivenRelation {
    /// `subject` stands in `relation` to `object`.
    pub fn of_two(subject: &str, relation: Relation, object: &str) -> Self {
        Self {
            subject: subject.to_owned(),
            relation,
            objects: vec![object.to_owned()],
        }
    }
}

impl FromStr for GivenRelation {
    type Err = SceneError;

    fn from_str(text: &str) -> Result<Self, SceneError> {
        let notation = || SceneError::Notation(text.trim().to_owned());
        let fields: Vec<&str> = text.split('|').map(str::trim).collect();
        let [subject, relation, objects @ ..] = fields.as_slice() else {
            return Err(notation());
        };
        let relation: Relation = relation.parse()?;
        let objects: Vec<&str> = match (relation, objects) {
            (Relation::Between, [both]) => match both.split_once(" and ") {
                Some((one, other)) => vec![one, other],
                None => return Err(SceneError::BetweenOne(text.trim().to_owned())),
            },
            (Relation::Between, [one, other]) => vec![one, other],
            (Relation::Between, _) => return Err(notation()),
            (_, [object]) => vec![object],
            _ => return Err(notation()),
        };
        if subject.is_empty() || objects.iter().any(|object| object.is_empty()) {
            return Err(notation());
        }
        Ok(Self {
            subject: (*subject).to_owned(),
            relation,
            objects: objects.into_iter().map(str::to_owned).collect(),
        })
    }
}

impl fmt::Display for GivenRelation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self {
            subject, relation, ..
        } = self;
        write!(f, "{subject} | {relation} | {}", self.objects.join(" | "))
    }
}

impl TryFrom<String> for GivenRelation {
    type Error = SceneError;

    fn try_from(text: String) -> Result<Self, SceneError> {
        text.parse()
    }
}

impl From<GivenRelation> for String {
    fn from(relation: GivenRelation) -> Self {
        relation.to_string()
    }
}

impl Scene {
    /// The objects of `prompt` with these relations instead of its own.
    ///
    /// A phrase is looked for among the prompt's objects, by the whole phrase or the noun alone, and then among its words.
    /// `dog#2` is the second of several; without a number `dog | left of | dog` is the first and the second. The prompt
    /// need not be one that [`parse`](Self::parse) can read.
    ///
    /// # Errors
    /// A phrase that the prompt does not have, relations that contradict each other.
    pub fn with_relations(prompt: &str, relations: &[GivenRelation]) -> Result<Self, SceneError> {
        let words = words(prompt)?;
        let objects = Self::parse(prompt)
            .map(|scene| scene.objects)
            .unwrap_or_default();
        let mut scene = Self {
            objects,
            relations: vec![],
        };
        for given in relations {
            let phrases: Vec<String> = [&given.subject]
                .into_iter()
                .chain(&given.objects)
                .map(|phrase| phrase.to_lowercase())
                .collect();
            let mut found = Vec::with_capacity(phrases.len());
            for (i, phrase) in phrases.iter().enumerate() {
                let same =
                    |others: &[String]| others.iter().filter(|other| *other == phrase).count();
                let repeated = (same(&phrases) > 1).then(|| same(&phrases[..i]));
                found.push(scene.find(phrase, repeated, prompt, &words)?);
            }
            let (subject, objects) = (found[0], found[1..].to_vec());
            scene.relations.push(StatedRelation {
                subject,
                relation: given.relation,
                objects,
            });
        }
        scene.checked()
    }

    /// The object that a phrase means, added if only the words contain it. `repeated`: how often the relation had the
    /// same phrase before, if it has it more than once.
    fn find(
        &mut self,
        phrase: &str,
        repeated: Option<usize>,
        prompt: &str,
        in_prompt: &[Word],
    ) -> Result<usize, SceneError> {
        let (bare, number) = match phrase.rsplit_once('#') {
            Some((bare, number)) => match number.trim().parse::<usize>() {
                Ok(number) if number > 0 => (bare.trim(), Some(number)),
                _ => return Err(SceneError::Notation(phrase.to_owned())),
            },
            None => (phrase, None),
        };
        let wanted = words(bare)?;
        let mention = noun_phrase(&wanted, 0);
        let core = mention
            .as_ref()
            .map_or(0..wanted.len(), |mention| mention.core.start..wanted.len());
        let sought: Vec<&str> = wanted[core].iter().map(|word| word.text.as_str()).collect();
        let lower = sought.join(" ");
        let with = |matches: &dyn Fn(&SceneObject) -> bool| -> Vec<usize> {
            (0..self.objects.len())
                .filter(|i| matches(&self.objects[*i]))
                .collect()
        };
        let mut found = with(&|object| object.phrase.to_lowercase() == lower);
        if found.is_empty() {
            found = with(&|object| object.noun == lower);
        }
        if found.is_empty() && !sought.is_empty() {
            found = self.add_occurrences(
                in_prompt,
                &sought,
                mention.map_or(lower.clone(), |mention| mention.noun),
            );
        }
        let index = match (found.len(), number.map(|number| number - 1).or(repeated)) {
            (0, _) => {
                let objects: Vec<&str> = self
                    .objects
                    .iter()
                    .map(|object| object.phrase.as_str())
                    .collect();
                return Err(SceneError::NotInPrompt {
                    phrase: bare.to_owned(),
                    prompt: prompt.chars().take(200).collect(),
                    objects: if objects.is_empty() {
                        "not known".to_owned()
                    } else {
                        objects.join(", ")
                    },
                });
            }
            (n, Some(index)) if index < n => index,
            (1, _) if number.is_none() => 0,
            (found, Some(_)) if number.is_some() => {
                return Err(SceneError::NotAsOften {
                    phrase: bare.to_owned(),
                    asked: number.unwrap_or_default(),
                    found,
                });
            }
            (n, _) => {
                return Err(SceneError::Several {
                    phrase: bare.to_owned(),
                    found: n,
                });
            }
        };
        Ok(found[index])
    }

    /// Adds every place where the words stand in the prompt as an object.
    fn add_occurrences(&mut self, in_prompt: &[Word], sought: &[&str], noun: String) -> Vec<usize> {
        let mut found = Vec::new();
        for start in 0..in_prompt.len().saturating_sub(sought.len() - 1) {
            let range = start..start + sought.len();
            if in_prompt[range.clone()]
                .iter()
                .map(|word| word.text.as_str())
                .eq(sought.iter().copied())
            {
                found.push(self.objects.len());
                self.objects.push(SceneObject {
                    phrase: text(in_prompt, range.clone()),
                    noun: noun.clone(),
                    count: Some(1),
                    bytes: in_prompt[range.start].bytes.start..in_prompt[range.end - 1].bytes.end,
                });
            }
        }
        found
    }
}

/// The relation that a phrase names, whole: "to the left of", "left", "hidden by".
pub(super) fn relation_named(phrase: &str) -> Option<Relation> {
    let words = words(&phrase.replace('_', " ")).ok()?;
    let names = |words: &[Word]| match spatial::phrase(words) {
        Some((Spatial::Of(relation) | Spatial::Place(relation), length))
            if length == words.len() =>
        {
            Some(relation)
        }
        _ => None,
    };
    names(&words).or_else(|| {
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        Some(match texts.as_slice() {
            ["left"] => Relation::LeftOf,
            ["right"] => Relation::RightOf,
            ["top" | "over"] => Relation::Above,
            ["bottom" | "under"] => Relation::Below,
            ["front" | "in", "front"] | ["front"] => Relation::InFrontOf,
            ["far"] => Relation::Far,
            ["next"] => Relation::Near,
            _ => return None,
        })
    })
}
