//! What guidance should achieve in one picture.

use prepose_weights::tokenizer::ClipTokenizer;

use super::boxes::{BBox, ObjectBox};
use super::{GuidanceError, Method, Needs, Settings};
use crate::prompt::Prompt;
use crate::prompt::scene::{ObjectName, Relation, Scene, StatedRelation, TokenPolicy};

/// What guidance should achieve in one picture. The default asks for nothing, and such a picture is left alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    /// The objects that are guided.
    pub objects: Vec<TargetObject>,
    /// How they should stand to each other, by index into `objects`.
    pub relations: Vec<StatedRelation>,
    /// Positions of the tokens of text in the conditioning sequence, without start, end and padding.
    pub text: Vec<usize>,
    /// Tokens in each chunk of that sequence, start and end included; 0 for a sequence of one chunk.
    pub chunk: usize,
}

/// An object that is guided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetObject {
    /// Positions of its tokens in the conditioning sequence.
    pub positions: Vec<usize>,
    /// Where it belongs.
    pub bbox: Option<BBox>,
}

impl Target {
    /// What `settings` should achieve for `prompt`, whose objects and relations are `scene`. Methods that need boxes
    /// take `boxes`, or, without any, the SpatialBench-UC layout of the only relation ([`BBox::layout`]).
    ///
    /// # Errors
    /// What the method needs is not there: a relation in the plane, boxes, enough objects; a box for something that the
    /// prompt does not name, or names several times, or two for the same.
    pub fn new(
        settings: &Settings,
        prompt: &str,
        scene: &Scene,
        boxes: &[ObjectBox],
        tokenizer: &ClipTokenizer,
    ) -> Result<Self, GuidanceError> {
        let method = settings.method;
        if method.needs() != Needs::Boxes && !boxes.is_empty() {
            return Err(GuidanceError::Unread {
                option: "box",
                method,
            });
        }
        let parsed = Prompt::parse(prompt, tokenizer)?;
        let mut target = Self {
            text: text_positions(&parsed),
            chunk: tokenizer.max_length(),
            ..Self::default()
        };
        for object in &scene.objects {
            let positions = parsed.positions_of(object, settings.tokens)?;
            target.objects.push(TargetObject {
                positions,
                bbox: None,
            });
        }
        match method.needs() {
            Needs::Relations => {
                check_relations(scene)?;
                target.relations = scene.relations.clone();
            }
            Needs::Objects(_) if target.objects.is_empty() => return Err(GuidanceError::NoObject),
            Needs::Objects(least) if target.objects.len() < least => {
                let found = target.objects.len();
                return Err(GuidanceError::FewObjects {
                    method,
                    least,
                    found,
                });
            }
            Needs::Objects(_) => {}
            Needs::Boxes if boxes.is_empty() => target.lay_out(method, scene)?,
            Needs::Boxes => {
                for given in boxes {
                    let object = target.find(given, scene, &parsed, tokenizer, settings.tokens)?;
                    let bbox = &mut target.objects[object].bbox;
                    if bbox.replace(given.bbox).is_some() {
                        return Err(GuidanceError::TwoBoxes(given.object.clone()));
                    }
                }
            }
        }
        Ok(target)
    }

    /// Boxes by the SpatialBench-UC layout.
    fn lay_out(&mut self, method: Method, scene: &Scene) -> Result<(), GuidanceError> {
        let needed = GuidanceError::NeedsBoxes { method };
        let [stated] = scene.relations.as_slice() else {
            return Err(needed);
        };
        let ([subject, object], &[other]) = (
            BBox::layout(stated.relation).ok_or(needed)?,
            stated.objects.as_slice(),
        ) else {
            return Err(GuidanceError::NeedsBoxes { method });
        };
        self.objects[stated.subject].bbox = Some(subject);
        self.objects[other].bbox = Some(object);
        Ok(())
    }

    /// The index of the object that a box is for: by phrase, by noun, or any words of the prompt, which then become an
    /// object; `dog#2` is the second of several, and `a dog` is `dog`, as objects' phrases have no article.
    fn find(
        &mut self,
        given: &ObjectBox,
        scene: &Scene,
        prompt: &Prompt,
        tokenizer: &ClipTokenizer,
        policy: TokenPolicy,
    ) -> Result<usize, GuidanceError> {
        let name = ObjectName::read(&given.object);
        let core = name.core()?;
        let mut found = scene.named(&name.phrase.to_lowercase());
        if found.is_empty() {
            found = scene.named(&core.to_lowercase());
        }
        if !found.is_empty() {
            return Ok(found[name.among(found.len(), None)?]);
        }
        let mut spans = prompt.occurrences(&core, tokenizer)?;
        if spans.is_empty() {
            // Marks such as apostrophes are lost among the core's words.
            spans = prompt.occurrences(name.phrase, tokenizer)?;
        }
        if spans.is_empty() {
            return Err(GuidanceError::BoxWithoutObject(given.object.clone()));
        }
        let occurrence = name.among(spans.len(), None)?;
        let mut positions = spans.swap_remove(occurrence).positions;
        if policy == TokenPolicy::First {
            positions.truncate(1);
        }
        let read = scene.objects.len();
        let known = self.objects[read..]
            .iter()
            .position(|object| object.positions == positions);
        if let Some(known) = known {
            return Ok(read + known);
        }
        self.objects.push(TargetObject {
            positions,
            bbox: None,
        });
        Ok(self.objects.len() - 1)
    }

    /// Token positions of all objects.
    pub(super) fn positions(&self) -> Vec<Vec<usize>> {
        let objects = self.objects.iter();
        objects.map(|object| object.positions.clone()).collect()
    }

    /// Token positions and boxes of the objects that have a box.
    pub(super) fn boxed(&self) -> (Vec<Vec<usize>>, Vec<BBox>) {
        let boxed = |object: &TargetObject| Some((object.positions.clone(), object.bbox?));
        self.objects.iter().filter_map(boxed).unzip()
    }
}

/// Refuses scenes that maps, which are flat, cannot show.
fn check_relations(scene: &Scene) -> Result<(), GuidanceError> {
    if scene.relations.is_empty() {
        return Err(GuidanceError::NoRelation);
    }
    let deep = |relation: Relation| matches!(relation, Relation::InFrontOf | Relation::Behind);
    match scene.relations.iter().find(|stated| deep(stated.relation)) {
        Some(stated) => Err(GuidanceError::NotInThePlane(stated.relation)),
        None => Ok(()),
    }
}

fn text_positions(prompt: &Prompt) -> Vec<usize> {
    let mut positions = Vec::new();
    let mut start = 0;
    for chunk in prompt.iter_chunks() {
        positions.extend(start + 1..start + chunk.eos_position);
        start += chunk.ids.len();
    }
    positions
}
