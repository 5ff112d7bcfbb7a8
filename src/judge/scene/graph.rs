//! Scene graphs as files: objects `name.index`, and relationships between them.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// What should be in a picture, and how it should stand together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// Unique in its file [default: the line's number].
    #[serde(default)]
    pub id: String,
    /// The picture, relative to the folder of pictures [default: the id with .png].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
    /// Such as `person.2`: what it is, and which one.
    pub objects: Vec<String>,
    /// Between two of them.
    pub relationships: Vec<Relationship>,
}

/// How one object is related to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Relationship {
    /// An object's name with its index.
    pub source: String,
    /// Another's.
    pub target: String,
    /// In words.
    pub relation: String,
}

/// How complex a scene is (appendix B.1 of the paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Less than 1, which the paper has no name for: no relationship.
    Trivial,
    /// From 1.
    Simple,
    /// From 4.
    Medium,
    /// From 8.
    Hard,
}

impl Level {
    /// In tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trivial => "trivial",
            Self::Simple => "simple",
            Self::Medium => "medium",
            Self::Hard => "hard",
        }
    }

    /// The level of a complexity.
    pub fn of(complexity: f64) -> Self {
        match complexity {
            c if c < 1.0 => Self::Trivial,
            c if c < 4.0 => Self::Simple,
            c if c < 8.0 => Self::Medium,
            _ => Self::Hard,
        }
    }
}

/// Why something is no scene graph.
#[derive(Debug, Error)]
pub enum GraphError {
    /// It is not JSON, or JSON of another form.
    #[error("graph {number}: {error}")]
    Json {
        /// Which, from 1.
        number: usize,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// It is JSON that no scene can be like.
    #[error("graph {number} ({id}): {why}")]
    Wrong {
        /// Which, from 1.
        number: usize,
        /// Its name.
        id: String,
        /// What is wrong.
        why: String,
    },
    /// There are none.
    #[error("there are no scene graphs in it")]
    Empty,
}

/// Reads graphs: a JSON list of them, or one a line.
///
/// # Errors
/// One is no graph: an object without `.index`, a relationship of what is no object or of an object with itself, a name
/// that is there twice, a graph without objects; or there are none.
pub fn read(text: &str) -> Result<Vec<Graph>, GraphError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_start();
    let json = |number, error| GraphError::Json { number, error };
    let values: Vec<Value> = match text.starts_with('[') {
        true => serde_json::from_str(text).map_err(|error| json(1, error))?,
        false => {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            (1..)
                .zip(lines)
                .map(|(number, line)| {
                    serde_json::from_str(line).map_err(|error| json(number, error))
                })
                .collect::<Result<_, _>>()?
        }
    };
    let mut graphs = Vec::new();
    let mut seen = HashSet::new();
    for (number, value) in (1..).zip(values) {
        let mut graph: Graph =
            serde_json::from_value(value).map_err(|error| json(number, error))?;
        if graph.id.is_empty() {
            graph.id = number.to_string();
        }
        let id = graph.id.clone();
        let why = match seen.insert(id.clone()) {
            true => graph.wrong(),
            false => Some("its id is that of an earlier one".into()),
        };
        if let Some(why) = why {
            return Err(GraphError::Wrong { number, id, why });
        }
        graphs.push(graph);
    }
    match graphs.is_empty() {
        true => Err(GraphError::Empty),
        false => Ok(graphs),
    }
}

/// A graph that can be one.
///
/// # Errors
/// What is wrong with it, as of [`read`].
pub fn check(graph: Graph) -> Result<Graph, String> {
    match graph.wrong() {
        Some(why) => Err(why),
        None => Ok(graph),
    }
}

/// An object's word and its index.
pub fn parts(object: &str) -> Option<(&str, usize)> {
    let (name, index) = object.rsplit_once('.')?;
    Some((name.trim(), index.parse().ok()?)).filter(|(name, _)| !name.is_empty())
}

/// An object's word, without its index.
pub fn name(object: &str) -> &str {
    parts(object).map_or(object, |(name, _)| name)
}

impl Graph {
    fn wrong(&self) -> Option<String> {
        if self.objects.is_empty() {
            return Some("it has no objects".into());
        }
        let mut seen = HashSet::new();
        for object in &self.objects {
            if parts(object).is_none() {
                return Some(format!(
                    "the object {object:?} is not like \"person.2\": a name, a point and a number"
                ));
            }
            if !seen.insert(object.as_str()) {
                return Some(format!(
                    "the object {object:?} is there twice; give each its own number"
                ));
            }
        }
        let mut edges = HashSet::new();
        for edge in &self.relationships {
            if !edges.insert(edge) {
                return Some(format!(
                    "that {:?} is {:?} {:?} is there twice",
                    edge.source, edge.relation, edge.target
                ));
            }
            for end in [&edge.source, &edge.target] {
                if !seen.contains(end.as_str()) {
                    return Some(format!(
                        "a relationship is of {end:?}, which is none of its objects"
                    ));
                }
            }
            if edge.source == edge.target {
                return Some(format!("{:?} is related to itself", edge.source));
            }
            if edge.relation.trim().is_empty() {
                return Some(format!(
                    "how {:?} is related to {:?} is empty",
                    edge.source, edge.target
                ));
            }
        }
        None
    }

    /// C(G) = γ·|V| + (1 − γ)·|E|, equation 1 of the paper.
    pub fn complexity(&self, gamma: f64) -> f64 {
        gamma * self.objects.len() as f64 + (1.0 - gamma) * self.relationships.len() as f64
    }

    /// "{subject} {predicate} {object}", joined by commas (section 5.1 of the paper); objects without a relationship follow
    /// by their names alone, which the paper does not say.
    pub fn prompt(&self) -> String {
        let edges = self.relationships.iter();
        let mut parts: Vec<String> = edges
            .map(|edge| {
                format!(
                    "{} {} {}",
                    name(&edge.source),
                    edge.relation.trim(),
                    name(&edge.target)
                )
            })
            .collect();
        let related: HashSet<&String> = (self.relationships.iter())
            .flat_map(|edge| [&edge.source, &edge.target])
            .collect();
        let alone = self
            .objects
            .iter()
            .filter(|object| !related.contains(object));
        parts.extend(alone.map(|object| name(object).to_owned()));
        parts.join(", ")
    }

    /// The picture's file, below the folder of pictures.
    pub fn picture(&self) -> String {
        self.picture
            .clone()
            .unwrap_or_else(|| format!("{}.png", self.id))
    }
}
