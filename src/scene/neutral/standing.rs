//! How objects stand to each other, said without their names: "one to the left of the other".

use crate::{Reading, Relation, StatedRelation, nouns};

/// ", one to the left of the other": how the objects stand to each other, without saying which is which.
pub(super) fn standing(reading: &Reading, mentions: &[(usize, usize)]) -> String {
    let known = |object: &usize| mentions.iter().any(|(_, named)| named == object);
    let among =
        |stated: &&StatedRelation| known(&stated.subject) && stated.objects.iter().all(known);
    let relations = reading.scene.relations.iter().filter(among);
    let mut told: Vec<usize> = Vec::new();
    let mut clauses = String::new();
    for stated in relations {
        let (subject, relation, objects) = canonical(stated);
        if let (2, Relation::Near | Relation::Far) = (mentions.len(), relation) {
            clauses.push_str(match relation {
                Relation::Near => " near each other",
                _ => " far from each other",
            });
            continue;
        }
        let mut name = |object: usize| match mentions.len() {
            2 => one_of_two(reading, &mut told, object),
            _ => one_of_several(&mut told, object),
        };
        let subject = name(subject);
        let objects: Vec<String> = objects.iter().map(|object| name(*object)).collect();
        let phrase = phrase(relation);
        clauses.push_str(&format!(", {subject} {phrase} {}", objects.join(" and ")));
    }
    clauses
}

/// The relation, or the same said the other way round, so that both say it in the same words.
fn canonical(stated: &StatedRelation) -> (usize, Relation, Vec<usize>) {
    let turned = match stated.relation {
        Relation::RightOf
        | Relation::Below
        | Relation::BelowLeft
        | Relation::BelowRight
        | Relation::Behind => stated.relation.inverse().zip(stated.two()),
        _ => None,
    };
    match turned {
        Some((relation, (subject, object))) => (object, relation, vec![subject]),
        None => (stated.subject, stated.relation, stated.objects.clone()),
    }
}

/// "one", "the other": what one of two objects is called that have no name; "two", "the others" if they are several.
fn one_of_two(reading: &Reading, told: &mut Vec<usize>, object: usize) -> String {
    told.push(object);
    let count = reading.scene.objects[object].count;
    match (told[0] == object, count) {
        (true, Some(count)) => nouns::spelled(count),
        (true, None) => "some".to_owned(),
        (false, Some(1)) => "the other".to_owned(),
        (false, _) => "the others".to_owned(),
    }
}

/// "one", "another", "a third": what one of more than two objects is called that have no name; "the first", "the
/// second" when they are told of again.
fn one_of_several(told: &mut Vec<usize>, object: usize) -> String {
    const ORDINALS: [&str; 6] = ["first", "second", "third", "fourth", "fifth", "sixth"];
    let ordinal = |at: usize| ORDINALS.get(at).copied().unwrap_or("last");
    if let Some(at) = told.iter().position(|known| *known == object) {
        return format!("the {}", ordinal(at));
    }
    told.push(object);
    match told.len() {
        1 => "one".to_owned(),
        2 => "another".to_owned(),
        more => format!("a {}", ordinal(more - 1)),
    }
}

fn phrase(relation: Relation) -> &'static str {
    match relation {
        Relation::LeftOf => "to the left of",
        Relation::RightOf => "to the right of",
        Relation::AboveLeft => "above and to the left of",
        Relation::AboveRight => "above and to the right of",
        Relation::BelowLeft => "below and to the left of",
        Relation::BelowRight => "below and to the right of",
        other => other.as_str(),
    }
}
