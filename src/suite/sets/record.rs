//! A line of a file of prompts, as it is given and as it is meant.

use serde_json::{Map, Value};

use super::error::{ID_LIMIT, LineError, PROMPT_LIMIT, shortened};
use super::fields::{boxes, edit, list, named, object, relations, text};
use crate::prompt::compose::{ReadError, first_part, scene_of};
use crate::prompt::scene::{GivenRelation, Relation, Scene, SceneError, StatedRelation};
use crate::prompt::schedule;
use crate::suite::{Edit, SuitePrompt};

/// Enough steps for any change that a prompt schedules; which one matters not, as the last prompt is read.
const STEPS: usize = 1_000;

/// Keys and columns that mean something; those of SpatialBench-UC's own file are among them.
pub(super) const KEYS: [&str; 15] = [
    "prompt",
    "prompt_id",
    "relation",
    "object_a",
    "object_b",
    "objects",
    "relations",
    "counterpart",
    "counterfactual",
    "tags",
    "difficulty_tags",
    "neutral",
    "reverse",
    "edit",
    "boxes",
];

/// Those of them that are read as columns of CSV, where there are no lists and objects; tags stand between semicolons.
pub(super) const COLUMNS: [&str; 9] = [
    "prompt",
    "prompt_id",
    "relation",
    "object_a",
    "object_b",
    "counterpart",
    "tags",
    "neutral",
    "reverse",
];

/// What is given of a prompt.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub prompt_id: Option<String>,
    pub prompt: String,
    pub given: Given,
    pub counterpart: Option<String>,
    pub tags: Vec<String>,
    pub neutral: Option<String>,
    pub reverse: Option<String>,
    pub edit: Option<Edit>,
    pub boxes: Vec<String>,
}

/// What is given of what the prompt asks for.
#[derive(Debug, Default)]
pub(super) enum Given {
    /// It is read from the prompt.
    #[default]
    Nothing,
    One {
        relation: String,
        a: String,
        b: String,
    },
    All {
        objects: Vec<String>,
        relations: Vec<StatedRelation>,
    },
}

impl Given {
    /// One relation, given by all three or none.
    pub fn one(
        relation: Option<String>,
        a: Option<String>,
        b: Option<String>,
    ) -> Result<Self, LineError> {
        Err(LineError::Incomplete(match (relation, a, b) {
            (Some(relation), Some(a), Some(b)) => return Ok(Self::One { relation, a, b }),
            (None, None, None) => return Ok(Self::Nothing),
            (None, ..) => "\"relation\"",
            (_, None, _) => "\"object_a\"",
            (.., None) => "\"object_b\"",
        }))
    }
}

/// Refuses a key that is none of the `known` but nearly one that is not among the line's `keys`. Others may be any.
pub(super) fn check_key(key: &str, keys: &[&str], known: &[&'static str]) -> Result<(), LineError> {
    let near = |name: &&str| strsim::normalized_damerau_levenshtein(key, name) >= 0.75;
    match known.iter().copied().find(near) {
        Some(meant) if !known.contains(&key) && !keys.contains(&meant) => Err(LineError::Key {
            found: key.into(),
            meant,
        }),
        _ => Ok(()),
    }
}

impl Row {
    /// A line of JSON.
    pub fn from_json(line: &str) -> Result<Self, LineError> {
        let fields: Map<String, Value> = serde_json::from_str(line).map_err(|error| {
            // It is not the file's first line, which is what a reader would take it for.
            LineError::Json(error.to_string().replace(" at line 1 column", " at column"))
        })?;
        let keys: Vec<&str> = fields.keys().map(String::as_str).collect();
        for key in &keys {
            check_key(key, &keys, &KEYS)?;
        }
        let relation = text(&fields, "relation")?;
        let (a, b) = (object(&fields, "object_a")?, object(&fields, "object_b")?);
        let one = Given::one(relation, a, b)?;
        let objects = list(&fields, "objects")?;
        let relations = relations(&fields)?;
        let given = match (objects, relations, one) {
            (None, None, one) => one,
            (Some(objects), Some(relations), Given::Nothing) => Given::All { objects, relations },
            (Some(_), Some(_), _) => return Err(LineError::Both),
            (None, ..) => return Err(LineError::Unpaired("\"objects\"")),
            (_, None, _) => return Err(LineError::Unpaired("\"relations\"")),
        };
        let counterfactual = match fields.get("counterfactual") {
            Some(Value::Object(counterfactual)) => text(counterfactual, "prompt_id")?,
            _ => None,
        };
        let tags = match list(&fields, "tags")? {
            Some(tags) => Some(tags),
            None => list(&fields, "difficulty_tags")?,
        };
        Ok(Self {
            prompt_id: text(&fields, "prompt_id")?,
            prompt: text(&fields, "prompt")?.unwrap_or_default(),
            given,
            counterpart: text(&fields, "counterpart")?.or(counterfactual),
            tags: tags.unwrap_or_default(),
            neutral: written(text(&fields, "neutral")?),
            reverse: written(text(&fields, "reverse")?),
            edit: edit(&fields)?,
            boxes: boxes(&fields)?,
        })
    }

    /// What is meant; line `number` gives a prompt without a name its own.
    pub fn prompt(self, number: usize) -> Result<SuitePrompt, LineError> {
        let prompt = self.prompt.trim().to_owned();
        if prompt.is_empty() {
            return Err(LineError::NoPrompt);
        }
        let characters = prompt.chars().count();
        if characters > PROMPT_LIMIT {
            return Err(LineError::LongPrompt(characters));
        }
        let prompt_id = match self.prompt_id {
            Some(id) => checked_id(id)?,
            None => format!("line-{number:05}"),
        };
        let (objects, relations) = match (&self.edit, &self.given) {
            // An instruction need not name what is in the picture.
            (
                Some(Edit {
                    seed: Some(seed), ..
                }),
                Given::Nothing,
            ) => (asked(seed, self.given)?.0, Vec::new()),
            _ => asked(&prompt, self.given)?,
        };
        Ok(SuitePrompt {
            prompt_id,
            prompt,
            objects,
            relations,
            counterpart: self.counterpart,
            tags: self.tags,
            neutral: self.neutral,
            reverse: self.reverse,
            edit: self.edit,
            boxes: self.boxes,
        })
    }
}

/// None of a text with nothing in it.
fn written(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn checked_id(id: String) -> Result<String, LineError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let fine = !id.is_empty() && id.len() <= ID_LIMIT && id.chars().all(plain);
    match fine && !id.starts_with(['.', '-']) {
        true => Ok(id),
        false => Err(LineError::Id(id.chars().take(ID_LIMIT).collect())),
    }
}

/// The objects of a prompt, in the order of mention, and their relations.
fn asked(prompt: &str, given: Given) -> Result<(Vec<String>, Vec<StatedRelation>), LineError> {
    // What the picture ends with is what it should show.
    let segments = schedule::segments(prompt, STEPS)?;
    let last = segments.last().map_or(prompt, |segment| &segment.text);
    match given {
        Given::Nothing => read(prompt, last),
        Given::One { relation, a, b } => {
            let relation = named(&relation)?;
            let scene = check(prompt, last, &[GivenRelation::of_two(&a, relation, &b)])?;
            let start = |object: usize| scene.objects[object].bytes.start;
            let stated = &scene.relations[0];
            Ok(match start(stated.subject) <= start(stated.objects[0]) {
                true => (vec![a, b], vec![StatedRelation::of_two(0, relation, 1)]),
                false => (vec![b, a], vec![StatedRelation::of_two(1, relation, 0)]),
            })
        }
        Given::All { objects, relations } => {
            for stated in &relations {
                let Some((a, b)) = stated.two() else {
                    return Err(LineError::Between);
                };
                if stated.relation == Relation::Between {
                    return Err(LineError::Between);
                }
                if a == b || a.max(b) >= objects.len() {
                    let objects = objects.len();
                    return Err(LineError::Index { a, b, objects });
                }
            }
            let given = given_relations(&objects, &relations);
            if !given.is_empty() {
                check(prompt, last, &given)?;
            }
            Ok((objects, relations))
        }
    }
}

/// A prompt's relations as a request gives them: by the names of the objects.
pub(in crate::suite) fn given_relations(
    objects: &[String],
    relations: &[StatedRelation],
) -> Vec<GivenRelation> {
    let name = |object: usize| numbered(objects, object);
    let given = |stated: &StatedRelation| GivenRelation {
        subject: name(stated.subject),
        relation: stated.relation,
        objects: stated.objects.iter().copied().map(name).collect(),
    };
    relations.iter().map(given).collect()
}

/// `dog#2` for the second of several dogs, in whatever letter case; nothing for an object that there is not.
fn numbered(objects: &[String], object: usize) -> String {
    let Some(name) = objects.get(object) else {
        return String::new();
    };
    let lower = name.to_lowercase();
    let same = |other: &&String| other.to_lowercase() == lower;
    let count = |objects: &[String]| objects.iter().filter(same).count();
    match count(objects) {
        1 => name.clone(),
        _ => format!("{name}#{}", count(&objects[..=object])),
    }
}

/// What the prompt itself says.
fn read(prompt: &str, last: &str) -> Result<(Vec<String>, Vec<StatedRelation>), LineError> {
    let scene = match Scene::parse(&first_part(last)?) {
        Ok(scene) => scene,
        // A mood, a style: nothing that could stand anywhere.
        Err(SceneError::NoObject) => Scene::default(),
        Err(error) => {
            let prompt = shortened(prompt);
            return Err(LineError::Unread { prompt, error });
        }
    };
    if scene.relations.iter().any(|stated| stated.two().is_none()) {
        return Err(LineError::Between);
    }
    let objects = scene.objects.into_iter().map(|object| object.phrase);
    Ok((objects.collect(), scene.relations))
}

/// Whether the prompt names what is given, and the given relations can all be true.
fn check(prompt: &str, last: &str, given: &[GivenRelation]) -> Result<Scene, LineError> {
    scene_of(last, given).map_err(|error| match error {
        ReadError::Parts(error) => error.into(),
        ReadError::Scene(error) => LineError::Given {
            prompt: shortened(prompt),
            error,
        },
    })
}
