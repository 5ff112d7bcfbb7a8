//! Relations given beside the prompt: `dog | left of | cat`.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::phrase::{Mention, noun_phrase};
use super::spatial::{self, Spatial};
use super::words::{Word, plain, words};

use super::{Part, Relation, Scene, SceneError, SceneObject, StatedRelation, read, text};

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

/// How something beside the prompt names one of its objects; `dog#2` is the second of several dogs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectName<'a> {
    /// Without the number.
    pub phrase: &'a str,
    /// Which of several, from 1.
    pub(crate) number: Option<usize>,
}

impl<'a> ObjectName<'a> {
    /// Reads `PHRASE` or `PHRASE#NUMBER`. Any other `#` is text.
    pub fn read(text: &'a str) -> Self {
        let numbered = text.rsplit_once('#').and_then(|(phrase, number)| {
            let number = number.trim().parse::<usize>().ok()?;
            Some((phrase.trim(), number))
        });
        match numbered {
            Some((phrase, number)) if number > 0 && !phrase.is_empty() => Self {
                phrase,
                number: Some(number),
            },
            _ => Self {
                phrase: text,
                number: None,
            },
        }
    }

    /// The phrase from its core on, without the article and the number that it begins with, as the objects of a scene have it:
    /// `dog` for `a dog`. What is no noun phrase stays whole.
    ///
    /// # Errors
    /// A weight that cannot be read.
    pub fn core(self) -> Result<String, SceneError> {
        let words = words(self.phrase)?;
        let (core, _) = core(&words);
        Ok(text(&words, core))
    }

    /// Which of `found` things that the phrase fits is meant, from 0. `otherwise`: which of several, where no number says it.
    ///
    /// # Errors
    /// Fewer than the number says; several, and nothing says which.
    pub fn among(self, found: usize, otherwise: Option<usize>) -> Result<usize, SceneError> {
        let phrase = self.phrase.to_owned();
        match (
            self.number.map(|number| number - 1).or(otherwise),
            self.number,
        ) {
            (Some(index), _) if index < found => Ok(index),
            (_, Some(asked)) => Err(SceneError::NotAsOften {
                phrase,
                asked,
                found,
            }),
            _ if found == 1 => Ok(0),
            _ => Err(SceneError::Several { phrase, found }),
        }
    }
}

impl Scene {
    /// The objects of `prompt` with these relations instead of its own.
    ///
    /// A phrase is looked for among the prompt's objects, by the whole phrase or the noun alone, and then among its words. There
    /// `red car` is the object whose name `big red car` has it, and `bear` of `teddy bear` is another object.
    /// `dog#2` is the second of several; without a number `dog | left of | dog` is the first and the second. The prompt
    /// need not be one that [`parse`](Self::parse) can read.
    ///
    /// # Errors
    /// A phrase that the prompt does not have, relations that contradict each other.
    pub fn with_relations(prompt: &str, relations: &[GivenRelation]) -> Result<Self, SceneError> {
        let source = Source::new(prompt)?;
        let mut scene = Self {
            objects: source.objects.clone(),
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
                found.push(scene.find(phrase, repeated, &source)?);
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
        source: &Source,
    ) -> Result<usize, SceneError> {
        let name = ObjectName::read(phrase);
        let wanted = words(name.phrase)?;
        let (core, mention) = core(&wanted);
        let sought: Vec<&str> = (wanted[core.clone()].iter())
            .map(|word| word.text.as_str())
            .collect();
        let lower = plain(&text(&wanted, core));
        let mut found = self.named(&lower);
        if found.is_empty() && !sought.is_empty() {
            let noun = mention.map_or(lower, |mention| mention.noun);
            found = self.occurrences(source, &sought, &noun);
        }
        if found.is_empty() {
            let objects: Vec<&str> = self
                .objects
                .iter()
                .map(|object| object.phrase.as_str())
                .collect();
            return Err(SceneError::NotInPrompt {
                phrase: name.phrase.to_owned(),
                prompt: source.prompt.chars().take(200).collect(),
                objects: if objects.is_empty() {
                    "not known".to_owned()
                } else {
                    objects.join(", ")
                },
            });
        }
        Ok(found[name.among(found.len(), repeated)?])
    }

    /// The indices of the objects that `name` fits, in whatever letter case: by the whole phrase, or, where that is none's, by
    /// the noun alone.
    pub fn named(&self, name: &str) -> Vec<usize> {
        let fitting = |fits: &dyn Fn(&SceneObject) -> bool| -> Vec<usize> {
            (0..self.objects.len())
                .filter(|i| fits(&self.objects[*i]))
                .collect()
        };
        let name = plain(name);
        let by_phrase = fitting(&|object| plain(&object.phrase) == name);
        match by_phrase.is_empty() {
            true => fitting(&|object| object.noun == name),
            false => by_phrase,
        }
    }

    /// What every place where the words stand in the prompt means: the object that is named there by the same noun, or else a
    /// new one.
    fn occurrences(&mut self, source: &Source, sought: &[&str], noun: &str) -> Vec<usize> {
        let words = &source.words;
        let mut found = Vec::new();
        for start in 0..words.len().saturating_sub(sought.len() - 1) {
            let range = start..start + sought.len();
            let here = words[range.clone()].iter().map(|word| &*word.text);
            if !here.eq(sought.iter().copied()) {
                continue;
            }
            // "red car" of "big red car", but not "bear" of "teddy bear".
            let known = (source.object_at(&range)).filter(|at| self.objects[*at].noun == noun);
            let object = known.unwrap_or_else(|| {
                self.objects.push(SceneObject {
                    phrase: text(words, range.clone()),
                    noun: noun.to_owned(),
                    count: Some(1),
                    bytes: words[range.start].bytes.start..words[range.end - 1].bytes.end,
                });
                self.objects.len() - 1
            });
            if !found.contains(&object) {
                found.push(object);
            }
        }
        found
    }
}

/// A prompt whose objects are looked for.
struct Source<'a> {
    prompt: &'a str,
    words: Vec<Word>,
    /// None if the prompt cannot be read.
    objects: Vec<SceneObject>,
    /// The words that name an object, and which.
    mentions: Vec<(Range<usize>, usize)>,
}

impl<'a> Source<'a> {
    fn new(prompt: &'a str) -> Result<Self, SceneError> {
        let Ok(reading) = read(prompt) else {
            return Ok(Self {
                prompt,
                words: words(prompt)?,
                objects: vec![],
                mentions: vec![],
            });
        };
        let parts = reading.parts.into_iter().zip(reading.objects_of_parts);
        let mention = |(part, object): (Part, Option<usize>)| Some((part.words, object?));
        Ok(Self {
            prompt,
            words: reading.words,
            objects: reading.scene.objects,
            mentions: parts.filter_map(mention).collect(),
        })
    }

    /// The object in whose name the words are.
    fn object_at(&self, words: &Range<usize>) -> Option<usize> {
        let names =
            |(of, _): &&(Range<usize>, usize)| of.start <= words.start && words.end <= of.end;
        self.mentions.iter().find(names).map(|(_, object)| *object)
    }
}

/// The words of a phrase without the article and the number that it begins with, and the noun phrase that it begins with.
fn core(words: &[Word]) -> (Range<usize>, Option<Mention>) {
    let mention = noun_phrase(words, 0);
    let start = (mention.as_ref()).map_or(0, |mention| mention.core.start);
    (start..words.len(), mention)
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
