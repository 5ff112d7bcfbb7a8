//! What the pictures of `prepose detect` should show.

use std::iter::once;
use std::path::PathBuf;

use prepose::check::vocabulary::{UnknownObject, label_of};
use prepose::output::png::Made;
use prepose::prompt::compose::scene_of;
use prepose::prompt::scene::Scene;
use serde::Serialize;

/// An object that should be there: once, or as often as the prompt says.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Wanted {
    One(String),
    Several { name: String, count: usize },
}

/// What a picture should show, in the detector's words; nothing where nothing says so, or a relation, or all that is asked
/// for where there is none, is about something that the detector does not know.
#[derive(Default)]
pub(super) struct Shown {
    pub objects: Option<Vec<Wanted>>,
    pub relations: Option<Vec<String>>,
    /// What the detector does not know.
    pub unknown: Vec<UnknownObject>,
}

/// A picture to look at.
pub(super) struct Input {
    pub id: String,
    pub path: PathBuf,
    pub seed: Option<u64>,
    /// What it should show, in words, and what these say.
    pub prompt: Option<String>,
    scene: Option<Scene>,
}

impl Input {
    /// What is known of a picture: its prompt is that of the arguments or, with what is said of its relations, its own.
    pub fn new(id: String, path: PathBuf, made: Option<Made>, prompt: Option<&str>) -> Self {
        let own = || made.as_ref()?.final_prompt().ok();
        let given = match (&made, prompt) {
            (Some(made), None) => &*made.request.relations,
            _ => &[],
        };
        let prompt = prompt.map(str::to_owned).or_else(own);
        let scene = (prompt.as_ref()).and_then(|prompt| scene_of(prompt, given).ok());
        Self {
            id,
            path,
            seed: made.map(|made| made.request.seed),
            prompt,
            scene,
        }
    }

    /// What a detector that takes any phrase is asked for: each thing once, also where the prompt names two of them.
    pub fn asked(&self) -> Vec<String> {
        let mut asked: Vec<String> = Vec::new();
        for object in self.scene.iter().flat_map(|scene| &scene.objects) {
            // Without a vocabulary all phrases are known.
            let label = label_of(None, object).unwrap_or_default();
            if !asked.contains(&label) {
                asked.push(label);
            }
        }
        asked
    }

    /// What it should show, in the words of a detector with this vocabulary. Two objects may have the same: rules that must
    /// tell them apart say so.
    pub fn shown(&self, vocabulary: Option<&[String]>) -> Shown {
        let Some(scene) = &self.scene else {
            return Shown::default();
        };
        let mut unknown: Vec<UnknownObject> = Vec::new();
        let mut is_known = Vec::new();
        let mut labels: Vec<String> = Vec::new();
        for object in &scene.objects {
            let label = label_of(vocabulary, object);
            is_known.push(label.is_ok());
            labels.push(label.unwrap_or_else(|error| {
                let own = error.object.clone();
                if !unknown.contains(&error) {
                    unknown.push(error);
                }
                own
            }));
        }
        let ends = scene.relations.iter();
        let mut ends = ends.flat_map(|stated| once(stated.subject).chain(stated.objects.clone()));
        let is_asked =
            unknown.is_empty() || (!scene.relations.is_empty() && ends.all(|at| is_known[at]));
        if !is_asked {
            return Shown {
                unknown,
                ..Shown::default()
            };
        }
        let relations = scene.relations.iter().map(|stated| {
            let others = stated.objects.iter().map(|&at| numbered(&labels, at));
            let others: Vec<String> = others.collect();
            let subject = numbered(&labels, stated.subject);
            format!("{subject} | {} | {}", stated.relation, others.join(" | "))
        });
        let relations: Vec<String> = relations.collect();
        let objects = labels.into_iter().zip(&scene.objects);
        let objects = objects.map(|(name, object)| match object.count {
            Some(count) if count > 1 => Wanted::Several { name, count },
            _ => Wanted::One(name),
        });
        Shown {
            objects: Some(objects.collect()),
            relations: Some(relations).filter(|relations| !relations.is_empty()),
            unknown,
        }
    }
}

/// The name of an object in a relation, with its number if it is not the first of that name: `cat#2`.
fn numbered(labels: &[String], at: usize) -> String {
    let label = &labels[at];
    match labels[..at].iter().filter(|other| *other == label).count() {
        0 => label.clone(),
        before => format!("{label}#{}", before + 1),
    }
}
