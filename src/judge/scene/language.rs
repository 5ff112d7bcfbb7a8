//! What Scene-Bench asks language models about scenes: the prompts of its algorithm 1, its tables 6 and 10 and its appendix
//! A, word for word (line breaks are ours), and how their answers are read.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::graph::{self, Graph, Relationship};
use crate::question::{About, Form, Question, object};

const COMPOSE: &str = include_str!("compose.txt");
const EXTRACT: &str = include_str!("extract.txt");
const ANNOTATE: &str = include_str!("annotate.txt");
const CLASSIFY: &str = include_str!("classify.txt");
const ATTRIBUTES: &str = include_str!("attributes.txt");

/// The classes of scenes with people, and of those without (section 3.1).
pub const CLASSES: [(&str, &[&str]); 2] = [
    (
        "People-Centric",
        &[
            "Social Interaction",
            "Individual Activities",
            "Work/Occupation",
            "Travel/Exploration",
            "Sports & Recreation",
            "Performance/Entertainment",
            "Daily Life",
        ],
    ),
    (
        "Non-People Centric",
        &["Nature", "Urban/Built", "Objects", "Abstract/Artistic"],
    ),
];

/// An object in a picture, with its box in pixels: left, top, right, bottom.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
pub struct Placed {
    /// Such as `person.2`.
    pub object: String,
    /// Its box.
    pub bbox: [f64; 4],
}

fn question(id: &str, picture: Option<usize>, text: String) -> Question {
    Question {
        id: id.to_owned(),
        picture,
        system: None,
        text,
        form: Form::Object,
        about: About::Unseen,
    }
}

/// A graph without what the models should not see.
fn shown(graph: &Graph) -> String {
    json!({ "objects": graph.objects, "relationships": graph.relationships }).to_string()
}

/// Asks for a text of a scene (table 6).
pub fn compose(graph: &Graph) -> Question {
    let text = COMPOSE.trim_end().replace("{scene_graph}", &shown(graph));
    question(&graph.id, None, text)
}

/// The text that was asked for.
pub fn composed(answer: &str) -> Result<String, String> {
    let answer = read(answer)?;
    let text = answer.get("description").and_then(Value::as_str);
    let text = text.map(str::trim).filter(|text| !text.is_empty());
    text.map(str::to_owned)
        .ok_or_else(|| "it has no \"description\"".into())
}

/// Asks for the graph of a caption (table 10).
pub fn extract(id: &str, caption: &str) -> Question {
    let text = EXTRACT.trim_end().replace("{input_sentence}", caption);
    question(id, None, text)
}

/// The graph that was asked for. The prompt asks for names without numbers, so each name is one object: `dog` becomes
/// `dog.1`.
pub fn extracted(id: &str, answer: &str) -> Result<Graph, String> {
    let answer = read(answer)?;
    let objects = answer
        .get("objects")
        .and_then(Value::as_array)
        .ok_or("it has no list of \"objects\"")?;
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut graph = Graph {
        id: id.to_owned(),
        picture: None,
        objects: Vec::new(),
        relationships: Vec::new(),
    };
    for object in objects {
        let name = object
            .as_str()
            .ok_or("an object is not text")?
            .trim()
            .to_owned();
        let numbered = match graph::parts(&name) {
            Some(_) => name.clone(),
            None => format!("{name}.1"),
        };
        if names.insert(name, numbered.clone()).is_none() {
            graph.objects.push(numbered);
        }
    }
    for edge in relationships(&answer)? {
        let end = |name: &str| {
            let known = names.get(name).cloned();
            known.ok_or_else(|| {
                format!("a relationship is of {name:?}, which is none of its objects")
            })
        };
        let (source, target) = (end(&edge.source)?, end(&edge.target)?);
        graph.relationships.push(Relationship {
            source,
            target,
            relation: edge.relation,
        });
    }
    graph::check(graph)
}

/// Asks for the graph of a picture with these objects (algorithm 1).
pub fn annotate(id: &str, picture: usize, objects: &[Placed], size: [u32; 2]) -> Question {
    let objects: Vec<String> = (objects.iter())
        .map(|placed| {
            let [left, top, right, bottom] = placed.bbox.map(f64::round);
            format!("{}:[{left}, {top}, {right}, {bottom}]", placed.object)
        })
        .collect();
    let text = ANNOTATE
        .trim_end()
        .replace("{OBJECTS}", &json!(objects).to_string())
        .replace("{IMG_WH}", &format!("({}, {})", size[0], size[1]));
    question(id, Some(picture), text)
}

/// The graph that was asked for.
pub fn annotated(id: &str, objects: &[Placed], answer: &str) -> Result<Graph, String> {
    let answer = read(answer)?;
    graph::check(Graph {
        id: id.to_owned(),
        picture: None,
        objects: objects.iter().map(|placed| placed.object.clone()).collect(),
        relationships: relationships(&answer)?,
    })
}

/// Asks what kind of scene a graph is (appendix A). The paper asks about several pictures at once; we ask about one, so
/// that one answer that cannot be used is one.
pub fn classify(graph: &Graph) -> Question {
    let info = json!([{ "image_id": graph.id, "file_name": graph.picture(), "objects": graph.objects,
        "relationships": graph.relationships }]);
    question(
        &graph.id,
        None,
        CLASSIFY
            .trim_end()
            .replace("{IMAGE_INFO}", &info.to_string()),
    )
}

/// The two classes that were asked for.
pub fn classified(answer: &str) -> Result<[&'static str; 2], String> {
    let answer = read(answer)?;
    let word = |name: &str| {
        answer
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .trim()
    };
    let [first, second] = ["level 1", "level 2"].map(word);
    let same = |a: &str, b: &str| {
        let plain = |text: &str| -> String {
            let letters = text.chars().filter(|letter| letter.is_alphanumeric());
            letters.flat_map(char::to_lowercase).collect()
        };
        plain(a) == plain(b)
    };
    let level = CLASSES.iter().find(|(name, _)| same(name, first));
    let (name, below) = level.ok_or_else(|| format!("{first:?} is not a class of scenes"))?;
    let found = below.iter().find(|name| same(name, second));
    let found = found.ok_or_else(|| format!("{second:?} is not a class of {name} scenes"))?;
    Ok([*name, *found])
}

/// Asks for things of each category with an attribute (table 8). The paper gives the categories in a file; here they follow as
/// a JSON list.
pub fn attributes(id: &str, categories: &[&str]) -> Question {
    let text = ATTRIBUTES
        .trim_end()
        .replace("{CATEGORIES}", &json!(categories).to_string());
    question(id, None, text)
}

/// The things that were asked for: of each category, in their order, a graph of one object each.
///
/// # Errors
/// A category is left out, or has something else than names.
pub fn attributed(categories: &[&str], answer: &str) -> Result<Vec<Graph>, String> {
    let answer = read(answer)?;
    let mut graphs = Vec::new();
    for category in categories {
        let things = answer.get(*category).and_then(Value::as_array);
        let things = things.ok_or_else(|| format!("it has no list for {category:?}"))?;
        if things.is_empty() {
            return Err(format!("it has nothing for {category:?}"));
        }
        for (number, thing) in (1..).zip(things) {
            let name = thing
                .as_str()
                .map(str::trim)
                .filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| format!("something of {category:?} is not a name"))?;
            graphs.push(graph::check(single(&format!("{category} {number}"), name))?);
        }
    }
    Ok(graphs)
}

/// A scene of one object.
pub fn single(id: &str, name: &str) -> Graph {
    // As a file's name, whatever the category is.
    let plain = |c: char| if c.is_alphanumeric() { c } else { '-' };
    Graph {
        id: id.chars().map(plain).collect(),
        picture: None,
        objects: vec![format!("{name}.1")],
        relationships: Vec::new(),
    }
}

/// The object that an answer is.
fn read(answer: &str) -> Result<Map<String, Value>, String> {
    object(answer).ok_or_else(|| "it is not a JSON object".into())
}

fn relationships(answer: &Map<String, Value>) -> Result<Vec<Relationship>, String> {
    let edges = answer.get("relationships").cloned();
    let edges = edges.ok_or("it has no list of \"relationships\"")?;
    serde_json::from_value(edges).map_err(|error| format!("relationships: {error}"))
}
