//! GLIGEN (Li et al. 2023): objects are put into boxes by layers of the network that were trained for it, not by a
//! gradient. It goes together with every method of guidance.

use prepose_models::unet::MOST_OBJECTS;
use serde::{Deserialize, Serialize};

use super::GuidanceError;
use super::boxes::{BBox, ObjectBox};
use crate::prompt::scene::{ObjectName, Scene};

/// How objects are put into boxes by GLIGEN's layers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grounding {
    /// The share of the steps, from the first on, in which the layers act; afterwards the network is as it was without
    /// them.
    pub share: f64,
}

impl Default for Grounding {
    /// As published, by the authors as by SpatialBench-UC.
    fn default() -> Self {
        Self { share: 0.3 }
    }
}

impl Grounding {
    /// In how many of `steps` steps the layers act.
    pub fn steps(&self, steps: usize) -> usize {
        (self.share * steps as f64) as usize
    }

    /// Phrases with their boxes: those of `boxes`, or without any the SpatialBench-UC layout of the scene's only relation
    /// ([`BBox::layout`]), where an object is "a" with its phrase as the benchmark says it. The number of `dog#2` is no part of
    /// the phrase.
    ///
    /// # Errors
    /// A share that is none, no boxes and no layout, more boxes than the layers have places.
    pub fn objects(
        &self,
        boxes: &[ObjectBox],
        scene: impl FnOnce() -> Result<Scene, GuidanceError>,
    ) -> Result<Vec<ObjectBox>, GuidanceError> {
        if !(0.0..=1.0).contains(&self.share) {
            return Err(GuidanceError::Range {
                name: "the share of grounded steps",
                value: self.share.to_string(),
                range: "between 0 and 1",
            });
        }
        if boxes.len() > MOST_OBJECTS {
            return Err(GuidanceError::TooManyBoxes { boxes: boxes.len() });
        }
        if !boxes.is_empty() {
            let told = |given: &ObjectBox| ObjectBox {
                object: ObjectName::read(&given.object).phrase.to_owned(),
                bbox: given.bbox,
            };
            return Ok(boxes.iter().map(told).collect());
        }
        let scene = scene()?;
        let [stated] = scene.relations.as_slice() else {
            return Err(GuidanceError::GroundingNeedsBoxes);
        };
        let (Some(layout), &[other]) = (BBox::layout(stated.relation), stated.objects.as_slice())
        else {
            return Err(GuidanceError::GroundingNeedsBoxes);
        };
        let placed = [stated.subject, other].into_iter().zip(layout);
        Ok(placed
            .map(|(object, bbox)| ObjectBox {
                object: format!("a {}", scene.objects[object].phrase),
                bbox,
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(boxes: &[ObjectBox], share: f64, prompt: &str) -> Result<Vec<ObjectBox>, String> {
        let scene = || Scene::parse(prompt).map_err(GuidanceError::from);
        let found = Grounding { share }.objects(boxes, scene);
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn the_share_of_steps_is_rounded_down() {
        let steps = |share, steps| Grounding { share }.steps(steps);
        // 50 steps of DDIM, and PNDM's list of 51 for 50 and 31 for 30.
        assert_eq!([0.0, 0.3, 1.0].map(|share| steps(share, 50)), [0, 15, 50]);
        assert_eq!([0.0, 0.3, 1.0].map(|share| steps(share, 51)), [0, 15, 51]);
        assert_eq!(steps(0.3, 31), 9);
    }

    #[test]
    fn boxes_come_from_the_user_or_from_the_layout() {
        let given: ObjectBox = "two dogs: 0,0,0.5,0.5".parse().unwrap();
        let found = objects(std::slice::from_ref(&given), 0.3, "anything").unwrap();
        assert_eq!(found, std::slice::from_ref(&given));
        let second: ObjectBox = "dog#2: 0,0,0.5,0.5".parse().unwrap();
        assert_eq!(objects(&[second], 0.3, "").unwrap()[0].object, "dog");
        let found = objects(&[], 0.3, "a photo of a cake to the left of a bed").unwrap();
        let phrases: Vec<&str> = found.iter().map(|object| &*object.object).collect();
        assert_eq!(phrases, ["a cake", "a bed"]);
        assert_eq!(found[0].bbox.corners(), [0.05, 0.25, 0.35, 0.75]);
    }

    #[test]
    fn what_cannot_be_grounded_is_refused() {
        let refused =
            |boxes: &[ObjectBox], share, prompt| objects(boxes, share, prompt).unwrap_err();
        let one: ObjectBox = "dog: 0,0,1,1".parse().unwrap();
        assert!(refused(&vec![one.clone(); 31], 0.3, "").contains("31 boxes"));
        assert!(objects(&vec![one.clone(); 30], 0.3, "").is_ok());
        for share in [-0.1, 1.5, f64::NAN] {
            let one = std::slice::from_ref(&one);
            assert!(
                refused(one, share, "").contains("between 0 and 1"),
                "{share}"
            );
        }
        for prompt in [
            "a dog",
            "a dog near a cat",
            "a dog left of a cat and a bird above a cat",
        ] {
            assert!(refused(&[], 0.3, prompt).contains("--box"), "{prompt}");
        }
    }
}
