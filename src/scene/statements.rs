//! Phrases of place: whom they speak of, and about what.

use std::ops::Range;

use super::clauses::{Joint, Pending, Reader};
use super::items::{Item, Part};
use super::phrase::Reference;
use super::spatial::{Spatial, combined};
use super::{Relation, SceneError, StatedRelation};

impl Reader {
    /// "to the left of", before its object.
    pub(super) fn relation(
        &mut self,
        at: usize,
        relation: Relation,
        words: Range<usize>,
    ) -> Result<(), SceneError> {
        if let Some(pending) = self
            .pending
            .as_mut()
            .filter(|pending| pending.objects.is_empty())
        {
            // "near and to the left of", "above, and to the left of"
            match pending
                .relations
                .last()
                .and_then(|before| combined(*before, relation))
            {
                Some(both) => pending.relations = vec![both],
                None => pending.relations.push(relation),
            }
            pending.words.end = words.end;
            self.joint = Joint::Direct;
            return Ok(());
        }
        self.nothing_pending()?;
        let of_it = matches!(self.item(at), Some(Item::Spatial(Spatial::OfIt(_))))
            || matches!(self.item(at + 1), Some(Item::Thing(mention)) if mention.reference == Reference::Pronoun);
        if let Some(loose) = self.loose {
            return Err(SceneError::Ambiguous {
                text: self.text_of(loose, at + 1),
                first: format!("{:?} speaks of what stands before it", self.text(words)),
                second: "of the subject of the sentence".to_owned(),
            });
        }
        let subjects = match self.joint {
            _ if self.last.is_empty() => None,
            Joint::Direct => Some(self.direct_subjects(at, &words)?),
            _ if of_it => None,
            _ if self.chained => {
                return Err(SceneError::Ambiguous {
                    text: self.text_of(at.saturating_sub(4), at + 1),
                    first: format!(
                        "{:?} speaks of {:?}",
                        self.text(words),
                        self.phrase(self.subject[0])
                    ),
                    second: "of the object before".to_owned(),
                });
            }
            _ if !self.subject.is_empty() => Some(self.subject.clone()),
            _ => {
                self.subject = self.last.clone();
                Some(self.last.clone())
            }
        };
        self.pending = Some(Pending {
            subjects,
            relations: vec![relation],
            objects: vec![],
            words,
            joined: matches!(self.joint, Joint::And | Joint::CommaAnd),
        });
        self.joint = Joint::Direct;
        Ok(())
    }

    /// "which" right after a phrase of place: what was named just before it is the object, and the subject is still to come, as
    /// in "a cat, to the left of which is a dog". After "and" it means what it meant in the clause before.
    pub(super) fn of_which(&mut self, at: usize) -> Result<(), SceneError> {
        let phrase = |at| matches!(self.item(at), Some(Item::Spatial(Spatial::Of(_))));
        let right_after = at.checked_sub(1).is_some_and(phrase);
        let open = |pending: &mut Pending| right_after && pending.objects.is_empty();
        let Some(mut pending) = self.pending.take_if(open) else {
            return Ok(());
        };
        let antecedents = match (self.antecedents.is_empty(), pending.joined) {
            (true, _) => self.named_right_before(at, &pending),
            (false, true) if !self.after_relation && self.last == self.subject => {
                Some(self.antecedents.clone())
            }
            (false, _) => None,
        };
        let needed = 1 + usize::from(pending.relations.contains(&Relation::Between));
        let objects = antecedents.filter(|objects| objects.len() == needed);
        let objects = objects.ok_or_else(|| SceneError::Reference {
            text: self.text(pending.words.start..self.reading.parts[at].words.end),
        })?;
        self.antecedents.clone_from(&objects);
        pending.subjects = None;
        pending.objects = objects;
        self.pending = Some(pending);
        Ok(())
    }

    /// What a pending relation, whose phrase of place ends before part `at`, speaks of, if nothing else stands between the two.
    fn named_right_before(&self, at: usize, pending: &Pending) -> Option<Vec<usize>> {
        let before = &self.reading.parts[..at];
        let phrase = (before.iter()).rposition(|part| part.words.start <= pending.words.start)?;
        let joint = |part: &Part| matches!(part.item, Item::And | Item::Comma);
        let named = (before[..phrase].iter()).rposition(|part| !joint(part))?;
        let named = self.reading.objects_of_parts[named]?;
        let last = &self.last;
        let meant = last.last() == Some(&named) && pending.subjects.as_ref() == Some(last);
        meant.then(|| last.clone())
    }

    /// The subjects that stand directly before the relation at `at`.
    fn direct_subjects(
        &mut self,
        at: usize,
        words: &Range<usize>,
    ) -> Result<Vec<usize>, SceneError> {
        if let Some(carried) = self.carried {
            return Err(SceneError::Ambiguous {
                text: self.text_of(carried.saturating_sub(1), at + 1),
                first: format!(
                    "{:?} speaks of {:?}",
                    self.text(words.clone()),
                    self.phrase(self.last[0])
                ),
                second: "of what stands in between".to_owned(),
            });
        }
        if self.comma_in_list && self.and_in_list {
            let phrases: Vec<&str> = self
                .last
                .iter()
                .map(|object| self.phrase(*object))
                .collect();
            return Err(SceneError::Ambiguous {
                text: format!("{} {}", phrases.join(", "), self.text(words.clone())),
                first: "all of them".to_owned(),
                second: "only the last".to_owned(),
            });
        }
        if self.comma_in_list {
            self.last.drain(..self.last.len() - 1);
        }
        if self.after_relation {
            self.chained |= !self.which;
        } else {
            self.subject = self.last.clone();
        }
        Ok(self.last.clone())
    }

    /// The object of the pending relation.
    pub(super) fn object_of_relation(&mut self, object: usize) -> Result<(), SceneError> {
        let Some(mut pending) = self.pending.take() else {
            return Ok(());
        };
        pending.objects.push(object);
        let needed = if pending.relations.contains(&Relation::Between) {
            2
        } else {
            1
        };
        if pending.objects.len() < needed {
            self.pending = Some(pending);
            return Ok(());
        }
        match pending.subjects.take() {
            None => self.pending = Some(pending),
            Some(subjects) => {
                self.state(&subjects, &pending);
                let (which, chained) = (self.which, self.chained);
                self.start_list(pending.objects);
                (self.after_relation, self.chained) = (true, chained && !which);
            }
        }
        self.joint = Joint::Direct;
        Ok(())
    }

    pub(super) fn state(&mut self, subjects: &[usize], pending: &Pending) {
        for subject in subjects {
            for relation in &pending.relations {
                let between = *relation == Relation::Between;
                let groups = pending.objects.chunks(if between { 2 } else { 1 });
                self.reading
                    .scene
                    .relations
                    .extend(groups.map(|objects| StatedRelation {
                        subject: *subject,
                        relation: *relation,
                        objects: objects.to_vec(),
                    }));
            }
        }
    }

    /// "on the left", about the object before it or, at the beginning of a clause, after it.
    pub(super) fn place(&mut self, at: usize, place: Relation) -> Result<(), SceneError> {
        self.nothing_pending()?;
        let follows = |at| matches!(self.item(at), Some(Item::Thing(_)));
        let mut next = at + 1;
        while matches!(self.item(next), Some(Item::Be))
            || (next == at + 1 && matches!(self.item(next), Some(Item::Comma)))
        {
            next += 1;
        }
        match self.last.last() {
            Some(last) if self.joint == Joint::Direct || !follows(next) => {
                let between = match self.joint {
                    Joint::Direct => self.carried,
                    _ => self.loose,
                };
                if let Some(between) = between {
                    let words = self.reading.parts[at].words.clone();
                    return Err(SceneError::Ambiguous {
                        text: self.text_of(between.saturating_sub(1), at),
                        first: format!("{:?} speaks of {:?}", self.text(words), self.phrase(*last)),
                        second: "of what stands in between".to_owned(),
                    });
                }
                self.places.push((*last, place));
            }
            _ => self.place_to_come = Some(place),
        }
        self.joint = Joint::Direct;
        Ok(())
    }
}
