//! Which pairs are trained on, and which are measured.

use std::collections::HashSet;

use anyhow::ensure;
use prepose::prompt::scene::{Relation, StatedRelation};
use prepose::suite::{Suite, SuitePrompt};
use prepose::train::dataset::pairs::with_relation;

/// The prompts of a cure; no pair of objects that is measured is trained on.
pub struct Split {
    /// Neutral pairs that training pictures are made of.
    pub train: Suite,
    /// Neutral pairs that are measured.
    pub neutral: Suite,
    /// The same pairs, with a side.
    pub stated: Suite,
}

/// Two objects, whatever their order.
pub type Names = [String; 2];

pub fn names(prompt: &SuitePrompt) -> Option<Names> {
    let [a, b] = prompt.objects.as_slice() else {
        return None;
    };
    let mut names = [a.to_lowercase(), b.to_lowercase()];
    names.sort_unstable();
    Some(names)
}

impl Split {
    /// Of a set of neutral pairs in both orders; `taken` are pairs that pictures are there of, and that are trained on.
    ///
    /// # Errors
    /// Prompts that are no neutral pairs, or too few of them.
    pub fn new(
        suite: &Suite,
        taken: Option<&HashSet<Names>>,
        most_pairs: usize,
        most_prompts: usize,
    ) -> anyhow::Result<Self> {
        let neutral =
            |prompt: &SuitePrompt| prompt.objects.len() == 2 && prompt.relations.is_empty();
        ensure!(
            suite.prompts.iter().all(neutral),
            "{} has prompts that do not just name two objects; ots-objects and ots-bench are sets of neutral pairs",
            suite.name
        );
        let part = |what: &str, wanted: &dyn Fn(&Names) -> bool, most: usize| {
            let mut part = suite.clone();
            part.name = format!("{}-{what}", suite.name);
            part.pictures_per_prompt = 1;
            part.prompts
                .retain(|prompt| names(prompt).is_some_and(|names| wanted(&names)));
            part.thin(part.prompts.len() / most.max(1), Some(most));
            part
        };
        let is_taken = |names: &Names| taken.is_some_and(|taken| taken.contains(names));
        let neutral = part("measured", &|names| !is_taken(names), most_prompts);
        let held_out: HashSet<Names> = neutral.prompts.iter().filter_map(names).collect();
        let train = match taken {
            Some(_) => part("pairs", &|_| false, 1),
            None => part("pairs", &|names| !held_out.contains(names), 2 * most_pairs),
        };
        ensure!(
            !neutral.prompts.is_empty() && (taken.is_some() || !train.prompts.is_empty()),
            "{} has too few pairs to train on some and to measure others; take fewer of them with --most-prompts",
            suite.name
        );
        let stated = stated(&neutral);
        ensure!(
            !stated.prompts.is_empty(),
            "no prompt of {} joins its objects by \"and\", as \"a dog and a cat\", so none can say a side instead",
            suite.name
        );
        Ok(Self {
            train,
            neutral,
            stated,
        })
    }
}

/// Each prompt with a side: of every pair that the left one is first in one of its two, and the right one in the other.
fn stated(neutral: &Suite) -> Suite {
    let prompt = |(at, prompt): (usize, &SuitePrompt)| {
        let (relation, word) = match (at / 2 + at).is_multiple_of(2) {
            true => (Relation::LeftOf, "left"),
            false => (Relation::RightOf, "right"),
        };
        Some(SuitePrompt {
            prompt_id: format!("{}_{word}", prompt.prompt_id),
            prompt: with_relation(&prompt.prompt, relation)?,
            objects: prompt.objects.clone(),
            relations: vec![StatedRelation::of_two(0, relation, 1)],
            tags: prompt.tags.clone(),
            ..SuitePrompt::default()
        })
    };
    Suite {
        name: format!("{}-stated", neutral.name),
        version: neutral.version.clone(),
        prompts: neutral
            .prompts
            .iter()
            .enumerate()
            .filter_map(prompt)
            .collect(),
        pictures_per_prompt: 1,
    }
}

#[cfg(test)]
mod tests {
    use prepose::suite::sets;

    use super::*;

    #[test]
    fn no_pair_is_trained_on_and_measured() {
        let suite = sets::open("ots-objects").unwrap();
        let split = Split::new(&suite, None, 30, 40).unwrap();
        let of =
            |suite: &Suite| -> HashSet<Names> { suite.prompts.iter().filter_map(names).collect() };
        assert_eq!(
            (split.train.prompts.len(), of(&split.train).len()),
            (60, 30)
        );
        assert_eq!(
            (split.neutral.prompts.len(), of(&split.neutral).len()),
            (40, 20)
        );
        assert!(of(&split.train).is_disjoint(&of(&split.neutral)));
        assert_eq!(of(&split.stated), of(&split.neutral));
        // Of each pair both say the same, in the one order and in the other, and both words come as often.
        let left = |prompt: &&SuitePrompt| prompt.relations[0].relation == Relation::LeftOf;
        assert_eq!(split.stated.prompts.iter().filter(left).count(), 20);
        for pair in split.stated.prompts.chunks_exact(2) {
            assert_ne!(left(&&pair[0]), left(&&pair[1]));
            assert_eq!(pair[0].objects[0], pair[1].objects[1]);
        }
        assert!(split.stated.prompts[0].prompt.contains(" to the "));

        let taken = of(&split.neutral);
        let other = Split::new(&suite, Some(&taken), 30, 40).unwrap();
        assert!(other.train.prompts.is_empty() && of(&other.neutral).is_disjoint(&taken));
        let relations = sets::open("spatialbench-uc").unwrap();
        let Err(error) = Split::new(&relations, None, 30, 40) else {
            panic!("it has relations");
        };
        assert!(error.to_string().contains("neutral pairs"), "{error}");
    }
}
