//! What a rule scores: a picture's detections and what was asked for.

use std::path::PathBuf;
use std::sync::Arc;

use super::depth::DepthMap;
use super::{Options, RuleError};
use crate::{BoundingBox, Detection, Mask};
use prepose_scene::{Relation, Scene, StatedRelation};

/// A picture, by what was asked for and what was found in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Case {
    /// What the picture is called in results.
    pub id: String,
    /// What pictures of one prompt share, for rules that count prompts.
    pub prompt_id: String,
    /// The prompt as typed, where it is known.
    pub prompt: Option<String>,
    /// Width and height in pixels.
    pub size: Option<(usize, usize)>,
    /// What was asked for, in the order of mention.
    pub objects: Vec<Wanted>,
    /// What was asked for and the detector that looked has no label for, so that nobody can say whether it is there.
    pub unknown: Vec<String>,
    /// How they should stand; indices into [`objects`](Self::objects).
    pub relations: Vec<StatedRelation>,
    /// What was found, in any order.
    pub detections: Vec<Detection>,
    /// How far away things are.
    pub depth: Option<Arc<DepthMap>>,
    /// The picture's file, where it is known.
    pub picture: Option<PathBuf>,
    /// What a judge said of the picture.
    pub label: Option<Label>,
}

/// An object that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The detector's label for it; upper and lower case are the same.
    pub name: String,
    /// How many, at least.
    pub count: usize,
}

impl Wanted {
    /// One of that name.
    pub fn one(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { name, count: 1 }
    }
}

/// What OTS-Bench's judge said of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// What it was asked about.
    pub task: Task,
    /// Its answer, as a number.
    pub code: u8,
}

/// Whether a picture was made from text alone; the judge's codes of the two are not the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// Text to image.
    #[default]
    TextToImage,
    /// Image to image.
    ImageToImage,
}

impl Case {
    /// The picture of a prompt's scene; objects are looked for by their nouns.
    pub fn of_scene(id: impl Into<String>, scene: &Scene, detections: Vec<Detection>) -> Self {
        let wanted = |object: &prepose_scene::SceneObject| Wanted {
            name: object.noun.clone(),
            count: object.count.unwrap_or(1),
        };
        let id = id.into();
        Self {
            prompt_id: id.clone(),
            id,
            objects: scene.objects.iter().map(wanted).collect(),
            relations: scene.relations.clone(),
            detections,
            ..Self::default()
        }
    }

    /// The picture, if the detector that looked has labels for all that the relations are between, or where there are none,
    /// for all that was asked for.
    ///
    /// # Errors
    /// [`RuleError::Unknown`].
    pub fn known(self) -> Result<Self, RuleError> {
        let same = |a: &str, b: &str| a.to_lowercase() == b.to_lowercase();
        let is_between = |unknown: &String| {
            let mut between = self.relations.iter().flat_map(|stated| {
                std::iter::once(stated.subject).chain(stated.objects.iter().copied())
            });
            between.any(|object| same(self.name_of(object), unknown))
        };
        // One that is none of the objects is called otherwise among them, and nobody knows which it is.
        let is_elsewhere = |unknown: &String| {
            let mut objects = self.objects.iter();
            objects.any(|object| same(&object.name, unknown)) && !is_between(unknown)
        };
        let is_known = match self.relations.is_empty() {
            true => self.unknown.is_empty(),
            false => self.unknown.iter().all(is_elsewhere),
        };
        match is_known {
            true => Ok(self),
            false => Err(RuleError::Unknown(self.unknown)),
        }
    }

    /// The detections of an object with a score above `cut`, best first; equal scores stay in the detector's order.
    pub fn found(&self, name: &str, cut: f64) -> Vec<&Detection> {
        let is = |detection: &&Detection| {
            detection.label.trim().to_lowercase() == name.to_lowercase() && detection.score > cut
        };
        let mut found: Vec<&Detection> = self.detections.iter().filter(is).collect();
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found
    }

    /// The only relation, one of `known` and between two objects of different names: subject, relation, object.
    ///
    /// # Errors
    /// There is none or more than one, or it is another.
    pub(super) fn only_relation(
        &self,
        rule: &'static str,
        known: &'static [Relation],
    ) -> Result<(&str, Relation, &str), RuleError> {
        let (subject, relation, object) = self.only_pair(rule, known)?;
        if subject.eq_ignore_ascii_case(object) {
            return Err(RuleError::SameName(subject.to_owned()));
        }
        Ok((subject, relation, object))
    }

    /// As [`only_relation`](Self::only_relation), whatever the names.
    pub(super) fn only_pair(
        &self,
        rule: &'static str,
        known: &'static [Relation],
    ) -> Result<(&str, Relation, &str), RuleError> {
        match self.relations.as_slice() {
            [] => Err(RuleError::NoRelation),
            [stated] => {
                let (subject, object) = self.names(stated, rule, known)?;
                Ok((subject, stated.relation, object))
            }
            more => Err(RuleError::TooManyRelations {
                rule,
                found: more.len(),
            }),
        }
    }

    /// The names of a relation's subject and its one object, if the relation is one of `known`.
    pub(super) fn names(
        &self,
        stated: &StatedRelation,
        rule: &'static str,
        known: &'static [Relation],
    ) -> Result<(&str, &str), RuleError> {
        match stated.objects.as_slice() {
            [object] if known.contains(&stated.relation) => {
                Ok((self.name_of(stated.subject), self.name_of(*object)))
            }
            _ => Err(RuleError::UnknownRelation {
                rule,
                relation: stated.relation,
                known,
            }),
        }
    }

    /// The name of the object with that index; empty if there is none.
    pub(super) fn name_of(&self, object: usize) -> &str {
        self.objects
            .get(object)
            .map_or("", |object| object.name.as_str())
    }

    /// The pixels that the detections cover together: their masks, and their boxes where they have none. None without
    /// any.
    ///
    /// # Errors
    /// Masks of different sizes.
    pub(super) fn cover(&self, found: &[&Detection]) -> Result<Option<Mask>, RuleError> {
        if found.is_empty() {
            return Ok(None);
        }
        let size = self.extent()?;
        let mut covered = vec![false; size.0 * size.1];
        for detection in found {
            match &detection.mask {
                Some(mask) => {
                    for (all, own) in covered.iter_mut().zip(mask.pixels()) {
                        *all |= own;
                    }
                }
                None => cover_box(&mut covered, size, &detection.bbox),
            }
        }
        Ok(Mask::new(size.0, size.1, covered).ok())
    }

    /// The picture's width and height: as given, of its masks, or as far as its boxes go.
    pub(super) fn extent(&self) -> Result<(usize, usize), RuleError> {
        let mut extent = self.size;
        for mask in self.detections.iter().filter_map(|d| d.mask.as_ref()) {
            let mask = (mask.width(), mask.height());
            let picture = *extent.get_or_insert(mask);
            if picture != mask {
                return Err(RuleError::MaskSize { mask, picture });
            }
        }
        let furthest = |edge: fn(&BoundingBox) -> f64| {
            let edges = self.detections.iter().map(|d| edge(&d.bbox).ceil());
            // No picture is that large; a cast of anything larger or of a NaN is harmless.
            edges.fold(0.0, f64::max).min(16_384.0) as usize
        };
        Ok(extent.unwrap_or_else(|| (furthest(|b| b.x1), furthest(|b| b.y1))))
    }

    /// The detections of an object whose score exceeds `cut`, or what the options say instead; best first.
    pub(super) fn found_with(&self, name: &str, options: &Options, cut: f64) -> Vec<&Detection> {
        self.found(name, options.cut(cut))
    }
}

/// Covers the pixels whose centres lie in the box.
fn cover_box(covered: &mut [bool], (width, height): (usize, usize), bbox: &BoundingBox) {
    // The first pixel whose centre is at or after the edge; casts take what lies outside to the border.
    let first = |edge: f64, most: usize| ((edge - 0.5).ceil() as usize).min(most);
    let columns = first(bbox.x0, width)..first(bbox.x1, width);
    for y in first(bbox.y0, height)..first(bbox.y1, height) {
        if columns.start < columns.end {
            covered[y * width + columns.start..y * width + columns.end].fill(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_covers_the_pixels_whose_centres_it_holds() {
        let covers = |bbox| {
            let mut covered = vec![false; 12];
            cover_box(&mut covered, (4, 3), &bbox);
            Mask::new(4, 3, covered).unwrap()
        };
        let mask = covers(BoundingBox::new(0.5, 1.0, 2.4, 2.6));
        assert_eq!(mask.x_profile(), [2.0, 2.0, 0.0, 0.0]);
        assert_eq!(mask.y_profile(), [0.0, 2.0, 2.0]);
        assert_eq!(covers(BoundingBox::new(-5.0, -5.0, 99.0, 99.0)).area(), 12);
        assert_eq!(covers(BoundingBox::new(3.0, 0.0, 1.0, 3.0)).area(), 0);
        assert_eq!(covers(BoundingBox::new(f64::NAN, 0.0, 1.0, 3.0)).area(), 3);
    }

    #[test]
    fn detections_of_a_name_come_best_first() {
        let detection = |label: &str, score| Detection {
            label: label.to_owned(),
            score,
            bbox: BoundingBox::new(0.0, 0.0, 1.0, 1.0),
            mask: None,
        };
        let case = Case {
            detections: vec![
                detection("Dog", 0.2),
                detection("cat", 0.9),
                detection("dog ", 0.7),
                detection("hot dog", 0.9),
                detection("dog", 0.1),
            ],
            ..Case::default()
        };
        let found = case.found("dog", 0.1).into_iter();
        assert_eq!(found.map(|d| d.score).collect::<Vec<_>>(), [0.7, 0.2]);
    }
}
