//! What must hold in every set: names, objects, relations and counterparts fit the texts.

use std::collections::{BTreeMap, HashMap, HashSet};

use prepose::prompt::neutral::{neutral, swapped};
use prepose::prompt::scene::{Relation, Scene};
use prepose::suite::SuitePrompt;
use prepose::suite::sets::SETS;

use super::suite;

/// Names are unique and fit for files, objects are in the order of mention, and counterparts are mutual.
#[test]
fn every_set_is_sound() {
    for set in SETS {
        let suite = set.suite();
        let by_id: HashMap<&str, &SuitePrompt> = (suite.prompts.iter())
            .map(|prompt| (prompt.prompt_id.as_str(), prompt))
            .collect();
        assert_eq!(by_id.len(), suite.prompts.len(), "{}", set.name);
        for prompt in &suite.prompts {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            assert!(prompt.prompt_id.chars().all(plain), "{prompt:?}");
            let mut rest = prompt.prompt.as_str();
            for object in &prompt.objects {
                let (_, after) = rest
                    .split_once(object.as_str())
                    .unwrap_or_else(|| panic!("{object:?} in {prompt:?}"));
                rest = after;
            }
            if let Some(other) = &prompt.counterpart {
                let other = by_id[other.as_str()];
                assert_eq!(other.counterpart.as_ref(), Some(&prompt.prompt_id));
                let reversed: Vec<_> = other.objects.iter().rev().cloned().collect();
                assert_eq!(prompt.objects, reversed);
            }
        }
    }
}

/// What each set says of its prompts is what is read from their texts.
#[test]
fn every_prompt_reads_as_its_set_says() {
    for set in SETS {
        let mut wrong = Vec::new();
        for prompt in set.suite().prompts {
            let scene = match Scene::parse(&prompt.prompt) {
                Ok(scene) => scene,
                Err(error) => {
                    wrong.push(format!("{:?}: {error}", prompt.prompt));
                    continue;
                }
            };
            let objects: Vec<String> = (scene.objects.iter())
                .map(|object| object.phrase.clone())
                .collect();
            let relations = scene.relations;
            if (&objects, &relations) != (&prompt.objects, &prompt.relations) {
                wrong.push(format!("{:?} as {objects:?} {relations:?}", prompt.prompt));
            }
        }
        let few = &wrong[..wrong.len().min(10)];
        assert!(
            wrong.is_empty(),
            "{}: {} prompts, such as {few:#?}",
            set.name,
            wrong.len()
        );
    }
}

/// Every pair without a relation has a neutral form and one in the other order, which its counterpart is.
#[test]
fn neutral_pairs_can_be_swapped_and_made_neutral() {
    for set in SETS.iter().filter(|set| set.name.starts_with("ots-")) {
        let suite = set.suite();
        let texts: HashMap<&str, &str> = (suite.prompts.iter())
            .map(|prompt| (prompt.prompt_id.as_str(), prompt.prompt.as_str()))
            .collect();
        let mut neutrals: BTreeMap<String, usize> = BTreeMap::new();
        for prompt in &suite.prompts {
            let other = texts[prompt.counterpart.as_deref().unwrap()];
            assert_eq!(swapped(&prompt.prompt).unwrap(), other);
            let text = neutral(&prompt.prompt).unwrap();
            assert_eq!(text, neutral(other).unwrap());
            for object in &prompt.objects {
                let words: HashSet<&str> = text.split([' ', '.', ',']).collect();
                assert!(!words.contains(object.as_str()), "{prompt:?}: {text:?}");
            }
            *neutrals.entry(text).or_default() += 1;
        }
        println!("{}: {neutrals:#?}", set.name);
        assert!(neutrals.len() <= 12, "{}: {neutrals:#?}", set.name);
    }
}

/// Relations by the benchmarks' names and by prepose's are the same ones.
#[test]
fn relations_are_named_as_in_the_records() {
    let prompt = &suite("spatialbench-uc").prompts[0];
    assert_eq!(prompt.relations[0].relation, Relation::LeftOf);
    assert!(
        serde_json::to_string(prompt)
            .unwrap()
            .contains("\"left_of\"")
    );
}
