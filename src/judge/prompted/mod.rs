//! What a judge is asked about pictures of any prompt: OTS-Bench's questions where it has some, and Scene-Bench's about the
//! prompt's objects and relations.
//!
//! Neither paper asks its questions of other prompts than its own, so what is asked here is ours, in their words: names come
//! from the prompt; the wrong options of a question about a relation are those that cannot hold beside it (left, right,
//! above, below; in front, behind; near, far), as many as [`Rules`] says.

mod checked;
mod tables;

use std::collections::{BTreeMap, HashSet};

use prepose_check::prompt::SuitePrompt;
use prepose_scene::{Relation, Scene, StatedRelation};
use serde::{Deserialize, Serialize};

use crate::ask::{Made, Outcome};
use crate::ots::{self, Case, Judged};
use crate::question::{Answer, Question};
use crate::scene::graph::{Graph, Relationship};
use crate::scene::questions::{Asked, Part, Rules, questions_with};
use crate::scene::score::Found;

pub use checked::Checked;
pub use tables::{Told, cost, told};

/// Which questions are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Which {
    /// OTS-Bench's, of prompts with two objects that state no relation, or one of left and right; in both orders.
    Ots,
    /// Scene-Bench's, about each object and each relation.
    Scene,
    /// Both.
    #[default]
    All,
}

impl Which {
    fn has_ots(self) -> bool {
        matches!(self, Self::Ots | Self::All)
    }

    fn has_scene(self) -> bool {
        matches!(self, Self::Scene | Self::All)
    }
}

/// A picture of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Unique among the pictures.
    pub id: String,
    /// How it was made; tables have a row for each.
    pub method: String,
    /// What it should show; pictures of the same prompt are drawn together for intervals.
    pub prompt: SuitePrompt,
}

/// Pictures of prompts with what is asked about each.
#[derive(Clone, Debug)]
pub struct Asking {
    shown: Vec<Shown>,
    which: Which,
    rules: Rules,
    /// Of each question its picture, and its place among the questions about that.
    index: Vec<(u32, u16)>,
}

/// What a question is of.
enum Of {
    Ots { exchanged: bool },
    Scene(Part),
}

/// What came of one picture's questions.
#[derive(Clone, Debug, Default)]
pub struct OfPicture {
    /// OTS-Bench's questions: as published, and exchanged.
    pub ots: Option<[Outcome; 2]>,
    /// Of each object and relation.
    pub found: Option<Found>,
}

impl Asking {
    /// What is asked about these pictures.
    pub fn new(shown: Vec<Shown>, which: Which, rules: Rules) -> Self {
        let mut asking = Self {
            shown,
            which,
            rules,
            index: Vec::new(),
        };
        let mut index = Vec::new();
        for picture in 0..asking.shown.len() {
            let count = asking.of_picture(picture).len();
            let parts = (0..count)
                .filter_map(|part| Some((u32::try_from(picture).ok()?, u16::try_from(part).ok()?)));
            index.extend(parts);
        }
        asking.index = index;
        asking
    }

    /// The pictures; the questions' numbers are their places.
    pub fn shown(&self) -> &[Shown] {
        &self.shown
    }

    /// The questions, made as they are asked.
    pub fn questions(&self) -> Made<impl Fn(usize) -> Question + Sync + '_> {
        Made {
            count: self.index.len(),
            make: |at| {
                let (picture, part) = self.index[at];
                let mut all = self.of_picture(picture as usize);
                all.swap_remove(usize::from(part)).1
            },
        }
    }

    /// What kind of question each is, for tables: its setting, or that it is about an object or a relation.
    pub fn kinds(&self) -> Vec<&'static str> {
        let mut kinds = Vec::with_capacity(self.index.len());
        for (picture, shown) in self.shown.iter().enumerate() {
            let of = self.of_picture(picture);
            kinds.extend(of.iter().map(|(of, _)| match of {
                Of::Ots { .. } => match shown.prompt.relations.is_empty() {
                    true => "t2i_homogenization",
                    false => "t2i_correctness",
                },
                Of::Scene(Part::Object(_)) => "object",
                Of::Scene(Part::Relationship(..)) => "relation",
            }));
        }
        kinds
    }

    /// What the answers to all questions would be by what a checker says of each picture, as far as it says anything.
    pub(crate) fn answers_of(&self, checked: &[Checked]) -> Vec<Option<Answer>> {
        let mut answers = Vec::with_capacity(self.index.len());
        for (picture, shown) in self.shown.iter().enumerate() {
            let case = case(shown);
            let checked = checked.get(picture);
            answers.extend(
                self.of_picture(picture)
                    .into_iter()
                    .map(|(of, _)| match of {
                        Of::Ots { exchanged } => {
                            let code = checked?.code?;
                            let digits = (1..=3).map(Answer::Digit);
                            digits.into_iter().find(|digit| {
                                let says = case.as_ref().map(|case| case.code(*digit, exchanged).0);
                                says == Some(code)
                            })
                        }
                        Of::Scene(Part::Object(at)) => {
                            let found = checked?.objects.get(at).copied().flatten();
                            found.map(Answer::Yes)
                        }
                        // Which of the other relations is seen the checker does not say.
                        Of::Scene(Part::Relationship(at, right)) => {
                            let holds = checked?.relations.get(at).copied().flatten()?;
                            holds.then_some(Answer::Letter(right))
                        }
                    }),
            );
        }
        answers
    }

    fn of_picture(&self, picture: usize) -> Vec<(Of, Question)> {
        let Some(shown) = self.shown.get(picture) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        if self.which.has_ots()
            && let Some(case) = case(shown)
        {
            for exchanged in [false, true] {
                all.push((Of::Ots { exchanged }, case.question(picture, exchanged)));
            }
        }
        if self.which.has_scene()
            && let Some(graph) = graph(&shown.id, &shown.prompt.objects, &shown.prompt.relations)
        {
            let asked = asked(picture, &graph, &shown.prompt.prompt_id, &self.rules);
            all.extend(
                asked
                    .into_iter()
                    .map(|one| (Of::Scene(one.part), one.question)),
            );
        }
        all
    }

    /// What came of each picture's questions.
    pub fn results(&self, outcomes: &[Outcome]) -> Vec<OfPicture> {
        let mut results = vec![OfPicture::default(); self.shown.len()];
        let mut outcomes = outcomes.iter();
        for (picture, result) in results.iter_mut().enumerate() {
            for (of, _) in self.of_picture(picture) {
                let outcome = outcomes.next().cloned().unwrap_or(Outcome::Unasked);
                match of {
                    Of::Ots { exchanged } => {
                        let both = result
                            .ots
                            .get_or_insert([Outcome::Unasked, Outcome::Unasked]);
                        both[usize::from(exchanged)] = outcome;
                    }
                    Of::Scene(Part::Object(at)) => {
                        let found = result.found.get_or_insert_default();
                        put(
                            &mut found.objects,
                            at,
                            match outcome.answer() {
                                Some(Answer::Yes(yes)) => Some(yes),
                                _ => None,
                            },
                        );
                    }
                    Of::Scene(Part::Relationship(at, right)) => {
                        let found = result.found.get_or_insert_default();
                        put(
                            &mut found.relationships,
                            at,
                            match outcome.answer() {
                                Some(Answer::Letter(letter)) => Some(letter == right),
                                _ => None,
                            },
                        );
                    }
                }
            }
        }
        results
    }

    /// The cases of OTS-Bench among the pictures, with their places.
    pub fn cases(&self) -> Vec<(usize, Case)> {
        let of = |(at, shown): (usize, &Shown)| Some((at, case(shown)?));
        match self.which.has_ots() {
            true => self.shown.iter().enumerate().filter_map(of).collect(),
            false => Vec::new(),
        }
    }
}

fn put(values: &mut Vec<Option<bool>>, at: usize, value: Option<bool>) {
    if values.len() <= at {
        values.resize(at + 1, None);
    }
    values[at] = value;
}

/// Cases with what came of their questions.
pub fn judged<'a>(cases: &'a [(usize, Case)], results: &[OfPicture]) -> Vec<Judged<'a>> {
    let of = |(at, case): &'a (usize, Case)| {
        let [as_published, exchanged] = results.get(*at)?.ots.clone()?;
        Some(Judged {
            case,
            as_published,
            exchanged: Some(exchanged),
        })
    };
    cases.iter().filter_map(of).collect()
}

fn case(shown: &Shown) -> Option<Case> {
    let mut case = ots::from_prompt(&shown.prompt)?;
    case.id.clone_from(&shown.id);
    case.method = Some(shown.method.clone());
    Some(case)
}

/// The scene graph of a prompt; none without objects. Relations between more than two are left out.
pub fn graph(id: &str, objects: &[String], relations: &[StatedRelation]) -> Option<Graph> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let numbered = objects.iter().map(|name| {
        let count = counts.entry(name.as_str()).or_default();
        *count += 1;
        format!("{name}.{count}")
    });
    let numbered: Vec<String> = numbered.collect();
    let relationship = |stated: &StatedRelation| {
        let (subject, object) = stated.two()?;
        Some(Relationship {
            source: numbered.get(subject)?.clone(),
            target: numbered.get(object)?.clone(),
            relation: stated.relation.to_string(),
        })
    };
    let mut seen = HashSet::new();
    let relationships = relations.iter().filter_map(relationship);
    let relationships = relationships
        .filter(|edge| edge.source != edge.target && seen.insert(edge.clone()))
        .collect();
    (!objects.is_empty()).then(|| Graph {
        id: id.to_owned(),
        picture: None,
        objects: numbered.clone(),
        relationships,
    })
}

/// The questions about a graph of our relations. Wrong options are drawn by the prompt's name, so that all pictures of a
/// prompt are asked the same.
fn asked(picture: usize, graph: &Graph, prompt_id: &str, rules: &Rules) -> Vec<Asked> {
    let of_prompt = Graph {
        id: prompt_id.to_owned(),
        ..graph.clone()
    };
    let mut asked = questions_with(&of_prompt, picture, &|edge| beside(&edge.relation), rules);
    for one in &mut asked {
        let (_, part) = one.question.id.split_once('#').unwrap_or_default();
        one.question.id = format!("{}#{part}", graph.id);
    }
    asked
}

/// The relations that cannot hold beside one.
fn beside(relation: &str) -> Vec<String> {
    use Relation::{Above, Behind, Below, Far, InFrontOf, LeftOf, Near, RightOf};
    const DIAGONAL: [Relation; 4] = [
        Relation::AboveLeft,
        Relation::AboveRight,
        Relation::BelowLeft,
        Relation::BelowRight,
    ];
    let groups: [&[Relation]; 4] = [
        &[LeftOf, RightOf, Above, Below],
        &DIAGONAL,
        &[InFrontOf, Behind],
        &[Near, Far],
    ];
    let has = |group: &&[Relation]| group.iter().any(|one| one.to_string() == relation);
    let group = groups.into_iter().find(has).unwrap_or_default();
    group.iter().map(ToString::to_string).collect()
}

/// How good the picture of a scene is, for searches: SGScore, α = 0.5; none if nothing was asked. What is asked is what
/// [`Asking`] asks with [`Which::Scene`]. An invalid answer counts as nothing seen: if it did not count, as in tables, a
/// picture would gain by it.
pub fn reward(result: &OfPicture) -> Option<f64> {
    let found = result.found.as_ref()?;
    let seen = |answers: &[Option<bool>]| -> Vec<Option<bool>> {
        let answers = answers.iter();
        answers.map(|one| Some(*one == Some(true))).collect()
    };
    let found = Found {
        objects: seen(&found.objects),
        relationships: seen(&found.relationships),
    };
    found.sgscore(0.5)
}

/// A picture of a scene that was read from words.
pub fn of_scene(id: &str, prompt: &str, scene: &Scene) -> Shown {
    Shown {
        id: id.to_owned(),
        method: String::new(),
        prompt: SuitePrompt {
            prompt_id: prompt.to_owned(),
            prompt: prompt.to_owned(),
            objects: (scene.objects.iter())
                .map(|object| object.noun.clone())
                .collect(),
            relations: scene.relations.clone(),
            ..SuitePrompt::default()
        },
    }
}
