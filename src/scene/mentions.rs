//! Noun phrases: which object they mean, and what they do in the clause.

use super::clauses::{Joint, Reader};
use super::items::Item;
use super::phrase::{Mention, Reference};
use super::vocabulary::PICTURES;
use super::words::plain;
use super::{Relation, SceneError, SceneObject, text};

impl Reader {
    pub(super) fn thing(&mut self, at: usize, mention: &Mention) -> Result<usize, SceneError> {
        if self.is_tag(at, mention) {
            self.tags.push(at);
            self.reading.unread.push(at);
            self.in_tags = true;
            return Ok(at + 1);
        }
        self.in_tags = false;
        if std::mem::take(&mut self.acting) {
            let object = self.resolve(mention, false)?;
            self.reading.objects_of_parts[at] = Some(object);
            // "a boy chasing a girl left of a car" leaves open who is left of it.
            self.carried = Some(at);
            self.joint = Joint::Direct;
            return Ok(at + 1);
        }
        let speaks = self.begins_clause(at + 1);
        let known = self.reading.scene.objects.len();
        let object = self.resolve(mention, speaks)?;
        self.reading.objects_of_parts[at] = Some(object);
        if let Some(place) = self.place_to_come.take() {
            self.places.push((object, place));
            self.start_list(vec![object]);
            self.joint = Joint::Direct;
            return Ok(at + 1);
        }
        if let Some(pending) = &self.pending {
            let wants_object = pending.objects.is_empty()
                || (pending.objects.len() == 1 && pending.relations.contains(&Relation::Between));
            if wants_object {
                return self.thing_as_object(at, object);
            }
            if matches!(self.joint, Joint::And | Joint::CommaAnd) {
                return self.another_object(at, object);
            }
            // The subject of "to the left of the dog is a cat".
            if let Some(pending) = self.pending.take() {
                self.state(&[object], &pending);
            }
            self.start_list(vec![object]);
            self.subject = vec![object];
            self.joint = Joint::Direct;
            return Ok(at + 1);
        }
        if self.after_relation && self.joint == Joint::And && !speaks {
            let before = self.phrase(self.last[self.last.len() - 1]).to_owned();
            return Err(SceneError::Ambiguous {
                text: self.text_of(at.saturating_sub(3), at),
                first: format!(
                    "the relation holds for {before:?} and {:?}",
                    self.phrase(object)
                ),
                second: format!("only for {before:?} (then write a comma before \"and\")"),
            });
        }
        let again = object < known && self.joint != Joint::And;
        let new_clause = self.after_relation || self.predicate || self.last.is_empty() || again;
        if new_clause {
            self.start_list(vec![object]);
            self.subject.clear();
        } else {
            let with_comma = matches!(self.joint, Joint::Comma | Joint::CommaAnd | Joint::Direct);
            self.comma_in_list |= with_comma;
            self.and_in_list |= matches!(self.joint, Joint::And | Joint::CommaAnd);
            if !self.last.contains(&object) {
                self.last.push(object);
            }
        }
        self.joint = Joint::Direct;
        Ok(at + 1)
    }

    /// The thing after a phrase of place; "between" takes the one after "and" too.
    pub(super) fn thing_as_object(
        &mut self,
        at: usize,
        object: usize,
    ) -> Result<usize, SceneError> {
        let own = self
            .pending
            .as_ref()
            .and_then(|pending| pending.subjects.as_ref())
            .is_some_and(|subjects| subjects.contains(&object));
        // "a dog, and to the left of the dog a cat": the subject comes after.
        if own
            && let Some(pending) = &mut self.pending
            && self
                .reading
                .scene
                .relations
                .iter()
                .all(|stated| stated.subject != object)
            && matches!(
                self.reading.parts.get(at + 1).map(|part| &part.item),
                Some(Item::Thing(_) | Item::Be | Item::Comma)
            )
        {
            pending.subjects = None;
        }
        let between = self.pending.as_ref().is_some_and(|pending| {
            pending.relations.contains(&Relation::Between) && pending.objects.is_empty()
        });
        let joined = matches!(
            (self.item(at + 1), self.item(at + 2)),
            (Some(Item::And), Some(Item::Thing(_)))
        );
        if between && !joined {
            return Err(SceneError::BetweenOne(
                self.text_of(at.saturating_sub(2), at),
            ));
        }
        self.object_of_relation(object)?;
        Ok(if between { at + 2 } else { at + 1 })
    }

    /// The thing that "and" joins to the object of a phrase of place whose subject is still to come: "to the left of a dog and a
    /// cat is a bird".
    fn another_object(&mut self, at: usize, object: usize) -> Result<usize, SceneError> {
        let Some(pending) = &mut self.pending else {
            return Ok(at + 1);
        };
        if pending.relations.contains(&Relation::Between) {
            let words = pending.words.start..self.reading.parts[at].words.end;
            return Err(SceneError::Ambiguous {
                text: self.text(words),
                first: format!("{:?} is in between", self.phrase(object)),
                second: "it is one of what something else is between".to_owned(),
            });
        }
        pending.objects.push(object);
        self.joint = Joint::Direct;
        Ok(at + 1)
    }

    /// Bare words between commas that are no known noun: "oil painting", "highly detailed".
    pub(super) fn is_tag(&self, at: usize, mention: &Mention) -> bool {
        let free =
            self.pending.is_none() && self.place_to_come.is_none() && self.joint != Joint::Direct;
        let first = self.reading.scene.objects.is_empty();
        let alone = matches!(self.item(at + 1), None | Some(Item::Comma | Item::Stop));
        let after_comma = matches!(self.joint, Joint::Comma | Joint::CommaAnd) || self.in_tags;
        free && after_comma
            && mention.reference == Reference::Bare
            && (!mention.known || PICTURES.split(' ').any(|picture| picture == mention.noun))
            && (alone || !first)
            && !self.begins_clause(at + 1)
    }

    /// Whether something is said of the thing before part `at`: a verb or a phrase of place.
    pub(super) fn begins_clause(&self, at: usize) -> bool {
        matches!(
            self.item(at),
            Some(Item::Be | Item::Spatial(_) | Item::Which | Item::Action(_))
        )
    }

    /// The object that a mention means, which is new unless the prompt says otherwise.
    pub(super) fn resolve(&mut self, mention: &Mention, speaks: bool) -> Result<usize, SceneError> {
        let words = &self.reading.words;
        let phrase = text(words, mention.core.clone());
        let lower = plain(&phrase);
        let objects = &self.reading.scene.objects;
        let unclear = || SceneError::Reference {
            text: text(words, mention.whole.clone()),
        };
        let same_noun = |object: &SceneObject| object.noun == mention.noun;
        let found: Vec<usize> = match mention.reference {
            Reference::Pronoun => {
                let subjects = self
                    .pending
                    .as_ref()
                    .and_then(|pending| pending.subjects.clone());
                // After "and", "it" means what the clause before speaks of.
                let inverted = self.pending.is_some() && subjects.is_none() && self.last.len() == 1;
                let other = if inverted {
                    Some(self.last[0])
                } else {
                    self.only_other(&subjects.unwrap_or_default())
                };
                return other.ok_or_else(unclear);
            }
            Reference::New => vec![],
            Reference::Definite => {
                let described = |object: &SceneObject| {
                    let known = plain(&object.phrase);
                    let known: Vec<&str> = known.split(' ').collect();
                    let noun = mention.noun.split(' ').count();
                    let adjectives: Vec<&str> = lower.split(' ').collect();
                    adjectives[..adjectives.len().saturating_sub(noun)]
                        .iter()
                        .all(|word| known.contains(word))
                };
                (0..objects.len())
                    .filter(|i| same_noun(&objects[*i]) && described(&objects[*i]))
                    .collect()
            }
            // "dog left of cat, cat above car"
            Reference::Bare if speaks => {
                let related = |i: &usize| {
                    self.reading
                        .scene
                        .relations
                        .iter()
                        .any(|stated| stated.subject == *i || stated.objects.contains(i))
                };
                (0..objects.len())
                    .filter(|i| plain(&objects[*i].phrase) == lower && related(i))
                    .collect()
            }
            Reference::Bare => vec![],
        };
        match found.as_slice() {
            [] => {}
            [one] => return Ok(*one),
            _ => return Err(unclear()),
        }
        let bytes = words[mention.core.start].bytes.start..words[mention.core.end - 1].bytes.end;
        self.reading.scene.objects.push(SceneObject {
            phrase,
            noun: mention.noun.clone(),
            count: mention.count,
            bytes,
        });
        Ok(self.reading.scene.objects.len() - 1)
    }

    /// The only object that is none of `these`.
    pub(super) fn only_other(&self, these: &[usize]) -> Option<usize> {
        let mut others =
            (0..self.reading.scene.objects.len()).filter(|object| !these.contains(object));
        others.next().filter(|_| others.next().is_none())
    }
}
