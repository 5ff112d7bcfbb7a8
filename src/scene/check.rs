//! Relations that cannot all be true.

use super::{Relation, Scene, SceneError, StatedRelation};

impl Scene {
    /// Refuses relations of an object to itself, and relations that contradict each other: a closed chain of "left
    /// of", "above" or "in front of", or both near and far. Drops repetitions.
    pub(super) fn checked(mut self) -> Result<Self, SceneError> {
        let mut relations: Vec<StatedRelation> = Vec::new();
        for stated in std::mem::take(&mut self.relations) {
            if stated.objects.contains(&stated.subject) {
                return Err(SceneError::Itself {
                    object: self.objects[stated.subject].phrase.clone(),
                    relation: stated.relation,
                });
            }
            if !relations.contains(&stated) {
                relations.push(stated);
            }
        }
        self.relations = relations;
        for order in [horizontal, vertical, depth] {
            self.refuse_circle(order)?;
        }
        for (i, one) in self.relations.iter().enumerate() {
            let opposite = self.relations[..i].iter().find(|other| {
                let kinds = [one.relation, other.relation];
                let same = (one.subject == other.subject && one.objects == other.objects)
                    || (one.objects == [other.subject] && other.objects == [one.subject]);
                same && kinds.contains(&Relation::Near) && kinds.contains(&Relation::Far)
            });
            if let Some(other) = opposite {
                return Err(SceneError::Contradiction(format!(
                    "{}; {}",
                    self.describe(other),
                    self.describe(one)
                )));
            }
        }
        Ok(self)
    }

    /// A relation in words: `dog left of cat`.
    pub fn describe(&self, stated: &StatedRelation) -> String {
        let phrase = |object: usize| self.objects[object].phrase.as_str();
        let objects: Vec<&str> = stated
            .objects
            .iter()
            .map(|object| phrase(*object))
            .collect();
        format!(
            "{} {} {}",
            phrase(stated.subject),
            stated.relation,
            objects.join(" and ")
        )
    }

    fn refuse_circle(&self, order: fn(Relation) -> i8) -> Result<(), SceneError> {
        // Edges from the smaller coordinate to the larger one.
        let edges: Vec<(usize, usize, &StatedRelation)> = self
            .relations
            .iter()
            .filter_map(|stated| {
                let object = *stated.objects.first()?;
                match order(stated.relation) {
                    0 => None,
                    sign if sign < 0 => Some((stated.subject, object, stated)),
                    _ => Some((object, stated.subject, stated)),
                }
            })
            .collect();
        // Take away whatever nothing comes before; what is left contains a circle.
        let mut left: Vec<_> = edges.iter().collect();
        loop {
            let before = left.len();
            let ends: Vec<usize> = left.iter().map(|edge| edge.1).collect();
            left.retain(|edge| ends.contains(&edge.0));
            if left.len() == before {
                break;
            }
        }
        let Some(mut edge) = left.first().copied() else {
            return Ok(());
        };
        // Walk against the edges until an object comes back.
        let mut path = vec![edge];
        while let Some(previous) = left.iter().find(|other| other.1 == edge.0) {
            path.push(previous);
            if let Some(start) = path.iter().position(|seen| seen.1 == previous.0) {
                path = path.split_off(start);
                break;
            }
            edge = previous;
        }
        // In the order of the prompt.
        let in_path =
            |stated: &&StatedRelation| path.iter().any(|edge| std::ptr::eq(edge.2, *stated));
        let described: Vec<String> = (self.relations.iter().filter(in_path))
            .map(|stated| self.describe(stated))
            .collect();
        Err(SceneError::Contradiction(described.join("; ")))
    }
}

fn horizontal(relation: Relation) -> i8 {
    relation.direction().map_or(0, |direction| direction.0)
}

fn vertical(relation: Relation) -> i8 {
    relation.direction().map_or(0, |direction| direction.1)
}

fn depth(relation: Relation) -> i8 {
    match relation {
        Relation::InFrontOf => -1,
        Relation::Behind => 1,
        _ => 0,
    }
}
