//! Scene-Bench's feedback (section 4 of its paper): a picture of what is missing in a first picture, and a last picture that is shown
//! both.

use std::path::Path;

use prepose_judge::scene::graph::{Graph, name};

use crate::guidance::GuidanceConfig;
use crate::prompt::scene::{GivenRelation, Relation, Scene};
use crate::request::{PicturePrompt, Request};

/// How strongly the pictures are shown, and how what is drawn again is guided.
#[derive(Clone, Debug, PartialEq)]
pub struct Feedback {
    /// λ₀ and λ₁ of the paper's equation 5: of the first picture, and of that of what is missing.
    pub scales: [f64; 2],
    /// Guidance by the graph's relations of what is drawn because something was missing; the paper has none.
    pub guide: Option<GuidanceConfig>,
}

impl Default for Feedback {
    /// The paper's: one half each.
    fn default() -> Self {
        Self {
            scales: [0.5; 2],
            guide: None,
        }
    }
}

impl Feedback {
    /// The request for the picture of what is `missing`: as the first one, with its prompt and the noise of the next seed. What is
    /// missing is often the whole of a small graph; from the same noise it would be missing again.
    pub fn reference(&self, first: &Request, missing: &Graph) -> Request {
        let request = Request {
            prompt: missing.prompt(),
            pictures: Vec::new(),
            seed: first.seed.wrapping_add(1),
            ..first.clone()
        };
        self.guided(request, missing)
    }

    /// The request for the last picture of `graph`: as the first one, shown `pictures`, the first and that of what is missing, each by a
    /// softmax of its own. One with a scale of 0 is left out.
    pub fn last(&self, first: &Request, graph: &Graph, pictures: [&Path; 2]) -> Request {
        let shown = pictures.into_iter().zip(self.scales);
        let shown = shown.filter(|(_, scale)| *scale != 0.0);
        let pictures = shown.map(|(path, scale)| PicturePrompt {
            scale,
            own_softmax: true,
            ..PicturePrompt::new(path)
        });
        let request = Request {
            pictures: pictures.collect(),
            ..first.clone()
        };
        self.guided(request, graph)
    }

    /// How many relations of `graph` the last picture of `prompt` is not guided by although attention would show them: those whose things the
    /// prompt says in other words.
    pub fn left_out(&self, prompt: &str, graph: &Graph) -> usize {
        match self.guide {
            Some(_) => shown_by_attention(graph).count() - of_prompt(prompt, graph).len(),
            None => 0,
        }
    }

    /// Guided by the relations of `graph` that attention shows and the prompt has words for; as it is where there are none.
    fn guided(&self, request: Request, graph: &Graph) -> Request {
        let relations = of_prompt(&request.prompt, graph);
        match &self.guide {
            Some(guide) if !relations.is_empty() => Request {
                guide: Some(guide.clone()),
                relations,
                ..request
            },
            _ => request,
        }
    }
}

fn shown_by_attention(graph: &Graph) -> impl Iterator<Item = GivenRelation> {
    graph.relationships.iter().filter_map(|edge| {
        let relation: Relation = edge.relation.parse().ok()?;
        let shown = !relation.is_of_depth() && relation != Relation::Between;
        shown.then(|| GivenRelation::of_two(name(&edge.source), relation, name(&edge.target)))
    })
}

/// The relations of `graph` that attention shows, as many of them as make a scene of `prompt` together.
fn of_prompt(prompt: &str, graph: &Graph) -> Vec<GivenRelation> {
    let mut relations = Vec::new();
    for relation in shown_by_attention(graph) {
        relations.push(relation);
        if Scene::with_relations(prompt, &relations).is_err() {
            relations.pop();
        }
    }
    relations
}
