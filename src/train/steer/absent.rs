//! Words for what is not in a picture.
//!
//! Few pictures lack just one of their two objects, so that a classifier learns little of that; guidance by it then gives up
//! an object to set the other right. A picture of two objects, under a prompt in which a third one stands for one of them, is
//! a picture in which just one of two is there.

use std::collections::{BTreeSet, HashSet};

use prepose_optimizer::draws::{Draws, Purpose};

use super::{Shown, pair};
use crate::guidance::classifier::{NONE, classes};

/// What a checker saw in a picture.
#[derive(Clone, Debug)]
pub struct Looked {
    /// What is learned from it.
    pub shown: Shown,
    /// The labels of everything that was detected.
    pub labels: Vec<String>,
}

/// For a share of the pictures with a relation: the same picture once more, with one object's word exchanged for that of an
/// object which is not there. No pair of `left_out` (sorted, lower case) comes about.
pub fn absent(
    pictures: &[Looked],
    left_out: &HashSet<[String; 2]>,
    share: f64,
    seed: Draws,
) -> Vec<Shown> {
    let Some(none) = classes().iter().position(|class| class == NONE) else {
        return Vec::new();
    };
    let labels: BTreeSet<&String> = pictures.iter().flat_map(|one| &one.labels).collect();
    let objects = pictures.iter().flat_map(|one| &one.shown.objects);
    // A detector that names things otherwise than the prompts cannot say that they are not there.
    let known: BTreeSet<&String> = objects.filter(|object| labels.contains(object)).collect();
    let mut found = Vec::new();
    for (number, picture) in pictures.iter().enumerate() {
        let draw = |of: u64| seed.uniform(Purpose::Absent, 3 * number as u64 + of);
        if picture.shown.class == none || draw(0) >= share {
            continue;
        }
        let exchanged = usize::from(draw(1) < 0.5);
        let with = |object: &String| {
            let mut shown = picture.shown.clone();
            shown.objects[exchanged] = object.clone();
            shown.class = none;
            shown
        };
        let is_possible = |shown: &Shown| {
            let object = &shown.objects[exchanged];
            !picture.labels.contains(object)
                && !picture.shown.objects.contains(object)
                && !left_out.contains(&pair(shown).map(|word| word.to_lowercase()))
        };
        let mut possible: Vec<Shown> = known.iter().map(|object| with(object)).collect();
        possible.retain(is_possible);
        if !possible.is_empty() {
            let at = (draw(2) * possible.len() as f64) as usize;
            found.push(possible.swap_remove(at));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(objects: [&str; 2], class: usize, labels: &[&str]) -> Looked {
        Looked {
            shown: Shown {
                file: "picture.png".into(),
                objects: objects.map(str::to_owned),
                class,
            },
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        }
    }

    #[test]
    fn one_word_is_of_something_that_is_not_there() {
        let mut pictures = Vec::new();
        for _ in 0..40 {
            pictures.push(looked(["cat", "dog"], 0, &["cat", "dog", "cow"]));
            pictures.push(looked(["bird", "cup"], 2, &["bird", "cup"]));
            // The detector has no word for it.
            pictures.push(looked(["cow", "sofa"], 1, &["cow", "couch"]));
            pictures.push(looked(["cow", "cat"], 4, &["cow"]));
        }
        let left_out = HashSet::from([["bird", "cat"].map(str::to_owned)]);
        let all = absent(&pictures, &left_out, 1.0, Draws(1));
        assert_eq!(all.len(), 120);
        let pairs: HashSet<[&str; 2]> = (all.iter())
            .map(|shown| {
                assert_eq!(shown.class, 4);
                [0, 1].map(|at| shown.objects[at].as_str())
            })
            .collect();
        let expected = HashSet::from([
            ["cup", "dog"],
            ["bird", "dog"],
            ["cat", "cup"],
            ["cow", "cup"],
            ["dog", "cup"],
            ["bird", "cow"],
            ["bird", "dog"],
        ]);
        assert!(!pairs.contains(&["bird", "cat"]), "{pairs:?}");
        assert!(pairs.iter().all(|pair| !pair.contains(&"couch")));
        assert!(
            expected.iter().filter(|pair| pairs.contains(*pair)).count() >= 5,
            "{pairs:?}"
        );
        let some = absent(&pictures, &left_out, 0.25, Draws(1)).len();
        assert!((15..=45).contains(&some), "{some}");
        assert!(absent(&pictures, &left_out, 0.0, Draws(1)).is_empty());
    }
}
