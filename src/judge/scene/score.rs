//! SGScore: how much of a scene graph is in its picture.

use std::collections::BTreeMap;

use prepose_draw::table::{Cell, Table};
use prepose_statistics::bootstrap::Bootstrap;

use super::graph::{Graph, Level, name};
use super::questions::{Asked, Part};
use crate::ask::Outcome;
use crate::question::Answer;

/// What was found of one graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Of each object: there, not there, or no valid answer.
    pub objects: Vec<Option<bool>>,
    /// Of each relationship.
    pub relationships: Vec<Option<bool>>,
}

/// What is found of each graph.
pub fn found(graphs: &[Graph], asked: &[Asked], outcomes: &[Outcome]) -> Vec<Found> {
    let mut all: Vec<Found> = (graphs.iter())
        .map(|graph| Found {
            objects: vec![None; graph.objects.len()],
            relationships: vec![None; graph.relationships.len()],
        })
        .collect();
    for (one, outcome) in asked.iter().zip(outcomes) {
        let found = &mut all[one.graph];
        match (one.part, outcome.answer()) {
            (Part::Object(at), Some(Answer::Yes(yes))) => found.objects[at] = Some(yes),
            (Part::Relationship(at, right), Some(Answer::Letter(letter))) => {
                found.relationships[at] = Some(letter == right);
            }
            _ => {}
        }
    }
    all
}

impl Found {
    /// Equation 2; none without a valid answer. Questions without a valid answer do not count.
    pub fn object_recall(&self) -> Option<f64> {
        recall(&self.objects)
    }

    /// Equation 3.
    pub fn relation_recall(&self) -> Option<f64> {
        recall(&self.relationships)
    }

    /// Equation 4: α of the objects' recall and 1 − α of the relationships'. A graph without relationships has its objects'
    /// alone, which the paper does not say.
    pub fn sgscore(&self, alpha: f64) -> Option<f64> {
        let objects = self.object_recall()?;
        match self.relationships.is_empty() {
            true => Some(objects),
            false => Some(alpha * objects + (1.0 - alpha) * self.relation_recall()?),
        }
    }

    /// How many objects and relationships have no valid answer.
    pub fn invalid(&self) -> usize {
        let all = self.objects.iter().chain(&self.relationships);
        all.filter(|one| one.is_none()).count()
    }

    /// What is missing of a graph: objects that were not seen, and relationships that were not, with their ends. It is what
    /// Scene-Bench's feedback makes its second picture of.
    pub fn missing(&self, graph: &Graph) -> Graph {
        let gone = |found: &Option<bool>| *found == Some(false);
        let edges = graph.relationships.iter().zip(&self.relationships);
        let relationships: Vec<_> = edges
            .filter(|(_, found)| gone(found))
            .map(|(edge, _)| edge.clone())
            .collect();
        let mut objects: Vec<String> = Vec::new();
        let seen = graph.objects.iter().zip(&self.objects);
        for (object, found) in seen {
            let end = relationships
                .iter()
                .any(|edge| edge.source == *object || edge.target == *object);
            if end || gone(found) {
                objects.push(object.clone());
            }
        }
        Graph {
            id: graph.id.clone(),
            picture: None,
            objects,
            relationships,
        }
    }
}

fn recall(found: &[Option<bool>]) -> Option<f64> {
    let valid = found.iter().flatten().count();
    let there = found.iter().flatten().filter(|there| **there).count();
    (valid > 0).then(|| there as f64 / valid as f64)
}

/// What is told of a graph.
type Figure<'a> = &'a dyn Fn(&Found) -> Option<f64>;

/// The mean of shares that come in groups, in percent with its 95 % interval; nothing of none.
pub(crate) fn mean_in_percent(groups: &[Vec<f64>], bootstrap: &Bootstrap) -> [Cell; 3] {
    if groups.is_empty() {
        return [Cell::Empty, Cell::Empty, Cell::Empty];
    }
    let mean = bootstrap.mean(groups);
    [mean.value, mean.low, mean.high].map(|value| Cell::Percent(100.0 * value))
}

/// The columns of recalls and SGScore in a table, after its first ones.
pub(crate) fn with_scores(first: [&str; 3]) -> Vec<&str> {
    let scores = [
        "object_recall",
        "object_recall_low",
        "object_recall_high",
        "relation_recall",
        "relation_recall_low",
        "relation_recall_high",
        "sgscore",
        "sgscore_low",
        "sgscore_high",
    ];
    first.into_iter().chain(scores).collect()
}

/// Mean recall and SGScore in percent, by level of complexity and over all, with 95 % intervals over graphs.
pub fn by_level(
    graphs: &[Graph],
    found: &[Found],
    gamma: f64,
    alpha: f64,
    bootstrap: &Bootstrap,
) -> Table {
    let mut levels: BTreeMap<Option<Level>, Vec<&Found>> = BTreeMap::new();
    for (graph, found) in graphs.iter().zip(found) {
        let level = Level::of(graph.complexity(gamma));
        levels.entry(Some(level)).or_default().push(found);
        levels.entry(None).or_default().push(found);
    }
    let rows = levels.into_iter().map(|(level, found)| {
        let mut row = vec![
            Cell::Name(level.map_or("all", Level::as_str).to_owned()),
            Cell::Count(found.len()),
            Cell::Count(found.iter().map(|one| one.invalid()).sum()),
        ];
        let figures: [Figure; 3] = [&Found::object_recall, &Found::relation_recall, &|one| {
            one.sgscore(alpha)
        }];
        for figure in figures {
            let values: Vec<Vec<f64>> = found
                .iter()
                .filter_map(|one| Some(vec![figure(one)?]))
                .collect();
            row.extend(mean_in_percent(&values, bootstrap));
        }
        row
    });
    let columns = with_scores(["level", "graphs", "invalid"]);
    Table::new("sgscore", &columns, rows)
}

/// How often objects of each name, and relationships of each word, were found.
pub fn by_class(graphs: &[Graph], found: &[Found]) -> [Table; 2] {
    let mut objects: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    let mut relations: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    let count = |of: &mut BTreeMap<String, [usize; 2]>, word: String, there: Option<bool>| {
        if let Some(there) = there {
            let counts = of.entry(word).or_default();
            counts[0] += 1;
            counts[1] += usize::from(there);
        }
    };
    for (graph, found) in graphs.iter().zip(found) {
        for (object, there) in graph.objects.iter().zip(&found.objects) {
            count(&mut objects, name(object).to_owned(), *there);
        }
        for (edge, there) in graph.relationships.iter().zip(&found.relationships) {
            count(&mut relations, edge.relation.trim().to_lowercase(), *there);
        }
    }
    let table = |name: &'static str, of: BTreeMap<String, [usize; 2]>| {
        let rows = of.into_iter().map(|(word, [asked, there])| {
            vec![
                Cell::Name(word),
                Cell::Count(asked),
                Cell::Count(there),
                Cell::Percent(100.0 * there as f64 / asked as f64),
            ]
        });
        Table::new(name, &["class", "asked", "found", "recall"], rows)
    };
    [table("objects", objects), table("relations", relations)]
}
