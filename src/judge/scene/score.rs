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

    fn invalid(&self) -> usize {
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
            if values.is_empty() {
                row.extend([Cell::Empty, Cell::Empty, Cell::Empty]);
                continue;
            }
            let mean = bootstrap.mean(&values);
            row.extend([mean.value, mean.low, mean.high].map(|value| Cell::Percent(100.0 * value)));
        }
        row
    });
    let columns = [
        "level",
        "graphs",
        "invalid",
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

/// What a reader should know of the answers: the same one nearly always, and how many are invalid.
pub fn notes(outcomes: &[Outcome]) -> Vec<String> {
    let mut yes = [0usize; 2];
    let mut letters: BTreeMap<u8, usize> = BTreeMap::new();
    let mut invalid = 0;
    for answer in outcomes.iter().filter_map(Outcome::answer) {
        match answer {
            Answer::Yes(said) => yes[usize::from(said)] += 1,
            Answer::Letter(letter) => *letters.entry(letter).or_default() += 1,
            Answer::Digit(_) | Answer::Object | Answer::Ten(_) | Answer::Invalid(_) => invalid += 1,
        }
    }
    let mut notes = Vec::new();
    let mut tell = |word: String, count: usize, of: usize| {
        if of >= 20 && count * 20 >= of * 19 {
            notes.push(format!(
                "the judge says {word:?} in {count} of {of} answers: it may not look at the pictures"
            ));
        }
    };
    let of = yes.iter().sum();
    tell("no".into(), yes[0], of);
    tell("yes".into(), yes[1], of);
    let of = letters.values().sum();
    for (letter, count) in letters {
        tell(
            char::from(b'A'.saturating_add(letter)).to_string(),
            count,
            of,
        );
    }
    if invalid > 0 {
        notes.push(format!(
            "{invalid} of {} answers are invalid and do not count",
            outcomes.len()
        ));
    }
    notes
}

/// A model with object recall, relation recall and SGScore in percent, judged by Gemini 1.5 Flash.
type Published = (&'static str, [f64; 3]);

/// Tables 4 and 7 of the paper; 5,000 pictures each.
const PUBLISHED: [Published; 7] = [
    ("SD 1.5", [64.93, 44.19, 54.56]),
    ("SD 1.5, scene composition", [75.45, 48.84, 62.14]),
    (
        "SD 1.5, adapter without missing graph",
        [70.91, 49.83, 60.37],
    ),
    ("SD 1.5, feedback", [79.93, 53.97, 66.95]),
    ("SDXL", [77.22, 53.78, 65.50]),
    ("SDXL, scene composition", [88.07, 60.37, 74.22]),
    ("SDXL, feedback", [91.30, 63.20, 77.25]),
];

/// The paper's figures.
pub fn published() -> Table {
    let rows = PUBLISHED.iter().map(|(model, figures)| {
        let mut row = vec![Cell::Name((*model).to_owned())];
        row.extend(figures.map(Cell::Percent));
        row
    });
    Table::new(
        "published",
        &["model", "object_recall", "relation_recall", "sgscore"],
        rows,
    )
}
