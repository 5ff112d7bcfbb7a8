//! The scenes that are to be drawn.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use prepose::judge::scene::graph::{Graph, Relationship, check};
use prepose::prompt::scene;
use prepose::prompt::scene::StatedRelation;
use prepose::suite::SuitePrompt;
use prepose::suite::sets;
use serde::Deserialize;

use super::super::{graphs, text};

/// A graph, and the prompt that it is drawn by.
#[derive(Clone, Debug)]
pub struct Scene {
    pub graph: Graph,
    pub text: String,
}

/// A line of `prepose scene compose`.
#[derive(Deserialize)]
struct Composed {
    id: String,
    prompt: String,
}

/// The graphs of a file, of a suite's prompts, or of a prompt.
///
/// # Errors
/// None of these can be read; a graph has no text although texts were given.
pub fn read(given: &str, texts: Option<&Path>) -> anyhow::Result<Vec<Scene>> {
    let path = Path::new(given);
    if given != "-" && !path.exists() {
        let looks_like_a_file = given.ends_with(".json") || given.ends_with(".jsonl");
        ensure!(!looks_like_a_file, "there is no file {given}");
        ensure!(
            texts.is_none(),
            "--texts are those of graphs, but a prompt or a suite was given"
        );
        if let Some(set) = sets::find(given) {
            return set.suite().prompts.into_iter().map(of_suite).collect();
        }
        return Ok(vec![of_prompt(given)?]);
    }
    let graphs = graphs(path)?;
    let composed = texts.map(|path| -> anyhow::Result<HashMap<String, String>> {
        let mut all = HashMap::new();
        for (number, line) in (1..).zip(text(path)?.lines()) {
            if !line.trim().is_empty() {
                let line: Composed = serde_json::from_str(line)
                    .with_context(|| format!("{}:{number}", path.display()))?;
                all.insert(line.id, line.prompt);
            }
        }
        Ok(all)
    });
    let composed = composed.transpose()?;
    let scene = |graph: Graph| {
        let text = match &composed {
            None => graph.prompt(),
            Some(all) => (all.get(&graph.id).cloned())
                .with_context(|| format!("--texts has no line for graph {}", graph.id))?,
        };
        Ok(Scene { graph, text })
    };
    graphs.into_iter().map(scene).collect()
}

/// A prompt of a suite, with the objects and relations that the suite says it names.
fn of_suite(prompt: SuitePrompt) -> anyhow::Result<Scene> {
    let names = numbered(prompt.objects.iter().map(String::as_str));
    let graph = Graph {
        id: prompt.prompt_id,
        picture: None,
        relationships: edges(&prompt.relations, &names),
        objects: names,
    };
    Ok(Scene {
        graph: check(graph).map_err(anyhow::Error::msg)?,
        text: prompt.prompt,
    })
}

/// Names as graphs have them: the first dog is `dog.1`.
fn numbered<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let names = names.map(|name| {
        let count = counts.entry(name).or_default();
        *count += 1;
        format!("{name}.{count}")
    });
    names.collect()
}

/// Relations between the objects with these names.
fn edges(relations: &[StatedRelation], names: &[String]) -> Vec<Relationship> {
    let edges = relations.iter().flat_map(|stated| {
        stated.objects.iter().map(|object| Relationship {
            source: names[stated.subject].clone(),
            target: names[*object].clone(),
            relation: stated.relation.as_str().replace('_', " "),
        })
    });
    edges.collect()
}

/// What a prompt says, as a graph.
fn of_prompt(prompt: &str) -> anyhow::Result<Scene> {
    let read = scene::Scene::parse(prompt)?;
    if read.objects.is_empty() {
        bail!("{prompt:?} is not a file, and as a prompt it names no object");
    }
    let names = numbered(read.objects.iter().map(|object| object.phrase.as_str()));
    let graph = Graph {
        id: "1".into(),
        picture: None,
        relationships: edges(&read.relations, &names),
        objects: names,
    };
    let graph =
        check(graph).map_err(|why| anyhow::anyhow!("{prompt:?} makes no scene graph: {why}"))?;
    Ok(Scene {
        graph,
        text: prompt.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_has_a_graph_for_each_prompt() {
        let scenes = read("spatialbench-uc", None).unwrap();
        assert_eq!(scenes.len(), 200);
        assert_eq!(scenes[0].graph.objects, ["cake.1", "bed.1"]);
        assert_eq!(scenes[0].text, "A photo of a cake to the left of a bed.");
        let edge = &scenes[0].graph.relationships[0];
        assert_eq!((&*edge.source, &*edge.relation), ("cake.1", "left of"));
        let texts = Some(Path::new("texts.jsonl"));
        assert!(read("spatialbench-uc", texts).is_err());
    }

    #[test]
    fn a_prompt_is_a_graph() {
        let scene = read("a dog to the left of a cat, and a cup", None)
            .unwrap()
            .remove(0);
        assert_eq!(scene.graph.objects, ["dog.1", "cat.1", "cup.1"]);
        let edge = &scene.graph.relationships[0];
        assert_eq!(
            (&*edge.source, &*edge.relation, &*edge.target),
            ("dog.1", "left of", "cat.1")
        );
        assert!(
            read("nowhere.jsonl", None)
                .unwrap_err()
                .to_string()
                .contains("no file")
        );
    }
}
