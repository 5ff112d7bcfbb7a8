//! Who stands how to whom: the items of a prompt, read from left to right.

use std::ops::Range;

use super::items::{Item, Part, items};
use super::spatial::Spatial;
use super::vocabulary::DETERMINERS;
use super::words::{Word, words};
use super::{Relation, Scene, SceneError, StatedRelation, text};

/// A prompt with everything that was read from it.
#[derive(Debug)]
pub(crate) struct Reading {
    pub words: Vec<Word>,
    pub parts: Vec<Part>,
    pub scene: Scene,
    /// The object that each part names, if it names one.
    pub objects_of_parts: Vec<Option<usize>>,
    /// Parts that no object or relation was read from, such as words of style.
    pub unread: Vec<usize>,
}

/// A relation of which a side is still to come.
#[derive(Debug)]
pub(super) struct Pending {
    /// None: the subject comes after the object, as in "to the left of the dog is a cat".
    pub(super) subjects: Option<Vec<usize>>,
    pub(super) relations: Vec<Relation>,
    pub(super) objects: Vec<usize>,
    pub(super) words: Range<usize>,
    /// "and" stands before it.
    pub(super) joined: bool,
}

/// What stood before an item, other than nouns and verbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joint {
    /// Nothing: it speaks of what is before it.
    Direct,
    And,
    Comma,
    CommaAnd,
}

#[derive(Debug)]
pub(super) struct Reader {
    pub(super) reading: Reading,
    /// Whom a phrase of place speaks of when "and" or a comma is before it.
    pub(super) subject: Vec<usize>,
    /// Whom it speaks of when nothing is before it.
    pub(super) last: Vec<usize>,
    /// `last` is a list with commas; with "and" as well it is read as a whole or not at all.
    pub(super) comma_in_list: bool,
    pub(super) and_in_list: bool,
    /// `last` is the object of a relation.
    pub(super) after_relation: bool,
    /// The relation before spoke of the object of the one before it.
    pub(super) chained: bool,
    /// Words that name something else stand between `last` and here.
    pub(super) carried: Option<usize>,
    /// Words that name something stand between a comma or "and" and here.
    pub(super) loose: Option<usize>,
    /// A verb was seen after `last`.
    pub(super) predicate: bool,
    pub(super) which: bool,
    /// What the sentence's last "to the left of which" was about.
    pub(super) antecedents: Vec<usize>,
    /// A verb was seen whose object is the next thing.
    pub(super) acting: bool,
    pub(super) joint: Joint,
    pub(super) pending: Option<Pending>,
    /// "on the left" before its object.
    pub(super) place_to_come: Option<Relation>,
    pub(super) places: Vec<(usize, Relation)>,
    /// Bare words that are objects only if there are no others.
    pub(super) tags: Vec<usize>,
    pub(super) in_tags: bool,
}

/// Reads a prompt.
pub(crate) fn read(prompt: &str) -> Result<Reading, SceneError> {
    let words = words(prompt)?;
    let parts = items(&words)?;
    let mut reader = Reader {
        reading: Reading {
            objects_of_parts: vec![None; parts.len()],
            words,
            parts,
            scene: Scene::default(),
            unread: vec![],
        },
        subject: vec![],
        last: vec![],
        comma_in_list: false,
        and_in_list: false,
        after_relation: false,
        chained: false,
        carried: None,
        loose: None,
        predicate: false,
        which: false,
        antecedents: vec![],
        acting: false,
        joint: Joint::Comma,
        pending: None,
        place_to_come: None,
        places: vec![],
        tags: vec![],
        in_tags: false,
    };
    let mut at = 0;
    while at < reader.reading.parts.len() {
        at = reader.part(at)?;
    }
    reader.finish()
}

impl Reader {
    pub(super) fn item(&self, at: usize) -> Option<&Item> {
        self.reading.parts.get(at).map(|part| &part.item)
    }

    pub(super) fn text(&self, words: Range<usize>) -> String {
        text(&self.reading.words, words)
    }

    /// The text of parts `first` to `last`.
    pub(super) fn text_of(&self, first: usize, last: usize) -> String {
        let parts = &self.reading.parts;
        let last = last.min(parts.len() - 1);
        self.text(parts[first.min(last)].words.start..parts[last].words.end)
    }

    /// Reads one part and returns the number of the next.
    fn part(&mut self, at: usize) -> Result<usize, SceneError> {
        let Part { item, words } = self.reading.parts[at].clone();
        if !matches!(item, Item::Context { .. } | Item::Be | Item::Spatial(_)) {
            self.loose = None;
        }
        match item {
            Item::Frame => {}
            Item::Stop => self.end_of_sentence()?,
            Item::And => {
                self.joint = if self.joint == Joint::Comma {
                    Joint::CommaAnd
                } else {
                    Joint::And
                };
            }
            Item::Comma => {
                if self.joint != Joint::And {
                    self.joint = Joint::Comma;
                }
            }
            Item::Which => {
                self.of_which(at)?;
                self.which = true;
                self.joint = Joint::Direct;
                // ", which is" after a list speaks of its last member.
                self.last.drain(..self.last.len().saturating_sub(1));
            }
            Item::Be => self.be(&words),
            Item::Action(_) => {
                self.reading.unread.push(at);
                self.predicate = true;
                self.acting = true;
                self.joint = Joint::Direct;
            }
            Item::Context { same_place } => {
                self.reading.unread.push(at);
                if self.joint == Joint::Direct {
                    self.predicate = true;
                    if !same_place {
                        self.carried = Some(at);
                    }
                } else if self.reading.words[words]
                    .iter()
                    .any(|word| word.is_one_of(DETERMINERS))
                {
                    self.loose = Some(at);
                }
            }
            Item::Spatial(Spatial::Place(place)) => self.place(at, place)?,
            Item::Spatial(Spatial::Of(relation)) => self.relation(at, relation, words)?,
            Item::Spatial(Spatial::OfIt(relation)) => {
                let before = self.last.clone();
                self.relation(at, relation, words.clone())?;
                let subjects = self
                    .pending
                    .as_ref()
                    .and_then(|pending| pending.subjects.as_ref());
                let object = match subjects {
                    Some(subjects) => self.only_other(subjects),
                    None => before.first().copied().filter(|_| before.len() == 1),
                };
                let object = object.ok_or_else(|| SceneError::Reference {
                    text: self.text(words),
                })?;
                self.object_of_relation(object)?;
            }
            Item::Thing(mention) => return self.thing(at, &mention),
        }
        Ok(at + 1)
    }

    fn be(&mut self, words: &Range<usize>) {
        // "a dog left of a cat is above a car": the main verb speaks of the dog.
        if self.after_relation
            && self.joint == Joint::Direct
            && !self.which
            && self.pending.is_none()
        {
            self.last = self.subject.clone();
            self.after_relation = false;
        }
        if self.joint == Joint::Direct {
            let plural = self.reading.words[words.clone()]
                .iter()
                .any(|word| word.is("are") || word.is("were"));
            if !plural && self.comma_in_list && !self.and_in_list {
                self.last.drain(..self.last.len().saturating_sub(1));
            }
            (self.comma_in_list, self.and_in_list) = (false, false);
            self.carried = None;
            self.predicate = true;
        }
    }

    fn end_of_sentence(&mut self) -> Result<(), SceneError> {
        self.nothing_pending()?;
        self.subject.clear();
        self.antecedents.clear();
        self.start_list(vec![]);
        self.joint = Joint::Comma;
        self.in_tags = false;
        Ok(())
    }

    pub(super) fn start_list(&mut self, last: Vec<usize>) {
        self.last = last;
        self.after_relation = false;
        self.chained = false;
        self.predicate = false;
        self.which = false;
        self.carried = None;
        (self.comma_in_list, self.and_in_list) = (false, false);
    }

    pub(super) fn nothing_pending(&self) -> Result<(), SceneError> {
        match &self.pending {
            Some(pending) => Err(SceneError::Dangling {
                text: self.text(pending.words.clone()),
                missing: if pending.objects.is_empty() {
                    "object after it"
                } else {
                    "subject"
                },
            }),
            None => Ok(()),
        }
    }

    pub(super) fn phrase(&self, object: usize) -> &str {
        &self.reading.scene.objects[object].phrase
    }

    fn finish(mut self) -> Result<Reading, SceneError> {
        self.nothing_pending()?;
        if self.reading.scene.objects.is_empty() {
            for at in std::mem::take(&mut self.tags) {
                if let Item::Thing(mention) = self.reading.parts[at].item.clone() {
                    let object = self.resolve(&mention, false)?;
                    self.reading.objects_of_parts[at] = Some(object);
                    self.reading.unread.retain(|unread| *unread != at);
                }
            }
        }
        let Reading { scene, .. } = &mut self.reading;
        if scene.objects.is_empty() {
            return Err(SceneError::NoObject);
        }
        for (i, (object, place)) in self.places.iter().enumerate() {
            let opposite =
                |other: &&(usize, Relation)| place.inverse() == Some(other.1) && other.0 != *object;
            if !self.places.iter().any(|other| opposite(&other)) {
                return Err(SceneError::Place {
                    object: scene.objects[*object].phrase.clone(),
                    place: place.as_str().trim_end_matches(" of"),
                });
            }
            scene
                .relations
                .extend(
                    self.places[i..]
                        .iter()
                        .filter(opposite)
                        .map(|other| StatedRelation {
                            subject: *object,
                            relation: *place,
                            objects: vec![other.0],
                        }),
                );
        }
        self.reading.scene = std::mem::take(scene).checked()?;
        Ok(self.reading)
    }
}
